"""`retry-policy retry` of PipelineRuns, with Tekton's real controllers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.cluster.conftest import with_operators
from tests.cluster.nodes import PLACEMENT
from tests.cluster.objects import is_running
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import CrashingApi, retry_all_despite_crashes, run_retry
from webhook.kube import names
from webhook.kube.client import Api
from webhook.retry import executor, record
from webhook.retry.reading import RefusedError
from webhook.systems.tekton.rerun import ADAPTER, TASK, run_of, succeeded_of
from webhook.systems.tekton.spec import PIPELINE_RUN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

WRITES = 4  # of a retry, at least
CRASHING_RUNS = 2 * WRITES  # PipelineRuns that are retried despite crashes

STEP = {"name": "main", "image": "example.invalid/main", "command": ["main"]}


def task(name: str, *after: str, **more: Any) -> Object:
    return {"name": name, "runAfter": list(after), "taskSpec": {"steps": [STEP]}, **more}


def pipeline_run(
    *tasks: Object, last: tuple[Object, ...] = (), annotations: Object | None = None, name: str = "build"
) -> Object:
    """Return a PipelineRun of these tasks, with `last` as its `finally`; their pods run until `end_tasks`."""
    said = {names.RETRYABLE: "true"} if annotations is None else annotations
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {"name": name, "annotations": said},
        "spec": {
            "pipelineSpec": {"tasks": list(tasks), "finally": list(last)},
            "taskRunTemplate": {"podTemplate": dict(PLACEMENT)},
        },
    }


def end_tasks(team: Namespace, code: int, *tasks: str) -> None:
    """Let the pods of tasks end, as soon as they run."""
    for name in tasks:
        chosen = f"{TASK}={name}"
        pods = team.wait_for_all("pods", lambda pods: any(map(is_running, pods)), selector=chosen)
        team.all_end([pod for pod in pods if is_running(pod)], code)


def succeeded_is(status: str) -> Callable[[Object], bool]:
    """Return a check of the condition Succeeded: "True", "False" or "Unknown"."""
    return lambda found: succeeded_of(found) == status


def task_runs(team: Namespace) -> dict[str, str]:
    """Return the uid of each TaskRun, by its name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in team.get("taskruns")["items"]}


def test_only_failed_tasks_and_those_after_them_run_again(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pipeline_run(task("a"), task("b", "a"), task("c", "b"), last=(task("notify"),)))
    end_tasks(team, 0, "a")
    end_tasks(team, 1, "b")
    end_tasks(team, 0, "notify")
    before = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)
    code, printed, complaints = run_retry(team, "pipelinerun/build", "--yes")
    assert (code, complaints) == (0, "")
    assert printed == f"PipelineRun {team.name}/build: b, notify and what has not run yet will run again"
    end_tasks(team, 0, "b", "c", "notify")
    after = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    now = task_runs(team)
    assert now["build-a"] == old_uids["build-a"]
    assert {name for name, uid in now.items() if old_uids.get(name) != uid} == {"build-b", "build-c", "build-notify"}
    (entry,) = record.read(after)
    assert (entry.by, entry.of) == ("admin", run_of(before))
    explanation = explained(team, "build")
    assert explanation["state"].startswith("Succeeded: Tasks Completed: 4")
    rows = {row["unit"]: row["ended"] for row in explanation["rows"]}
    assert rows == dict.fromkeys(("a", "b", "c", "notify"), "succeeded")
    (asked_for,) = explanation["requested"]
    assert asked_for["by"] == "admin"
    assert asked_for["ended"][0].startswith("b: Failed: ")


def test_with_keep_finally_succeeded_finally_tasks_do_not_run_again(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pipeline_run(task("a"), last=(task("notify"),)))
    end_tasks(team, 1, "a")
    end_tasks(team, 0, "notify")
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)
    assert run_retry(team, "pipelinerun/build", "--yes", "--keep-finally")[0] == 0
    end_tasks(team, 0, "a")
    team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert task_runs(team)["build-notify"] == old_uids["build-notify"]


def test_a_cancelled_pipeline_run_can_be_retried(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pipeline_run(task("a"), task("b", "a"), task("c", "b")))
    end_tasks(team, 0, "a")
    team.wait_for_all("pods", lambda pods: any(map(is_running, pods)), selector=f"{TASK}=b")
    assert (
        team.run("patch", "pipelinerun/build", "--type=merge", '--patch={"spec":{"status":"Cancelled"}}').returncode
        == 0
    )
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)
    assert run_retry(team, "pipelinerun/build", "--yes")[::2] == (0, "")
    end_tasks(team, 0, "b", "c")
    after = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert "status" not in after["spec"]
    assert task_runs(team)["build-a"] == old_uids["build-a"]


def test_all_combinations_of_a_matrix_run_again_and_skipped_tasks_are_evaluated_again(namespace: NewNamespace) -> None:
    team = namespace()
    matrix = {"params": [{"name": "platform", "value": ["linux", "mac"]}]}
    never = {"when": [{"input": "a", "operator": "in", "values": ["b"]}]}
    many = task("many", "a", matrix=matrix)
    many["taskSpec"] = {"params": [{"name": "platform"}], **many["taskSpec"]}
    team.create(pipeline_run(task("a"), many, task("never", "a", **never)))
    end_tasks(team, 0, "a")
    chosen = f"{TASK}=many"
    one, other = team.wait_for_all("pods", lambda pods: len(pods) == 2 and all(map(is_running, pods)), selector=chosen)
    team.ends(one, 0)
    team.ends(other, 1)
    before = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)
    assert [one["name"] for one in before["status"]["skippedTasks"]] == ["never"]
    assert run_retry(team, "pipelinerun/build", "--yes")[0] == 0
    again = team.wait_for_all("pods", lambda pods: len(pods) == 2 and all(map(is_running, pods)), selector=chosen)
    team.all_end(again, 0)
    after = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert [one["name"] for one in after["status"]["skippedTasks"]] == ["never"]
    now = task_runs(team)
    assert {name for name, uid in now.items() if old_uids.get(name) != uid} == {"build-many-0", "build-many-1"}


