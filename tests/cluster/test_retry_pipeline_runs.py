"""`retry-policy retry` of PipelineRuns, with Tekton's real controllers."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.cluster.conftest import with_operators
from tests.cluster.nodes import PLACEMENT
from tests.cluster.objects import is_running
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import Crashing, asked, in_spite_of_crashes
from webhook.kinds.tekton import PIPELINE_RUN
from webhook.kube import names
from webhook.retry import executor, record
from webhook.retry.errors import RefusedError
from webhook.retry.kinds.pipeline_run import ADAPTER, TASK, run_of, succeeded_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

CRASHING_RUNS = 8

STEP = {"name": "main", "image": "example.invalid/main", "command": ["main"]}


def task(name: str, *after: str, **more: Any) -> Object:
    return {"name": name, "runAfter": list(after), "taskSpec": {"steps": [STEP]}, **more}


def run(
    *tasks: Object, last: tuple[Object, ...] = (), annotations: Object | None = None, name: str = "build"
) -> Object:
    """Return a PipelineRun of these tasks, with those of `finally`; their pods run until `ends`."""
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


def ends(team: Namespace, code: int, *tasks: str) -> None:
    """Let the pods of tasks end, as soon as they run."""
    for name in tasks:
        chosen = f"{TASK}={name}"
        pods = team.wait_for_all("pods", lambda pods: any(map(is_running, pods)), selector=chosen)
        team.all_end([pod for pod in pods if is_running(pod)], code)


def over(status: str) -> Callable[[Object], bool]:
    return lambda found: succeeded_of(found) == status


def task_runs(team: Namespace) -> dict[str, str]:
    """Return the uid of each TaskRun, by its name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in team.get("taskruns")["items"]}


