"""A node that rejects pods: the next pods of any workload prefer other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster.objects import is_running
from tests.cluster.scenarios.conftest import program

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene, Turn

PODS_OF_A_NIGHT = 554


def avoided_by(pod: Object) -> list[str]:
    """Return the nodes that a pod prefers not to run on."""
    terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    fields = [one for term in preferred for one in term["preference"].get("matchFields", [])]
    return [name for one in fields for name in one["values"]]


def reject(here: Scene, pod: Object, time: str) -> None:
    """Let the kubelet reject a pod."""
    status = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "containerStatuses": None,
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}],
    }
    path = f"api/v1/namespaces/{here.team.name}/pods/{pod['metadata']['name']}/status"
    answer = here.team.api.send("PATCH", path, {"status": status})
    assert answer["kind"] == "Pod", answer


def rejected(here: Scene, turn: Turn, number: int) -> str:
    """Let the kubelet of the only spot node reject the pods of so many Jobs; return the name of the node."""
    for one in range(number):
        here.create("one-small-pod.yaml", program(), name=f"rejected-{one}")
        (pod,) = here.team.running(f"rejected-{one}", 1)
        reject(here, pod, turn.time())
    return str(pod["spec"]["nodeName"])


def expect_avoided(here: Scene, node: str, reason: str, message: str) -> None:
    """Wait for an Event on the only node that begins so, add one, and wait until pods of other Jobs prefer that."""
    here.nodes.add()
    selector = f"involvedObject.name={node},reason={reason}"
    told: list[Object] = []
    others: list[Object] = []

    def is_told() -> bool:
        told.extend(here.team.api.list("api/v1/namespaces/default/events", fieldSelector=selector)["items"])
        return bool(told)

    def is_avoided() -> bool:  # the webhook's watch may be later than the controller's
        here.create("one-small-pod.yaml", program(), name=f"another-{len(others)}")
        others.extend(here.team.running(f"another-{len(others)}", 1))
        return node in avoided_by(others[-1])

    until(is_told)
    assert told[0]["message"].startswith(message)
    until(is_avoided)
    assert others[-1]["spec"]["nodeName"] != node


@pytest.mark.first
def test_after_three_rejected_pods_those_of_other_jobs_prefer_another_node_and_an_event_says_why(
    scene: NewScene, turn: Turn
) -> None:
    here = scene("bad-nodes", spot=1, on_demand=0)
    node = rejected(here, turn, 3)
    says = "has rejected pods 3 times in ten minutes (UnexpectedAdmissionError"
    expect_avoided(here, node, "RejectsPods", says)


@pytest.mark.parametrize("pods", [60, pytest.param(PODS_OF_A_NIGHT, marks=pytest.mark.long)])
def test_a_node_that_rejects_every_pod_of_a_night_gets_few_of_them(scene: NewScene, turn: Turn, pods: int) -> None:
    """Recorded (pytorch/ci-infra#1058): one such node, always the emptiest, took 554 pods in 106 minutes."""
    here = scene("bad-nodes", spot=4, on_demand=1)  # for the last attempt of a Job of which it takes two pods
    bad, path = here.nodes.nodes[0], f"api/v1/namespaces/{here.team.name}/pods"
    rejections: set[str] = set()
    is_avoided = False

    def ended(seen: list[Object]) -> int:
        """Let the pods end that run; return how many have succeeded."""
        for pod in filter(is_running, seen):
            if pod["spec"]["nodeName"] == bad:
                reject(here, pod, turn.time())
                rejections.add(pod["metadata"]["name"])
            else:
                here.team.ends(pod, 0)
        return sum(pod["status"].get("phase") == "Succeeded" for pod in seen)

    for number in range(pods):
        here.create("one-small-pod.yaml", program(), name=f"night-{number}")
        if not is_avoided:  # the recorded pods came one by one
            (pod,) = here.team.running(f"night-{number}", 1)
            is_avoided = bad in avoided_by(pod)
        ended(here.team.api.list(path, fieldSelector="status.phase=Running")["items"])
    here.team.wait_for_all("pods", lambda seen: ended(seen) == pods)
    assert 3 <= len(rejections) <= 5
