"""What a workload waits for: the back-off of the Job controller, a verdict of the ledger, pods that are refused."""

from datetime import datetime
from typing import Any

import pytest

from tests.objects import DISRUPTION
from tests.unit.accounts.pods import disrupted, failed, running_pod
from tests.unit.explain.test_build import POLICY_TEXT, explain, job, pod
from tests.unit.explain.test_next_failure import COUPLED, standing
from webhook.explain import pending, render
from webhook.explain.rows import others_of, running_row
from webhook.kube.names import AFTER_FAILURE, DELAY, POLICY
from webhook.objects import columns
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.pods.waiting import Stalled, Waiting
from webhook.policy.model import FailurePolicy, FailureRule, Hardware, Match, Next, Profile


def evicted(number: int, end: str) -> Json:
    attempt = {"attempt": 0, "pod": f"train-{number}", "cause": "Disruption", "reason": "EvictionByEvictionAPI"}
    return {**attempt, "rule": 0, "action": "Ignore", "cost": "disruption", "end": end}


def printed(root: Json, *parts: Json, now: str = "2026-01-01T01:00:00Z") -> list[str]:
    return list(columns.lines(render.parts(explain(root, [root], parts), datetime.fromisoformat(now))))


@pytest.mark.parametrize(
    ("number", "now", "expected"),
    [
        (1, "01:00:00", "waiting 10 s (Job controller's back-off)"),
        (1, "01:00:07", "waiting 3 s (Job controller's back-off)"),
        (3, "01:00:00", "waiting 40 s (Job controller's back-off)"),
        (10, "01:00:00", "waiting 600 s (Job controller's back-off)"),
        (1, "01:00:11", "waiting for the Job controller"),
    ],
)
def test_between_two_attempts_the_remaining_back_off_is_shown(number: int, now: str, expected: str) -> None:
    ends = [f"2026-01-01T00:{50 + minute:02}:00Z" for minute in range(1, number)] + ["2026-01-01T01:00:00Z"]
    root = job({"ended": number, "last": [evicted(index, end) for index, end in enumerate(ends)]})
    assert printed(root, now=f"2026-01-01T{now}Z")[0] == f"Job ml/train: {expected}"


def test_neither_a_job_with_a_running_pod_nor_a_suspended_job_is_shown_as_waiting() -> None:
    account = {"ended": 1, "last": [evicted(1, "2026-01-01T01:00:00Z")]}
    assert printed(job(account), pod("train-2", "Running"))[0] == "Job ml/train: running"
    assert printed(job(account, suspend=True))[0] == "Job ml/train: running"


def test_the_back_off_doubles_with_each_failure_since_a_pod_succeeded() -> None:
    account = {"ended": 2, "last": [evicted(1, "2026-01-01T00:58:00Z"), evicted(2, "2026-01-01T01:00:00Z")]}
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:59:00Z"}}
    done = pod("train-0", "Succeeded")
    done["status"]["containerStatuses"] = [{"name": "main", "state": state}]
    assert printed(job(account), done)[0] == "Job ml/train: waiting 10 s (Job controller's back-off)"


def test_after_a_requested_retry_the_back_off_begins_anew() -> None:
    ends = [evicted(1, "2026-01-01T00:58:00Z"), evicted(2, "2026-01-01T00:59:00Z"), evicted(3, "2026-01-01T01:00:00Z")]
    root = job({"ended": 3, "cost": {"disruption": 3}, "before": {"disruption": 2}, "last": ends})
    assert printed(root)[0] == "Job ml/train: waiting 10 s (Job controller's back-off)"


def test_an_index_waits_only_for_its_own_failures() -> None:
    found = standing(profile=Profile(), backoffLimitPerIndex=3, **COUPLED)
    ended = disrupted(1, index="0", index_failures=1, index_ignored=1, ended="2026-01-01T01:00:00Z")
    assert pending.waits_until(found, [ended], []) == "2026-01-01T01:00:40Z"
    assert pending.waits_until(found, [ended, running_pod(2, index="0")], []) == ""


def refused(at: str, **involved: str) -> Json:
    about = {"kind": "Job", "name": "train", "uid": "job-uid", **involved}
    message = "Error creating: failed calling webhook: connection refused"
    return {"kind": "Event", "reason": "FailedCreate", "involvedObject": about, "lastTimestamp": at, "message": message}


