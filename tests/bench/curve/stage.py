"""A cluster that was filled before its API server started, and both programs beside it."""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tests.bench import reviews
from tests.bench.asking import cpu_seconds, resident
from tests.bench.curve.fill import Size, filled, stored_job
from tests.bench.peers import LOAD, Peer
from tests.cluster import binaries, control_plane
from tests.cluster.credentials import Credentials
from tests.cluster.installation import (
    BASE,
    CONTROLLER_ACCOUNT,
    FIRST_POLICY,
    SERVICE_ACCOUNT,
    SYSTEM,
    built,
    kubeconfig_of,
)
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes
from tests.served import Served
from webhook.objects.problem import Json

# Metrics that are waited for.
PODS_AGE: Final = 'retry_policy_cache_age_seconds{list="pods"}'
LEADING: Final = "retry_policy_ledger_leading "
DISRUPTED: Final = "retry_policy_ledger_disruptions_total"
PROGRAM: Final = Path(sys.executable).with_name("retry-policy")
QUIET: Final = 0.02  # cores that a program uses when nothing is left to do
CONTROLLER: Final = "controller"  # its name among the processes
VARIABLES: Final = 19  # of the container of a replayed pod, whose review then has 6 KB
REPLAYED: Final = 200  # reviews, each of a pod of another Job
# Admission of ServiceAccounts would need one in each namespace.
FLAGS: Final = ("--disable-admission-plugins=ServiceAccount",)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of a process until it listens, is ready, and has listed all pods."""

    listening: float
    ready: float
    listed: float


@dataclass(frozen=True, slots=True)
class Program:
    """A running `retry-policy serve` or `retry-policy control`."""

    served: Served
    start: Start

    @property
    def pid(self) -> int:
        return self.served.process.pid

    @property
    def peer(self) -> Peer:
        return Peer.told(self.served.addresses)

    @property
    def cpu(self) -> float:
        """CPU seconds that it has used, to the nanosecond; `cpu_seconds` counts hundredths."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    @property
    def received(self) -> int:
        """Bytes that it has read: nearly all of them from sockets."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as io:  # noqa: PTH123 - a file of the kernel
            return int(next(io).split()[1])

    def metric(self, name: str) -> float | None:
        """Return the sum of a metric over the labels that `name` leaves open; None if it has no value yet."""
        text = self.served.get("/metrics").body.decode()
        values = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]
        return sum(values) if values else None

    @property
    def leads(self) -> bool:
        return self.metric(LEADING) == 1

    @property
    def memory(self) -> float:
        """Resident memory in MiB."""
        return resident(self.pid)

    @property
    def peak(self) -> float:
        """The highest resident memory so far, in MiB."""
        return resident(self.pid, "VmHWM")


class Stage:
    """The cluster; programs are added by `start_controller` and `start_webhook`."""

    def __init__(self, size: Size, folder: Path, processes: Processes) -> None:
        self.size = size
        self.folder = folder
        self.processes = processes
        programs = binaries.build([*binaries.own_cluster(), LOAD])
        admin = control_plane.start_api(programs, processes, folder, *FLAGS)
        self.kubectl = Kubectl(programs["kubectl"], admin)
        others = [one for one in built(self.kubectl, BASE) if "webhooks" not in one]
        self.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": others})
        self.kubeconfigs = {
            name: kubeconfig_of(self.kubectl, folder, account)
            for name, account in (("serve", SERVICE_ACCOUNT), ("control", CONTROLLER_ACCOUNT))
        }
        self.webhooks: list[Program] = []

    @property
    def api_cpu(self) -> float:
        """CPU seconds of API server and etcd."""
        return sum(cpu_seconds(self.processes.running[name].pid) for name in ("kube-apiserver", "etcd"))

    def start_controller(self) -> Program:
        """Start the controller, as `start`; it issues the certificate without which no webhook listens."""
        return self.start(CONTROLLER, "control")

    def start_webhook(self) -> Program:
        """Start a webhook, as `start`."""
        found = self.start(f"webhook-{len(self.webhooks)}", "serve", "--port=0")
        self.webhooks.append(found)
        return found

    def start(self, name: str, command: str, *options: str) -> Program:
        """Start a program, and wait until it has listed everything and rests."""
        answer = self.folder / f"{name}.json"
        both = (f"--policy={FIRST_POLICY}", f"--kubeconfig={self.kubeconfigs[command]}", "--health-port=0")
        env = {**os.environ, "POD_NAMESPACE": SYSTEM, "TMPDIR": str(self.folder)}
        begin = time.monotonic()
        self.processes.start(name, [PROGRAM, command, *both, *options], env=env, stdout=answer)
        self.wait(lambda: answer.read_text().endswith("\n"), f"{name} to listen", name)
        listening = time.monotonic() - begin
        addresses = msgspec.json.decode(answer.read_text())
        served = Served(self.processes.running[name], addresses, self.processes.log(name))
        self.wait(lambda: served.get("/readyz").status == 200, f"{name} to be ready", name)
        ready = time.monotonic() - begin
        program = Program(served, Start(0, 0, 0))
        self.wait(lambda: program.metric(PODS_AGE) == 0, "pods", name)
        start = Start(round(listening, 2), round(ready, 2), round(time.monotonic() - begin, 2))
        program = Program(served, start)
        rest(program)
        return program

    def wait(self, condition: Callable[[], object], what: str, log: str) -> None:
        self.processes.wait_until(condition, what, log=log)

    def reviews(self, credentials: Credentials) -> Path:
        """Return a folder with reviews as the API server sends them, each of a new pod of another Job."""
        first = stored_job(self.size, 0)
        with reviews.recording(self.kubectl, credentials, [first.namespace]) as recorder:
            recorder.reviews.clear()
            owner: Json = {"metadata": {"name": first.name, "uid": first.uid}}
            self.kubectl.create(reviews.pod_of(owner, VARIABLES), "--dry-run=server", f"--namespace={first.namespace}")
            (body,) = recorder.reviews
        folder = self.folder / "reviews"
        folder.mkdir()
        chance = random.Random(27)  # noqa: S311 - no secret
        for place, number in enumerate(chance.sample(range(self.size.jobs), min(REPLAYED, self.size.jobs))):
            (folder / f"{place:04}").write_bytes(of_another_job(body, first, stored_job(self.size, number)))
        return folder


def of_another_job(body: bytes, first: tuple[str, ...], other: tuple[str, ...]) -> bytes:
    """Return a review with the namespace, name and uid of another Job."""
    for old, new in zip(first, other, strict=True):
        body = body.replace(old.encode(), new.encode())
    return body


def rest(program: Program) -> None:
    """Wait until a program uses almost no CPU time, and has given free memory back."""
    for _ in range(40):
        before = program.cpu
        time.sleep(6)
        if program.cpu - before < 6 * QUIET:
            break
    time.sleep(6)  # it gives memory back every ten seconds


@contextmanager
def stage(size: Size) -> Iterator[Stage]:
    """Start a cluster of this size; end it, and all programs, with the block."""
    with filled(size) as folder:
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            yield Stage(size, folder, processes)
        finally:
            processes.stop()
