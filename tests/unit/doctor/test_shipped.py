"""The file with what manifests/ installs is current, and is adapted to the namespace of an installation."""

from tools.generate import ROOT, shipped
from webhook.doctor.shipped import CONTROLLER, LEDGER, MUTATING, NAME, POLICY, NeededRight, normal, shipped_in


def test_the_file_is_current() -> None:
    assert (ROOT / shipped.FILE).read_text(encoding="utf-8") == shipped.text(), "run: make generated"


def test_every_name_of_the_namespace_is_that_of_the_installation() -> None:
    found = shipped_in("batch", requested_retries=True)
    assert "retry-policy-system" not in repr(found)
    assert "system:serviceaccount:batch:retry-policy-controller" in repr(found.find(POLICY, f"{NAME}-pods"))
    assert found.webhooks(MUTATING)["workloads.retry-policy.dev"]["clientConfig"]["service"]["namespace"] == "batch"


def test_the_component_adds_a_webhook_and_replaces_an_admission_policy() -> None:
    without, found = (shipped_in("a", requested_retries=chosen) for chosen in (False, True))
    assert found.webhooks(MUTATING).keys() - without.webhooks(MUTATING).keys() == {"requested-retries.retry-policy.dev"}
    name = f"{NAME}-jobset-status"
    assert found.find(POLICY, name) != without.find(POLICY, name)


def test_the_permissions_of_all_roles_are_listed_one_by_one() -> None:
    rights = set(shipped_in("a", requested_retries=False).rights())
    assert NeededRight(NAME, "", "batch", "jobs", "", "watch") in rights
    assert NeededRight(LEDGER, "a", "coordination.k8s.io", "leases", LEDGER, "update", CONTROLLER) in rights
    assert (
        str(NeededRight(LEDGER, "a", "coordination.k8s.io", "leases", "x", "get")) == "get leases.coordination.k8s.io/x"
    )


def test_expressions_that_differ_in_white_space_are_alike() -> None:
    assert normal({"a": ["x &&\n  y", 1, None]}) == normal({"a": ["x && y", 1, None]})
    assert normal("x && y") != normal("x || y")
