"""Which crashes the ledger decides, and what it takes for a bug."""

from typing import Any

import pytest

from tests.objects import DISRUPTION, exit_codes, job, job_spec
from tests.unit.ledger.pods import disrupted, failed, job_set
from webhook.kinds.batch import QUEUE_NAME
from webhook.ledger import settling
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import Settings

SETTINGS = Settings(profile_name="default", profile=Profile())
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def test_a_crash_is_waited_with_only_where_the_loss_of_another_pod_may_explain_it() -> None:
    alone = job(job_spec(), labels={QUEUE_NAME: "team"})
    together = job(job_spec(**COUPLED), labels={QUEUE_NAME: "team"})
    assert all(settling.may_settle(one, SETTINGS) for one in (alone, together))
    assert (settling.window(alone, SETTINGS), settling.window(together, SETTINGS)) == (0, 30)


def test_only_what_happened_up_to_the_window_before_a_crash_or_after_it_explains_it() -> None:
    assert [settling.is_explained(100.0, at, 30) for at in (69.9, 70.0, 120.0)] == [False, True, True]


def test_a_pod_that_was_disrupted_or_deleted_has_not_crashed() -> None:
    assert settling.is_crash(failed(1, 1))
    assert not settling.is_crash(disrupted(1))
    assert not settling.is_crash(failed(1, 1, deleting=True))


@pytest.mark.parametrize(("code", "reason", "told"), [(143, "Error", True), (137, "Error", True), (1, "Error", False),
                                                      (137, "OOMKilled", False)])  # fmt: skip
def test_a_container_that_ends_with_what_sigterm_brings_was_told_to_end(code: int, reason: str, *, told: bool) -> None:
    assert settling.is_told_to_end(failed(1, code, exit_reason=reason), SETTINGS) is told


def bug(code: int = 1, *rules: Json, above: Json | None = None) -> str | None:
    root = job(job_spec(rules=[DISRUPTION, *rules], **COUPLED))
    return settling.bug_in(root, SETTINGS, failed(1, code), 30, above)


def test_a_bug_is_an_exit_code_that_is_not_worth_a_retry_and_that_no_rule_decides() -> None:
    assert (bug() or "").startswith("Container main for pod ml/train-1 failed with exit code 1, and no pod that")
    assert bug(143) is None
    assert bug(1, exit_codes("Count", "In", 1, container="main")) is None


def test_after_which_its_set_would_start_again_costs_a_retry_and_is_no_bug() -> None:
    assert bug(above=job_set()) is None
    assert bug(above=job_set({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}))
