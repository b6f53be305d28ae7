"""The real server as a process, and a client that connects to it over TLS."""

import contextlib
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from tests.awaiting import LONGEST, until
from webhook.objects.problem import Json

COMMAND = str(Path(sys.executable).parent / "retry-policy")
SERVE = ("serve", "--port", "0", "--health-port", "0")


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """A server that is listening."""

    process: subprocess.Popen[bytes]
    addresses: Json
    log: Path

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.addresses["ca"])

    @property
    def https_port(self) -> int:
        return urlsplit(self.addresses["https"]).port or 0

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.https_port, context=self.context, timeout=LONGEST)

    def post(self, path: str, body: bytes, method: str = "POST") -> Reply:
        with contextlib.closing(self.connect()) as connection:
            return request(connection, method, path, body)

    def answered(self, path: str, review: bytes) -> bytes:
        """Return the answer to a review, which is sent as the API server sends it: again while it is told to."""

        def answer() -> Reply | None:
            reply = self.post(path, review)
            return None if "Retry-After" in reply.headers else reply

        reply = until(answer)
        assert reply.status == HTTPStatus.OK, reply
        return reply.body

    def get(self, path: str) -> Reply:
        url = urlsplit(self.addresses["http"])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", url.port, timeout=LONGEST)) as connection:
            return request(connection, "GET", path)

    def log_text(self) -> str:
        return self.log.read_text()


def request(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> Reply:
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return Reply(answer.status, dict(answer.getheaders()), answer.read())


@contextlib.contextmanager
def serving(
    folder: Path, *arguments: str, program: tuple[str, ...] = (COMMAND,), env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Start the webhook, and stop it at the end of the block; its log goes to a file in `folder`."""
    log = folder / "server.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen((*program, *SERVE, *arguments), stdout=subprocess.PIPE, stderr=stderr, env=env) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.wait()
            raise AssertionError(f"the server did not start:\n{log.read_text()}")
        try:
            yield Served(process, json.loads(line), log)
        finally:
            process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def controlling(folder: Path, *arguments: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a controller that issues no certificates, and stop it at the end of the block."""
    command = (COMMAND, "control", "--health-port=0", "--no-certificates", *arguments)
    with (
        (folder / "controller.log").open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=env) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)


def raw(served: Served) -> ssl.SSLSocket:
    """Return a TLS connection, for bytes that no HTTP client sends."""
    plain = socket.create_connection(("127.0.0.1", served.https_port), timeout=LONGEST)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each first request waits 40 ms for an ACK
    return served.context.wrap_socket(plain, server_hostname="127.0.0.1")
