"""Which crashes the ledger settles, and which of them are bugs."""

from typing import Any

import pytest

from tests.objects import DISRUPTION, exit_codes, job, job_spec
from tests.unit.accounts.pods import disrupted, failed, job_set
from webhook.accounts import settling
from webhook.accounts.counted import PodsOfJob
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.systems.kueue import QUEUE_NAME

SETTINGS = Settings(profile_name="default", profile=Profile())
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def test_the_ledger_waits_before_it_settles_a_crash_only_if_pods_depend_on_each_other() -> None:
    alone = job(job_spec(), labels={QUEUE_NAME: "team"})
    together = job(job_spec(**COUPLED), labels={QUEUE_NAME: "team"})
    assert all(settling.may_settle(root, SETTINGS) for root in (alone, together))
    assert (settling.window(alone, SETTINGS), settling.window(together, SETTINGS)) == (0, 30)


def test_a_disturbance_explains_a_crash_unless_it_was_earlier_than_the_window_before_the_crash() -> None:
    assert [settling.is_explained(100.0, at, 30) for at in (69.9, 70.0, 120.0)] == [False, True, True]


def test_a_pod_that_was_disrupted_or_deleted_has_not_crashed() -> None:
    assert settling.is_crash(failed(1, 1))
    assert not settling.is_crash(disrupted(1))
    assert not settling.is_crash(failed(1, 1, deleting=True))


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [(143, "Error", True), (137, "Error", True), (1, "Error", False), (137, "OOMKilled", False)],
)
def test_a_container_that_ends_with_143_or_is_killed_was_told_to_end(code: int, reason: str, *, expected: bool) -> None:
    assert settling.is_told_to_end(failed(1, code, exit_reason=reason), SETTINGS) is expected


def bug(code: int = 1, *rules: Json, above: Json | None = None) -> str | None:
    root = job(job_spec(rules=[DISRUPTION, *rules], **COUPLED))
    return settling.bug_in(PodsOfJob(root, above, SETTINGS), failed(1, code), 30)


def test_a_bug_is_an_exit_code_that_is_not_retriable_and_that_no_rule_of_the_author_matches() -> None:
    assert (bug() or "").startswith("Container main for pod ml/train-1 failed with exit code 1, and no pod that")
    assert bug(143) is None
    assert bug(1, exit_codes("Count", "In", 1, container="main")) is None


def test_a_crash_after_which_the_job_set_would_restart_is_no_bug() -> None:
    assert bug(above=job_set()) is None
    assert bug(above=job_set({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}))
