"""The connection to an API server that does not answer."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml
from kubernetes.aio.client import Configuration

from certs.issue import issue, new_authority
from webhook.kube.client import Api, date_in
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.shape import type_of


class Mute:
    """A TLS server that reads requests and never answers, not even a TLS shutdown."""

    def __init__(self, folder: Path) -> None:
        now, hour = datetime.now(UTC), timedelta(hours=1)
        authority = new_authority("mute", now=now, lifetime=hour)
        chain = issue(authority, "mute", now=now, lifetime=hour, hosts=["127.0.0.1"])
        self.authority = authority.certificate
        file = folder / "mute.pem"
        file.write_bytes(chain.certificate + chain.key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(file)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.asked = threading.Event()
        self.open: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self.context.wrap_socket(self.listener.accept()[0], server_side=True)
                self.open.append(connection)
                connection.recv(1)
                self.asked.set()

    def kubeconfig(self) -> str:
        server = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        return yaml.safe_dump(
            {
                "current-context": "mute",
                "contexts": [{"name": "mute", "context": {"cluster": "mute", "user": "mute"}}],
                "clusters": [{"name": "mute", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
                "users": [{"name": "mute", "user": {"token": "none"}}],
            }
        )


@contextlib.contextmanager
def mute(folder: Path) -> Iterator[Mute]:
    peer = Mute(folder)
    try:
        yield peer
    finally:
        for connection in (peer.listener, *peer.open):
            connection.close()


def test_after_a_cancelled_call_no_connection_is_open_when_the_loop_closes(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"

    async def run() -> list[bool]:
        with mute(tmp_path) as peer:
            file.write_text(peer.kubeconfig())
            async with await Api.connect(str(file)) as api:
                call = asyncio.create_task(api.get("/api"))
                await asyncio.to_thread(peer.asked.wait, 30)
                sockets = list(api.sockets)
                call.cancel()
                await asyncio.wait({call})
            return [left.fileno() >= 0 for left in sockets]

    assert uvloop.run(run()) == [False]


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
def test_the_date_of_an_answer_has_a_time_zone(zone: str) -> None:
    assert date_in(f"Mon, 23 Nov 2026 12:00:00 {zone}") == datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_without_a_date_in_the_answer_the_time_of_this_machine_is_taken() -> None:
    assert datetime.now(UTC) - date_in("") < timedelta(minutes=1)


async def head_of_a_request(host: str, monkeypatch: pytest.MonkeyPatch, variable: str = "") -> str:
    """Return the head of a request as a server on this machine gets it; `host` and `variable` may name its {port}.

    `variable`: NAME=VALUE of the environment, in which there is no proxy otherwise.
    """
    heads = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        if variable:
            name, _, value = variable.format(port=port).partition("=")
            monkeypatch.setenv(name, value)
        configuration = Configuration()
        configuration.host = host.format(port=port)
        async with Api(configuration) as api:
            assert await api.get("/version") == {}
    return heads[0]


async def asked(text: str, work: Callable[[Api], Awaitable[Any]], left_out: LeftOut) -> Any:
    """Return what some work returns with a client of a server that gives this answer."""
    body = text.encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Api(configuration) as api:
            api.left_out = left_out
            return await work(api)


def listed(items: list[str], kind: Any, left_out: LeftOut) -> list[Any]:
    """Return the objects of a list of Jobs with these items."""

    async def work(api: Api) -> list[Any]:
        return [one async for one in api.objects("/apis/batch/v1/jobs", {}, kind=kind)]

    found: list[Any] = asyncio.run(asked(f'{{"metadata":{{}},"items":[{",".join(items)}]}}', work, left_out))
    return found


def test_an_object_that_cannot_be_decoded_is_left_out_of_its_list() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    bad = f'{{"spec":{deep},"metadata":{{"namespace":"ml","name":"bad"}}}}'
    good = '{"metadata":{"namespace":"ml","name":"good"}}'
    lines: list[str] = []
    found = listed([bad, good], Any, LeftOut(lines.append))
    assert [one["metadata"]["name"] for one in found] == ["good"]
    (line,) = lines
    assert line.startswith("jobs ml/bad is left out: unexpected RecursionError")


def test_an_object_that_cannot_be_decoded_is_named_if_it_is_asked_for_alone() -> None:
    lines: list[str] = []
    deep, path = "[" * 5_000 + "]" * 5_000, "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows/bad"
    assert asyncio.run(asked(deep, lambda api: api.find(path), LeftOut(lines.append))) is None
    assert lines[0].startswith("workflows ml/bad is left out: unexpected RecursionError")
    with pytest.raises(RecursionError):
        asyncio.run(asked(deep, lambda api: api.find(path), RAISING))


def test_a_part_that_is_not_read_may_be_nested_as_deep_as_the_api_server_accepts() -> None:
    deep = "[" * 9_000 + "]" * 9_000
    kind = type_of({"metadata": {"name": str}})
    found = listed([f'{{"spec":{deep},"metadata":{{"name":"deep"}}}}'], kind, RAISING)
    assert found == [{"metadata": {"name": "deep"}}]


def test_a_netrc_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or each request would wait for a thread that reads it."""
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login ann password secret")
    head = asyncio.run(head_of_a_request("http://127.0.0.1:{port}", monkeypatch, f"NETRC={file}"))
    assert head.startswith("GET /version")
    assert "authorization" not in head.lower()


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    head = asyncio.run(head_of_a_request("http://api.example.test", monkeypatch, "http_proxy=http://127.0.0.1:{port}"))
    assert head.startswith("GET http://api.example.test/version")
