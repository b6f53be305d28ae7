"""How the leader fails a Job or a JobSet, and which ones it leaves alone."""

import asyncio
from typing import Any

import pytest

from tests.metrics import counted
from tests.objects import DISRUPTION, exit_codes, job, job_spec
from tests.unit.accounts.pods import failed, job_set
from tests.unit.controller.leader import JOB_PATH, Answer, FakeApi, api_of
from tests.virtual_time import run
from webhook.accounts import settling
from webhook.accounts.counted import PodsOfJob
from webhook.controller.ends import WorkloadEnds
from webhook.kube.client import ApiError
from webhook.kube.events import Events
from webhook.objects.problem import Json
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import Trackers

SETTINGS = Settings(profile_name="default", profile=Profile())


SET_PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/set"
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def stored(status: Json | None = None, spec: Json | None = None, **metadata: Any) -> Json:
    """Return a stored Job of four pods that depend on each other."""
    root = job(spec or job_spec(rules=[DISRUPTION], **COUPLED), uid="job-uid", resourceVersion="7", **metadata)
    return root if status is None else {**root, "status": status}


def failed_by_the_leader(reason: str) -> float:
    return counted("retry_policy_ledger_workloads_stopped_total", action="Failed", reason=reason)


def settle(api: FakeApi, root: Json, above: Json | None = None) -> bool:
    api.objects[JOB_PATH] = root
    return run(find_and_settle(api, above))


async def find_and_settle(api: FakeApi, above: Json | None) -> bool:
    pod = failed(1, code=1)
    ends = ends_of(api)
    found = await ends.read_running(pod)
    if found is None:
        return False
    message = settling.bug_in(PodsOfJob(found, above, SETTINGS), pod, 30)
    return message is not None and await ends.fail(batch.JOB, found, POD_FAILURE_POLICY, message, pod)


def ends_of(api: FakeApi) -> WorkloadEnds:
    """Return what ends the workloads of an API, without a brake."""
    cluster = Cluster(api_of(api))
    return WorkloadEnds(cluster.api, Trackers(cluster), Events(cluster.api), lambda *_: True, lambda _: None)


def fail(api: FakeApi, kind: KindSpec, path: str) -> bool:
    return run(ends_of(api).fail(kind, api.objects[path], "Why", "message"))


def test_a_job_is_failed_only_if_it_is_unchanged_since_it_was_read_and_keeps_its_conditions() -> None:
    api, suspended = FakeApi(), {"type": "Suspended", "status": "False"}
    assert settle(api, stored({"conditions": [suspended]}))
    (write,) = api.writes
    unless_changed, conditions = write.operations
    assert write.path == f"{JOB_PATH}/status"
    assert unless_changed == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    kept, added = conditions["value"]
    assert kept == suspended
    assert (added["type"], added["status"], added["reason"]) == ("FailureTarget", "True", "PodFailurePolicy")
    assert added["message"].startswith("Container main for pod ml/train-1 failed with exit code 1, and no pod that")


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(stored() | {"metadata": {**stored()["metadata"], "uid": "another"}}, id="created again"),
        pytest.param(stored(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
        pytest.param(stored(spec=job_spec(suspend=True, **COUPLED)), id="suspended"),
        pytest.param(stored({"conditions": [{"type": "FailureTarget", "status": "True"}]}), id="about to end"),
        pytest.param(
            stored(spec=job_spec(rules=[exit_codes("Ignore", "In", 1)], **COUPLED)), id="judged by a rule of its author"
        ),
        pytest.param(stored(spec=job_spec(restart_policy="OnFailure", **COUPLED)), id="OnFailure"),
        pytest.param(stored(spec=job_spec()), id="of one pod"),
    ],
)
def test_a_crash_does_not_fail_a_job_that_the_ledger_may_not_settle(root: Json) -> None:
    api = FakeApi()
    assert not settle(api, root)
    assert api.writes == []


@pytest.mark.parametrize(("action", "ends"), [("FailJobSet", True), ("RestartJobSet", False)])
def test_a_crash_fails_a_job_of_a_job_set_only_if_the_job_set_would_fail_too(action: str, ends: bool) -> None:  # noqa: FBT001
    api = FakeApi()
    rule = {"action": action, "onJobFailureReasons": ["PodFailurePolicy"]}
    assert settle(api, stored(), job_set(rule)) is ends
    assert len(api.writes) == ends


@pytest.mark.parametrize("status", [409, 422, 429, 500])
def test_an_error_of_the_api_is_raised_and_the_write_is_not_repeated(status: int) -> None:
    api = FakeApi(Answer(1.0, ApiError(status, "no")))
    before = failed_by_the_leader("PodFailurePolicy")
    with pytest.raises(ApiError) as raised:
        settle(api, stored())
    assert failed_by_the_leader("PodFailurePolicy") == before
    assert raised.value.status == status
    assert len(api.writes) == 1


def test_a_late_answer_of_the_api_is_awaited() -> None:
    async def work() -> tuple[bool, bool]:
        task = asyncio.create_task(ends_of(api).fail(batch.JOB, api.objects[JOB_PATH], "Why", "message"))
        await asyncio.sleep(19)
        return task.done(), await task

    api = FakeApi(Answer(after=20))
    api.objects[JOB_PATH] = stored()
    assert run(work()) == (False, True)


def test_a_job_set_is_failed_only_if_it_is_unchanged_since_it_was_read_and_keeps_its_status() -> None:
    api, before = FakeApi(), {"type": "Failed", "status": "False"}
    stays = {"type": "StartupPolicyCompleted", "status": "True"}
    root = job_set(status={"restarts": 2, "conditions": [before, stays]})
    root["metadata"]["resourceVersion"] = "7"
    api.objects[SET_PATH] = root
    fail(api, JOB_SET, SET_PATH)
    (write,) = api.writes
    unless_changed, status = write.operations
    assert (write.path, unless_changed["value"]) == (f"{SET_PATH}/status", "7")
    assert (status["value"]["restarts"], status["value"]["terminalState"]) == (2, "Failed")
    assert [(condition["type"], condition["status"]) for condition in status["value"]["conditions"]] == [
        ("StartupPolicyCompleted", "True"),
        ("Failed", "True"),
    ]


def test_what_the_leader_fails_is_counted_by_its_reason() -> None:
    api = FakeApi()
    api.objects |= {JOB_PATH: stored(), SET_PATH: job_set()}
    api.objects[SET_PATH]["metadata"]["resourceVersion"] = "7"
    before = failed_by_the_leader("Why")
    assert fail(api, batch.JOB, JOB_PATH)
    assert failed_by_the_leader("Why") == before + 1
    fail(api, JOB_SET, SET_PATH)
    assert failed_by_the_leader("Why") == before + 2


def test_a_job_set_that_has_ended_is_left_alone() -> None:
    api = FakeApi()
    api.objects[SET_PATH] = job_set(status={"conditions": [{"type": "Completed", "status": "True"}]})
    fail(api, JOB_SET, SET_PATH)
    assert api.writes == []
