"""What the leader does to pods that wait, and when. All times are virtual."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch
import pytest
from msgspec.structs import replace

from tests.metrics import counted
from tests.objects import pod as manifest
from tests.objects import with_proof
from tests.unit.accounts.pods import RULES, job, running_pod
from tests.unit.controller.leader import JOB_PATH, Answer, FakeApi, leading, new_ledger, running, see_job
from tests.virtual_time import now, run
from webhook.controller.brake import HELD_FOR
from webhook.controller.ledger import Ledger
from webhook.controller.waiting import AFTER_ERROR, INTERVAL, LONGEST_PAUSE
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.pods import on_failure
from webhook.pods import pods as read_pods
from webhook.pods.on_failure import FailureState
from webhook.pods.pods import Pod
from webhook.pods.waiting import Waiting
from webhook.policy.model import (
    Delay,
    Disruptions,
    Duration,
    Emergency,
    FailureRule,
    Match,
    Next,
    Placement,
    Profile,
)
from webhook.tracking.nodes import NODES

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
POD_PATH = "/api/v1/namespaces/ml/pods/train-1"
STATUS_PATH = f"{POD_PATH}/status"
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "In", "values": ["true"]}
ON_SPOT = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [SPOT]}]}
    }
}
DELAY = FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(60), limit=Duration(600))))
AGAIN = FailureRule(match=Match(cause="NeverStarted"), next=Next(avoid="Node"))
WAIT = Placement(provider="gke", spot="Require", spot_wait=Duration(60))


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def ledger(api: FakeApi, profile: Profile, **fields: Any) -> Ledger:
    """Return a ledger with a Job in its cache, and the wall clock at BEGIN when the loop began."""
    found = new_ledger(api, profile)
    found.waiting.clock = lambda: BEGIN.timestamp() + now()
    see_job(found, **fields)
    api.objects[JOB_PATH] = stored_job()
    return found


def stored_job(**spec: Any) -> Json:
    root = job(spec)
    return {**root, "metadata": {**root["metadata"], "resourceVersion": "7"}}


def stored(spec: Json | None = None, conditions: list[Json] | None = None, **status: Any) -> Json:
    """Return a pending pod as the API has it."""
    root = manifest(spec, name="train-1", namespace="ml", uid="uid-1", resourceVersion="9", creationTimestamp=at(0))
    root["metadata"]["annotations"] = {names.PLACEMENT: "Spot"}
    root["status"] = {"phase": "Pending", "conditions": conditions or [], **status}
    return with_proof(root)


def unschedulable(since: float = 0, **spec: Any) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(since)}
    return stored({"affinity": ON_SPOT, **spec}, [condition])


def stalled(reason: str = "ImagePullBackOff", **status: Any) -> Json:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)}
    waits = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "not found"}}}
    return stored({"nodeName": "spot-1", "affinity": ON_SPOT}, [condition], **{"containerStatuses": [waits], **status})


def deleted(*conditions: Json) -> Json:
    """Return a running pod of spot-1 that should have ended at BEGIN."""
    root = stored({"nodeName": "spot-1"}, list(conditions), phase="Running")
    root["metadata"]["deletionTimestamp"] = at(0)
    return root


def left_on_node(ready: str | None, root: Json, **spec: Any) -> FakeApi:
    """Return what the leader wrote in 62 s with a pod that should have ended; `ready`: what its node says."""

    async def work() -> None:
        found = ledger(api, Profile(), spec=spec)
        api.objects[JOB_PATH] = stored_job(**spec)
        condition = {"type": "Ready", "status": ready}
        api.objects[NODES] = {"items": [] if ready is None else [{"status": {"conditions": [condition]}}]}
        take(found, api, root)
        await act(found, 62)

    api = FakeApi()
    run(work())
    return api


def gated(until: float, **fields: Any) -> Pod:
    state = FailureState(rule=0, not_before=at(until))
    waiting = Waiting(at(0), gate=0, gated=True)
    return running_pod(phase="Pending", node="", waiting=waiting, after=on_failure.written(state), **fields)


def take(found: Ledger, api: FakeApi, root: Json) -> None:
    """Let the API have a pod, and the watch deliver it."""
    api.objects[POD_PATH] = root
    see(found, read_pods.read(root))


def see(found: Ledger, pod: Pod) -> None:
    for observer in found.trackers.pods.observers:
        observer.seen(pod)


def act(found: Ledger, seconds: float) -> Any:
    """Let the leader look at its waiting pods for some seconds."""

    async def work() -> None:
        async with leading(found):
            task = asyncio.create_task(found.waiting.run(lambda: found.leading))
            await asyncio.sleep(seconds)
            task.cancel()

    return work()


def acted(profile: Profile, root: Json, seconds: float, **spec: Any) -> FakeApi:
    """Return what the leader wrote in some seconds with one waiting pod."""

    async def work() -> None:
        found = ledger(api, profile, spec=spec)
        api.objects[JOB_PATH] = stored_job(**spec)
        take(found, api, root)
        await act(found, seconds)

    api = FakeApi()
    run(work())
    return api


def after(api: FakeApi, path: str, root: Json) -> Json:
    """Return an object after the only write."""
    (write,) = api.writes
    assert write.path == path
    found: Json = jsonpatch.apply_patch(root, write.operations)
    return found


def test_the_gate_of_a_delay_is_removed_once_the_delay_is_over() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=30))
        await act(found, 33)

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert 30 <= write.at <= 30 + INTERVAL
    gates = [{"name": names.DELAY}, {"name": "another"}]
    assert jsonpatch.apply_patch({"spec": {"schedulingGates": gates}}, write.operations)["spec"] == {
        "schedulingGates": [{"name": "another"}]
    }
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch({"spec": {"schedulingGates": gates[1:]}}, write.operations)


def test_a_replica_that_does_not_lead_removes_no_gate_and_the_next_leader_does() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=30))
        task = asyncio.create_task(found.waiting.run(lambda: found.leading))
        await asyncio.sleep(100)
        assert api.writes == []
        found.queue.open()
        await asyncio.sleep(2 * INTERVAL)
        task.cancel()

    api = FakeApi()
    run(work())
    assert len(api.writes) == 1


@pytest.mark.parametrize("unknown", ["the policy", "the Jobs", "the Namespaces"])
def test_no_delay_ends_as_long_as_it_is_unknown_who_asks_for_it(unknown: str) -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=30))
        task = asyncio.create_task(found.waiting.run(lambda: True))
        if unknown == "the policy":
            found.policy.current = None
        elif unknown == "the Jobs":
            found.trackers.states.clear()
            found.cluster.jobs.synced.clear()
        else:
            found.cluster.namespaces.items.clear()
            found.cluster.namespaces.synced.clear()
        await asyncio.sleep(25)
        task.cancel()

    api = FakeApi()
    run(work())
    assert api.writes == []


@pytest.mark.parametrize("why", ["the Job is gone", "the namespace is not opted in", "actions are only reported"])
def test_a_delay_ends_although_nothing_else_would_be_done(why: str) -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,), actions="Report"))
        see(found, gated(until=30))
        if why == "the Job is gone":
            found.trackers.states.clear()
        elif why == "the namespace is not opted in":
            found.cluster.namespaces.items.clear()
        await act(found, 33)

    api = FakeApi()
    run(work())
    assert api.writes


def test_a_delay_ends_only_once_actions_are_no_longer_stopped() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=30))
        running = found.policy.current
        assert running is not None
        found.policy.current = replace(running, emergency=Emergency(actions="Stop"))
        await act(found, 60)
        assert api.writes == []
        assert "would end the delay of the pod; the admin" in found.events.waiting.get_nowait().message
        assert found.events.waiting.empty()
        found.policy.current = running
        await act(found, 4)

    api = FakeApi()
    run(work())
    assert len(api.writes) == 1


@pytest.mark.parametrize(("status", "pause"), [(404, AFTER_ERROR), (422, AFTER_ERROR), (500, LONGEST_PAUSE)])
def test_after_an_error_the_gate_is_removed_a_little_later(status: int, pause: float) -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=0))
        await act(found, pause + 3 * INTERVAL)

    api = FakeApi(Answer(error=ApiError(status, "no")))
    run(work())
    first, second = api.writes
    assert pause <= second.at - first.at <= pause + INTERVAL


def test_a_pod_that_was_deleted_meanwhile_is_forgotten() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=0))
        for observer in found.trackers.pods.observers:
            observer.deleted(gated(until=0))
        await act(found, 60)

    api = FakeApi()
    run(work())
    assert [write for write in api.writes if write.path == POD_PATH] == []


def test_after_a_gap_in_the_watch_only_pods_that_exist_are_known() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        see(found, gated(until=0))
        found.waiting.begin_list()
        found.waiting.listed(gated(until=0, number=2, uid="other"))
        await found.waiting.end_list()
        assert list(found.waiting.entries) == ["other"]

    api = FakeApi()
    run(work())


def test_a_pod_that_no_spot_node_takes_ends_as_disrupted_after_the_wait() -> None:
    root = unschedulable()
    before = counted("retry_policy_waiting_pods_ended_total", reason="SpotUnavailable")
    api = acted(Profile(placement=WAIT), root, 62)
    ended = after(api, STATUS_PATH, root)["status"]
    assert 60 <= api.writes[0].at <= 60 + INTERVAL
    assert (ended["phase"], ended["reason"]) == ("Failed", "SpotUnavailable")
    assert ended["message"] == "no spot node took the pod in 60 s; the next one runs on-demand"
    assert [(one["type"], one["reason"]) for one in ended["conditions"]] == [
        ("PodScheduled", "Unschedulable"),
        ("DisruptionTarget", "SpotUnavailable"),
    ]
    assert counted("retry_policy_waiting_pods_ended_total", reason="SpotUnavailable") == before + 1


def test_the_time_in_which_another_held_a_pod_back_is_no_wait_for_spot() -> None:
    async def work() -> None:
        found = ledger(api, Profile(placement=WAIT))
        take(found, api, unschedulable(schedulingGates=[{"name": "another"}]))
        await asyncio.sleep(30)
        take(found, api, unschedulable())
        await act(found, 62)

    api = FakeApi()
    run(work())
    (write,) = api.writes
    assert write.at >= 90


def test_a_pod_is_ended_only_as_it_was_read() -> None:
    root = unschedulable()
    (write,) = acted(Profile(placement=WAIT), root, 62).writes
    assert write.operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "9"}


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (stalled(), "a node took it"),
        (unschedulable(schedulingGates=[{"name": "another"}]), "it waits for a gate"),
        ({**unschedulable(), "metadata": {**unschedulable()["metadata"], "uid": "new"}}, "it is another pod"),
        (unschedulable(since=30), "a node had taken it in between"),
        (None, "it was deleted"),
    ],
)
def test_a_pod_that_does_not_wait_for_spot_any_more_is_left_alone(meanwhile: Json | None, why: str) -> None:
    async def work() -> None:
        found = ledger(api, Profile(placement=WAIT, start_timeout=Duration(10)))
        take(found, api, unschedulable())
        del api.objects[POD_PATH]
        if meanwhile is not None:
            api.objects[POD_PATH] = meanwhile
        await act(found, 70)

    api = FakeApi()
    run(work())
    assert api.writes == [], why


@pytest.mark.parametrize(
    "why", ["it prefers spot", "its author wants spot", "it is in a group", "its Job is suspended"]
)
def test_a_pod_is_left_alone_that_could_not_run_elsewhere(why: str) -> None:
    root, spec = unschedulable(), job()["spec"]
    if why == "it prefers spot":
        root["spec"].pop("affinity")
    elif why == "its author wants spot":
        spec["template"]["spec"]["affinity"] = ON_SPOT
    elif why == "it is in a group":
        root["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "gang"}
    else:
        spec["suspend"] = True
    assert acted(Profile(placement=WAIT), root, 70, **spec).writes == []


def test_a_pod_is_left_alone_whose_end_would_end_its_job() -> None:
    root = unschedulable()
    for spec in ({"podFailurePolicy": None, "backoffLimit": 0}, {"podFailurePolicy": {"rules": [FAILS]}}):
        assert acted(Profile(placement=WAIT), root, 70, **spec).writes == []
    assert acted(Profile(placement=WAIT), root, 70, podFailurePolicy=None, backoffLimit=1).writes


FAILS = {**RULES[0], "action": "FailJob"}


@pytest.mark.parametrize(("on_exceed", "ends"), [("OnDemand", True), ("Suspend", False), ("Fail", False)])
def test_a_pod_is_left_alone_if_the_disruption_would_stop_its_job(on_exceed: Any, ends: bool) -> None:  # noqa: FBT001
    profile = Profile(placement=WAIT, disruptions=Disruptions(limit=0, on_exceed=on_exceed))
    assert bool(acted(profile, unschedulable(), 62).writes) is ends


def test_a_container_that_does_not_start_fails_its_job_with_the_reason_of_the_kubelet() -> None:
    api = acted(Profile(start_timeout=Duration(60)), stalled(), 62)
    (write,) = api.writes
    assert 60 <= write.at <= 60 + INTERVAL
    assert write.path == f"{JOB_PATH}/status"
    (condition,) = write.operations[1]["value"]
    assert (condition["type"], condition["reason"]) == ("FailureTarget", "NeverStarted")
    assert condition["message"] == (
        "Container main for pod ml/train-1 has not started in 60 s: ImagePullBackOff: not found"
    )


def test_a_container_that_can_never_start_fails_its_job_at_once() -> None:
    (write,) = acted(Profile(start_timeout=Duration(600)), stalled("InvalidImageName"), 3).writes
    assert write.at <= 2 * INTERVAL


def test_a_job_that_has_ended_is_not_failed_again() -> None:
    async def work() -> None:
        found = ledger(api, Profile(start_timeout=Duration(60)))
        api.objects[JOB_PATH]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
        take(found, api, stalled())
        await act(found, 70)

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_a_rule_may_ask_for_another_attempt_in_place_of_the_end() -> None:
    root = stalled()
    api = acted(Profile(start_timeout=Duration(60), on_failure=(AGAIN,)), root, 62)
    ended = after(api, STATUS_PATH, root)["status"]
    assert (ended["phase"], ended["reason"]) == ("Failed", "ImagePullBackOff")
    assert [(one["type"], one.get("reason")) for one in ended["conditions"]] == [
        ("PodScheduled", None),
        ("DisruptionTarget", "NeverStarted"),
    ]


def test_another_attempt_needs_a_disruption_that_is_left() -> None:
    profile = Profile(start_timeout=Duration(60), on_failure=(AGAIN,), disruptions=Disruptions(limit=0))
    (write,) = acted(profile, stalled(), 62).writes
    assert write.path == f"{JOB_PATH}/status"


def test_a_pod_that_should_have_ended_on_an_unreachable_node_is_ended_so_that_its_job_replaces_it() -> None:
    root = deleted()
    api = left_on_node("Unknown", root)
    (write,) = api.writes
    assert 60 <= write.at <= 60 + INTERVAL
    ended = after(api, STATUS_PATH, root)["status"]
    assert (ended["phase"], ended["reason"]) == ("Failed", "NodeLost")
    assert ended["message"] == "the node spot-1 was unreachable 60 s after the grace period of the pod"
    assert [(one["type"], one["reason"]) for one in ended["conditions"]] == [("DisruptionTarget", "NodeLost")]


def test_a_pod_that_was_disrupted_before_its_node_was_lost_keeps_that_reason_and_time() -> None:
    tainted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    root = deleted({**tainted, "lastTransitionTime": at(-30)})
    ended = after(left_on_node("Unknown", root), STATUS_PATH, root)["status"]
    assert ended["conditions"] == root["status"]["conditions"]


@pytest.mark.parametrize("ready", ["True", "False", None])
def test_a_kubelet_that_reports_ends_its_pods_itself_and_the_control_plane_those_of_a_deleted_node(
    ready: str | None,
) -> None:
    assert left_on_node(ready, deleted()).writes == []


def test_a_job_that_does_not_wait_for_the_end_of_a_pod_needs_nobody_to_end_it() -> None:
    assert left_on_node("Unknown", deleted(), podReplacementPolicy="TerminatingOrFailed").writes == []


def test_the_leader_acts_only_where_the_policy_is_enforced() -> None:
    async def work() -> None:
        found = ledger(api, Profile(placement=WAIT))
        found.cluster.namespaces.items["", "ml"] = ("default", "Warn")
        take(found, api, unschedulable())
        await act(found, 70)

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_a_profile_that_only_reports_gets_one_event_for_each_job() -> None:
    async def work() -> None:
        found = ledger(api, Profile(placement=WAIT, actions="Report"))
        take(found, api, unschedulable())
        await act(found, 60 + 3 * HELD_FOR)
        assert found.events.waiting.qsize() == 1
        notice = found.events.waiting.get_nowait()
        assert (notice.kind, notice.name) == ("Job", "train")
        assert notice.message.startswith("would end pod train-1: no spot node took the pod in 60 s")

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_the_waiting_pods_are_counted_by_their_reason() -> None:
    async def work() -> None:
        found = ledger(api, Profile(placement=WAIT))
        see(found, gated(until=9))
        assert counted("retry_policy_waiting_pods", reason="Delay") == 1
        see(found, running_pod())
        assert counted("retry_policy_waiting_pods", reason="Delay") == 0

    api = FakeApi()
    run(work())


def test_a_running_leader_looks_at_its_waiting_pods() -> None:
    async def work() -> None:
        found = ledger(api, Profile(on_failure=(DELAY,)))
        async with running(found):
            see(found, gated(until=0))
            await asyncio.sleep(3 * INTERVAL)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == [POD_PATH]
