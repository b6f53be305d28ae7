"""What the leader does about evictions by Kueue. All times are virtual."""

import asyncio
from typing import Any

import pytest

from tests.metrics import sample
from tests.unit.accounts.pods import job, running_pod
from tests.unit.accounts.workloads import UID, read, stored_workload
from tests.unit.controller.leader import JOB_PATH, KEY, FakeApi, events_of, leading, new_ledger, see_job, set_policy
from tests.unit.controller.test_elsewhere import delivered as settled
from tests.unit.controller.test_elsewhere import of_workflow, played
from tests.virtual_time import run
from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob
from webhook.accounts.tracker import DOUBT
from webhook.controller.brake import HELD_FOR, STOPPED
from webhook.controller.eviction_limit import has_ended
from webhook.controller.ledger import GATHERING, Ledger
from webhook.pods.pods import Pod
from webhook.policy.model import Emergency, Evictions, FailureRule, Kueue, Match, Next, Profile
from webhook.tracking.workload_state import INTERVAL

WORKLOAD_PATH = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads/job-train-70af1"
TOO_MANY = "evicted by Kueue 2 times (2 Preempted), more than the limit of 1"
DEACTIVATION = [
    {"op": "test", "path": "/metadata/uid", "value": UID},
    {"op": "add", "path": "/spec/active", "value": False},
]


def stopped(number: int = 1) -> Pod:
    """Return a pod that its suspended Job has deleted, a second after the eviction."""
    times = {"created": "2026-01-01T00:01:00Z", "deleted": "2026-01-01T00:10:01Z", "ended": "2026-01-01T00:10:02Z"}
    return running_pod(number, phase="Failed", tracked=False, deleting=True, **times)


STARTED = {"startTime": "2026-01-01T00:00:00Z"}
HELD = {"conditions": [{"type": "Suspended", "status": "True"}], "terminating": 0, "uncountedTerminatedPods": {}}


def stored(root: CachedJob) -> Any:
    """Return a Job as the API has it."""
    return {**root, "metadata": {**root["metadata"], "resourceVersion": "7"}}


def profile(limit: int | None = None, on_exceed: Any = "Report") -> Profile:
    return Profile(kueue=Kueue(evictions=Evictions(limit=limit, on_exceed=on_exceed)))


def see_workload(ledger: Ledger, stats: dict[str, int], evicted: str | None = "Preempted", **fields: Any) -> None:
    ledger.kueue.seen(read(stored_workload(stats, evicted, **fields)))


async def delivered(ledger: Ledger, api: FakeApi, **fields: Any) -> Account:
    """Let the ledger write, and the watch deliver the last account."""
    await asyncio.sleep(GATHERING + INTERVAL + 0.01)
    write = api.account_writes()[-1]
    see_job(ledger, write.text, **fields)
    return write.account


def writes_to(api: FakeApi, path: str) -> list[Any]:
    return [write.operations for write in api.writes if write.path == path]


def test_all_pods_that_one_eviction_ends_have_its_reason_and_it_is_counted_once() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 1})
            for number in range(20):
                ledger.trackers.see_pod(stopped(number))
            return await delivered(ledger, api)

    api = FakeApi()
    account = run(work())
    assert account.causes == {"WorkloadEvicted": {"Preempted": 20}}
    assert account.cost == {"none": 20}
    assert account.evictions is not None
    assert account.evictions.reasons == {"Preempted": 1}


def test_an_eviction_that_ends_no_pod_is_counted() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see_workload(ledger, {"PodsReadyTimeout": 1}, "PodsReadyTimeout")
            account = await delivered(ledger, api)
            await asyncio.sleep(600)
            return account

    api = FakeApi()
    account = run(work())
    assert account.ended == 0
    assert account.evictions is not None
    assert account.evictions.reasons == {"PodsReadyTimeout": 1}
    assert len(api.writes) == 1


def test_pods_wait_for_the_watch_of_workloads_which_may_be_slower_than_that_of_pods() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see_workload(ledger, {}, None)
            ledger.trackers.see_pod(stopped())
            await asyncio.sleep(DOUBT - 2 * INTERVAL)
            assert api.writes == []
            see_workload(ledger, {"Preempted": 1})
            return await delivered(ledger, api)

    api = FakeApi()
    assert run(work()).causes == {"WorkloadEvicted": {"Preempted": 1}}