async def retry_pipeline_run(api: CrashingApi, before: Object, crashed: int) -> None:
    """Start the retry of a PipelineRun like the command; after a crash it may be running already."""
    found = await api.get(PIPELINE_RUN.path(before["metadata"]["namespace"], before["metadata"]["name"]))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        await executor.rerun(api, ADAPTER, found, "somebody", when)
    except RefusedError as error:
        if not crashed or "has not ended" not in str(error):
            raise


def test_after_a_crash_between_any_two_steps_a_pipeline_run_is_retried_exactly_once(namespace: NewNamespace) -> None:
    team = namespace()
    builds = [f"build-{number}" for number in range(CRASHING_RUNS)]
    for name in builds:
        team.create(pipeline_run(task("a"), task("b", "a"), name=name))
    for one, code in (("a", 0), ("b", 1)):
        pods = team.wait_for_all("pods", are_running(len(builds)), selector=f"{TASK}={one}")
        team.all_end(pods, code)
    before = team.wait_for_all("pipelineruns", lambda found: all(succeeded_is("False")(one) for one in found))
    old_uids = task_runs(team)
    crashed = asyncio.run(retry_all_despite_crashes(str(team.kubeconfig), WRITES, before, retry_pipeline_run))
    assert crashed > CRASHING_RUNS  # else the test has tried nothing
    again = team.wait_for_all("pods", are_running(len(builds)), selector=f"{TASK}=b")
    team.all_end(again, 0)
    after = team.wait_for_all("pipelineruns", lambda found: all(succeeded_is("True")(one) for one in found))
    assert {name for name, uid in task_runs(team).items() if old_uids.get(name) != uid} == {
        f"{one}-b" for one in builds
    }
    assert [len(record.read(one)) for one in after] == [1] * CRASHING_RUNS


class ApiOfStaleTekton(Api):
    """Stores in place of the first reset what Tekton makes of it while its cache still has the deleted TaskRuns."""

    ended: Object | None = None
    references: tuple[Object, ...] = ()
    later = ""

    async def replace(self, path: str, root: Object) -> Object:
        if self.ended is None:
            self.ended = {**root["status"], "childReferences": self.references}
            self.ended["conditions"] = [{"type": "Succeeded", "status": "False", "reason": "Failed"}]
            self.ended["completionTime"] = self.later
            root = {**root, "status": self.ended}
        return await super().replace(path, root)


def test_a_pipeline_run_that_tekton_ends_again_from_an_old_cache_is_retried(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pipeline_run(task("a"), task("b", "a")))
    end_tasks(team, 0, "a")
    end_tasks(team, 1, "b")
    before = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)

    async def retry() -> None:
        async with await ApiOfStaleTekton.connect(str(team.kubeconfig)) as api:
            api.references = before["status"]["childReferences"]
            later = datetime.fromisoformat(run_of(before)) + timedelta(seconds=1)
            api.later = later.strftime("%Y-%m-%dT%H:%M:%SZ")
            await executor.rerun(api, ADAPTER, before, "somebody", datetime.now(UTC).isoformat(timespec="seconds"))
            assert api.ended is not None

    asyncio.run(retry())
    end_tasks(team, 0, "b")
    after = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert {name for name, uid in task_runs(team).items() if old_uids[name] != uid} == {"build-b"}
    assert [(one.by, one.of) for one in record.read(after)] == [("somebody", run_of(before))]


def are_running(number: int) -> Callable[[list[Object]], bool]:
    return lambda pods: len(pods) == number and all(map(is_running, pods))


def test_a_retried_custom_task_is_run_by_its_own_controller(namespace: NewNamespace) -> None:
    team = namespace()
    approval = {"name": "approve", "taskRef": {"apiVersion": "example.test/v1", "kind": "Approval", "name": "x"}}
    team.create(pipeline_run(task("a"), approval))
    end_tasks(team, 0, "a")
    before = team.wait_for("customruns", "build-approve", bool)
    end_custom_task(team, "False")
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    assert run_retry(team, "pipelinerun/build", "--yes")[0] == 0
    team.wait_for("customruns", "build-approve", lambda found: found["metadata"]["uid"] != before["metadata"]["uid"])
    end_custom_task(team, "True")
    team.wait_for("pipelineruns", "build", succeeded_is("True"))


def end_custom_task(team: Namespace, succeeded: str) -> None:
    """Set the condition Succeeded of the custom task `approve`, like its controller."""
    condition = f'{{"type":"Succeeded","status":"{succeeded}","reason":"Said"}}'
    patch = f'--patch={{"status":{{"conditions":[{condition}]}}}}'
    done = team.run("patch", "customrun/build-approve", "--subresource=status", "--type=merge", patch)
    assert done.returncode == 0, done.stderr


def test_a_pipeline_run_that_is_not_retryable_is_refused_and_not_changed(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pipeline_run(task("a"), annotations={}))
    end_tasks(team, 1, "a")
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    before = team.get("pipelinerun", "build")
    code, printed, why = run_retry(team, "pipelinerun/build", "--yes")
    assert (code, printed) == (1, "")
    assert why.startswith(f"PipelineRun {team.name}/build does not say of a that it may run twice")
    assert team.get("pipelinerun", "build") == before
