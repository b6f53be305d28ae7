"""The environment for faults: a control plane, the shipped manifests, replicas behind a balancer, and a load."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cryptography import x509

from tests.awaiting import until
from tests.cluster import binaries, control_plane, nodes
from tests.cluster.installation import BASE, CONFIG_MAP, INSTALLED, SYSTEM, as_service_account
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes
from tests.faults.installed import Installed
from tests.faults.program import Program
from tests.faults.watched import RATE, under_load
from webhook.kube.names import PROFILE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from tests.faults.watched import Watched

# Requests at the same time. The API server keeps 25 idle connections, so it opens new ones all the time, and only a new
# connection depends on the certificate and its authority.
BURST = 60
NAMESPACE = "under-load"
API_SERVER = "kube-apiserver"
ETCD = "etcd"


@dataclass(frozen=True, slots=True)
class Replica:
    """A server that listens, and the name of its pod."""

    name: str
    pod: str
    process: subprocess.Popen[bytes]
    addresses: Mapping[str, str]

    @property
    def port(self) -> int:
        return urlsplit(self.addresses["https"]).port or 0

    @property
    def health_port(self) -> int:
        return urlsplit(self.addresses["http"]).port or 0

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def leaf(self) -> x509.Certificate:
        """Return the certificate that a new client gets."""
        pem = ssl.get_server_certificate(("127.0.0.1", self.port), timeout=10)
        return x509.load_pem_x509_certificate(pem.encode())


class Stage(Installed):
    """The environment of a whole run, with its programs; `reset` restores its first state.

    `whole`: with controllers, scheduler and nodes beside the API server. `requested_retries`: with that overlay.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        processes: Processes,
        folder: Path,
        *,
        whole: bool = False,
        requested_retries: bool = False,
    ) -> None:
        self.options = ("--requested-retries",) if requested_retries else ()
        self.processes = processes
        self.folder = folder
        self.replicas: list[Replica] = []
        self.pods: dict[str, str] = {}  # by the name of the replica
        self.table: list[Watched] = []
        self.started = 0
        admin = (control_plane.start if whole else control_plane.start_api)(programs, processes, folder)
        self.api_server = [str(argument) for argument in processes.running[API_SERVER].args]  # type: ignore[union-attr]
        self.balancer = Program.start(processes, "balancer")
        self.admin = admin
        kubectl = Kubectl(programs["kubectl"], admin)
        if whole:
            nodes.start(programs, processes, kubectl, foreign=False)
        url = f"https://127.0.0.1:{self.balancer.ask('port')}"
        super().__init__(kubectl, url, INSTALLED if requested_retries else BASE)
        metadata = {"name": NAMESPACE, "labels": {PROFILE: "default"}}
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.kubeconfig = folder / "replica.kubeconfig"
        self.kubeconfig.write_text(json.dumps(as_service_account(kubectl)))  # JSON is YAML too
        self.load = Program.start(processes, "load", str(admin), NAMESPACE)

    def close(self) -> None:
        """Stop all programs."""
        self.end_replicas()
        self.load.close()
        self.balancer.close()

    def reset(self) -> None:
        """Remove replicas and certificates, and install the webhook configurations and the policy again."""
        if API_SERVER not in self.processes.running:  # a test has failed in between
            self.start_api_server()
            until(self.answers)
        self.end_replicas()
        self.install_anew()

    def end_replicas(self) -> None:
        """Kill all replicas and forget them."""
        while self.replicas:
            replica = self.replicas.pop()
            self.kill(replica)
            self.balancer.ask("remove", replica.name)

    def start(self, *options: str, in_balancer: bool = True, kubeconfig: Path | None = None) -> Replica:
        """Start a replica and wait until it listens; `options` are those of `tests.faults.replica`."""
        return self.start_together(1, *options, in_balancer=in_balancer, kubeconfig=kubeconfig)[0]

    def restart(self, replica: Replica) -> Replica:
        """Kill a replica, and start another container in its pod, as the kubelet does."""
        self.kill(replica)
        self.replicas.remove(replica)
        self.balancer.ask("remove", replica.name)
        return self.listening(self.launch(pod=replica.pod), in_balancer=True)

    def start_together(
        self, number: int, *options: str, in_balancer: bool = True, kubeconfig: Path | None = None
    ) -> list[Replica]:
        """Start replicas at the same time, and wait until they listen."""
        names = [self.launch(*options, kubeconfig=kubeconfig) for _ in range(number)]
        return [self.listening(name, in_balancer=in_balancer) for name in names]

    def launch(self, *options: str, kubeconfig: Path | None = None, pod: str = "") -> str:
        """Start a replica and return its name; `pod`: the name of its pod, by default that of the replica."""
        self.started += 1
        name = f"replica-{self.started}"
        self.pods[name] = pod or name
        empty_dir = self.folder / self.pods[name]
        empty_dir.mkdir(exist_ok=True)
        of_pod = {"POD_NAMESPACE": SYSTEM, "POD_NAME": self.pods[name], "POD_UID": f"uid-of-{self.pods[name]}"}
        self.processes.start(
            name,
            [
                *(sys.executable, "-m", "tests.faults.replica", *options, "--", "serve"),
                f"--policy-configmap={CONFIG_MAP}",
                f"--kubeconfig={kubeconfig or self.kubeconfig}",
                "--port=0",
                "--health-port=0",
                *self.options,
            ],
            env={**os.environ, **of_pod, "TMPDIR": str(empty_dir)},
            stdout=self.answer(name),
        )
        return name

    def until_dead(self, name: str) -> None:
        """Wait until a replica that was started with `--die` has killed itself."""
        process = self.processes.running.pop(name)
        try:
            until(lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == -signal.SIGKILL, self.processes.tail(name)

    def listening(self, name: str, *, in_balancer: bool) -> Replica:
        answer = self.answer(name)
        self.processes.wait_until(lambda: answer.read_text().endswith("\n"), f"{name} to listen", log=name)
        replica = Replica(name, self.pods[name], self.processes.running[name], json.loads(answer.read_text()))
        self.replicas.append(replica)
        if in_balancer:
            self.balancer.ask("add", name, replica.port, replica.health_port, replica.process.pid)
        return replica

    def answer(self, name: str) -> Path:
        """Return the file with the only line that a replica writes to stdout."""
        return self.folder / f"{name}.json"

    def until_endpoints(self, *replicas: Replica) -> None:
        """Wait until exactly these replicas get new connections."""
        names = {replica.name for replica in replicas}
        until(lambda: set(self.balancer.ask("endpoints")) == names)

    def two_replicas(self, *options: str) -> list[Replica]:
        """Start two replicas, and wait until the API server calls them."""
        replicas = self.start_together(2, *options)
        self.until_endpoints(*replicas)
        self.until_effective()
        return replicas

    def until_effective(self) -> None:
        """Wait until the API server calls the webhook for every Job."""
        until(lambda: self.load.ask("probe"))

    def terminate(self, replica: Replica) -> None:
        """Terminate a replica, as when its pod is deleted."""
        self.balancer.ask("terminate", replica.name)
        del self.processes.running[replica.name]  # it may end at any time from now on
        replica.process.send_signal(signal.SIGTERM)

    def kill(self, replica: Replica) -> None:
        """Kill a replica."""
        replica.process.kill()
        self.until_ended(replica)

    def until_ended(self, replica: Replica) -> None:
        """Wait until a terminated replica has ended."""
        until(lambda: not replica.running)
        self.processes.running.pop(replica.name, None)

    def kill_api_server(self) -> None:
        process = self.processes.running.pop(API_SERVER)
        process.kill()
        process.wait()

    def start_api_server(self) -> None:
        """Start the API server again as it was."""
        self.processes.start(API_SERVER, self.api_server)

    def under_load(
        self, fault: str, *, from_the_start: bool = False, rate: int = RATE, burst: int = 1
    ) -> AbstractContextManager[Watched]:
        """Load the API server while the block runs (watched.py)."""
        return under_load(self.load, self.table, fault, from_the_start=from_the_start, rate=rate, burst=burst)

    def until_settled(self, *replicas: Replica) -> None:
        """Wait until no rotation is in progress, and caBundles and replicas have the Secret's certificates."""

        def shown() -> bool:
            try:
                return self.settled([replica.leaf() for replica in replicas])
            except OSError:  # a replica without a certificate
                return False

        until(shown)


@contextlib.contextmanager
def new_stage(*, whole: bool = False, requested_retries: bool = False) -> Iterator[Stage]:
    """Start a stage and stop it at the end; for the options see Stage."""
    with tempfile.TemporaryDirectory(prefix="retry-policy-faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            programs = binaries.build(binaries.own_cluster())
            stage = Stage(programs, processes, folder, whole=whole, requested_retries=requested_retries)
            yield stage
            stage.close()
        finally:
            processes.stop()
