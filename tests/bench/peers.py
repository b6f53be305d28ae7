"""The servers with which ours is compared, and the program that puts load on them, on free ports of this machine."""

import base64
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec
import yaml

from tests.cluster import binaries, toolchain
from tests.cluster.binaries import Binary
from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.credentials import Credentials
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes
from webhook.objects.problem import Json

SOURCES: Final = Path(__file__).parent / "peer"


class Own(Binary):
    """A Go program in this repository, without dependencies."""

    @property
    def folder(self) -> Path:
        return SOURCES

    @property
    def go_mod(self) -> str:
        return (SOURCES / "go.mod").read_text()

    @property
    def path(self) -> Path:
        texts = [file.read_text() for file in sorted(SOURCES.rglob("*.go"))]
        return toolchain.cache() / f"peer-{toolchain.digest(self.go_mod, *texts)}" / self.name


YES: Final = Own("yes", "peer", "./yes")
LOAD: Final = Own("load", "peer", "./load")


@dataclass(frozen=True, slots=True)
class Peer:
    """A server: HOST:PORT, and the file with the CA of its certificate."""

    address: str
    ca: Path

    @classmethod
    def told(cls, addresses: Json) -> Self:
        """Return one of our servers, from the addresses that it prints."""
        return cls(addresses["https"].removeprefix("https://"), Path(addresses["ca"]))


class Latency(msgspec.Struct):
    """Latencies of one run, in microseconds."""

    p50: float
    p99: float
    max: float


class Seen(msgspec.Struct):
    """The results of one run of the load; `seconds` is its duration, `cpu` the CPU seconds that it used itself.

    `slow`: for each request that took longer than `-slow`, the time at which it was due, in seconds since the epoch,
    and the seconds that it took.
    """

    answers: int
    bad: int
    seconds: float
    cpu: float
    latency: Latency
    slow: list[tuple[float, float]]

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


class Peers:
    """Starts the servers; their certificates are from one CA."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.processes = processes
        self.folder = folder
        self.credentials = Credentials.create(folder / "peers")
        binaries.build([YES, LOAD])

    def echo(self, answers: Path) -> Peer:
        """Start an aiohttp server that answers /NAME with the bytes of the file NAME in a folder."""
        return self.start("echo", [sys.executable, "-m", "tests.bench.echo", answers])

    def yes(self, name: str, patch: bytes = b"") -> Peer:
        """Start a webhook in Go that allows everything, with this JSON Patch if it is not empty."""
        file = self.folder / f"{name}.patch"
        file.write_bytes(patch)
        return self.start(name, [YES.path, f"-patch={file}"] if patch else [YES.path])

    def start(self, name: str, command: list[str | Path]) -> Peer:
        (port,) = free_ports(1)
        certificate, key = self.credentials.server(name, [HOST])
        where: list[str | Path] = [f"-address={HOST}:{port}", f"-certificate={certificate}", f"-key={key}"]
        self.processes.start(name, [*command, *where])
        return Peer(f"{HOST}:{port}", self.credentials.authority_file)


def as_admin(kubectl: Kubectl, folder: Path) -> tuple[Peer, tuple[str, ...]]:
    """Return the API server, and the load's options that show it the cluster admin's certificate.

    The certificate is written into `folder`.
    """
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    contents = {
        "ca": cluster["certificate-authority-data"],
        "certificate": user["client-certificate-data"],
        "key": user["client-key-data"],
    }
    files = {name: folder / f"admin.{name}" for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(base64.b64decode(content))
    shown = ("-certificate", str(files["certificate"]), "-key", str(files["key"]))
    return Peer(cluster["server"].removeprefix("https://"), files["ca"]), shown


def ask(peer: Peer, path: str, body: Path, *options: str, before: Callable[[], None] | None = None) -> Seen:
    """Put load on a peer, with the options of peer/load; raise RuntimeError if an answer was wrong.

    `body`: a file, or a folder whose files are sent in turn.
    `before` is called in the process of the load before it begins.
    """
    where = ("-address", peer.address, "-ca", peer.ca, "-path", path, "-body", body)
    command: list[str | Path] = [LOAD.path, *where, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before)
    if done.returncode:
        raise RuntimeError(done.stderr)
    seen = msgspec.json.decode(done.stdout, type=Seen)
    if seen.bad:
        raise RuntimeError(f"{seen.bad} of {seen.answers} answers of {peer.address}{path} were wrong")
    return seen