def test_a_job_whose_pods_are_refused_is_not_shown_as_running() -> None:
    state = (
        "no pod can be created since 2026-01-01T01:00:00Z: Error creating: failed calling webhook: connection refused"
    )
    assert printed(job(), refused("2026-01-01T01:00:00Z"))[0] == f"Job ml/train: {state}"


def test_a_refusal_before_the_start_of_the_last_pod_or_of_another_job_is_not_shown() -> None:
    ran = pod("train-1", "Succeeded")  # began at 01:00:00
    assert printed(job(), ran, refused("2026-01-01T00:59:00Z"))[0] == "Job ml/train: running"
    assert printed(job(), refused("2026-01-01T01:00:00Z", uid="another"))[0] == "Job ml/train: running"
    assert printed(job(), pod("train-1", "Running"), refused("2026-01-01T02:00:00Z"))[0] == "Job ml/train: running"


CRASH = failed(1, 1, index="0")  # at 00:01:00


def pending_of(*ended: Pod, live: tuple[Pod, ...] = (), **spec: Any) -> list[tuple[str, str]]:
    found = standing(*ended, profile=Profile(), live=live, **{"rules": [DISRUPTION], **COUPLED, **spec})
    return [(verdict.pod, verdict.until) for verdict in pending.verdicts(found, live)]


def test_the_verdict_on_a_crash_is_pending_until_the_ledger_decides() -> None:
    assert pending_of(CRASH) == [("train-1", "2026-01-01T00:01:30Z")]
    (verdict,) = pending.verdicts(standing(CRASH, profile=Profile(), rules=[DISRUPTION], **COUPLED), [])
    assert verdict.text == (
        "pod train-1 (exit code 1): it is a bug, which ends the Job, if no other pod of it is disrupted within 30 s "
        "before or after it"
    )


def test_the_verdict_on_a_crash_close_to_a_disruption_is_not_pending() -> None:
    assert pending_of(CRASH, disrupted(2, index="1", ended="2026-01-01T00:01:10Z")) == []
    assert pending_of(CRASH, failed(2, 143, index="1", ended="2026-01-01T00:01:10Z")) == []
    assert pending_of(CRASH, live=(running_pod(3, deleting=True, deleted="2026-01-01T00:01:05Z"),)) == []
    assert pending_of(CRASH, disrupted(2, index="1", ended="2026-01-01T00:00:10Z")) == [
        ("train-1", "2026-01-01T00:01:30Z")
    ]


def test_the_verdict_on_a_retriable_exit_code_or_on_independent_pods_is_not_pending() -> None:
    assert pending_of(failed(1, 143, index="0")) == []
    assert pending_of(CRASH, completionMode="NonIndexed") == []


def test_where_a_fault_of_its_node_may_explain_a_crash_the_verdict_is_pending_in_a_job_of_one_pod_too() -> None:
    profile = Profile(failure_policy=FailurePolicy(hardware=Hardware()))
    (verdict,) = pending.verdicts(standing(failed(1, 1), profile=profile, rules=[DISRUPTION]), [])
    assert verdict.until == "2026-01-01T00:01:30Z"
    assert verdict.text.endswith("unless somebody deleted the pod, or its node has a fault within 30 s after it")


def test_a_pending_verdict_is_printed_until_shortly_after_it_is_due() -> None:
    crash = {"attempt": 0, "scope": "0", "pod": "train-1", "cause": "ExitCode", "reason": "main 1", "cost": "retry"}
    root = job({"ended": 1, "cost": {"retry": 1}, "last": [{**crash, "end": "2026-01-01T01:00:00Z"}]}, **COUPLED)
    root["spec"]["podFailurePolicy"]["rules"] = [DISRUPTION]
    assert root["metadata"]["annotations"][POLICY] == POLICY_TEXT
    running = pod("train-2", "Running")
    lines = [printed(root, running, now=f"2026-01-01T01:{now}Z")[1] for now in ("00:10", "00:40", "01:10")]
    assert '"settled_within": 30' in render.as_json(explain(root, [root], [running]))
    assert lines[0].startswith(
        "verdict pending until 2026-01-01T01:00:30Z (20 s): pod train-1 (exit code 1): it is a bug"
    )
    assert lines[1].startswith("verdict pending until 2026-01-01T01:00:30Z (0 s): ")
    assert lines[2] == "1 attempt ended: 1 retry"