def test_only_failed_tasks_and_those_after_them_run_again(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(run(task("a"), task("b", "a"), task("c", "b"), last=(task("notify"),)))
    ends(team, 0, "a")
    ends(team, 1, "b")
    ends(team, 0, "notify")
    before = team.wait_for("pipelineruns", "build", over("False"))
    were = task_runs(team)
    code, told, complaints = asked(team, "pipelinerun/build", "--yes")
    assert (code, complaints) == (0, "")
    assert told == f"PipelineRun {team.name}/build: b, notify and what has not run yet will run again"
    ends(team, 0, "b", "c", "notify")
    after = team.wait_for("pipelineruns", "build", over("True"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    now = task_runs(team)
    assert now["build-a"] == were["build-a"]
    assert {name for name, uid in now.items() if were.get(name) != uid} == {"build-b", "build-c", "build-notify"}
    (noted,) = record.read(after)
    assert (noted.by, noted.of) == ("admin", run_of(before))
    explanation = explained(team, "build")
    assert explanation["state"].startswith("Succeeded: Tasks Completed: 4")
    rows = {row["unit"]: row["ended"] for row in explanation["rows"]}
    assert rows == dict.fromkeys(("a", "b", "c", "notify"), "succeeded")
    (asked_for,) = explanation["requested"]
    assert asked_for["by"] == "admin"
    assert asked_for["ended"][0].startswith("b: Failed: ")


def test_with_keep_finally_succeeded_finally_tasks_do_not_run_again(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(run(task("a"), last=(task("notify"),)))
    ends(team, 1, "a")
    ends(team, 0, "notify")
    team.wait_for("pipelineruns", "build", over("False"))
    were = task_runs(team)
    assert asked(team, "pipelinerun/build", "--yes", "--keep-finally")[0] == 0
    ends(team, 0, "a")
    team.wait_for("pipelineruns", "build", over("True"))
    assert task_runs(team)["build-notify"] == were["build-notify"]


def test_a_cancelled_pipeline_run_can_be_retried(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(run(task("a"), task("b", "a"), task("c", "b")))
    ends(team, 0, "a")
    team.wait_for_all("pods", lambda pods: any(map(is_running, pods)), selector=f"{TASK}=b")
    assert (
        team.run("patch", "pipelinerun/build", "--type=merge", '--patch={"spec":{"status":"Cancelled"}}').returncode
        == 0
    )
    team.wait_for("pipelineruns", "build", over("False"))
    were = task_runs(team)
    assert asked(team, "pipelinerun/build", "--yes")[::2] == (0, "")
    ends(team, 0, "b", "c")
    after = team.wait_for("pipelineruns", "build", over("True"))
    assert "status" not in after["spec"]
    assert task_runs(team)["build-a"] == were["build-a"]


def test_all_combinations_of_a_matrix_run_again_and_skipped_tasks_are_evaluated_again(namespace: NewNamespace) -> None:
    team = namespace()
    matrix = {"params": [{"name": "platform", "value": ["linux", "mac"]}]}
    never = {"when": [{"input": "a", "operator": "in", "values": ["b"]}]}
    many = task("many", "a", matrix=matrix)
    many["taskSpec"] = {"params": [{"name": "platform"}], **many["taskSpec"]}
    team.create(run(task("a"), many, task("never", "a", **never)))
    ends(team, 0, "a")
    chosen = f"{TASK}=many"
    one, other = team.wait_for_all("pods", lambda pods: len(pods) == 2 and all(map(is_running, pods)), selector=chosen)
    team.ends(one, 0)
    team.ends(other, 1)
    before = team.wait_for("pipelineruns", "build", over("False"))
    were = task_runs(team)
    assert [one["name"] for one in before["status"]["skippedTasks"]] == ["never"]
    assert asked(team, "pipelinerun/build", "--yes")[0] == 0
    again = team.wait_for_all("pods", lambda pods: len(pods) == 2 and all(map(is_running, pods)), selector=chosen)
    team.all_end(again, 0)
    after = team.wait_for("pipelineruns", "build", over("True"))
    assert [one["name"] for one in after["status"]["skippedTasks"]] == ["never"]
    now = task_runs(team)
    assert {name for name, uid in now.items() if were.get(name) != uid} == {"build-many-0", "build-many-1"}


async def ask_for(api: Crashing, before: Object, crashed: int) -> None:
    """Request a retry like the command; after a crash it may be running already."""
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
        team.create(run(task("a"), task("b", "a"), name=name))
    for one, code in (("a", 0), ("b", 1)):
        pods = team.wait_for_all("pods", all_run(len(builds)), selector=f"{TASK}={one}")
        team.all_end(pods, code)
    before = team.wait_for_all("pipelineruns", lambda found: all(over("False")(one) for one in found))
    were = task_runs(team)
    crashes = random.Random(7)  # noqa: S311 - not a secret

    async def all_of_them() -> list[int]:
        async def one(root: Object) -> int:
            return await in_spite_of_crashes(
                str(team.kubeconfig), crashes, 5, lambda api, number: ask_for(api, root, number)
            )

        return await asyncio.gather(*map(one, before))

    assert sum(asyncio.run(all_of_them())) > CRASHING_RUNS  # or nothing was tried
    again = team.wait_for_all("pods", all_run(len(builds)), selector=f"{TASK}=b")
    team.all_end(again, 0)
    after = team.wait_for_all("pipelineruns", lambda found: all(over("True")(one) for one in found))
    assert {name for name, uid in task_runs(team).items() if were.get(name) != uid} == {f"{one}-b" for one in builds}
    assert [len(record.read(one)) for one in after] == [1] * CRASHING_RUNS


def all_run(number: int) -> Callable[[list[Object]], bool]:
    return lambda pods: len(pods) == number and all(map(is_running, pods))


def test_a_retried_custom_task_is_run_by_its_own_controller(namespace: NewNamespace) -> None:
    team = namespace()
    approval = {"name": "approve", "taskRef": {"apiVersion": "example.test/v1", "kind": "Approval", "name": "x"}}
    team.create(run(task("a"), approval))
    ends(team, 0, "a")
    before = team.wait_for("customruns", "build-approve", bool)
    says(team, "False")
    team.wait_for("pipelineruns", "build", over("False"))
    assert asked(team, "pipelinerun/build", "--yes")[0] == 0
    team.wait_for("customruns", "build-approve", lambda found: found["metadata"]["uid"] != before["metadata"]["uid"])
    says(team, "True")
    team.wait_for("pipelineruns", "build", over("True"))


def says(team: Namespace, succeeded: str) -> None:
    """Write the status of custom tasks, like their controller."""
    condition = f'{{"type":"Succeeded","status":"{succeeded}","reason":"Said"}}'
    patch = f'--patch={{"status":{{"conditions":[{condition}]}}}}'
    done = team.run("patch", "customrun/build-approve", "--subresource=status", "--type=merge", patch)
    assert done.returncode == 0, done.stderr


def test_a_pipeline_run_that_is_not_retryable_is_refused_and_not_changed(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(run(task("a"), annotations={}))
    ends(team, 1, "a")
    team.wait_for("pipelineruns", "build", over("False"))
    before = team.get("pipelinerun", "build")
    code, told, why = asked(team, "pipelinerun/build", "--yes")
    assert (code, told) == (1, "")
    assert why.startswith(f"PipelineRun {team.name}/build does not say of a that it may run twice")
    assert team.get("pipelinerun", "build") == before