def test_pods_of_a_queued_job_that_somebody_suspends_by_hand_are_stopped_and_not_evicted() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see_workload(ledger, {}, None)
            ledger.trackers.see_pod(stopped())
            await asyncio.sleep(DOUBT + INTERVAL)
            return await delivered(ledger, api)

    api = FakeApi()
    account = run(work())
    assert account.causes == {"Other": {"Stopped": 1}}
    assert account.evictions is None


def test_pods_of_a_job_without_a_queue_do_not_wait_for_workloads() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            ledger.trackers.see_pod(stopped())
            await asyncio.sleep(GATHERING + 0.01)
            return api.account_writes()[-1].account

    api = FakeApi()
    assert run(work()).causes == {"Other": {"Stopped": 1}}


def test_the_profile_deactivates_a_workload_once_and_activating_it_allows_as_many_evictions_again() -> None:
    async def work() -> Account:
        async with leading(new_ledger(api, profile(1, "Deactivate"))) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 1})
            await delivered(ledger, api)
            assert writes_to(api, WORKLOAD_PATH) == []
            see_workload(ledger, {"Preempted": 2})
            await delivered(ledger, api)
            assert writes_to(api, WORKLOAD_PATH) == [DEACTIVATION]
            ((reason, message),) = events_of(ledger)
            assert (reason, message.partition("; ")[0]) == ("EvictionLimitExceeded", f"deactivated: {TOO_MANY}")
            see_workload(ledger, {"Preempted": 2}, active=False)
            await delivered(ledger, api)
            await asyncio.sleep(600)
            see_workload(ledger, {"Preempted": 2}, None)
            await delivered(ledger, api)
            see_workload(ledger, {"Preempted": 3})
            account = await delivered(ledger, api)
            await asyncio.sleep(600)
            return account

    api = FakeApi()
    account = run(work())
    assert account.evictions is not None
    assert (account.evictions.before, account.evictions.deactivated) == (2, False)
    assert writes_to(api, WORKLOAD_PATH) == [DEACTIVATION]


def test_a_suspended_job_that_was_evicted_too_often_gets_its_end_with_the_start_time_that_kueue_took_from_it() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, profile(1, "Fail"))) as ledger:
            see_job(ledger, spec={"suspend": True})
            see_workload(ledger, {"Preempted": 2})
            await delivered(ledger, api, spec={"suspend": True})

    api = FakeApi()
    api.objects[JOB_PATH] = stored(job({"suspend": True}, HELD))
    run(work())
    ((_, conditions, start),) = writes_to(api, f"{JOB_PATH}/status")
    held, *ends = conditions["value"]
    assert held["type"] == "Suspended"
    assert [(one["type"], one["reason"], one["message"]) for one in ends] == [
        ("FailureTarget", "EvictionLimitExceeded", TOO_MANY),
        ("Failed", "EvictionLimitExceeded", TOO_MANY),
    ]
    assert start == {"op": "add", "path": "/status/startTime", "value": ends[0]["lastTransitionTime"]}


def test_a_job_gets_its_end_only_after_its_pods_are_gone_and_counted() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, profile(1, "Fail"))) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 2})
            await delivered(ledger, api)
            pods = ({"active": 1}, {"terminating": 1}, {"uncountedTerminatedPods": {"failed": ["uid"]}})
            for root in (job({}, HELD), *(job({"suspend": True}, {**HELD, **status}) for status in pods)):
                api.objects[JOB_PATH] = stored(root)
                await asyncio.sleep(600)
                assert writes_to(api, f"{JOB_PATH}/status") == []
            api.objects[JOB_PATH] = stored(job({"suspend": True}, HELD))
            await asyncio.sleep(HELD_FOR + INTERVAL)

    api = FakeApi()
    api.objects[JOB_PATH] = stored(job({}, STARTED))
    run(work())
    assert len(writes_to(api, f"{JOB_PATH}/status")) >= 1


def test_a_job_that_was_admitted_again_before_a_leader_saw_its_evictions_fails_as_it_runs() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, profile(1, "Fail"))) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 2}, None)
            await delivered(ledger, api)

    api = FakeApi()
    api.objects[JOB_PATH] = stored(job({}, STARTED))
    run(work())
    ((_, conditions),) = writes_to(api, f"{JOB_PATH}/status")
    assert conditions["value"][0]["reason"] == "EvictionLimitExceeded"


