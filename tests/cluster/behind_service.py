"""The shipped manifests behind their Service, on a control plane of their own, for what is wrong with an installation.

The API server calls the endpoints of the Service, as in a real cluster. There are no controllers and no kubelet: the
test writes the endpoints and the pods, which stand for a server process on this machine.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.awaiting import until
from tests.cluster import binaries, control_plane
from tests.cluster.installation import (
    BASE,
    CONFIG_MAP,
    CONTROLLER_ACCOUNT,
    SERVICE_ACCOUNT,
    SYSTEM,
    as_service_account,
    built,
    kubeconfig_of,
)
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.nodes import own_node
from tests.cluster.processes import HarnessError, Processes
from tests.faults.direct import Address, Direct
from tests.faults.stage import controller_of
from webhook.kube.names import PROFILE

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "retry-policy-webhook"
TEAM = "ml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = tuple(f"{ADMISSION}/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating"))
WITHIN = f"/namespaces/{SYSTEM}"
PODS = f"/api/v1{WITHIN}/pods"
SLICES = f"/apis/discovery.k8s.io/v1{WITHIN}/endpointslices"
SLICE = f"{SLICES}/{NAME}-test"
DEPLOYMENTS = f"/apis/apps/v1{WITHIN}/deployments"
QUOTA = f"/api/v1{WITHIN}/resourcequotas/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1{WITHIN}/leases/{NAME}-ledger"
NAMESPACE = f"/api/v1/namespaces/{TEAM}"
READY = [{"type": "Ready", "status": "True"}]


@dataclass(slots=True)
class Cluster:
    """A control plane with the shipped manifests, two pods that are ready, and an opted-in namespace."""

    folder: Path
    processes: Processes
    kubectl: Kubectl
    api: Direct
    host: str
    shipped: list[Object]
    servers: list[str] = field(default_factory=list)

    def start_server(self, *options: str, program: tuple[str, ...] = (), controlled: tuple[str, ...] = ()) -> None:
        """Start a webhook as a replica, which is the only endpoint of the Service then, and a controller.

        `controlled`: options of the controller.
        """
        name = f"server-{len(self.servers)}"
        self.servers.append(name)
        answer = self.folder / f"{name}.json"
        command = program or (str(Path(sys.executable).with_name("retry-policy")),)
        both = (f"--policy-configmap={CONFIG_MAP}", f"--host={self.host}", "--health-port=0")
        accounts = {name: SERVICE_ACCOUNT, controller_of(name): CONTROLLER_ACCOUNT}
        own = {name: ("serve", "--port=0", *options), controller_of(name): ("control", *controlled)}
        for each, account in accounts.items():
            kubeconfig = kubeconfig_of(self.kubectl, self.folder, account)
            self.processes.start(
                each,
                [*command, *own[each], *both, f"--kubeconfig={kubeconfig}"],
                env={**os.environ, "POD_NAMESPACE": SYSTEM, "TMPDIR": str(self.folder)},
                stdout=self.folder / f"{each}.json",
            )
        self.processes.wait_until(lambda: answer.read_text().endswith("\n"), f"{name} to listen", log=name)
        self.route(urlsplit(json.loads(answer.read_text())["https"]).port or 0)

    def kill_server(self) -> None:
        """Kill both programs; the webhook stays an endpoint, and the Lease is released, as it would end later."""
        for name in (self.servers[-1], controller_of(self.servers[-1])):
            process = self.processes.running.pop(name)
            process.kill()
            process.wait()
        self.api.delete(LEASE)

    def route(self, port: int, *, ready: bool = True) -> None:
        """Write the only endpoint of the Service."""
        endpoint = {"addresses": [self.host], "conditions": {"ready": ready}}
        metadata = {"name": f"{NAME}-test", "labels": {"kubernetes.io/service-name": NAME}}
        ports = [{"name": "https", "protocol": "TCP", "port": port}]
        self.api.delete(SLICE)
        self.api.create(SLICES, {"metadata": metadata, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports})

    def label(self, **labels: str | None) -> None:
        """Set labels of this project on the namespace; None removes one."""
        keys = {f"retry-policy.dev/{key}": value for key, value in labels.items()}
        self.api.merge(NAMESPACE, {"metadata": {"labels": keys}})

    def trust(self, authority: bytes) -> None:
        """Write a CA into every caBundle."""
        bundle = base64.b64encode(authority).decode()
        for path in CONFIGURATIONS:
            number = len(self.api.get(path)["webhooks"])
            places = (f"/webhooks/{index}/clientConfig/caBundle" for index in range(number))
            self.api.edit(path, [{"op": "add", "path": place, "value": bundle} for place in places])

    def until_trusted(self) -> None:
        """Wait until the server has written every caBundle."""
        until(
            lambda: all(
                "caBundle" in hook["clientConfig"] for path in CONFIGURATIONS for hook in self.api.get(path)["webhooks"]
            )
        )

    def user(self, name: str, *roles: str) -> Path:
        """Return a kubeconfig of a new user, who has these ClusterRoles in the opted-in namespace, and no others."""
        self.kubectl.run("create", "serviceaccount", name, f"--namespace={TEAM}")
        for number, role in enumerate(roles):
            to = (f"--clusterrole={role}", f"--serviceaccount={TEAM}:{name}", f"--namespace={TEAM}")
            self.kubectl.run("create", "rolebinding", f"{name}-{number}", *to)
        token = self.kubectl.run("create", "token", name, f"--namespace={TEAM}")
        kubeconfig = as_service_account(self.kubectl)
        kubeconfig["users"][0]["user"] = {"token": token.stdout.strip()}
        file = self.folder / f"{name}.kubeconfig"
        file.write_text(json.dumps(kubeconfig))
        return file

    def install(self) -> None:
        """Apply the manifests, and write what controllers and kubelets would write."""
        self.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": self.shipped})
        self.api.merge(f"{QUOTA}/status", {"status": {"hard": {"pods": "20"}, "used": {"pods": "0"}}})
        for name in (SERVICE_ACCOUNT, CONTROLLER_ACCOUNT):
            deployment = f"{DEPLOYMENTS}/{name}"
            self.api.merge(f"{deployment}/status", {"status": {"replicas": 2, "readyReplicas": 2}})
            template = self.api.get(deployment)["spec"]["template"]
            for number in range(2):
                metadata = {**template["metadata"], "name": f"{name}-{number}"}
                self.api.create(PODS, {"metadata": metadata, "spec": template["spec"]})
                status = {"phase": "Running", "conditions": READY}
                self.api.merge(f"{PODS}/{name}-{number}/status", {"status": status})
        self.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM, "labels": {PROFILE: "default"}}})


def address() -> str:
    """Return an address of this machine that is not loopback, which no endpoint may have; raise HarnessError."""
    if host := os.environ.get("RETRY_POLICY_WEBHOOK_HOST"):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
        try:
            chosen.connect(("192.0.2.1", 9))  # sends nothing: the kernel only chooses the address
        except OSError:
            what = "this machine has only loopback addresses; name another with RETRY_POLICY_WEBHOOK_HOST"
            raise HarnessError(what) from None
        return str(chosen.getsockname()[0])


@contextmanager
def installed(folder: Path) -> Iterator[Cluster]:
    """Start a control plane with everything installed, and stop it at the end; no server runs yet."""
    processes = Processes(folder / "logs")
    processes.logs.mkdir()
    programs = binaries.build(binaries.own_cluster())
    try:
        # A Service's webhook is called at its endpoints: no kube-proxy serves the address of a Service.
        admin = control_plane.start_api(programs, processes, folder, "--enable-aggregator-routing")
        kubectl = Kubectl(programs["kubectl"], admin)
        api = Direct(Address.of(kubectl.kubeconfig))
        cluster = Cluster(folder, processes, kubectl, api, address(), built(kubectl, BASE))
        cluster.install()
        kubectl.create(own_node("spot-0", spot=True))
        yield cluster
    finally:
        processes.stop()
