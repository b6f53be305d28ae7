"""What a pod waits for, from its spec and its status."""

from typing import Any

import msgspec
import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods import pods
from webhook.pods.waiting import LONGEST_MESSAGE, Stalled, Waiting, waiting_of

CREATED = "2026-01-01T00:00:00Z"
SCHEDULED = "2026-01-01T00:01:00Z"
BEGAN = "2026-01-01T00:30:00Z"
OURS = {"name": names.DELAY}
KUEUES = {"name": "kueue.x-k8s.io/topology"}


def pending(*containers: Json, gates: tuple[Json, ...] = (), node: str = "spot-1", **status: Any) -> Json:
    """Return a pod that has not started, as the ledger decodes it; without a node no node takes it."""
    reason = {"status": "True"} if node else {"status": "False", "reason": "Unschedulable"}
    root = {
        "metadata": {"name": "train-1", "uid": "uid-1", "creationTimestamp": CREATED},
        "spec": {"nodeName": node, "schedulingGates": list(gates), "containers": []},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "lastTransitionTime": SCHEDULED, **reason}],
            "containerStatuses": list(containers),
            **status,
        },
    }
    found: Json = msgspec.json.decode(msgspec.json.encode(root), type=type_of(pods.READ))
    return found


def waits(reason: str = "ImagePullBackOff", name: str = "main", message: str = "", restarts: int = 0) -> Json:
    return {"name": name, "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": message}}}


def runs(name: str = "main") -> Json:
    return {"name": name, "restartCount": 0, "state": {"running": {"startedAt": BEGAN}}}


def ended(name: str = "main") -> Json:
    return {"name": name, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "finishedAt": BEGAN}}}


def stalled(root: Json) -> Stalled | None:
    found = waiting_of(root)
    return None if found is None else found.stalled


@pytest.mark.parametrize(("gates", "place"), [((OURS,), 0), ((KUEUES, OURS), 1), ((KUEUES,), None)])
def test_a_pod_with_gates_waits_for_them_alone(gates: tuple[Json, ...], place: int | None) -> None:
    assert waiting_of(pending(gates=gates, node="")) == Waiting(CREATED, place, gated=True)


def test_a_pod_that_no_node_takes_waits_since_the_scheduler_said_so() -> None:
    assert waiting_of(pending(node="")) == Waiting(CREATED, unschedulable=SCHEDULED)


def test_a_pod_about_which_the_scheduler_has_said_nothing_waits_for_nothing() -> None:
    assert waiting_of(pending(node="", conditions=[])) is None


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_pod_that_has_started_waits_for_nothing(phase: str) -> None:
    assert waiting_of(pending(waits(), phase=phase)) is None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_is_being_deleted_waits_for_its_kubelet(phase: str) -> None:
    root = pending(waits(), phase=phase)
    root["metadata"]["deletionTimestamp"] = SCHEDULED
    assert waiting_of(root) == Waiting(CREATED, deadline=SCHEDULED)


@pytest.mark.parametrize(("node", "phase"), [("", "Pending"), ("spot-1", "Failed"), ("spot-1", "Succeeded")])
def test_a_pod_that_is_being_deleted_waits_for_nothing_without_a_node_or_after_its_end(node: str, phase: str) -> None:
    root = pending(waits(), node=node, phase=phase)
    root["metadata"]["deletionTimestamp"] = SCHEDULED
    assert waiting_of(root) is None


def test_a_container_that_cannot_start_is_told_with_the_reason_of_the_kubelet() -> None:
    found = stalled(pending(waits("ErrImagePull", message="not found")))
    assert found == Stalled("main", "ErrImagePull", "not found", SCHEDULED, alone=True)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_until_a_container_has_begun_preparation_counts_because_a_volume_may_be_missing(reason: str) -> None:
    assert stalled(pending(waits(reason))) == Stalled("main", reason, "", SCHEDULED, alone=True)


def test_a_container_that_waits_for_a_running_init_container_is_in_order() -> None:
    assert waiting_of(pending(waits("PodInitializing"), initContainerStatuses=[runs("fetch")])) is None


def test_a_container_that_waits_for_the_next_init_container_is_in_order() -> None:
    first = [ended("fetch"), runs("unpack")]
    assert waiting_of(pending(waits("PodInitializing"), initContainerStatuses=first)) is None


def test_an_init_container_may_be_the_one_that_cannot_start() -> None:
    found = stalled(pending(waits("PodInitializing"), initContainerStatuses=[waits("InvalidImageName", "fetch")]))
    assert found == Stalled("fetch", "InvalidImageName", "", SCHEDULED, alone=True)


def test_after_its_init_containers_a_container_may_be_late_only_from_their_end_on() -> None:
    found = stalled(pending(waits(), initContainerStatuses=[ended("fetch")]))
    assert found == Stalled("main", "ImagePullBackOff", "", BEGAN, alone=True)


def test_a_container_beside_one_that_runs_is_not_alone() -> None:
    found = stalled(pending(runs(), waits(name="side")))
    assert found == Stalled("side", "ImagePullBackOff", "", SCHEDULED, alone=False)


def test_a_container_that_is_started_again_has_started() -> None:
    assert waiting_of(pending(waits("CrashLoopBackOff", restarts=2))) is None


def test_a_long_message_of_the_kubelet_is_cut() -> None:
    found = stalled(pending(waits(message="x" * 10_000)))
    assert found is not None
    assert len(found.message) == LONGEST_MESSAGE
