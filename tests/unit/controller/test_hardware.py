"""Crashes that a fault of their node explains: the leader gives the retry back that they have cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tests.objects import DISRUPTION
from tests.unit.accounts.pods import failed, job
from tests.unit.controller.leader import (
    BOOKMARK,
    JOB_PATH,
    KEY,
    FakeApi,
    events_of,
    failures,
    leading,
    new_ledger,
    running,
    see_job,
    spec_writes,
    stored_pod,
    tell,
    watch_event,
)
from tests.virtual_time import run
from webhook.accounts.account import DETAILS, Account, Attempt
from webhook.accounts.stored import decode, encode
from webhook.controller.ledger import Ledger
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.objects.times import written
from webhook.pods.outcomes import outcome_of
from webhook.policy.model import BadNodes, Disruptions, Duration, FailurePolicy, Hardware, Placement, Profile, Retries
from webhook.tracking.workload_state import INTERVAL

NODES: Final = "/api/v1/nodes"
WITHIN: Final = 30  # seconds of settleWithin
PROFILE: Final = Profile(failure_policy=FailurePolicy(hardware=Hardware()), disruptions=Disruptions(limit=2))
SPEC: Final[Json] = {"podFailurePolicy": {"rules": [DISRUPTION]}}


def node(*conditions: str) -> Json:
    """Return the answer about a node with these conditions."""
    found = [{"type": "Ready", "status": "True"}, *({"type": one, "status": "True"} for one in conditions)]
    return {"items": [{"metadata": {"name": "a"}, "status": {"conditions": found}}]}


@asynccontextmanager
async def watching(api: FakeApi, profile: Profile = PROFILE, spec: Json = SPEC) -> AsyncIterator[Ledger]:
    """Yield a leader that watches a pod of a Job, on a node without a fault."""
    api.objects[JOB_PATH] = {**job(spec), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    api.objects.setdefault(NODES, node())
    async with running(new_ledger(api, profile)) as ledger:
        see_job(ledger, spec=spec)
        tell(api, watch_event("ADDED", stored_pod(1)))
        await asyncio.sleep(INTERVAL)
        yield ledger


async def crashes(api: FakeApi, ledger: Ledger, spec: Json = SPEC, number: int = 1) -> None:
    """Let a pod crash on the node, and its end be counted."""
    pod = stored_pod(number, "Failed", 1)
    pod["spec"] = {"nodeName": "a"}
    tell(api, watch_event("MODIFIED", pod))
    await asyncio.sleep(2 * INTERVAL)
    see_job(ledger, api.account_writes()[-1].text, spec=spec, status={"failed": 1})
    await asyncio.sleep(3 * INTERVAL)


async def settled(api: FakeApi, ledger: Ledger, spec: Json = SPEC) -> None:
    """Wait until the time for a verdict has passed, and let the watches deliver what is written."""
    for _ in range(2):
        await asyncio.sleep(WITHIN)
        tell(api, BOOKMARK)
        await asyncio.sleep(3 * INTERVAL)
        see_job(ledger, api.account_writes()[-1].text, spec=spec, status={"failed": 1})


def test_a_crash_on_a_node_with_a_fault_costs_a_disruption_and_the_job_gets_its_retry_back() -> None:
    async def work() -> list[tuple[str, str]]:
        async with watching(api) as ledger:
            api.objects[NODES] = node("KernelDeadlock")
            await crashes(api, ledger)
            await settled(api, ledger)
            return events_of(ledger)

    api = FakeApi()
    told = run(work())
    account = api.account_writes()[-1].account
    assert (account.cost, account.causes) == (
        {"disruption": 1},
        {"Hardware": {"condition KernelDeadlock is True": 1}},
    )
    assert (account.returned, account.backoff_limit, account.left) == (1, 4, account.last[-1].left)
    assert account.left is not None
    assert (account.left.retries, account.left.disruptions) == (3, 1)
    (write,) = spec_writes(api)
    assert write.operations[-1] == {"op": "replace", "path": "/spec/backoffLimit", "value": 4}
    assert not failures(api)
    why = "a fault of node a explains the crash of pod train-1 (condition KernelDeadlock is True); it cost 1 disruption"
    assert ("HardwareFault", why) in told


def test_a_fault_that_a_detector_tells_after_the_crash_explains_it() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            await crashes(api, ledger)
            api.objects[NODES] = {"items": []}
            await settled(api, ledger)

    api = FakeApi()
    run(work())
    assert api.account_writes()[-1].account.causes == {"Hardware": {"the node is gone": 1}}
    assert not failures(api)


def test_a_machine_that_went_and_came_back_as_another_one_explains_the_crash() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            await crashes(api, ledger)
            api.objects[NODES] = node()
            api.objects[NODES]["items"][0]["metadata"]["creationTimestamp"] = "2026-01-01T00:01:20Z"
            await settled(api, ledger)

    api = FakeApi()
    run(work())
    assert api.account_writes()[-1].account.causes == {"Hardware": {"the node is gone": 1}}
    assert not failures(api)


def test_no_job_may_have_more_retries_than_its_account_lists_attempts() -> None:
    assert DETAILS >= bounds.MOST_RETRIES


def test_a_device_that_the_kubelet_calls_unhealthy_explains_a_crash_without_a_look_at_the_node() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            del api.objects[NODES]
            pod = stored_pod(1, "Failed", 1)
            gone = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}]
            pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = gone
            tell(api, watch_event("MODIFIED", pod))
            await asyncio.sleep(2 * INTERVAL)
            see_job(ledger, api.account_writes()[-1].text, spec=SPEC, status={"failed": 1})
            await asyncio.sleep(3 * INTERVAL)

    api = FakeApi()
    run(work())
    fault = "device GPU-1 of nvidia.com/gpu is unhealthy"
    assert api.account_writes()[-1].account.causes == {"Hardware": {fault: 1}}


def test_a_crash_on_a_node_without_a_fault_is_a_bug_once_the_time_has_passed() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            await crashes(api, ledger)
            assert not failures(api)
            await settled(api, ledger)

    api = FakeApi()
    run(work())
    (failure,) = failures(api)
    assert failure.at > WITHIN
    assert failure.operations[1]["value"][0]["reason"] == "PodFailurePolicy"
    assert api.account_writes()[-1].account.cost == {"fatal": 1}
    assert not spec_writes(api)


def test_no_more_retries_are_given_back_than_a_scope_may_have_disruptions() -> None:
    profile = Profile(failure_policy=FailurePolicy(hardware=Hardware()), disruptions=Disruptions(limit=0))
    assert told_without_a_retry_back(profile) == {"retry": 1}


def test_the_backoff_limit_never_exceeds_the_limit_of_the_profile() -> None:
    profile = Profile(failure_policy=FailurePolicy(hardware=Hardware()), retries=Retries(limit=3))
    assert told_without_a_retry_back(profile) == {"retry": 1}


def told_without_a_retry_back(profile: Profile) -> dict[Any, int]:
    """Let a pod crash on a node with a fault; return the costs, once the cause is in the account."""

    async def work() -> None:
        async with watching(api, profile) as ledger:
            api.objects[NODES] = node("GPUMissing")
            await crashes(api, ledger)
            await settled(api, ledger)

    api = FakeApi()
    run(work())
    account = api.account_writes()[-1].account
    assert account.causes == {"Hardware": {"condition GPUMissing is True": 1}}
    assert not spec_writes(api)
    assert not failures(api)
    return {cost: number for cost, number in account.cost.items() if number}


def test_a_new_leader_raises_the_limit_that_the_last_one_had_not() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            api.objects[NODES] = node("KernelDeadlock")
            await crashes(api, ledger)
            await settled(api, ledger)
            text = api.account_writes()[-1].text
        api.writes.clear()
        async with running(new_ledger(api, PROFILE)) as successor:
            see_job(successor, text, spec=SPEC, status={"failed": 1})
            await asyncio.sleep(3 * INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.operations[-1]["value"] for write in spec_writes(api)] == [4]


def test_a_profile_that_only_reports_gives_no_retry_back() -> None:
    profile = Profile(failure_policy=FailurePolicy(hardware=Hardware()), actions="Report")
    assert told_without_a_retry_back(profile) == {"retry": 1}


def test_a_hundred_pods_that_crash_at_once_cost_few_looks_at_nodes() -> None:
    class Counting(FakeApi):
        looks = 0

        async def get(self, path: str, query: dict[str, str] | None = None, accept: str = "", kind: Any = Any) -> Json:
            self.looks += path == NODES
            return await super().get(path, query, accept, kind)

    async def work() -> None:
        spec = {**SPEC, "parallelism": 100, "completions": 100}
        async with watching(api, spec=spec) as ledger:
            for number in range(100):
                pod = stored_pod(number, "Failed", 1)
                pod["spec"] = {"nodeName": f"node-{number}"}
                tell(api, watch_event("ADDED", {**pod, "status": {"phase": "Running"}}))
                tell(api, watch_event("MODIFIED", pod))
            await asyncio.sleep(2 * INTERVAL)
            for _ in range(20):
                see_job(ledger, api.account_writes()[-1].text, spec=spec, status=status())
                await asyncio.sleep(3 * INTERVAL)
                tell(api, BOOKMARK)

    def status() -> Json:
        ends = [write.operations[1]["value"][0] for write in failures(api)]
        return {"failed": 100, "conditions": ends}

    api = Counting()
    run(work())
    assert failures(api)
    assert api.looks <= 2 * 10 + 1


def test_an_account_stays_readable_if_a_crash_of_before_a_requested_retry_is_blamed() -> None:
    account = Account()
    pod = failed(1, 143)
    account.count(outcome_of(pod, job()), "", 0)
    account.begin_anew("2026-01-01T00:02:00Z")
    assert account.blame(pod.name, "the node is gone", None, returns=True, in_status=True) is not None
    assert decode(encode(account)).cost == account.cost == {"retry": 1}


COUPLED: Final[Json] = {**SPEC, "completionMode": "Indexed", "completions": 2, "parallelism": 2}


def test_a_fault_of_one_node_explains_the_crashes_of_pods_that_depend_on_its_pod() -> None:
    class OneIsBroken(FakeApi):
        async def get(self, path: str, query: dict[str, str] | None = None, accept: str = "", kind: Any = Any) -> Json:
            if query is not None and path == NODES:
                self.objects[path] = node("KernelDeadlock") if query["fieldSelector"].endswith("broken") else node()
            return await super().get(path, query, accept, kind)

    async def work() -> None:
        async with watching(api, spec=COUPLED) as ledger:
            tell(api, watch_event("ADDED", stored_pod(2)))
            for number, where in ((1, "fine"), (2, "broken")):
                pod = stored_pod(number, "Failed", 1)
                pod["spec"] = {"nodeName": where}
                tell(api, watch_event("MODIFIED", pod))
            await asyncio.sleep(2 * INTERVAL)
            see_job(ledger, api.account_writes()[-1].text, spec=COUPLED, status={"failed": 2})
            await settled(api, ledger, COUPLED)
            assert ledger.crashes.pending == {}

    api = OneIsBroken()
    run(work())
    assert not failures(api)
    assert api.account_writes()[-1].account.causes["Hardware"] == {"condition KernelDeadlock is True": 1}


def test_the_next_leader_does_not_judge_a_fault_again_whose_node_is_well_by_then() -> None:
    async def work() -> None:
        async with watching(api) as ledger:
            api.objects[NODES] = node("KernelDeadlock")
            await crashes(api, ledger)
            text = api.account_writes()[-1].text
            see_job(ledger, text, spec=SPEC, status={"failed": 1})
            api.objects[NODES] = node()
            root = ledger.trackers.job_of(ledger.trackers.states[KEY].tracker.failed_named("train-1") or failed(1))
            assert root is not None
            pod = ledger.trackers.states[KEY].tracker.failed_named("train-1")
            assert pod is not None
            ledger.crashes.see(KEY, pod, root)  # as a replica that was no leader has it
            await settled(api, ledger)

    api = FakeApi()
    run(work())
    assert not failures(api)


def test_the_next_leader_tells_of_a_node_that_became_bad_while_no_replica_led_and_of_no_older_one() -> None:
    async def scenario() -> None:
        ledger = new_ledger(FakeApi(), Profile(placement=Placement(bad_nodes=BadNodes())))
        ledger.trackers.rejecting(failed(1, node="long-ago"), (0.0,) * 3)
        await asyncio.sleep(60)
        ledger.trackers.rejecting(failed(2, node="bad"), (0.0,) * 3)
        assert ledger.events.waiting.empty()
        async with leading(ledger):
            await asyncio.sleep(1)
        notice = ledger.events.waiting.get_nowait()
        assert (notice.kind, notice.name, notice.reason) == ("Node", "bad", "RejectsPods")
        assert notice.occasion == failed(2).uid  # the same Event if the leader before has told it
        async with leading(ledger):
            await asyncio.sleep(1)
        assert ledger.events.waiting.empty()

    run(scenario())


def test_of_a_node_that_goes_on_rejecting_pods_an_event_tells_once_until_it_is_avoided_no_more() -> None:
    async def scenario() -> list[str]:
        ledger = new_ledger(FakeApi(), Profile(placement=Placement(bad_nodes=BadNodes(avoid_for=Duration(3600)))))
        told: list[str] = []
        start = ledger.trackers.now()
        async with leading(ledger):
            for minute in (0, 4, 8, 12, 11, 16, 20, 200, 204, 208):
                time = start + 60 * minute
                ledger.trackers.now = partial(float, time)
                reason = "UnexpectedAdmissionError"
                pod = replace(failed(minute, node="bad", reason=reason), exits=(), started=written(time))
                ledger.trackers.see_pod(pod)
                while not ledger.events.waiting.empty():
                    told.append(f"{minute}: {ledger.events.waiting.get_nowait().reason}")
        return told

    assert run(scenario()) == ["8: RejectsPods", "208: RejectsPods"]


def test_a_replica_that_starts_tells_of_no_fault_of_days_ago() -> None:
    async def scenario() -> list[str]:
        ledger = new_ledger(FakeApi(), Profile(placement=Placement(bad_nodes=BadNodes(faults=2))))
        now = ledger.trackers.now()
        for node, age in (("long-ago", 5 * 86_400), ("bad", WITHIN)):
            detail = Attempt(
                attempt=0, pod=node, node=node, end=written(now - age), cause="Hardware", cost="disruption"
            )
            ledger.trackers.faulty("ml", detail, 2)
        async with leading(ledger):
            await asyncio.sleep(1)
        return [ledger.events.waiting.get_nowait().name for _ in range(ledger.events.waiting.qsize())]

    assert run(scenario()) == ["bad"]
