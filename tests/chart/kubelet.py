"""Stands in for the kubelet: each pod of the Deployment is a process on this machine, behind the balancer.

The real Deployment controller creates and deletes the pods, and the real scheduler places them on the node that this
module keeps alive. A process runs the container's arguments with the code of its image: a folder of sources. A pod is
ready when the balancer has made it an endpoint. Its process gets SIGTERM when it is deleted, and it is removed when the
process has ended.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import yaml

from tests.awaiting import LONGEST
from tests.chart.last_version import program
from tests.cluster.installation import SERVICE_ACCOUNT, SYSTEM

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Object
    from tests.cluster.processes import Processes
    from tests.faults.direct import Direct
    from tests.faults.program import Program

NODE = "stand-in"
PLACEMENT = {"kubernetes.io/hostname": NODE}  # the value nodeSelector of the chart
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ACCOUNT = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{SERVICE_ACCOUNT}"
HEARTBEAT = 10.0  # seconds
INTERVAL = 0.1
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "20"}
STARTED = ("PodScheduled", "PodReadyToStartContainers", "Initialized")
SERVING = ("ContainersReady", "Ready")
NO_PORTS = ("--port=0", "--health-port=0")  # free ones


@dataclass(eq=False)
class Container:
    """The process of a pod, and the file with the line that it prints when it listens."""

    process: subprocess.Popen[bytes]
    answer: Path
    listening: bool = False
    ready: bool = False
    terminating: bool = False


class Kubelet:
    """Runs pods while `until` waits; `sources`: the folder with the code of each image, by its tag."""

    def __init__(
        self, processes: Processes, api: Direct, balancer: Program, admin: Path, sources: Mapping[str, Path]
    ) -> None:
        self.processes = processes
        self.api = api
        self.balancer = balancer
        self.folder = admin.parent
        self.admin: Object = yaml.safe_load(admin.read_text())
        self.sources = sources
        self.containers: dict[str, Container] = {}  # by the name of the pod
        self.renewed = time.monotonic()
        self.register()

    def register(self) -> None:
        """Create the node, and its Lease, without which it becomes not ready."""
        metadata = {"name": NODE, "labels": {**PLACEMENT, "kubernetes.io/os": "linux"}}
        status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [condition("Ready")]}
        self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE}}
        self.api.create(LEASES, {**lease, "spec": renewal()})

    def until(self, holds: Callable[[], object]) -> None:
        """Run pods until a condition holds; fail if it does not hold in time."""
        deadline = time.monotonic() + LONGEST
        while not holds():
            assert time.monotonic() < deadline, f"the condition does not hold after {LONGEST:g} s"
            self.step()
            time.sleep(INTERVAL)

    def step(self) -> None:
        """Bring every process to the state that its pod wants, and every pod to the state of its process."""
        self.processes.check()
        if time.monotonic() - self.renewed > HEARTBEAT:
            self.renewed = time.monotonic()
            self.api.merge(f"{LEASES}/{NODE}", {"spec": renewal()})
        endpoints = self.balancer.ask("endpoints")
        pods = {pod["metadata"]["name"]: pod for pod in self.api.get(PODS)["items"]}
        for name, pod in pods.items():
            if pod["spec"].get("nodeName") == NODE:
                self.run(name, pod, in_balancer=name in endpoints)
        for name in self.containers.keys() - pods.keys():
            self.end(name)

    def run(self, name: str, pod: Object, *, in_balancer: bool) -> None:
        """Take the next step of one pod."""
        container = self.containers.get(name)
        if "deletionTimestamp" in pod["metadata"]:
            self.terminate(name, container)
        elif container is None:
            self.start(name, pod)
        elif not container.listening and container.answer.read_text().endswith("\n"):
            container.listening = True
            addresses = json.loads(container.answer.read_text())
            ports = [int(addresses[scheme].rpartition(":")[2]) for scheme in ("https", "http")]
            self.balancer.ask("add", name, *ports, container.process.pid)
            self.report(name, pod, ready=False)
        elif container.ready != in_balancer:
            container.ready = in_balancer
            self.report(name, pod, ready=in_balancer)

    def start(self, name: str, pod: Object) -> None:
        (spec,) = pod["spec"]["containers"]
        sources = self.sources[spec["image"].rpartition(":")[2]]
        empty_dir = self.folder / name
        empty_dir.mkdir()
        kubeconfig, answer = empty_dir / "kubeconfig", empty_dir / "answer"
        kubeconfig.write_text(json.dumps(self.with_token()))  # JSON is YAML too
        of_pod = {"POD_NAMESPACE": SYSTEM, "POD_NAME": name, "POD_UID": pod["metadata"]["uid"]}
        self.processes.start(
            name,
            [*program(sources), *spec["args"], f"--kubeconfig={kubeconfig}", *NO_PORTS],
            env={**os.environ, **of_pod, "TMPDIR": str(empty_dir)},
            stdout=answer,
        )
        self.containers[name] = Container(self.processes.running[name], answer)

    def with_token(self) -> Object:
        """Return a kubeconfig with a new token of the chart's ServiceAccount."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.api.call("POST", f"{ACCOUNT}/token", request)["status"]["token"]
        return {**self.admin, "users": [{**self.admin["users"][0], "user": {"token": token}}]}

    def report(self, name: str, pod: Object, *, ready: bool) -> None:
        """Write the status of a pod that runs."""
        (spec,) = pod["spec"]["containers"]
        running = {"ready": ready, "started": True, "state": {"running": {"startedAt": now()}}}
        container = {"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0, **running}
        conditions = [condition(one) for one in STARTED] + [condition(one, holds=ready) for one in SERVING]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container], "startTime": now()}
        self.api.merge(f"{PODS}/{name}/status", {"status": status})

    def terminate(self, name: str, container: Container | None) -> None:
        """Send SIGTERM to the process of a deleted pod; remove the pod once the process has ended."""
        if container is not None and not container.terminating:
            container.terminating = True
            if container.listening:
                self.balancer.ask("terminate", name)
            del self.processes.running[name]  # it may end at any time from now on
            container.process.send_signal(signal.SIGTERM)
        elif container is None or container.process.poll() is not None:
            self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def kill_all(self) -> None:
        """Kill every process at once; its pod is removed when it is deleted."""
        for name, container in self.containers.items():
            self.processes.running.pop(name, None)
            container.terminating = True
            container.process.kill()
            container.process.wait()

    def end(self, name: str) -> None:
        """Forget the process of a pod that no longer exists."""
        container = self.containers.pop(name)
        self.processes.running.pop(name, None)
        container.process.kill()
        container.process.wait()
        self.balancer.ask("remove", name)


def condition(kind: str, *, holds: bool = True) -> Object:
    return {"type": kind, "status": str(holds), "lastTransitionTime": now()}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def renewal() -> Object:
    """Return the spec of a Lease that has just been renewed."""
    time_now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": time_now}
