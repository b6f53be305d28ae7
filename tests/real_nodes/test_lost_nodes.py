"""Nodes whose kubelet is gone: their pods are replaced, although nobody can say that they have ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.conftest import opted_in
from tests.cluster.objects import account, condition, ended, last
from tests.real_nodes.workloads import FOR_EVER, UNTIL_SIGTERM, job, preferring, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl

LOGS = Path(os.environ.get("RETRY_POLICY_TEST_LOGS", "."))
GONE = "node.kubernetes.io/unreachable"


def test_a_job_whose_node_is_unreachable_gets_another_pod(
    namespace: NewNamespace, programs: dict[str, dict[str, int]]
) -> None:
    team = opted_in(namespace)
    pod = preferring("lost")
    pod["tolerations"].append({"key": GONE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10})
    team.create(job(FOR_EVER, backoffLimit=2, pod=pod))
    before = running(team)
    assert before["spec"]["nodeName"] == "lost"
    for pid in programs["lost"].values():
        os.kill(pid, signal.SIGKILL)
    assert running(team, but=before)["spec"]["nodeName"] != "lost"
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "DeletionByTaintManager", "disruption")]
    stays = team.get("pod", before["metadata"]["name"])
    assert (stays["status"]["phase"], stays["status"]["reason"]) == ("Failed", "NodeLost")


def test_a_node_that_is_shut_down_in_order_costs_a_disruption_however_the_pod_ends(
    namespace: NewNamespace, programs: dict[str, dict[str, int]]
) -> None:
    team = opted_in(namespace)
    scripts = {"train": FOR_EVER, "stops": UNTIL_SIGTERM}
    for name, script in scripts.items():
        team.create(job(script, name, backoffLimit=2, pod=preferring("shut-down")))
    before = {name: running(team, name) for name in scripts}
    assert {pod["spec"]["nodeName"] for pod in before.values()} == {"shut-down"}
    os.kill(programs["shut-down"]["logind-shut-down"], signal.SIGUSR1)
    for name, pod in before.items():
        assert running(team, name, but=pod)["spec"]["nodeName"] != "shut-down"
        found = team.wait_for("jobs", name, lambda one: ended(one, 1))
        assert last(found) == [("Disruption", "TerminationByKubelet", "disruption")]


def test_a_pod_whose_node_is_deleted_is_replaced_after_the_garbage_collection_of_pods(
    namespace: NewNamespace, kubectl: Kubectl, programs: dict[str, dict[str, int]]
) -> None:
    team = opted_in(namespace)
    team.create(job(FOR_EVER, backoffLimit=2, pod=preferring("deleted")))
    team.create(job(FOR_EVER, "evicted", backoffLimit=2, pod=preferring("deleted")))
    before, evicted = running(team), running(team, "evicted")
    for pid in programs["deleted"].values():
        os.kill(pid, signal.SIGKILL)
    team.evict(evicted["metadata"]["name"])
    assert kubectl.run("delete", "node", "deleted").returncode == 0
    running(team, but=before)
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "DeletionByPodGC", "disruption")]
    found = team.wait_for("jobs", "evicted", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "EvictionByEvictionAPI", "disruption")]


def test_a_containerd_and_a_kubelet_that_start_again_cost_nothing(
    namespace: NewNamespace, programs: dict[str, dict[str, int]]
) -> None:
    team = opted_in(namespace)
    team.create(job("sleep 20", backoffLimit=2, pod=preferring("restarted")))
    assert running(team)["spec"]["nodeName"] == "restarted"
    kubelet, containerd = programs["restarted"].values()
    with started_again(containerd, LOGS / "containerd-restarted.log"):
        until(lambda: answers("/run/restarted.sock"))
        with started_again(kubelet, LOGS / "kubelet-restarted.log"):
            found = team.wait_for("jobs", "train", lambda one: condition(one, "Complete"))
    assert account(found).get("cost", {}) == {}


@contextmanager
def started_again(pid: int, log: Path) -> Iterator[None]:
    """Kill a program and start it with the same command; end it after the block."""
    words, variables = (Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")[:-1] for name in ("cmdline", "environ"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) == 1)  # each of its threads holds its sockets
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    environment = {name: value for name, _, value in (one.partition(b"=") for one in variables)}
    with log.open("ab") as output, subprocess.Popen(words, env=environment, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.kill()


def answers(path: str) -> bool:
    """Return True if a program listens on a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0
