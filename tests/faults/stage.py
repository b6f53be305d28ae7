"""The environment for faults: a control plane, the shipped manifests, replicas behind a balancer, and a load."""

from __future__ import annotations

import contextlib
import dataclasses
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
from urllib.request import urlopen

from cryptography import x509

from tests.awaiting import LONGEST, until
from tests.cluster import binaries, control_plane, nodes
from tests.cluster.installation import (
    BASE,
    CONFIG_MAP,
    CONTROLLER_ACCOUNT,
    INSTALLED,
    SERVICE_ACCOUNT,
    SYSTEM,
    kubeconfig_of,
)
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

    from tests.cluster.kubectl import Object
    from tests.faults.watched import Watched

# Requests at the same time. The API server keeps 25 idle connections, so it opens new ones all the time, and only a new
# connection depends on the certificate and its authority.
BURST = 60
# An option of `tests.faults.replica`: a new authority signs once it has been in every caBundle for so many seconds, a
# minute in production. Beside other work the API server takes a second or two to read a caBundle.
ANNOUNCEMENT = "--announcement=4"
NAMESPACE = "under-load"
API_SERVER = "kube-apiserver"
ETCD = "etcd"


@dataclass(frozen=True, slots=True)
class Replica:
    """A webhook that listens, the name of its pod, and the controller that was started with it.

    `announced`: the file with the only line that the controller writes to stdout, once it listens.
    """

    name: str
    pod: str
    process: subprocess.Popen[bytes]
    controller: subprocess.Popen[bytes]
    addresses: Mapping[str, str]
    announced: Path

    @property
    def port(self) -> int:
        return urlsplit(self.addresses["https"]).port or 0

    @property
    def health_port(self) -> int:
        return urlsplit(self.addresses["http"]).port or 0

    def measured(self) -> str:
        """Return the metrics of the controller, as text, once it listens."""
        until(lambda: self.announced.read_text().endswith("\n"))
        address = json.loads(self.announced.read_text().splitlines()[-1])["http"]
        with urlopen(f"{address}/metrics", timeout=LONGEST) as answer:  # noqa: S310 - its own address
            return str(answer.read().decode())

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def leaf(self) -> x509.Certificate:
        """Return the certificate that a new client gets."""
        pem = ssl.get_server_certificate(("127.0.0.1", self.port), timeout=LONGEST)
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
        self.kubeconfig = kubeconfig_of(kubectl, folder, SERVICE_ACCOUNT)
        self.controllers_kubeconfig = kubeconfig_of(kubectl, folder, CONTROLLER_ACCOUNT)
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
            self.remove(self.replicas[-1])

    def start(
        self,
        *options: str,
        in_balancer: bool = True,
        kubeconfig: Path | None = None,
        of_controller: Path | None = None,
    ) -> Replica:
        """Start a replica and wait until it listens; `options` are those of `tests.faults.replica`.

        `kubeconfig`, `of_controller`: those of the webhook and of the controller, if not the usual ones.
        """
        name = self.launch(*options, kubeconfig=kubeconfig, of_controller=of_controller)
        return self.listening(name, in_balancer=in_balancer)

    def restart(self, replica: Replica) -> Replica:
        """Kill a replica, and start another container in its pod, as the kubelet does."""
        self.remove(replica)
        return self.listening(self.launch(pod=replica.pod), in_balancer=True)

    def restart_controller(self, replica: Replica, *options: str, ending: signal.Signals = signal.SIGKILL) -> Replica:
        """End the controller of a replica by a signal, and start another one; `options`: of `tests.faults.replica`."""
        replica.controller.send_signal(ending)
        replica.controller.wait()
        name = controller_of(replica.name)
        self.processes.running.pop(name)
        self.start_controller(replica.name, *options)
        found = dataclasses.replace(replica, controller=self.processes.running[name])
        self.replicas[self.replicas.index(replica)] = found
        return found

    def start_together(
        self, number: int, *options: str, in_balancer: bool = True, kubeconfig: Path | None = None
    ) -> list[Replica]:
        """Start replicas at the same time, and wait until they listen."""
        names = [self.launch(*options, kubeconfig=kubeconfig) for _ in range(number)]
        return [self.listening(name, in_balancer=in_balancer) for name in names]

    def launch(
        self, *options: str, kubeconfig: Path | None = None, of_controller: Path | None = None, pod: str = ""
    ) -> str:
        """Start a replica and return its name; `pod`: the name of its pod, by default that of the replica."""
        self.started += 1
        name = f"replica-{self.started}"
        self.pods[name] = pod or name
        self.start_program(name, name, options, "serve", f"--kubeconfig={kubeconfig or self.kubeconfig}", "--port=0")
        self.start_controller(name, *options, kubeconfig=of_controller)
        return name

    def start_controller(self, replica: str, *options: str, kubeconfig: Path | None = None) -> None:
        """Start the controller of a replica; for the options see `start`."""
        chosen = kubeconfig or self.controllers_kubeconfig
        self.start_program(controller_of(replica), replica, options, "control", f"--kubeconfig={chosen}")

    def start_program(self, name: str, replica: str, options: tuple[str, ...], *command: str) -> None:
        """Start a program of a replica, with the environment of its pod."""
        empty_dir = self.folder / self.pods[replica]
        empty_dir.mkdir(exist_ok=True)
        env = {**os.environ, "POD_NAMESPACE": SYSTEM, "POD_NAME": self.pods[replica], "TMPDIR": str(empty_dir)}
        self.processes.start(
            name,
            [
                *(sys.executable, "-m", "tests.faults.replica", *options, "--", *command),
                *(f"--policy-configmap={CONFIG_MAP}", "--health-port=0", *self.options),
            ],
            env=env,
            stdout=self.answer(name),
        )

    def until_dead(self, name: str) -> None:
        """Wait until the controller of a replica that was started with `--die` has killed itself; kill the webhook."""
        webhook = self.processes.running.pop(name)
        webhook.kill()
        webhook.wait()
        process = self.processes.running.pop(controller_of(name))
        try:
            until(lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == -signal.SIGKILL, self.processes.tail(controller_of(name))

    def listening(self, name: str, *, in_balancer: bool) -> Replica:
        answer = self.answer(name)
        self.processes.wait_until(lambda: answer.read_text().endswith("\n"), f"{name} to listen", log=name)
        running = self.processes.running
        both = running[name], running[controller_of(name)]
        addresses = json.loads(answer.read_text())
        replica = Replica(name, self.pods[name], *both, addresses, self.answer(controller_of(name)))
        self.replicas.append(replica)
        if in_balancer:
            self.balancer.ask("add", name, replica.port, replica.health_port, replica.process.pid)
        return replica

    def answer(self, name: str) -> Path:
        """Return the file with the only line that a program writes to stdout."""
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
        for name, process in ((replica.name, replica.process), (controller_of(replica.name), replica.controller)):
            del self.processes.running[name]  # it may end at any time from now on
            process.send_signal(signal.SIGTERM)

    def kill(self, replica: Replica) -> None:
        """Kill a replica."""
        replica.process.kill()
        replica.controller.kill()
        self.until_ended(replica)

    def remove(self, replica: Replica) -> None:
        """Kill a replica and forget it: it gets no connection any more."""
        self.replicas.remove(replica)
        self.kill(replica)
        self.balancer.ask("remove", replica.name)

    def until_ended(self, replica: Replica) -> None:
        """Wait until a terminated replica has ended."""
        until(lambda: not replica.running and replica.controller.poll() is not None)
        self.processes.running.pop(replica.name, None)
        self.processes.running.pop(controller_of(replica.name), None)

    def lines(self, replicas: list[Replica], event: str) -> list[Object]:
        """Return the lines of the replicas' logs that begin with an event."""
        texts = [self.logs(replica) for replica in replicas]
        found = [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]
        return [one for one in found if str(one.get("event", "")).startswith(event)]

    def logs(self, replica: Replica) -> str:
        """Return the log of both programs of a replica."""
        names = (replica.name, controller_of(replica.name))
        return "".join(self.processes.log(name).read_text() for name in names)

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


def controller_of(replica: str) -> str:
    """Return the name of the controller that is started with a replica."""
    return f"{replica}-controller"


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
