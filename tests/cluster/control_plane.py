"""A complete Kubernetes control plane on free ports of this machine, without a container engine."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.request import urlopen

from tests.cluster.binaries import kubernetes_version
from tests.cluster.credentials import Credentials
from tests.cluster.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.processes import Processes

HOST = "127.0.0.1"
# The default rate limits of controllers would make every test slower.
UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=2000")
# For MutatingAdmissionPolicy, which is on from 1.36 on.
OF_VERSION: Mapping[str, tuple[str, ...]] = {
    "1.34": (
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ),
}
# Each start of kubectl takes a tenth of a second of CPU time, while the programs that it waits for need both cores.
WHILE_WAITING = "--timeout=5s"


def start(binaries: Mapping[str, Path], processes: Processes, folder: Path) -> Path:
    """Start etcd, API server, controller-manager and scheduler; return the cluster admin's kubeconfig.

    Returns when a pod can be created in the namespace `default`; raises HarnessError with the end of a log if it fails.
    """
    return start_at(HOST, binaries, processes, folder)[1].kubeconfig


def start_at(
    address: str, binaries: Mapping[str, Path], processes: Processes, folder: Path, *flags: str
) -> tuple[ControlPlane, Kubectl]:
    """Start a control plane as `start` does, whose API server listens at an address, with further flags."""
    plane, kubectl = _start_api(binaries, processes, folder, *flags, address=address)
    plane.start_controller_manager()
    plane.start_scheduler()
    waiting = ("wait", "serviceaccount/default", "--namespace=default", "--for=create", WHILE_WAITING)
    processes.wait_until(
        lambda: kubectl.run(*waiting).returncode == 0,
        "the service account of the namespace default",
        log="kube-controller-manager",
    )
    return plane, kubectl


def start_api(binaries: Mapping[str, Path], processes: Processes, folder: Path, *flags: str) -> Path:
    """Start etcd and API server alone, which is all that admission needs; return the cluster admin's kubeconfig.

    `flags`: additional ones of the API server.
    """
    _, kubectl = _start_api(binaries, processes, folder, *flags)
    return kubectl.kubeconfig


def _start_api(
    binaries: Mapping[str, Path],
    processes: Processes,
    folder: Path,
    *flags: str,
    address: str = HOST,
) -> tuple[ControlPlane, Kubectl]:
    etcd_port, other_port, peer_port, port = free_ports(4)
    credentials = Credentials.create(folder / "credentials")
    plane = ControlPlane(binaries, processes, credentials, f"https://{HOST}:{etcd_port}", f"https://{address}:{port}")
    kubectl = Kubectl(binaries["kubectl"], credentials.kubeconfig("admin", plane.server, groups=["system:masters"]))
    plane.start_etcd(folder / "etcd", other_port, peer_port)
    plane.start_api_server(address, port, *flags)
    processes.wait_until(plane.is_ready, "the API server's /readyz", log="kube-apiserver")
    return plane, kubectl


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The values that its programs share; `etcd` and `server` are URLs."""

    binaries: Mapping[str, Path]
    processes: Processes
    credentials: Credentials
    etcd: str
    server: str

    def start_etcd(self, data: Path, other_port: int, peer_port: int) -> None:
        certificate, key = self.credentials.server("etcd", [HOST])
        peer = f"http://{HOST}:{peer_port}"
        self._start(
            "etcd",
            f"--data-dir={data}",
            f"--listen-client-urls={self.etcd}",
            f"--advertise-client-urls={self.etcd}",
            # Where one port is for HTTP too, each call of gRPC takes a third longer.
            f"--listen-client-http-urls=https://{HOST}:{other_port}",
            # A single member has no peers, but etcd requires an address for them.
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            "--client-cert-auth",
            f"--trusted-ca-file={self.credentials.authority_file}",
            "--enable-grpc-gateway=false",  # it would use the server's certificate as a client's
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def start_api_server(self, address: str, port: int, *flags: str) -> None:
        certificate, key = self.credentials.server(
            "kube-apiserver", [address, HOST, "localhost", "kubernetes.default.svc", "10.0.0.1"]
        )
        token_certificate, token_key = self.credentials.client("service-accounts")
        etcd_certificate, etcd_key = self.credentials.client("etcd-client")
        self._start(
            "kube-apiserver",
            f"--etcd-servers={self.etcd}",
            f"--etcd-cafile={self.credentials.authority_file}",
            f"--etcd-certfile={etcd_certificate}",
            f"--etcd-keyfile={etcd_key}",
            f"--bind-address={address}",
            f"--advertise-address={address}",
            # From 1.37 on the API server does not publish a loopback address.
            *(["--endpoint-reconciler-type=none"] if address == HOST else self._to_kubelets()),
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.credentials.authority_file}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",  # as in nearly every cluster
            f"--admission-control-config-file={self._admission()}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={token_certificate}",
            f"--service-account-signing-key-file={token_key}",
            *OF_VERSION.get(kubernetes_version(), ()),
            *flags,
        )

    def _to_kubelets(self) -> Iterator[str]:
        """Yield the flags of an API server that real kubelets can reach, and that calls them for logs."""
        certificate, key = self.credentials.client("kube-apiserver-to-kubelets", groups=["system:masters"])
        yield from (f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}")
        yield "--kubelet-preferred-address-types=InternalIP"  # nobody resolves the names of the nodes
        yield "--enable-admission-plugins=NodeRestriction"

    def _admission(self) -> Path:
        """Write a configuration that gives webhooks a client certificate on request (docs/how-to/certificates.md)."""
        certificate, key = self.credentials.client("kube-apiserver-to-webhooks")
        user = {"name": "*", "user": {"client-certificate": str(certificate), "client-key": str(key)}}
        kubeconfig = self.credentials.folder / "webhooks.kubeconfig"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": [user]}))
        version = "apiserver.config.k8s.io/v1"
        to_webhooks = {
            "apiVersion": version,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig),
        }
        plugins = [
            {"name": name, "configuration": to_webhooks}
            for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
        ]
        file = self.credentials.folder / "admission.json"
        file.write_text(json.dumps({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}))
        return file

    def is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=self.credentials.authority_file)
        try:
            with urlopen(f"{self.server}/readyz", timeout=5, context=context):  # noqa: S310 - of a server on this machine
                return True
        except OSError:
            return False

    def start_controller_manager(self) -> None:
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.credentials.kubeconfig('system:kube-controller-manager', self.server)}",
            "--leader-elect=false",
            "--secure-port=0",
            # As in a normal cluster: webhooks see each controller as a user of its own.
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.credentials.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.credentials.authority_file}",
            "--concurrent-job-syncs=20",  # for the Jobs of all tests at once
            *UNLIMITED,
        )

    def start_scheduler(self) -> None:
        self._start(
            "kube-scheduler",
            f"--kubeconfig={self.credentials.kubeconfig('system:kube-scheduler', self.server)}",
            "--leader-elect=false",
            "--secure-port=0",
            *UNLIMITED,
        )

    def _start(self, name: str, *flags: str) -> None:
        self.processes.start(name, [self.binaries[name], *flags])


def free_ports(number: int) -> list[int]:
    """Return free ports; all are bound at the same time, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(number)]
        return [listener.getsockname()[1] for listener in sockets]
