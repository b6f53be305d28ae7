"""Which faults of nodes and devices explain a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from webhook.pods import pods
from webhook.pods.hardware import GONE, LONGEST, MOST_FACTS, fault_of_devices, fault_of_node, is_of_machine
from webhook.policy.model import Hardware

if TYPE_CHECKING:
    from webhook.objects.problem import Json

READY = ("Ready", "True", "KubeletReady")


def node(*conditions: tuple[str, str, str], taints: tuple[str, ...] = ()) -> Json:
    """Return a Node as it is decoded; conditions: type, status, reason."""
    return {
        "metadata": {"name": "a"},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {
            "conditions": [dict(zip(("type", "status", "reason"), one, strict=True)) for one in (READY, *conditions)]
        },
    }


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        (("KernelDeadlock", "True", "DockerHung"), "condition KernelDeadlock is True (DockerHung)"),
        (("GPUMissing", "True", "Missing"), "condition GPUMissing is True (Missing)"),
        (("XIDErrors", "True", ""), "condition XIDErrors is True"),
        (("NebiusGPUError", "True", ""), "condition NebiusGPUError is True"),
        (("GpuNvlinkWatch", "True", "Down"), "condition GpuNvlinkWatch is True (Down)"),
        (("AcceleratedHardwareReady", "False", "XID79"), "condition AcceleratedHardwareReady is False (XID79)"),
        (("AcceleratedHardwareReady", "True", "Fine"), ""),
        (("KernelDeadlock", "False", "Fine"), ""),
        (("KernelDeadlock", "Unknown", "Silent"), ""),
        (("MemoryPressure", "True", "KubeletHasInsufficientMemory"), ""),
        (("DiskPressure", "True", "KubeletHasDiskPressure"), ""),
        (("VMEventScheduled", "True", "Freeze"), ""),
        (("FrequentKubeletRestart", "True", "Often"), ""),
    ],
)
def test_a_condition_of_a_detector_is_a_fault_of_its_node(condition: tuple[str, str, str], fault: str) -> None:
    assert fault_of_node(node(condition), Hardware()) == fault


def test_a_node_that_is_gone_or_not_ready_has_a_fault_whatever_is_configured() -> None:
    only = Hardware(conditions=("Mine",), taints=())
    assert fault_of_node(None, only) == GONE
    unready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    assert fault_of_node(unready, only) == "condition Ready is Unknown (NodeStatusUnknown)"
    assert not fault_of_node(node(), only)


@pytest.mark.parametrize(
    ("created", "fault"), [("2026-01-01T00:01:00Z", ""), ("2026-01-01T00:01:01Z", GONE), ("soon", ""), (None, "")]
)
def test_a_node_that_was_created_after_the_end_of_a_pod_is_another_one(created: str | None, fault: str) -> None:
    found = node()
    found["metadata"]["creationTimestamp"] = created
    assert fault_of_node(found, Hardware(), "2026-01-01T00:01:00Z") == fault
    assert not fault_of_node(found, Hardware())


@pytest.mark.parametrize("condition", [("GPUMissing", "True", "Missing"), ("StorageReady", "False", "")])
def test_that_a_node_is_gone_or_not_ready_says_nothing_of_its_machine(condition: tuple[str, str, str]) -> None:
    assert is_of_machine(fault_of_node(node(condition), Hardware()))
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}}
    assert not is_of_machine(fault_of_node(unready, Hardware()))
    assert not is_of_machine(fault_of_node(None, Hardware()))


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        (node(("KernelDeadlock", "True", "Hung")), "condition KernelDeadlock is True (Hung)"),
        (node(taints=("node.kubernetes.io/out-of-service",)), "taint node.kubernetes.io/out-of-service"),
    ],
)
def test_a_fault_of_the_machine_that_stopped_its_kubelet_too_is_blamed(facts: Json, fault: str) -> None:
    facts["status"]["conditions"][0] = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    assert fault_of_node(facts, Hardware()) == fault


def test_a_taint_of_an_operator_is_a_fault_of_its_node() -> None:
    found = fault_of_node(node(taints=("spot", "node.kubernetes.io/out-of-service")), Hardware())
    assert found == "taint node.kubernetes.io/out-of-service"
    assert not fault_of_node(node(taints=("node.kubernetes.io/unschedulable",)), Hardware())


def test_conditions_and_taints_of_a_detector_of_ones_own_may_be_named() -> None:
    own = Hardware(conditions=("acme.com/*",), taints=("acme.com/broken-*",))
    assert fault_of_node(node(("acme.com/fan", "True", "")), own) == "condition acme.com/fan is True"
    assert fault_of_node(node(taints=("acme.com/broken-fan",)), own) == "taint acme.com/broken-fan"
    assert not fault_of_node(node(("KernelDeadlock", "True", "")), own)


def devices(*health: str) -> list[Any]:
    found = [{"resourceID": f"GPU-{number}", "health": one} for number, one in enumerate(health)]
    return [{"name": "main", "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": found}]}]


def test_a_failed_pod_says_which_of_its_devices_is_unhealthy() -> None:
    stored: Json = {
        "metadata": {"name": "a", "uid": "a"},
        "status": {"phase": "Failed", "containerStatuses": devices("Healthy", "Unhealthy")},
    }
    assert pods.read(stored).fault == "device GPU-1 of nvidia.com/gpu is unhealthy"
    assert not pods.read({**stored, "status": {**stored["status"], "phase": "Running"}}).fault
    assert not fault_of_devices(devices("Healthy", "Unknown"))


def test_a_fact_of_any_length_is_cut_and_only_the_first_ones_are_looked_at() -> None:
    long = [{"allocatedResourcesStatus": [{"name": "x" * 10_000, "resources": [{"health": "Unhealthy"}]}]}]
    assert len(fault_of_devices(long)) == LONGEST
    many = node(*[("Fine", "True", "")] * MOST_FACTS, ("KernelDeadlock", "True", ""))
    assert not fault_of_node(many, Hardware())


@pytest.mark.parametrize("empty", [{}, {"spec": None, "status": None}, {"status": {"conditions": None}}])
def test_a_node_that_says_nothing_has_no_fault(empty: Json) -> None:
    assert not fault_of_node(empty, Hardware())
