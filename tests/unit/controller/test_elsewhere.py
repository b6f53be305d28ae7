"""What the leader does for workloads of other kinds than Job and JobSet. All times are virtual."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.admission import mutate, policy
from tests.costs import lines_of
from tests.unit.controller.leader import (
    Answer,
    FakeApi,
    beside,
    events_of,
    leading,
    new_ledger,
    see_account,
    set_policy,
    stored_pod,
)
from tests.virtual_time import run
from webhook.accounts.account import Account, Left
from webhook.accounts.stored import LARGEST, encode
from webhook.accounts.tracker import DOUBT, Key
from webhook.controller.ends import WorkloadEnds
from webhook.controller.ledger import Ledger
from webhook.history import record
from webhook.kube import names
from webhook.kube.bulkhead import repeat
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.pods import on_failure, pods
from webhook.pods.outcomes import DELETED, STOPPED
from webhook.pods.pods import Pod
from webhook.pods.waiting import Waiting
from webhook.policy.model import (
    Delay,
    Disruptions,
    Duration,
    Emergency,
    FailureRule,
    Match,
    MemoryGrowth,
    Next,
    Placement,
    Profile,
    Retries,
)
from webhook.rules.facts import Facts
from webhook.systems.argo import spec as argo
from webhook.systems.kind_spec import KindSpec
from webhook.systems.pod_source import Place
from webhook.systems.tekton import spec as tekton
from webhook.tracking.admission_counts import AdmissionCounts
from webhook.tracking.workload_state import INTERVAL

NODE = "workflows.argoproj.io/node-name"
WORKFLOW = "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows/train"
RUN = "/apis/tekton.dev/v1/namespaces/ml/pipelineruns/build"
TASK_RUN = "/apis/tekton.dev/v1/namespaces/ml/taskruns/build-compile"
FIT = Place(argo.WORKFLOW, "train", "wf-uid", "fit")
LONG = 100.0  # seconds, longer than any decision of the leader takes
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": "2026-01-01T00:01:00Z",
}
BUG = "Container main for pod ml/train-1 failed with exit code 1"
CANCELLED = [
    {"op": "test", "path": "/metadata/uid", "value": "task-run-uid"},
    {"op": "test", "path": "/status/conditions/0/status", "value": "Unknown"},
    {"op": "test", "path": "/status/retriesStatus/0/podName", "value": "train-1"},
    {"op": "add", "path": "/spec/status", "value": "TaskRunCancelled"},
    {"op": "add", "path": "/spec/statusMessage", "value": f"retry-policy.dev: {BUG}"},
]
FAIL = Profile(disruptions=Disruptions(limit=1, on_exceed="Fail"))


def workflow(name: str = "train", uid: str = "wf-uid", **fields: Any) -> Json:
    """Return a stored Workflow."""
    metadata = {"namespace": "ml", "name": name, "uid": uid, "resourceVersion": "7", "annotations": {}}
    return {"metadata": metadata | fields.pop("metadata", {}), "spec": {}, "status": {}, **fields}


def pipeline_run(**fields: Any) -> Json:
    """Return a stored PipelineRun."""
    return workflow("build", "run-uid", **fields)


def of_workflow(number: int, node: str = "fit", code: int = 0, container: str = "wait", **status: Any) -> Pod:
    """Return a pod of an attempt of a node of the Workflow; it runs unless `container` has an exit code.

    By default that is Argo's own container, whose failures cost a retry.
    """
    annotations = {NODE: f"train.{node}({number})", names.MAX_RETRIES: "2", names.ATTEMPT: str(number)}
    owner = owner_of("argoproj.io/v1alpha1", "Workflow", "train", "wf-uid")
    return pod_of(number, code, status, container, annotations=annotations, ownerReferences=[owner])


def of_task(number: int, code: int = 0, **status: Any) -> Pod:
    """Return a pod of an attempt of the task `compile` of the PipelineRun."""
    labels = {"tekton.dev/pipelineRun": "build", "tekton.dev/pipelineRunUID": "run-uid"}
    return pod_of(
        number,
        code,
        status,
        labels={**labels, "tekton.dev/pipelineTask": "compile"},
        annotations={names.MAX_RETRIES: "3"},
        ownerReferences=[owner_of("tekton.dev/v1", "TaskRun", "build-compile", "task-run-uid")],
    )


def owner_of(version: str, kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def pod_of(number: int, code: int, status: Json, container: str = "main", **metadata: Any) -> Pod:
    root = stored_pod(number, "Failed" if code else "Running", code, finalizers=[], **metadata)
    for one in root["status"].get("containerStatuses") or ():
        one["name"] = container
    root["metadata"] |= status.pop("metadata", {})
    root["status"] |= status
    return pods.read(root)


def see_root(ledger: Ledger, kind: KindSpec, root: Json, text: str | None = None) -> None:
    """Let the watch deliver a workload with an account."""
    metadata = root["metadata"]
    roots = ledger.trackers.roots[kind]
    found = roots.read(msgspec.Raw(msgspec.json.encode({"metadata": metadata})))
    assert found is not None
    roots.items[found[0]] = found[1]
    roots.synced.set()
    roots.live = True
    ledger.trackers.see_root(kind, found[1])
    if text is not None:
        see_account(ledger.trackers, kind, root, text)


@asynccontextmanager
async def deciding(api: FakeApi, profile: Profile | None = None) -> AsyncIterator[Ledger]:
    """Let a ledger lead and decide about crashes, while the block runs, with a Workflow and a PipelineRun."""
    ledger = new_ledger(api, profile)
    async with leading(ledger), beside(repeat("settle", INTERVAL, ledger.settle)):
        for row, path, root in ((argo.WORKFLOW, WORKFLOW, workflow()), (tekton.PIPELINE_RUN, RUN, pipeline_run())):
            api.objects.setdefault(path, root)
            see_root(ledger, row, root)
        yield ledger


def played(
    *seen: Pod,
    api: FakeApi | None = None,
    profile: Profile | None = None,
    then: Callable[[Ledger], Awaitable[None]] | None = None,
) -> tuple[FakeApi, list[tuple[str, str]]]:
    """Let the watch deliver pods, one after the other, and each account that was written; return API and Events."""
    api, told = api or FakeApi(), []

    async def work() -> None:
        async with deciding(api, profile) as ledger:
            for pod in seen:
                ledger.trackers.see_pod(pod)
                await delivered(ledger, api)
            if then is not None:
                await then(ledger)
            told.extend(events_of(ledger))

    run(work())
    return api, told


async def delivered(ledger: Ledger, api: FakeApi) -> None:
    """Wait until the leader has nothing left to do, and let the watch deliver what it has written."""
    for _ in range(60):
        await asyncio.sleep(0.5)
        for write in {write.path: write for write in api.account_writes()}.values():
            is_workflow = "/workflow-" in write.path
            row, root = (argo.WORKFLOW, workflow()) if is_workflow else (tekton.PIPELINE_RUN, pipeline_run())
            see_root(ledger, row, root, write.text)


def beside_accounts(api: FakeApi) -> list[tuple[str, list[Json]]]:
    """Return path and operations of the writes that are not about an account."""
    return [(write.path, write.operations) for write in api.writes if not write.is_of_account]


def account_in(api: FakeApi) -> Account:
    return api.account_writes()[-1].account


def retries(account: Account, *scopes: str) -> list[int]:
    return [account.retries_of(scope) for scope in scopes]


def test_the_attempts_of_a_workflow_are_counted_on_it_by_node() -> None:
    api, told = played(of_workflow(0, code=1), of_workflow(1, node="score", code=137, conditions=[EVICTED]))
    account = account_in(api)
    assert {write.path.rpartition("/")[2].partition("-")[0] for write in api.writes} == {"workflow"}
    assert (account.ended, account.cost) == (2, {"retry": 1, "disruption": 1})
    assert (retries(account, "fit", "score"), account.scopes.of("fit"), account.scopes.of("score")) == ([1, 0], 0, 1)
    assert [reason for reason, _ in told] == ["AttemptEnded", "AttemptEnded"]
    assert told[0][1].startswith("fit: pod train-0, attempt 0 (max-retries 2), ended: container wait exit code 1")


def test_the_attempts_of_a_task_are_counted_on_its_pipeline_run() -> None:
    api, _ = played(of_task(1, code=143))
    assert [write.workload for write in api.writes] == ["build"]
    assert retries(account_in(api), "compile") == [1]
    assert account_in(api).left == Left(retries=2, disruptions=1)


def test_a_failure_without_a_retry_left_is_fatal() -> None:
    api, _ = played(*(of_workflow(number, code=1) for number in range(3)))
    assert account_in(api).cost == {"retry": 2, "fatal": 1}


def test_a_pod_that_its_author_gives_more_retries_than_the_profile_allows_has_those_of_the_profile() -> None:
    asking = replace(of_workflow(0, code=1), max_retries=1000)
    api, _ = played(asking, profile=Profile(retries=Retries(limit=1, default=1)))
    assert account_in(api).left == Left(retries=0, disruptions=1)


def test_each_pod_is_counted_once_however_often_the_watch_delivers_it() -> None:
    api, _ = played(*[of_workflow(0, code=1)] * 3)
    assert account_in(api).ended == 1


def test_pods_of_a_former_workflow_of_that_name_are_not_counted() -> None:
    owner = owner_of("argoproj.io/v1alpha1", "Workflow", "train", "old-uid")
    api, _ = played(pod_of(1, 1, {}, annotations={}, ownerReferences=[owner]))
    assert api.writes == []


DELETION = {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("whole", "reason", "cost"),
    [
        (workflow(), DELETED, "disruption"),
        (workflow(status={"phase": "Succeeded"}), STOPPED, "none"),
        (workflow(spec={"shutdown": "Terminate"}), STOPPED, "none"),
        (workflow(metadata={"deletionTimestamp": "2026-01-01T00:00:39Z"}), STOPPED, "none"),
    ],
)
def test_a_pod_that_is_deleted_while_it_runs_costs_nothing_if_its_workload_has_ended(
    whole: Json, reason: str, cost: str
) -> None:
    api = FakeApi()
    api.objects[WORKFLOW] = whole

    async def delete(ledger: Ledger) -> None:
        ledger.trackers.see_pod_gone(of_workflow(0, metadata=DELETION))
        await delivered(ledger, api)
        await delivered(ledger, api)

    played(of_workflow(0), api=api, then=delete)
    account = account_in(api)
    assert (account.causes, account.cost) == ({"Other": {reason: 1}}, {cost: 1})


def seconds_until_counted(*later: Pod) -> float:
    """Return when the leader counts a pod that was deleted while it ran; the watch delivers `later` after it."""

    async def work() -> None:
        async with deciding(api) as ledger:
            ledger.trackers.see_pod(of_workflow(0))
            ledger.trackers.see_pod_gone(of_workflow(0, metadata=DELETION))
            for pod in later:
                ledger.trackers.see_pod(pod)
            await delivered(ledger, api)

    api = FakeApi()
    run(work())
    first = api.account_writes()[0]
    assert first.account.causes["Other"] == {DELETED: 1}
    return first.at


def created(time: str, number: int = 1, **fields: Any) -> Pod:
    return of_workflow(number, metadata={"creationTimestamp": time, **fields.pop("metadata", {})}, **fields)


AFTERWARDS = "2026-01-01T00:00:41Z"  # than DELETION


@pytest.mark.parametrize("next_pod", [created(AFTERWARDS), created(AFTERWARDS, phase="Failed")])
def test_a_pod_that_was_deleted_is_counted_at_once_when_its_workload_has_created_the_next_one(next_pod: Pod) -> None:
    assert seconds_until_counted(next_pod) < DOUBT / 2


def test_a_pod_that_was_deleted_is_counted_at_once_when_its_next_one_is_deleted_too() -> None:
    assert seconds_until_counted(created(AFTERWARDS, metadata=DELETION)) < DOUBT / 2


@pytest.mark.parametrize(
    "other",
    [
        created("2026-01-01T00:00:40Z"),  # perhaps before the deletion, in the same second
        created(AFTERWARDS, node="score"),
    ],
)
def test_a_pod_that_was_deleted_is_not_counted_at_once_if_it_may_have_no_next_one(other: Pod) -> None:
    assert seconds_until_counted(other) >= DOUBT
    assert seconds_until_counted() >= DOUBT


def test_a_crashed_pod_that_its_controller_deletes_later_keeps_its_exit_code() -> None:
    later = {"deletionTimestamp": "2026-01-01T00:02:00Z", "deletionGracePeriodSeconds": 0}
    api, _ = played(of_workflow(0, code=3, metadata=later))
    assert account_in(api).causes == {"ExitCode": {"wait 3": 1}}


def test_a_bug_ends_the_task_that_would_be_retried() -> None:
    api, told = played(of_task(1, code=1))
    assert beside_accounts(api) == [(TASK_RUN, CANCELLED)]
    assert (account_in(api).cost["fatal"], retries(account_in(api), "compile")) == (1, [0])
    assert ("PodFailurePolicy", BUG) in told


def test_a_bug_of_a_pod_with_the_name_and_the_end_of_one_before_the_requested_retry_ends_its_task_too() -> None:
    history = msgspec.json.encode([{"at": AFTERWARDS, "by": "ada", "of": AFTERWARDS, "ended": []}]).decode()
    root = pipeline_run(metadata={"annotations": {names.RETRY_HISTORY: history}})

    async def retry(ledger: Ledger) -> None:
        see_root(ledger, tekton.PIPELINE_RUN, root, api.account_writes()[-1].text)
        ledger.trackers.see_pod(replace(of_task(1, code=1), uid="another-uid"))
        await ledger.settle()  # before it is counted
        for _ in range(60):
            await asyncio.sleep(0.5)
            see_root(ledger, tekton.PIPELINE_RUN, root, api.account_writes()[-1].text)

    api = FakeApi()
    played(of_task(1, code=1), api=api, then=retry)
    assert beside_accounts(api) == [(TASK_RUN, CANCELLED)] * 2
    assert account_in(api).cost["fatal"] == 2


def test_a_task_is_ended_once_its_controller_has_recorded_the_attempt() -> None:
    not_yet = Answer(error=ApiError(422, "the server rejected our request"))
    api, _ = played(of_task(1, code=1), api=FakeApi(Answer(), not_yet, not_yet))
    assert beside_accounts(api) == [(TASK_RUN, CANCELLED)] * 3
    assert account_in(api).cost["fatal"] == 1


@pytest.mark.parametrize(
    ("pod", "profile"),
    [
        (of_task(1, code=143), None),
        (of_task(1, code=1, conditions=[EVICTED]), None),
        (of_task(1, code=1), Profile(on_failure=(FailureRule(match=Match(exit_codes=(1,)), next=Next(cost="Retry")),))),
        (of_workflow(1, code=1, container="main"), None),  # its own words end it
    ],
)
def test_what_is_no_bug_is_left_to_the_system(pod: Pod, profile: Profile | None) -> None:
    api, _ = played(pod, profile=profile)
    assert beside_accounts(api) == []


def test_a_bug_is_left_alone_where_the_run_has_ended() -> None:
    api = FakeApi()
    api.objects[RUN] = pipeline_run(status={"conditions": [{"type": "Succeeded", "status": "False"}]})
    played(of_task(1, code=1), api=api)
    assert beside_accounts(api) == []


def test_a_fatal_rule_of_on_failure_ends_a_workload_whose_system_does_not_need_it() -> None:
    fatal = FailureRule(match=Match(exit_codes=(9,)), next=Next(cost="Fatal"))
    api, _ = played(of_workflow(0, code=9), profile=Profile(on_failure=(fatal,)))
    ((path, operations),) = beside_accounts(api)
    assert (path, operations[-1]) == (WORKFLOW, {"op": "add", "path": "/spec/shutdown", "value": "Stop"})
    assert account_in(api).cost["fatal"] == 1


def evicted(number: int) -> Pod:
    return of_workflow(number, code=137, conditions=[EVICTED])


def test_a_scope_with_more_disruptions_than_allowed_fails_its_workload() -> None:
    api, told = played(evicted(0), evicted(1), profile=FAIL)
    ((path, operations),) = beside_accounts(api)
    assert (path, operations[-1]["path"]) == (WORKFLOW, "/spec/shutdown")
    message = "pod ml/train-1: disruption 2 exceeds the limit of 1"
    assert ("DisruptionLimitExceeded", message) in told


def test_disruptions_of_two_scopes_are_not_added_up() -> None:
    other = of_workflow(1, node="score", code=137, conditions=[EVICTED])
    api, _ = played(evicted(0), other, profile=FAIL)
    assert beside_accounts(api) == []


def test_a_workload_is_suspended_by_its_own_field_and_its_scopes_begin_anew() -> None:
    profile = Profile(disruptions=Disruptions(limit=1, on_exceed="Suspend"))
    api, told = played(evicted(0), evicted(1), profile=profile)
    ((path, operations),) = beside_accounts(api)
    assert (path, operations[-1]) == (WORKFLOW, {"op": "add", "path": "/spec/suspend", "value": True})
    assert (account_in(api).grants, account_in(api).scopes.of("fit")) == (1, 0)
    assert told[-1][0] == "DisruptionLimitExceeded"


def test_what_cannot_be_suspended_goes_on() -> None:
    profile = Profile(disruptions=Disruptions(limit=0, on_exceed="Suspend"))
    api, _ = played(of_task(1, code=143, conditions=[EVICTED]), profile=profile)
    assert beside_accounts(api) == []


def test_nothing_is_ended_while_actions_are_stopped_but_everything_is_counted() -> None:
    async def stop(ledger: Ledger) -> None:
        set_policy(ledger, emergency=Emergency(actions="Stop"))
        ledger.trackers.see_pod(evicted(1))
        ledger.trackers.see_pod(of_task(7, code=1))
        await delivered(ledger, api)

    api = FakeApi()
    _, told = played(evicted(0), api=api, profile=FAIL, then=stop)
    assert beside_accounts(api) == []
    assert sum(write.account.ended for write in api.account_writes()[-2:]) == 3
    assert [reason for reason, _ in told].count("ActionNotTaken") == 2


def counts(*seen: Pod, place: Place = FIT) -> Any:
    """Return the counts with which the next pod of a place is admitted."""
    found: list[Any] = []

    async def ask(ledger: Ledger) -> None:
        found.append(await AdmissionCounts(ledger.trackers).of_scope("ml", place))

    played(*seen, then=ask)
    return found[0]


def test_the_next_pod_of_a_scope_is_admitted_with_its_counts() -> None:
    found = counts(of_workflow(0, code=1), evicted(1), of_workflow(2, node="score", code=1))
    assert (found.disruptions, found.failures, [pod.name for pod in found.ended]) == (1, 1, ["train-0", "train-1"])


def test_the_first_pod_of_a_workload_is_admitted_without_counts_of_another() -> None:
    assert counts(evicted(0), place=FIT._replace(uid="other")) is None
    assert counts(place=FIT).disruptions == 0


def test_what_a_restarted_replica_reads_is_what_was_counted() -> None:
    api, _ = played(of_workflow(0, code=1), evicted(1))
    text = api.account_writes()[-1].text

    async def work() -> None:
        async with deciding(FakeApi()) as ledger:
            see_root(ledger, argo.WORKFLOW, workflow(), text)
            found = await AdmissionCounts(ledger.trackers).of_scope("ml", FIT)
            assert found is not None
            assert (found.disruptions, found.failures) == (1, 1)

    run(work())


def test_a_workload_that_is_deleted_is_forgotten() -> None:
    async def delete(ledger: Ledger) -> None:
        key = Key("ml", argo.WORKFLOW, "train")
        assert key in ledger.trackers.states
        root = ledger.trackers.roots[argo.WORKFLOW].items.pop(("ml", "train"))
        ledger.trackers.see_gone(argo.WORKFLOW, root)
        assert key not in ledger.trackers.states

    played(of_workflow(0, code=1), then=delete)


def test_a_workload_without_pods_takes_no_state() -> None:
    async def look(ledger: Ledger) -> None:
        assert ledger.trackers.states == {}

    played(then=look)


def test_a_workload_that_the_watch_delivers_after_its_pods_is_counted() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            ledger.trackers.see_pod(of_workflow(0, code=1))
            await asyncio.sleep(LONG)
            assert api.writes == []
            see_root(ledger, argo.WORKFLOW, workflow())
            await asyncio.sleep(LONG)

    api = FakeApi()
    run(work())
    assert account_in(api).ended == 1


MANY = 2_500  # nodes of a Workflow: four times as many must cost four times as much


def admission_beside(number: int) -> int:
    """Return the lines for the counts of a pod of a Workflow of which so many nodes run, and as many failed."""
    found: list[int] = []

    async def work() -> None:
        ledger = new_ledger(FakeApi())
        see_root(ledger, argo.WORKFLOW, workflow())
        for one in range(number):
            ledger.trackers.see_pod(of_workflow(one, node=f"running-{one}"))
            ledger.trackers.see_pod(of_workflow(number + one, node=f"failed-{one}", code=1))
        asked = AdmissionCounts(ledger.trackers).of_scope("ml", FIT)

        def ask() -> None:
            with pytest.raises(StopIteration):
                asked.send(None)

        found.append(lines_of(ask))

    run(work())
    return found[0]


def test_an_admission_costs_no_more_however_many_nodes_a_workflow_has() -> None:
    assert admission_beside(4 * MANY) <= 1.1 * admission_beside(MANY)


def test_a_workflow_of_thousands_of_nodes_is_counted_in_a_short_account() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:02:00Z", "deletionGracePeriodSeconds": 0}

    async def work() -> None:
        async with deciding(api) as ledger:
            for number in range(300):
                ledger.trackers.see_pod_gone(of_workflow(number, node=f"node-{number}", code=1, metadata=gone))
            for _ in range(6):
                await delivered(ledger, api)

    api = FakeApi()
    run(work())
    account = account_in(api)
    assert (account.ended, account.spent("retry")) == (300, 300)
    assert all(account.retries_of(f"node-{number}") >= 1 for number in range(300))
    assert len(api.account_writes()[-1].text) <= LARGEST


@pytest.mark.parametrize(
    "text", ["{}", '{"attempts":1,"scopeRetries":{"groups":[{"number":1,"scopes":"a,a"}]}}', "[]", f'"{"x" * LARGEST}"']
)
def test_an_account_that_a_user_has_spoilt_begins_anew(text: str) -> None:
    api = FakeApi()

    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            see_root(ledger, argo.WORKFLOW, workflow(), text)
            ledger.trackers.see_pod(of_workflow(0, code=1))
            await asyncio.sleep(LONG)

    run(work())
    assert account_in(api).ended == 1


RULES = (
    FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(limit="8Gi"))),
    FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(60), limit=Duration(600)))),
    FailureRule(match=Match(exit_codes=(76,)), next=Next(avoid="Node", placement="OnDemand")),
)


def next_pod(*ended: Pod, disruptions: int = 0) -> Json:
    """Return the next pod of a node of a Workflow as it is admitted after those that have ended."""
    container = {"name": "main", "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}}
    root = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-9",
            "annotations": {NODE: "train.fit(1)"},
            "ownerReferences": [owner_of("argoproj.io/v1alpha1", "Workflow", "train", "wf-uid")],
        },
        "spec": {"containers": [container]},
    }
    facts = Facts(
        profile_name="default", owner=workflow(), owners_known=True, disruptions=disruptions, failures=0, ended=ended
    )
    gke = Placement(provider="gke", spot="Require")
    return dict(mutate(root, facts, policy(default=Profile(placement=gke, on_failure=RULES))).object)


def killed_for_memory() -> Pod:
    exits = (pods.Exit("main", 137, "OOMKilled", "2026-01-01T00:01:00Z"),)
    return replace(of_workflow(0, code=137, metadata={"deletionTimestamp": "2026-01-01T00:05:00Z"}), exits=exits)


def test_what_rules_of_on_failure_ask_of_the_next_pod_it_gets() -> None:
    grown = next_pod(killed_for_memory())
    assert grown["spec"]["containers"][0]["resources"]["limits"]["memory"] == "2Gi"
    held = next_pod(replace(of_workflow(0, code=75), ended="2026-01-01T00:01:00Z"))
    assert held["spec"]["schedulingGates"] == [{"name": names.DELAY}]
    moved = next_pod(replace(of_workflow(0, code=76), node="spot-1"))["metadata"]["annotations"]
    assert (moved[names.PLACEMENT], "spot-1" in moved[names.AFTER_FAILURE]) == ("OnDemand", True)


def test_the_last_disruption_of_a_scope_sends_its_next_pod_to_on_demand_nodes() -> None:
    placed = [next_pod(disruptions=number)["metadata"]["annotations"] for number in (0, 1)]
    assert [one[names.PLACEMENT] for one in placed] == ["Spot", "OnDemand"]
    assert [one[names.DISRUPTIONS] for one in placed] == ["0", "1"]


def gated(**fields: Any) -> Pod:
    """Return a pod of the Workflow that a delay of a rule holds back, or a spot node that does not come."""
    state = on_failure.FailureState(rule=1, not_before="1970-01-01T00:00:30Z")
    after = on_failure.written(state)
    return replace(of_workflow(0), phase="Pending", placement="Spot", after=after, waiting=Waiting(AT_0, **fields))


AT_0 = "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(("known", "removed"), [(True, True), (False, False)])
def test_a_delay_ends_once_the_workload_is_known(known: bool, removed: bool) -> None:  # noqa: FBT001 - of parametrize
    profile = Profile(on_failure=RULES, placement=Placement(spot_wait=Duration(1)))

    async def work() -> None:
        ledger = new_ledger(api, profile)
        ledger.waiting.clock = asyncio.get_running_loop().time
        if known:
            see_root(ledger, argo.WORKFLOW, workflow())
        for pod in (gated(gate=0, gated=True), replace(gated(unschedulable=AT_0), uid="other")):
            ledger.trackers.see_pod(pod)
            ledger.waiting.seen(pod)
        async with leading(ledger), beside(ledger.waiting.run(lambda: True)):
            await asyncio.sleep(25)

    api = FakeApi()
    run(work())
    gates = [write.operations[-1]["path"] for write in api.writes if write.path.endswith("/pods/train-0")]
    assert gates[:1] == (["/spec/schedulingGates/0"] if removed else [])
    assert {write.path for write in api.writes} <= {"/api/v1/namespaces/ml/pods/train-0"}


def test_two_pods_of_one_name_are_two_attempts_in_history() -> None:
    async def work() -> None:
        async with deciding(api) as ledger:
            ledger.recorder.write = lambda _namespace, line: lines.append(record.decode(line))
            ledger.recorder.leading = True
            for code, end in ((143, "2026-01-01T00:01:00Z"), (7, "2026-01-01T00:02:00Z")):
                pod = replace(of_workflow(0, code=code), uid=f"uid-{code}", ended=end)
                ledger.trackers.see_pod(pod)
            await delivered(ledger, api)

    api = FakeApi()
    lines: list[record.Record] = []
    run(work())
    found = {one.uid: one.reason for one in lines if isinstance(one, record.AttemptRecord)}
    assert found == {"uid-143": "wait 143", "uid-7": "wait 7"}


def test_an_account_that_changes_while_the_leader_reads_a_workload_is_not_overwritten() -> None:
    class Slow(FakeApi):
        async def find(self, path: str) -> Json | None:
            see_root(found[0], argo.WORKFLOW, workflow(), other)
            return await super().find(path)

    async def delete(ledger: Ledger) -> None:
        found.append(ledger)
        ledger.trackers.see_pod_gone(of_workflow(0, metadata=DELETION))
        await delivered(ledger, api)

    api, found = Slow(), list[Ledger]()
    other = encode(Account(ended=7, cost={"retry": 7}))
    played(of_workflow(0), api=api, then=delete)
    assert api.account_writes()[0].account.ended == 8


def test_a_workload_that_was_made_anew_under_its_name_is_not_the_one_that_was_counted() -> None:
    async def work() -> None:
        async with deciding(api) as ledger:
            ends: WorkloadEnds = ledger.ends
            assert await ends.read(key) == workflow()
            api.objects[WORKFLOW] = workflow(uid="another-uid")
            assert await ends.read(key) is None

    api, key = FakeApi(), Key("ml", argo.WORKFLOW, "train")
    run(work())
