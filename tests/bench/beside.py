"""The environment of `make bench`: an API server, our server as it is installed, and servers to compare it with."""

import json
import socket
import ssl
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.awaiting import until
from tests.bench import reviews
from tests.bench.peers import Peer, Peers, Seen, ask
from tests.cluster import binaries, control_plane, installation, job_set_controller, operators
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes
from webhook.kube import names
from webhook.objects.problem import Json

OURS: Final = "bench-ours"
OUTSIDE: Final = "bench-none"
NAMESPACES: Final = (OUTSIDE, "bench-yes", "bench-patch", "bench-cel", OURS)


@dataclass(frozen=True, slots=True)
class Asked:
    """One of the servers that are measured in turns: its path, the file with the request, and options of the load."""

    peer: Peer
    path: str
    body: Path
    options: tuple[str, ...] = ()

    def run(self, *options: str, before: Callable[[], None] | None = None) -> Seen:
        return ask(self.peer, self.path, self.body, *self.options, *options, before=before)


class Stage:
    """An API server without controllers, our server as it is installed, and the peers."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder = folder
        self.processes = processes
        programs = binaries.build([*binaries.own_cluster(), binaries.JOB_SET])
        found = operators.fetch()
        self.kubectl = Kubectl(programs["kubectl"], control_plane.start_api(programs, processes, folder))
        for file in found.crds.glob("jobsets.*"):
            self.kubectl.run("create", "--validate=false", f"--filename={file}")
        installation.start(processes, self.kubectl, folder, for_tests=True)
        self.ours = Peer.told(json.loads((folder / installation.ANSWER).read_text()))
        self.peers = Peers(processes, folder)
        address, credentials = job_set_controller.run(programs, processes, self.kubectl, folder)
        self.job_set = Peer(address, credentials.authority_file)
        until(lambda: is_open(address))
        self.owners = {namespace: self.namespace(namespace) for namespace in NAMESPACES}
        self.bodies = self.record()
        self.answers = {name: self.answer(file) for name, file in self.bodies.items()}
        replies = folder / "answers"
        replies.mkdir()
        for name, answer in self.answers.items():
            (replies / self.bodies[name].name).write_bytes(answer)
        self.echo = self.peers.echo(replies)
        self.yes = self.peers.yes("yes")
        for peer in (self.echo, self.yes):
            until(lambda peer=peer: is_open(peer.address))  # type: ignore[misc]

    def namespace(self, name: str) -> Json:
        """Create a namespace in which pods can be created; return a Job in it, which will own them."""
        labels = {names.PROFILE: "require"} if name == OURS else {}
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        self.kubectl.apply(account)
        return self.kubectl.create(reviews.job("a-name-of-usual-length"), f"--namespace={name}")

    def record(self) -> dict[str, Path]:
        where = [OURS, OUTSIDE]
        with reviews.recording(self.kubectl, self.peers.credentials, where) as recorder:
            found = reviews.recorded(self.kubectl, recorder, OURS, OUTSIDE, self.owners[OURS])
        files = {}
        for name, body in found.items():
            files[name] = self.folder / name.replace(" ", "-").replace(",", "")
            files[name].write_bytes(body)
        return files

    def answer(self, body: Path) -> bytes:
        """Return our server's answer to a review."""
        context = ssl.create_default_context(cafile=str(self.ours.ca))
        url = f"https://{self.ours.address}/mutate"
        with urllib.request.urlopen(url, body.read_bytes(), context=context) as answer:
            response: bytes = answer.read()
            return response

    def against_echo(self, name: str) -> tuple[Asked, Asked]:
        body = self.bodies[name]
        return Asked(self.ours, "/mutate", body), Asked(self.echo, f"/{body.name}", body)


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port))):
        return True
    return False
