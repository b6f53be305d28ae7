"""All checks together: a healthy cluster has no finding, and what could not be read is said."""

import pytest

from tests.unit.doctor.healthy import healthy, namespace
from webhook.doctor.finding import MOST
from webhook.doctor.judge import CHECKS, judge
from webhook.doctor.snapshot import Snapshot, Unread


def wrong(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(section.title, one.what) for section in judge(snapshot) for one in section.findings if one.status != "ok"]


def test_a_healthy_cluster_has_no_finding() -> None:
    assert wrong(healthy()) == []
    assert [section.title for section in judge(healthy())] == [
        title for title in CHECKS if title not in {"Object", "Delays"}
    ]


def test_the_namespace_comes_first_if_the_user_asks_about_one() -> None:
    assert [section.title for section in judge(healthy(asked="ml"))][:2] == ["Namespaces", "Installation"]


def test_without_an_installation_only_that_is_said() -> None:
    found = wrong(healthy(mutating=[], validating=[], deployments=[], deployment={}))
    assert [title for title, _ in found] == ["Installation"]


def test_all_missing_rights_of_a_section_are_one_warning() -> None:
    unread = [Unread("Others", name, f"list {name}", "403") for name in ("a", "b")]
    assert wrong(healthy(unread=unread)) == [("Others", "not looked at, because you lack the right to list a, list b")]


def test_a_missing_right_is_a_warning_in_its_section_with_the_command_that_tests_it() -> None:
    unread = Unread("Leader", "leases/x", "get leases.coordination.k8s.io in namespace system", "403")
    (section,) = [one for one in judge(healthy(leases=None, unread=[unread])) if one.title == "Leader"]
    (found,) = section.findings
    assert found.status == "warning"
    assert (
        found.what == "not looked at, because you lack the right to get leases.coordination.k8s.io in namespace system"
    )
    assert found.fix == "kubectl auth can-i get leases.coordination.k8s.io -n system   # an admin grants it"


def test_another_error_of_reading_is_a_warning_with_its_message() -> None:
    unread = Unread("Leader", "leases/x", "", "500 etcd is slow")
    assert wrong(healthy(leases=None, unread=[unread])) == [("Leader", "not looked at: 500 etcd is slow")]


def test_a_list_that_was_cut_is_a_warning() -> None:
    cut = {"Namespaces": "only the first 2 namespaces were looked at"}
    assert wrong(healthy(cut=cut)) == [("Namespaces", "only the first 2 namespaces were looked at")]


def test_the_worst_findings_come_first_and_the_others_are_counted() -> None:
    spaces = [namespace(f"n{number}", profile="default", mode="Warn") for number in range(MOST + 5)]
    spaces.append(namespace("z", profile="gone"))
    (section,) = [one for one in judge(healthy(namespaces=spaces)) if one.title == "Namespaces"]
    assert section.findings[0].where == "Namespace z"
    assert section.findings[-1].where == "and 6 more"
    assert len(section.findings) == MOST + 1


@pytest.mark.parametrize("title", CHECKS)
def test_a_check_says_nothing_of_what_was_not_read(title: str) -> None:
    nothing = Snapshot(version="0.1.0", installed=healthy().installed)
    assert [one for one in CHECKS[title](nothing) if one.status == "problem"] == []