def test_a_limit_that_is_only_reported_is_told_at_each_further_eviction_and_nothing_is_done() -> None:
    async def work() -> list[tuple[str, str]]:
        async with leading(new_ledger(api, profile(1))) as ledger:
            see_job(ledger)
            for number in (1, 2, 3):
                see_workload(ledger, {"Preempted": number})
                await delivered(ledger, api)
            await asyncio.sleep(600)
            ledger.wake(KEY)  # for another reason
            await asyncio.sleep(INTERVAL)
            return events_of(ledger)

    api = FakeApi()
    told = [message for reason, message in run(work()) if reason == "EvictionLimitExceeded"]
    assert told == [TOO_MANY, TOO_MANY.replace("2 times (2", "3 times (3")]
    assert all(write.is_of_account for write in api.writes)


def test_what_the_brake_holds_is_made_up_for() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, profile(1, "Deactivate"))) as ledger:
            set_policy(ledger, emergency=Emergency(actions="Stop"))
            see_job(ledger)
            see_workload(ledger, {"Preempted": 2})
            await delivered(ledger, api)
            await asyncio.sleep(600)
            assert writes_to(api, WORKLOAD_PATH) == []
            assert ("ActionNotTaken", f"would deactivate its Workload: {TOO_MANY}; {STOPPED}") in events_of(ledger)
            set_policy(ledger, emergency=Emergency())
            await asyncio.sleep(HELD_FOR + INTERVAL)

    api = FakeApi()
    run(work())
    assert writes_to(api, WORKLOAD_PATH) == [DEACTIVATION]


@pytest.mark.parametrize("on_exceed", ["Deactivate", "Fail"])
def test_nothing_is_done_to_a_job_that_has_ended(on_exceed: str) -> None:
    async def work() -> None:
        ended = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
        async with leading(new_ledger(api, profile(0, on_exceed))) as ledger:
            root = see_job(ledger, status=ended)
            assert has_ended(root)
            see_workload(ledger, {"Preempted": 2})
            await delivered(ledger, api, status=ended)

    api = FakeApi()
    run(work())
    assert all(write.is_of_account for write in api.writes)


def test_pods_of_another_kind_that_kueue_evicts_cost_nothing_and_its_workload_is_deactivated() -> None:
    stored = stored_workload({"Preempted": 2}, "Preempted", "2026-01-01T00:01:00Z")
    stored["metadata"]["ownerReferences"][0]["uid"] = "wf-uid"

    async def evict(ledger: Ledger) -> None:
        ledger.kueue.seen(read(stored))
        ledger.trackers.see_pod_gone(of_workflow(0, metadata={"deletionTimestamp": "2026-01-01T00:01:01Z"}))
        await settled(ledger, api)

    api = FakeApi()
    _, told = played(of_workflow(0), profile=profile(1, "Fail"), then=evict, api=api)
    account = api.account_writes()[-1].account
    assert (account.causes, account.cost) == ({"WorkloadEvicted": {"Preempted": 1}}, {"none": 1})
    assert writes_to(api, WORKLOAD_PATH)[0] == DEACTIVATION
    assert {reason for reason, _ in told} == {"AttemptEnded", "EvictionLimitExceeded"}


def test_an_eviction_is_no_decision_of_a_rule_of_on_failure() -> None:
    def decisions() -> float | None:
        labels = {"profile": "default", "rule": "None"}
        return sample("retry_policy_ledger_on_failure_decisions_total", labels)

    async def work() -> Account:
        rules = (FailureRule(match=Match(cause="OOMKilled"), next=Next(cost="Fatal")),)
        async with leading(new_ledger(api, Profile(on_failure=rules))) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 1})
            ledger.trackers.see_pod(stopped())
            return await delivered(ledger, api)

    api, before = FakeApi(), decisions()
    assert run(work()).last[0].on_failure is None
    assert decisions() == before


def test_evictions_are_counted_in_the_metric_by_their_reason() -> None:
    def counted(reason: str) -> float:
        found = sample("retry_policy_ledger_evictions_total", {"reason": reason})
        return found or 0.0

    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see_workload(ledger, {"Preempted": 3, "Unheard": 1})
            await delivered(ledger, api)

    api = FakeApi()
    before = counted("Preempted"), counted("Other")
    run(work())
    assert (counted("Preempted") - before[0], counted("Other") - before[1]) == (3, 1)


def test_a_workload_that_claims_to_be_of_a_job_by_its_name_alone_changes_nothing() -> None:
    async def work() -> None:
        async with leading(new_ledger(api, profile(0, "Deactivate"))) as ledger:
            see_job(ledger, uid="another-uid")
            see_workload(ledger, {"Preempted": 2})
            await asyncio.sleep(600)

    api = FakeApi()
    run(work())
    assert api.writes == []
