"""What the benches of the brake conclude from a watch; they themselves need a control plane."""

from tests.bench.brake.witness import Witness, most_in_a_minute
from webhook.accounts.counting import LIMIT_EXCEEDED
from webhook.objects.problem import Json


def pod(uid: str, job: str, *, disrupted: bool = False, phase: str = "Running", **metadata: str) -> Json:
    conditions = [{"type": "DisruptionTarget", "status": "True"}] if disrupted else []
    return {
        "metadata": {"uid": uid, "labels": {"batch.kubernetes.io/job-name": job}, **metadata},
        "status": {"phase": phase, "conditions": conditions},
    }


def failed(name: str, reason: str = LIMIT_EXCEEDED) -> Json:
    condition = {"type": "FailureTarget", "status": "True", "reason": reason}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def disrupted_at(seen: Witness, job: str, *times: float) -> None:
    for at in times:
        seen.see_pod("MODIFIED", pod(f"{job}-{at}", job, disrupted=True), at)


def test_an_action_is_wanted_from_the_first_disruption_beyond_the_limit() -> None:
    seen = Witness()
    disrupted_at(seen, "twice", 1.0, 5.0)
    disrupted_at(seen, "three", 2.0, 7.0, 9.0)
    disrupted_at(seen, "once", 3.0)
    assert seen.wanted(1) == {"twice": 5.0, "three": 7.0}


def test_a_pod_is_disrupted_when_it_is_first_seen_so() -> None:
    seen = Witness()
    for at in (1.0, 2.0):
        seen.see_pod("MODIFIED", pod("uid", "job", disrupted=True), at)
    seen.see_pod("DELETED", pod("uid", "job", disrupted=True), 3.0)
    assert seen.disruptions == {"job": {"uid": 1.0}}


def test_a_delay_lasts_from_the_disruption_to_the_failure_by_the_leader() -> None:
    seen = Witness()
    disrupted_at(seen, "slow", 0.0, 10.0)
    disrupted_at(seen, "fast", 0.0, 10.0)
    disrupted_at(seen, "own", 0.0, 10.0)
    for at in (70.0, 80.0):
        seen.see_job(failed("slow"), at)
    seen.see_job(failed("fast"), 11.0)
    seen.see_job(failed("own", "BackoffLimitExceeded"), 11.0)
    assert seen.delays(1) == [1.0, 60.0]


def test_pods_that_are_deleted_or_wait_do_not_run() -> None:
    seen = Witness()
    seen.see_pod("ADDED", pod("runs", "a"), 0.0)
    seen.see_pod("ADDED", pod("waits", "b", phase="Pending"), 0.0)
    seen.see_pod("ADDED", pod("ends", "c", deletionTimestamp="now"), 0.0)
    seen.see_pod("ADDED", pod("ended", "d"), 0.0)
    seen.see_pod("DELETED", pod("ended", "d"), 1.0)
    assert seen.running == 1


def test_the_most_in_a_minute_is_that_of_any_minute() -> None:
    assert most_in_a_minute([]) == 0
    assert most_in_a_minute([0.0, 59.0, 61.0, 100.0, 118.9, 119.1]) == 4
