"""Why a pod ended, and what that cost."""

from typing import Any

import pytest

from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import BUG, EVICTED, disrupted, failed, job, job_set, running_pod
from webhook.objects.problem import Json
from webhook.pods.outcomes import as_evicted, outcome_of
from webhook.pods.pods import Exit, Pod
from webhook.pods.restarts import Restarts

COUNT = {**DISRUPTION, "action": "Count"}
RESTART = {**DISRUPTION, "action": "FailJob"}
IGNORE_3 = exit_codes("Ignore", "In", 3)
FAIL_INDEX = exit_codes("FailIndex", "NotIn", 143)


def outcome(pod: Pod, *rules: Json, above: Json | None = None) -> tuple[str, str, str]:
    root = job()
    root["spec"]["podFailurePolicy"] = {"rules": list(rules)}
    found = outcome_of(pod, root, above)
    return found.cause, found.reason, found.cost


@pytest.mark.parametrize(
    ("pod", "rules", "expected"),
    [
        (disrupted(), (DISRUPTION, BUG), ("Disruption", EVICTED, "disruption")),
        (disrupted(reason="PreemptionByScheduler"), (COUNT, BUG), ("Disruption", "PreemptionByScheduler", "retry")),
        (disrupted(), (), ("Disruption", EVICTED, "retry")),
        (disrupted(code=1), (BUG, DISRUPTION), ("Disruption", EVICTED, "fatal")),
        (failed(code=143), (DISRUPTION, BUG), ("ExitCode", "main 143", "retry")),
        (failed(code=1), (DISRUPTION, BUG), ("ExitCode", "main 1", "fatal")),
        (failed(code=3), (IGNORE_3, BUG), ("ExitCode", "main 3", "free")),
        (failed(code=1), (FAIL_INDEX,), ("ExitCode", "main 1", "fatal")),
        (failed(code=137, exit_reason="OOMKilled"), (DISRUPTION, BUG), ("OOMKilled", "main", "fatal")),
        (failed(code=143, reason="DeadlineExceeded"), (DISRUPTION, BUG), ("DeadlineExceeded", "", "retry")),
        (running_pod(phase="Failed"), (DISRUPTION, BUG), ("Other", "", "retry")),
    ],
)
def test_the_cause_comes_from_the_pod_and_the_cost_from_the_policy_of_its_job(
    pod: Pod, rules: tuple[Json, ...], expected: tuple[str, str, str]
) -> None:
    assert outcome(pod, *rules) == expected


def test_the_reason_names_the_container_that_the_rule_matched() -> None:
    pod = failed(exits=(Exit("side", 137, "", "2026-01-01T00:00:01Z"), Exit("main", 1, "", "2026-01-01T00:00:02Z")))
    assert outcome(pod, DISRUPTION, BUG) == ("ExitCode", "main 1", "fatal")
    assert outcome(pod) == ("ExitCode", "side 137", "retry")


def test_a_pod_that_its_own_job_deletes_costs_nothing() -> None:
    assert outcome(failed(code=137, deleting=True, tracked=False), BUG) == ("Other", "Stopped", "none")
    assert outcome(disrupted(tracked=False), DISRUPTION) == ("Disruption", EVICTED, "none")


def test_only_a_pod_that_its_job_has_deleted_was_evicted_by_kueue() -> None:
    def evicted(pod: Pod, reason: str = "Preempted") -> tuple[str, str, str]:
        found = as_evicted(outcome_of(pod, job()), reason)
        return found.cause, found.reason, found.cost

    stopped = failed(code=137, deleting=True, tracked=False)
    assert evicted(stopped) == ("WorkloadEvicted", "Preempted", "none")
    assert evicted(stopped, "") == ("Other", "Stopped", "none")
    assert evicted(failed(code=1)) == ("ExitCode", "main 1", "fatal")
    assert evicted(disrupted(tracked=False)) == ("Disruption", EVICTED, "none")


def test_a_pod_that_a_user_deletes_is_judged_like_any_other() -> None:
    assert outcome(failed(code=137, deleting=True), DISRUPTION, BUG) == ("ExitCode", "main 137", "fatal")


def test_the_cost_of_a_failed_job_in_a_job_set_follows_from_the_action_of_the_job_set() -> None:
    free = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureMessagePatterns": ["DisruptionTarget"]}
    bug = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    assert outcome(disrupted(), RESTART, BUG, above=job_set(free, bug))[2] == "disruption"
    assert outcome(failed(code=1), RESTART, BUG, above=job_set(free, bug))[2] == "fatal"
    assert outcome(failed(code=143), RESTART, BUG, above=job_set(free, bug))[2] == "retry"
    assert outcome(disrupted(), RESTART, BUG, above=job_set())[2] == "retry"
    assert outcome(disrupted(), DISRUPTION, BUG, above=job_set())[2] == "disruption"


def test_a_restart_that_max_restarts_does_not_count_is_free_unless_a_disruption_caused_it() -> None:
    free = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}
    assert outcome(failed(code=75), RESTART, BUG, above=job_set(free))[2] == "free"
    assert outcome(disrupted(), RESTART, BUG, above=job_set(free))[2] == "disruption"


def test_a_retry_of_a_job_with_unlimited_retries_in_a_job_set_is_free() -> None:
    root, above = job({"backoffLimit": 2147483647}), job_set(restartStrategy="InPlaceRestart")
    assert outcome_of(failed(code=143), root, above).cost == "free"
    assert outcome_of(failed(code=143), job({"backoffLimit": 3}), above).cost == "retry"
    assert outcome_of(failed(code=143), root).cost == "retry"


