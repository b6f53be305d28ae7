"""Tekton's real controllers: what the end of a TaskRun's pod costs there, and how the leader stops a bug's retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import disruptions
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.disruptions import own_nodes, place
from tests.cluster.objects import account, ended, is_running, last, noted
from tests.cluster.scenarios.conftest import program
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import run_retry
from tests.cluster.test_retry_pipeline_runs import end_tasks, pipeline_run, succeeded_is, task
from webhook.kube import names
from webhook.systems.tekton.rerun import succeeded_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

SUCCEEDS = program(0)


def task_that(name: str, *after: str, does: dict[str, str] | None = None, **more: Any) -> Object:
    """Return a task whose pods end as `does` says, by `program`."""
    found = task(name, *after, **more)
    found["taskSpec"] = {**found["taskSpec"], "metadata": {"annotations": does or {}}}
    return found


def task_run_of(team: Namespace, name: str) -> Object:
    return team.get("taskrun", f"build-{name}")


def attempts_of(task_run: Object) -> list[str]:
    """Return the pods of the attempts that Tekton has recorded and retried."""
    return [one["podName"] for one in task_run["status"].get("retriesStatus") or ()]


def reason_of(run: Object) -> str:
    return words_of(run).partition(":")[0]


def test_a_bug_cancels_its_task_at_once_and_finally_runs(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    bug = task_that("a", does=program(42), retries=3)
    team.create(pipeline_run(bug, task("b", "a"), last=(task_that("notify", does=SUCCEEDS),)))
    run = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    assert words_of(run) == "Cancelled: Tasks Completed: 2 (Failed: 0, Cancelled 1), Skipped: 1"
    assert [one["name"] for one in run["status"]["skippedTasks"]] == ["b"]
    assert succeeded_of(task_run_of(team, "notify")) == "True"
    cancelled = task_run_of(team, "a")
    assert words_of(cancelled) == (
        'TaskRunCancelled: TaskRun "build-a" was cancelled. retry-policy.dev: '
        f"Container step-main for pod {team.name}/build-a-pod failed with exit code 42"
    )
    assert attempts_of(cancelled) == ["build-a-pod"]
    pod = team.get("pod", "build-a-pod")  # with its logs
    assert pod["status"]["phase"] == "Failed"
    run = team.wait_for("pipelineruns", "build", lambda found: account(found)["cost"].get("fatal"))
    assert ("ExitCode", "step-main 42", "fatal") in last(run)
    assert account(run)["cost"].get("retry", 0) == 0


def test_a_task_without_retries_fails_as_tekton_says(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    ignored = task_that("ignored", does=program(42), onError="continue")
    team.create(pipeline_run(ignored, task_that("a", "ignored", does=program(42))))
    run = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("False")(found) and ended(found, 2))
    assert words_of(run) == "Failed: Tasks Completed: 2 (Failed: 2 (Ignored: 1), Cancelled 0), Skipped: 0"
    assert [cost for _, _, cost in last(run)] == ["fatal", "fatal"]


def test_a_retriable_exit_code_is_retried_and_the_last_attempt_runs_on_demand(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task_that("a", does=program(143, 143, 0), retries=2)))
    run = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("True")(found) and ended(found, 2))
    assert last(run) == [("ExitCode", "step-main 143", "retry")] * 2
    pods = [team.get("pod", name) for name in ("build-a-pod", "build-a-pod-retry1", "build-a-pod-retry2")]
    assert [noted(pod)["placement"] for pod in pods] == ["Spot", "Spot", "OnDemand"]
    explanation = explained(team, "build")
    assert explanation["budgets"] == ["task a: 2 of 2 retries spent"]
    assert [(row["attempt"], row["unit"], row["cost"]) for row in explanation["rows"]] == [
        (0, "a", "retry"),
        (1, "a", "retry"),
        (2, "a", "none"),
    ]


def kill(team: Namespace, pod: str) -> None:
    """Remove a pod at once, before its containers have ended."""
    team.delete(f"pod/{pod}", gracePeriodSeconds="0")


def evict_and_kill(team: Namespace, pod: str) -> None:
    """Evict a pod whose program ignores SIGTERM, and remove it before that ends."""
    team.evict(pod)
    kill(team, pod)


def shut_down(team: Namespace, pod: str) -> None:
    """Report what a kubelet does that evicts a pod."""
    path = f"api/v1/namespaces/{team.name}/pods/{pod}/status"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    status = {"phase": "Failed", "reason": "Evicted", "conditions": [condition]}
    answer = team.api.send("PATCH", path, {"status": status}, patch="application/strategic-merge-patch+json")
    assert answer["kind"] == "Pod", answer


@pytest.mark.parametrize(
    ("end", "expected", "next_pod"),
    [
        (shut_down, ("Disruption", "TerminationByKubelet", "retry"), "build-a-pod-retry1"),
        (evict_and_kill, ("Disruption", "EvictionByEvictionAPI", "disruption"), "build-a-pod"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_disruption_costs_a_retry_if_tekton_has_seen_its_pod_fail(
    namespace: NewNamespace, end: Callable[[Namespace, str], None], expected: tuple[str, str, str], next_pod: str
) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task_that("a", does=program(after=30), retries=3)))
    first = team.wait_for("pods", "build-a-pod", is_running)
    end(team, "build-a-pod")
    second = team.wait_for("pods", next_pod, lambda pod: is_running(pod) and pod["metadata"]["uid"] != uid_of(first))
    run = team.wait_for("pipelineruns", "build", lambda found: ended(found, 1))
    assert last(run) == [expected]
    team.ends(second, 0)
    run = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert account(run)["ended"] == 1


def uid_of(found: Object) -> str:
    return str(found["metadata"]["uid"])


@pytest.mark.first
def test_a_node_that_is_gone_costs_a_retry(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = opted_in(namespace)
    with own_nodes(kubectl, spot=1) as nodes:
        manifest = pipeline_run(task("a", retries=3))
        place(nodes, manifest["spec"]["taskRunTemplate"]["podTemplate"])
        team.create(manifest)
        first = team.wait_for("pods", "build-a-pod", is_running)
        nodes.add()
        disruptions.delete(kubectl, first["spec"]["nodeName"])
        run = team.wait_for("pipelineruns", "build", lambda found: ended(found, 1))
        assert last(run) == [("Disruption", "DeletionByPodGC", "retry")]
        end_tasks(team, 0, "a")


def test_beyond_the_limit_of_disruptions_the_task_is_cancelled(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "fail")
    team.create(pipeline_run(task_that("a", does=program(after=30), retries=3)))
    known: set[str] = set()
    for _ in range(2):
        pod = team.wait_for("pods", "build-a-pod", lambda pod: is_running(pod) and uid_of(pod) not in known)
        known.add(uid_of(pod))
        evict_and_kill(team, "build-a-pod")
    run = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    assert reason_of(run) == "Cancelled"
    assert "disruption 2 exceeds the limit of 1" in words_of(task_run_of(team, "a"))
    assert attempts_of(task_run_of(team, "a")) == []


def test_each_combination_of_a_matrix_has_its_own_scope(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    many = task_that("many", retries=2, matrix={"params": [{"name": "platform", "value": ["linux", "mac"]}]})
    many["taskSpec"] = {**many["taskSpec"], "params": [{"name": "platform"}]}
    team.create(pipeline_run(many))
    for number, code in enumerate((143, 42)):
        team.ends(team.wait_for("pods", f"build-many-{number}-pod", is_running), code)
    team.ends(team.wait_for("pods", "build-many-0-pod-retry1", is_running), 0)
    run = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("False")(found) and is_fatal(found))
    costs = {one["scope"]: one["cost"] for one in account(run)["last"] if one["cause"] == "ExitCode"}
    assert costs == {"many/0": "retry", "many/1": "fatal"}
    assert succeeded_of(team.get("taskrun", "build-many-0")) == "True"


def test_a_task_run_that_no_pipeline_run_made_has_its_own_account(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    spec = task_that("alone")["taskSpec"]
    metadata = {"name": "alone", "annotations": program(143, 42)}
    run = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "metadata": metadata}
    steps = {"steps": spec["steps"]}
    team.create({**run, "spec": {"retries": 3, "taskSpec": steps, "podTemplate": pod_template()}})
    found = team.wait_for("taskruns", "alone", lambda found: succeeded_is("False")(found) and is_fatal(found))
    assert reason_of(found) == "TaskRunCancelled"
    assert attempts_of(found) == ["alone-pod", "alone-pod-retry1"]
    explanation = explained(team, "taskrun/alone")
    assert [(row["attempt"], row["cost"]) for row in explanation["rows"]][:2] == [(0, "retry"), (1, "fatal")]


def pod_template() -> Object:
    template: Object = pipeline_run()["spec"]["taskRunTemplate"]["podTemplate"]
    return template


def test_a_skipped_run_is_left_to_tekton(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    skipped = pipeline_run(task_that("a", does=program(42, 42), retries=1), annotations={names.SKIP: "true"})
    team.create(skipped)
    end_tasks(team, 42, "a")
    end_tasks(team, 42, "a")
    run = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    assert reason_of(run) == "Failed"
    assert attempts_of(task_run_of(team, "a")) == ["build-a-pod"]


def test_a_requested_retry_gives_new_budgets_and_keeps_the_counts(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task_that("a", does=program(42), retries=3)))
    first = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("False")(found) and is_fatal(found))
    code, _, complaints = run_retry(team, "pipelinerun/build", "--yes")
    assert (code, complaints) == (0, "")
    run = team.wait_for("pipelineruns", "build", lambda found: account(found)["cost"].get("fatal", 0) > 1)
    assert account(first)["cost"]["fatal"] == 1
    assert account(run)["before"]["fatal"] == 1
    explanation = explained(team, "build")
    assert len([row for row in explanation["rows"] if row["cost"] == "fatal"]) > 1


def is_fatal(run: Object) -> bool:
    return bool(account(run)["cost"].get("fatal"))
