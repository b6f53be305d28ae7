"""Workflows of Argo, run by its workflow controller: bugs, disruptions, limits, accounts, requested retries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import disruptions
from tests.cluster.disruptions import place
from tests.cluster.objects import account, ended, is_running, last, noted
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import pool
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import run_retry
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.cluster.scenarios.conftest import NewScene, Scene

pytestmark = pytest.mark.systems

CONTAINER = {"name": "main", "image": "example.invalid/main", "command": ["train"]}
OF_WORKFLOW = "workflows.argoproj.io/workflow=train"
NODE = "workflows.argoproj.io/node-name"


def step(name: str, strategy: Object | None = None, does: dict[str, str] | None = None) -> Object:
    """Return a template of one container, beside which Argo adds its own; `does`: from `program`."""
    said = {} if strategy is None else {"retryStrategy": strategy}
    of_pods = {"annotations": {**program(container="main"), **(does or {})}}
    return {"name": name, "container": CONTAINER, "metadata": of_pods, **said}


def run(here: Scene, *templates: Object, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """Create a Workflow whose pods run on the nodes of a scene; its first template is the entrypoint."""
    on_nodes: Object = {}
    place(here.nodes, on_nodes)
    here.team.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": "train", "annotations": annotations or {}},
            "spec": {"entrypoint": templates[0]["name"], "templates": [*templates], **on_nodes, **spec},
        }
    )


def running(team: Namespace, *known: Object, of: str = "") -> Object:
    """Return the running pod of the Workflow, or of one of its nodes, as soon as there is one that is not known."""
    uids = {pod["metadata"]["uid"] for pod in known}

    def chosen(pods: list[Object]) -> list[Object]:
        new = [pod for pod in pods if is_running(pod) and pod["metadata"]["uid"] not in uids]
        return [pod for pod in new if of in {"", pod["metadata"]["annotations"][NODE]}]

    # The controller of lost pods waits for a minute after their node is gone.
    return chosen(team.wait_for_all("pods", chosen, selector=OF_WORKFLOW))[0]


def until(team: Namespace, holds: Callable[[Object], object]) -> Object:
    """Return the Workflow as soon as something holds of it."""
    return team.wait_for("workflows", "train", lambda found: "status" in found and holds(found))


def phase(found: Object) -> str:
    return str(found["status"].get("phase"))


def node(found: Object, kind: str) -> Object:
    """Return the only node of a type."""
    (one,) = [one for one in found["status"]["nodes"].values() if one["type"] == kind]
    return dict(one)


def test_a_bug_fails_a_step_at_once(scene: NewScene) -> None:
    here = scene()
    run(here, step("main", {"limit": 3}, program(1)))
    found = until(here.team, lambda found: phase(found) == "Failed" and ended(found, 1))
    assert node(found, "Retry")["message"] == "retryStrategy.expression evaluated to false"
    assert node(found, "Pod")["message"] == "main: Error (exit code 1)"
    assert account(found)["cost"] == {"fatal": 1}


def test_a_bug_is_not_retried_by_the_steps_around_it_either(scene: NewScene) -> None:
    here = scene()
    steps = {"name": "all", "steps": [[{"name": "train", "template": "main"}]]}
    run(here, steps, step("main", does=program(1)), retryStrategy={"limit": 3})
    found = until(here.team, lambda found: phase(found) == "Failed" and ended(found, 1))
    assert len([one for one in found["status"]["nodes"].values() if one["type"] == "Pod"]) == 1


def test_only_retriable_exit_codes_are_retried_and_the_last_attempt_runs_on_demand(scene: NewScene) -> None:
    here = scene("costs")
    run(here, step("main", {"limit": 2}, program(75, 75, 75, 0)))
    until(here.team, lambda found: phase(found) == "Failed")
    pods = here.team.wait_for_all("pods", lambda pods: len(pods) == 3, selector=OF_WORKFLOW)
    assert [pool(pod) for pod in pods] == ["spot", "spot", "on-demand"]


@pytest.mark.parametrize("how", ["evict", "taint", pytest.param("delete", marks=pytest.mark.first), "preempt"])
def test_disruptions_cost_no_retry(scene: NewScene, how: str) -> None:
    here = scene(spot=4)
    run(here, step("main", {"limit": 1}, program(at_sigterm=143)), podSpecPatch=REQUESTS)
    known: list[Object] = []
    for _ in range(3):
        pod = running(here.team, *known)
        known.append(pod)
        match how:
            case "evict":
                here.team.evict(pod["metadata"]["name"])
            case "taint":
                disruptions.taint(here.kubectl, pod["spec"]["nodeName"])
            case "delete":
                disruptions.delete(here.kubectl, pod["spec"]["nodeName"])
            case "preempt":
                disruptions.preempt(here.kubectl, here.team, pod)
    here.team.ends(running(here.team, *known), 0)
    found = until(here.team, lambda found: phase(found) == "Succeeded" and ended(found, 3))
    assert account(found)["cost"] == {"disruption": 3}


REQUESTS = '{"containers": [{"name": "main", "resources": {"requests": {"cpu": "30"}}}]}'


def test_after_as_many_disruptions_as_allowed_the_next_attempt_runs_on_demand(scene: NewScene) -> None:
    here = scene("limited")
    run(here, step("main", {"limit": 3}))
    first = running(here.team)
    assert pool(first) == "spot"
    here.team.evict(first["metadata"]["name"])
    second = running(here.team, first)
    assert pool(second) == "on-demand"
    assert noted(second)["attempt"] == "0"
    found = until(here.team, lambda found: ended(found, 1))
    assert last(found)[0][0] == "Disruption"


def test_a_workflow_with_more_disruptions_than_allowed_is_stopped_where_the_profile_says_so(scene: NewScene) -> None:
    here = scene("fail")
    run(here, step("main", {"limit": 3}))
    first = running(here.team)
    here.team.evict(first["metadata"]["name"])
    second = running(here.team, first)
    here.team.evict(second["metadata"]["name"])
    found = until(here.team, lambda found: phase(found) == "Failed")
    assert found["spec"]["shutdown"] == "Stop"


def test_a_workflow_with_more_disruptions_than_allowed_is_suspended_where_the_profile_says_so(scene: NewScene) -> None:
    here = scene("suspend")
    run(here, step("main", {"limit": 3}))
    first = running(here.team)
    here.team.evict(first["metadata"]["name"])
    second = running(here.team, first)
    here.team.evict(second["metadata"]["name"])
    assert until(here.team, lambda found: found["spec"].get("suspend"))


def test_explain_shows_what_each_step_has_spent(scene: NewScene) -> None:
    here = scene("costs")
    tasks = [{"name": "fit", "template": "fit"}, {"name": "score", "template": "fit"}]
    run(here, {"name": "all", "dag": {"tasks": tasks}}, step("fit", {"limit": 3}))
    fit = running(here.team, of="train.fit(0)")
    here.team.ends(fit, 3)
    here.team.evict(running(here.team, fit, of="train.fit(1)")["metadata"]["name"])
    here.team.evict(running(here.team, of="train.score(0)")["metadata"]["name"])
    until(here.team, lambda found: ended(found, 3))
    explanation = explained(here.team, "workflow/train")
    assert explanation["budgets"] == [
        "step fit: 1 of 3 retries spent, 1 disruption",
        "step score: 0 of 3 retries spent, 1 disruption",
    ]
    ends = [(row["unit"], row["attempt"], row["cost"]) for row in explanation["rows"] if row["cost"]]
    assert sorted(ends) == [("fit", 0, "retry"), ("fit", 1, "disruption"), ("score", 0, "disruption")]


def test_a_requested_retry_runs_only_the_failed_step_again_and_what_comes_after_it(scene: NewScene) -> None:
    here = scene()
    tasks = [
        {"name": "fetch", "template": "fetch"},
        {"name": "fit", "template": "fit", "dependencies": ["fetch"]},
        {"name": "report", "template": "fetch", "dependencies": ["fit"]},
    ]
    run(
        here,
        {"name": "all", "dag": {"tasks": tasks}},
        step("fetch", does=program(0)),
        step("fit", {"limit": 2}),
        annotations={names.RETRYABLE: "true"},
    )
    first = running(here.team, of="train.fit(0)")
    here.team.ends(first, 1)
    failed = until(here.team, lambda found: phase(found) == "Failed" and ended(found, 1))
    code, out, err = run_retry(here.team, "workflow/train", "--yes")
    assert (code, err) == (0, ""), (out, err)
    here.team.ends(running(here.team, first, of="train.fit(0)"), 0)
    done = until(here.team, lambda found: phase(found) == "Succeeded")
    assert done["metadata"]["uid"] == failed["metadata"]["uid"]
    assert account(done)["cost"] == {"fatal": 1}
    pods = [pod["metadata"]["annotations"][NODE] for pod in here.team.get("pods", f"--selector={OF_WORKFLOW}")["items"]]
    assert sorted(pods) == ["train.fetch", "train.fit(0)", "train.report"]


def test_the_leader_runs_a_retry_that_an_annotation_requests(scene: NewScene) -> None:
    here = scene()
    run(here, step("main", {"limit": 1}), annotations={names.RETRYABLE: "true"})
    first = running(here.team)
    here.team.ends(first, 1)
    until(here.team, lambda found: phase(found) == "Failed" and ended(found, 1))
    asked = here.team.run("annotate", "workflow", "train", f"{names.RETRY_REQUESTED_AT}={now()}")
    assert asked.returncode == 0, asked.stderr
    here.team.ends(running(here.team, first), 0)
    until(here.team, lambda found: phase(found) == "Succeeded")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