SECOND = "2026-01-01T00:00:{:02}Z"  # all times are in this minute


def ended_by(message: str, second: int, kind: str = "FailureTarget", reason: str = "PodFailurePolicy") -> Json:
    time = SECOND.format(second)
    return {
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time}
        ]
    }


NAMES_ANOTHER_POD = "Container main for pod ml/train-10 failed with exit code 1 matching FailJob rule at index 1"
NAMES_THIS_POD = "Container main for pod ml/train-1 failed with exit code 137 matching FailJob rule at index 1"
REACHED_BACKOFF_LIMIT = ended_by("Job has reached the specified backoff limit", 10, reason="BackoffLimitExceeded")
TWO = {"parallelism": 2}
DELETED_BY_ITS_JOB = ("Other", "Stopped", "none")
JUDGED = ("ExitCode", "main 137", "fatal")


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (job(status=ended_by(NAMES_ANOTHER_POD, 9)), DELETED_BY_ITS_JOB),
        (job(status=ended_by(NAMES_ANOTHER_POD, 25)), DELETED_BY_ITS_JOB),
        (job(TWO, status=REACHED_BACKOFF_LIMIT), DELETED_BY_ITS_JOB),
        (job(status=ended_by("", 9, "SuccessCriteriaMet", "SuccessPolicy")), DELETED_BY_ITS_JOB),
        (job(status=ended_by("", 9, reason="DeadlineExceeded")), DELETED_BY_ITS_JOB),
        (job(deletionTimestamp=SECOND.format(10)), DELETED_BY_ITS_JOB),
        (job(status=ended_by(NAMES_THIS_POD, 9)), JUDGED),
        (job(status=ended_by(NAMES_THIS_POD, 9), deletionTimestamp=SECOND.format(10)), JUDGED),
        (job(status=REACHED_BACKOFF_LIMIT), JUDGED),
        (
            job(status={"conditions": [{"type": "FailureTarget", "status": "True", "message": None}]}),
            DELETED_BY_ITS_JOB,
        ),
        (job(), JUDGED),
    ],
    ids=[
        "failed by another pod",
        "failed by another pod, with a later time",
        "reached its backoffLimit, with two pods at once",
        "succeeded without this pod",
        "exceeded its deadline",
        "deleted",
        "failed by this pod",
        "failed by this pod and deleted",
        "reached its backoffLimit, with one pod at once",
        "failed at an unknown time",
        "still running",
    ],
)
def test_a_pod_costs_nothing_only_if_its_ended_job_deleted_it(root: Json, expected: tuple[str, str, str]) -> None:
    exits = (Exit("main", 137, "Error", SECOND.format(20)),)
    pod = failed(1, deleting=True, deleted=SECOND.format(10), ended=SECOND.format(20), exits=exits)
    found = outcome_of(pod, root)
    assert (found.cause, found.reason, found.cost) == expected


def test_a_pod_that_crashed_before_another_pod_failed_its_job_keeps_its_cost() -> None:
    assert outcome_of(failed(1, 1), job(status=ended_by(NAMES_ANOTHER_POD, 9))).cost == "fatal"


def test_a_disruption_remains_a_disruption_if_the_job_fails() -> None:
    assert outcome_of(disrupted(), job(status=ended_by(NAMES_ANOTHER_POD, 9))).cause == "Disruption"


def test_a_pod_that_its_failed_job_names_costs_nothing_if_another_pod_failed_the_job() -> None:
    pod = failed(1, 137, deleting=True, deleted=SECOND.format(1))
    assert outcome_of(pod, job(status=ended_by(NAMES_THIS_POD, 9))).cost == "fatal"
    assert outcome_of(pod, job(status=ended_by(NAMES_THIS_POD, 9)), has_ended=True).cost == "none"


def test_a_pod_for_which_the_leader_failed_the_job_has_never_started() -> None:
    said = {"type": "FailureTarget", "status": "True", "reason": "NeverStarted"}
    root = job(status={"conditions": [{**said, "message": "Container main for pod ml/train-1 has not started in 9 s"}]})
    gone: dict[str, Any] = {"deleting": True, "deleted": "2026-01-01T00:02:00Z", "started": ""}
    for tracked in (True, False):  # the Job controller removes its finalizer first
        first = outcome_of(failed(1, 137, tracked=tracked, **gone), root)
        assert (first.cause, first.reason, first.cost) == ("NeverStarted", "", "fatal")
    assert outcome_of(failed(11, 143, **gone), root).cause != "NeverStarted"


@pytest.mark.parametrize(("restarts", "expected"), [(3, DELETED_BY_ITS_JOB), (2, JUDGED)])
def test_a_pod_whose_restarts_in_place_reached_the_backoff_limit_was_deleted_by_its_job(
    restarts: int, expected: tuple[str, str, str]
) -> None:
    exits = (Exit("main", 137, "Error", SECOND.format(20)),)
    counted = Restarts(number=restarts, by_api=restarts, policy="OnFailure")
    gone: Json = {"deleting": True, "deleted": SECOND.format(10), "ended": SECOND.format(20), "exits": exits}
    found = outcome_of(failed(1, restarts=counted, **gone), job(status=REACHED_BACKOFF_LIMIT))
    assert (found.cause, found.reason, found.cost) == expected