def test_an_end_about_which_the_ledger_decides_by_the_rules_is_pending_until_it_has() -> None:
    memory = FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node"))
    fatal = FailureRule(match=Match(exit_codes=(3,)), next=Next(cost="Fatal"))
    profile = Profile(on_failure=(memory, fatal))
    kills = standing(failed(1, 137), profile=profile, rules=[DISRUPTION])
    (verdict,) = pending.verdicts(kills, [])
    assert verdict.text.startswith("pod train-1 (container main exit code 137): no rule of onFailure retries it")
    oom = standing(failed(1, 137, exit_reason="OOMKilled"), profile=profile, rules=[DISRUPTION])
    assert list(pending.verdicts(oom, [])) == []
    by_rule = standing(failed(1, 3), profile=profile, rules=[DISRUPTION])
    (verdict,) = pending.verdicts(by_rule, [])
    assert verdict.text.startswith("pod train-1 (container main exit code 3): rule 1 of onFailure ends the Job")


DELAYED = '{"rule":1,"cause":"ExitCode","notBefore":"2026-01-01T01:00:24Z"}'


def delayed(name: str, after: str = DELAYED) -> Json:
    found = pod(name, "Pending", creationTimestamp="2026-01-01T01:00:00Z", annotations={AFTER_FAILURE: after})
    found["spec"] = {"schedulingGates": [{"name": "example.test/quota"}, {"name": DELAY}]}
    return found


def test_a_delay_is_shown_with_its_rule_and_its_end() -> None:
    lines = printed(job(), delayed("train-1"), pod("train-2", "Running"))
    assert lines[1] == "pod train-1 is delayed until 2026-01-01T01:00:24Z (24 s) by rule 1 of onFailure after ExitCode"
    (row,) = (line for line in lines if line.startswith("0 ") and " train-1 " in line)
    assert " delayed " in row
    assert sum("is delayed" in line for line in lines) == 1


@pytest.mark.parametrize("after", ["", "{", '{"rule":7}', '{"notBefore":"soon"}'])
def test_a_delay_of_which_the_pod_says_nothing_readable_is_shown_nonetheless(after: str) -> None:
    assert printed(job(), delayed("train-1", after))[1].startswith("pod train-1 is delayed")


def test_a_delay_that_has_not_ended_in_time_names_the_doctor() -> None:
    (late,) = [
        line for line in printed(job(), delayed("train-1"), now="2026-01-01T01:01:00Z") if "and still is" in line
    ]
    assert late.startswith("pod train-1 was to be delayed until 2026-01-01T01:00:24Z by rule 1 of onFailure")
    assert "retry-policy doctor" in late


def test_of_many_delays_the_first_to_end_are_shown_and_the_others_counted() -> None:
    parts = [delayed(f"train-{number}", DELAYED.replace(":24Z", f":{24 + number}Z")) for number in reversed(range(8))]
    lines = printed(job(), *parts)
    assert [line.split()[1] for line in lines if " is delayed " in line] == [f"train-{number}" for number in range(5)]
    assert "(and 3 other pods, delayed until later)" in lines


def test_a_pod_with_the_gate_of_somebody_else_is_not_shown_as_delayed() -> None:
    other = delayed("train-1")
    other["spec"]["schedulingGates"].pop()
    assert not [line for line in printed(job(), other) if "is delayed" in line]


CREATED = "2026-01-01T00:00:00Z"


def stalled(reason: str) -> Waiting:
    return Waiting(created=CREATED, stalled=Stalled("main", reason, "", CREATED, alone=True))


@pytest.mark.parametrize(
    ("waiting", "state"),
    [
        (None, "pending"),
        (Waiting(created=CREATED, unschedulable=CREATED), "pending: no node takes it"),
        (stalled("ImagePullBackOff"), "pending: ImagePullBackOff"),
        (stalled("ContainerCreating"), "pending"),
        (Waiting(created=CREATED, gate=0), "delayed"),
    ],
)
def test_a_pod_that_has_not_started_says_what_it_waits_for(waiting: Waiting | None, state: str) -> None:
    assert running_row(running_pod(phase="Pending", waiting=waiting), 0, "").ended == state


def test_pods_that_are_not_shown_are_counted_by_few_states_whatever_they_wait_for() -> None:
    pods = [running_pod(number, phase="Pending", waiting=stalled(f"Reason{number}")) for number in range(50)]
    assert others_of(job(), pods, pods[:40]) == {"pending": 10}
