"""The ledger of other kinds than Job and JobSet: Workflows whose pods the tests create, and Tekton's controller."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.conftest import WITH_SYSTEMS, opted_in, with_operators
from tests.cluster.manifests import pod_template
from tests.cluster.objects import account, disruptions, ended, last, noted
from tests.cluster.test_retry_pipeline_runs import pipeline_run, task
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = [
    with_operators,
    pytest.mark.skipif(WITH_SYSTEMS, reason="Argo's controller runs, and would also run these Workflows"),
]

WORKFLOWS = "workflows"
NODE = "workflows.argoproj.io/node-name"
TASK = "tekton.dev/pipelineTask"
EVICTED = ("Disruption", "EvictionByEvictionAPI")


def workflow(team: Namespace, retries: int = 3) -> Object:
    """Create a Workflow of one step, whose controller is the test."""
    step = {
        "name": "main",
        "retryStrategy": {"limit": retries},
        "container": {"image": "example.invalid/main"},
    }
    return team.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": "train"},
            "spec": {"entrypoint": "main", "templates": [step]},
        }
    )


def attempt(team: Namespace, owner: Object, number: int, node: str = "fit") -> Object:
    """Create the pod of an attempt of a node of a Workflow, and return it once it runs.

    Its container is Argo's own, whose failures cost a retry.
    """
    template = pod_template()
    template["spec"]["containers"][0]["name"] = "wait"
    metadata = owner["metadata"]
    reference: dict[str, Any] = {"apiVersion": owner["apiVersion"], "kind": "Workflow", "controller": True}
    name = f"train-{node}-{number}"
    team.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template.get("metadata", {}),
                "name": name,
                "annotations": {NODE: f"train.{node}({number})"},
                "ownerReferences": [{**reference, "name": metadata["name"], "uid": metadata["uid"]}],
            },
            "spec": {"restartPolicy": "Never", **template["spec"]},
        }
    )
    return team.wait_for("pods", name, lambda pod: pod.get("status", {}).get("phase") == "Running")


def is_set(field: str, found: Object) -> bool:
    """Return True if the spec of a workload has a field."""
    return field in found["spec"]


def counted(team: Namespace, number: int, kind: str = WORKFLOWS, name: str = "train") -> Object:
    """Return a workload once its account has counted so many pods."""
    return team.wait_for(kind, name, lambda found: ended(found, number))


def of_task(team: Namespace, number: int, name: str = "a") -> Object:
    """Return the pod of an attempt of a task, once it runs."""

    def is_there(pods: list[Object]) -> bool:
        return len(pods) >= number and pods[number - 1]["status"].get("phase") == "Running"

    return team.wait_for_all("pods", is_there, selector=f"{TASK}={name}")[number - 1]


def test_the_attempts_of_a_workflow_are_counted_by_node_and_the_last_disruption_leaves_spot(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "limited")
    owner = workflow(team)
    team.ends(attempt(team, owner, 0), 1)
    counted(team, 1)
    first = attempt(team, owner, 1)
    team.evict(first["metadata"]["name"])
    found = counted(team, 2)
    assert last(found) == [("ExitCode", "wait 1", "retry"), (*EVICTED, "disruption")]
    assert (account(found)["retries"], account(found)["units"]) == ({"1": "fit"}, {"1": "fit"})
    second, other = attempt(team, owner, 2), attempt(team, owner, 0, "score")
    assert (disruptions(first), noted(first)["placement"]) == ("0", "Spot")
    assert (disruptions(second), noted(second)["placement"]) == ("1", "OnDemand")
    assert disruptions(other) == "0"
    team.told("train", text="fit: pod train-fit-1")


def test_more_disruptions_than_allowed_end_a_workflow_or_suspend_it(namespace: NewNamespace) -> None:
    for profile, field, value in (("fail", "shutdown", "Stop"), ("suspend", "suspend", True)):
        team = opted_in(namespace, profile)
        owner = workflow(team)
        for number in range(2):
            team.evict(attempt(team, owner, number)["metadata"]["name"])
            counted(team, number + 1)
        stopped = team.wait_for(WORKFLOWS, "train", partial(is_set, field))
        assert stopped["spec"][field] == value
        until(partial(team.event_messages, "train", "DisruptionLimitExceeded"))


def test_a_deleted_pod_costs_nothing_once_its_workflow_is_told_to_end(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    owner = workflow(team)
    for number in range(2):
        name = attempt(team, owner, number)["metadata"]["name"]
        if number:
            team.patch(f"{WORKFLOWS}/train", {"spec": {"shutdown": "Terminate"}})
        team.delete(f"pod/{name}", gracePeriodSeconds="0")
        counted(team, number + 1)  # before the Workflow is told to end: what is deleted just before that costs nothing
    assert last(counted(team, 2)) == [("Other", "Deleted", "disruption"), ("Other", "Stopped", "none")]


def test_the_budgets_of_a_workflow_that_runs_are_not_begun_anew_by_users(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    owner = workflow(team)
    team.ends(attempt(team, owner, 0), 143)
    counted(team, 1)
    text = json.dumps([{"at": "2026-01-01T00:00:00Z", "by": "me", "of": "x"}])
    refused = team.patched(f"{WORKFLOWS}/train", {"metadata": {"annotations": {names.RETRY_HISTORY: text}}})
    assert "names me as requester" in refused
    assert names.RETRY_HISTORY not in team.get(WORKFLOWS, "train")["metadata"]["annotations"]


def test_a_user_cannot_change_by_what_a_pod_is_counted(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    pod = attempt(team, workflow(team), 0)["metadata"]["name"]
    for field, key in (("annotations", NODE), ("annotations", names.ATTEMPT), ("labels", names.PROFILE)):
        refused = team.patched(f"pod/{pod}", {"metadata": {field: {key: "7"}}})
        assert f"metadata.{field}[{key}]: " in refused


def test_a_pipeline_runs_account_has_its_tasks_and_the_next_pod_their_counts(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task("a", retries=3)))
    team.ends(of_task(team, 1), 143)
    found = counted(team, 1, "pipelineruns", "build")
    assert last(found) == [("ExitCode", "step-main 143", "retry")]
    assert account(found)["retries"] == {"1": "a"}
    assert noted(of_task(team, 2))["attempt"] == "1"


def test_a_bug_ends_a_task_that_has_retries_left(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task("a", retries=3)))
    team.ends(of_task(team, 1), 1)
    found = team.wait_for("pipelineruns", "build", lambda found: account(found).get("cost", {}).get("fatal"))
    assert last(found)[0] == ("ExitCode", "step-main 1", "fatal")
    assert "retry" not in {cost for _, _, cost in last(found)}
    team.told("build", "PodFailurePolicy")
    (run,) = team.get("taskruns")["items"]
    assert run["spec"]["status"] == "TaskRunCancelled"
