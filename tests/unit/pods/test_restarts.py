"""What a pod's status says of containers that have restarted in place."""

from typing import Any

import pytest

from tests.unit.accounts.restarting_pods import RULES, WHOLE, container, ended, read, restarted, stored, time
from webhook.objects.problem import Json
from webhook.pods.restarts import MOST, RESTARTED_ALL, LastExit, Restarts, following


def restarts(*statuses: Json, **fields: Any) -> Restarts:
    found = read(stored(*statuses, **fields)).restarts
    assert found is not None
    return found


def test_a_pod_without_restarts_has_none() -> None:
    assert read(stored(container())).restarts is None


def test_the_last_end_says_cause_and_times_and_the_running_container_when_it_began() -> None:
    found = restarts(container(2, 143))
    assert (found.number, found.policy) == (2, "Never")
    assert found.last == LastExit("main", 143, "Error", time(20), time(30), "")
    assert found.began == time(35)


def test_restarts_of_all_containers_but_sidecars_are_attempts_and_the_api_counts_those_too() -> None:
    root = stored(container(2), container(1, name="other", second=40))
    root["status"]["initContainerStatuses"] = [container(7, 1, "side", second=50), container(1, 2, "first")]
    found = read(root).restarts
    assert found is not None
    assert (found.number, found.by_api) == (4, 11)
    assert found.last is not None
    assert (found.last.container, found.last.end) == ("other", time(40))


def test_a_restart_of_all_containers_is_one_attempt() -> None:
    spec = [{"name": "main", "restartPolicyRules": WHOLE}, {"name": "other"}]
    found = restarts(container(3), container(3, name="other"), containers=spec)
    assert found.number == 3


def test_rules_that_restart_one_container_leave_each_restart_an_attempt() -> None:
    spec = [{"name": "main", "restartPolicyRules": RULES}, {"name": "other"}]
    assert restarts(container(3), container(1, name="other"), containers=spec).number == 4


def test_the_mark_of_a_pod_says_how_many_are_counted_and_not_that_its_end_is() -> None:
    pod = restarted(3, annotations={"retry-policy.dev/counted": "restarts 2 proof"})
    assert pod.restarts is not None
    assert (pod.restarts.counted, pod.counted) == (2, False)
    assert restarted(3, annotations={"retry-policy.dev/counted": "2026-01-01T00:00:00Z proof"}).counted


@pytest.mark.parametrize("mark", ["restarts -1 proof", "restarts x proof", "restarts 99999999999 proof", "restarts 2"])
def test_a_malformed_mark_counts_as_none(mark: str) -> None:
    pod = restarted(3, annotations={"retry-policy.dev/counted": mark})
    assert pod.restarts is not None
    assert pod.restarts.counted == 0


def test_the_container_that_made_all_others_restart_is_known_from_the_state_before() -> None:
    spec = [{"name": "main", "restartPolicyRules": WHOLE}, {"name": "other"}]
    removed: Json = {"lastState": ended(137, reason=RESTARTED_ALL)}
    before = restarts(container(state=ended(75, 50)), container(name="other"), containers=spec)
    first = restarts(container(1, **removed), container(name="other"), containers=spec)
    both = restarts(container(1, **removed), container(1, name="other", **removed), containers=spec)
    now = following(following(before, first), both)
    assert now is not None
    assert (now.number, now.last) == (1, LastExit("main", 75, "Error", time(40), time(50)))
    assert both.last is not None
    assert both.last.reason == RESTARTED_ALL


def test_a_number_of_restarts_never_falls() -> None:
    now = following(restarts(container(5)), restarts(container(2)))
    assert now is not None
    assert now.number == 5


def test_an_impossible_number_of_restarts_is_cut_to_what_an_account_can_hold() -> None:
    found = restarts(container(2**31 - 1), container(2**31 - 1, name="other"), container(-5, name="third"))
    assert (found.number, found.by_api) == (2**31 - 1, 2**31 - 1)


def test_of_thousands_of_containers_the_first_are_looked_at() -> None:
    assert restarts(*(container(1, name=f"c{number}") for number in range(5000))).number == MOST
