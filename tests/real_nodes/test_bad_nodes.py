"""Nodes that reject or break pods: what a real kubelet says of them, and where the next pods run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.conftest import opted_in
from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.test_bad_nodes import avoided_by
from tests.cluster.scenarios.test_hardware import HARDWARE, breaks
from tests.real_nodes.workloads import container, job, on_node, preferring, running

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object

NODE = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
FAILS_THERE = container("[ $NODE != broken ] || { sleep 5; exit 1; }", env=[NODE])


def test_a_crash_on_a_node_with_a_fault_costs_no_retry_and_the_job_completes_elsewhere(
    namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = opted_in(namespace, "hardware")
    team.create(job(FAILS_THERE, backoffLimit=1, pod=preferring("broken")))
    assert running(team)["spec"]["nodeName"] == "broken"
    breaks(team.api, "broken")
    assert kubectl.run("cordon", "broken").returncode == 0
    done = team.wait_for("jobs", "train", lambda found: condition(found, "Complete") and ended(found, 1))
    assert (account(done)["cost"], account(done)["causes"]) == ({"disruption": 1}, {"Hardware": {HARDWARE: 1}})
    assert done["spec"]["backoffLimit"] == 2


def test_pods_prefer_other_nodes_than_one_whose_kubelet_has_rejected_three(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "bad-nodes")
    too_large = container("exit 0", resources={"requests": {"cpu": "100"}})
    team.create(job(too_large, "rejected", backoffLimit=5, pod=on_node("full")))
    counted = team.wait_for("jobs", "rejected", lambda found: ended(found, 3))
    assert {one["reason"] for one in account(counted)["last"]} == {"OutOfcpu"}
    others: list[Object] = []

    def is_avoided() -> bool:  # the webhook's watch may be later than the controller's
        team.create(job("exit 0", f"another-{len(others)}"))
        others.extend(team.pods_of(f"another-{len(others)}", bool))
        return "full" in avoided_by(others[-1])

    until(is_avoided)
