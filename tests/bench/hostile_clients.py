"""The effect of hostile clients, kind by kind, on another client that sends requests at a constant rate.

`python -m tests.bench.hostile_clients [SECONDS]`: the seconds for each kind, by default 15.
"""

import asyncio
import contextlib
import multiprocessing
import os
import resource
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import uvloop

from tests.admission import review_of
from tests.bench.asking import WRONG, Question, at_a_constant_rate, percentile
from tests.bench.overload import Peak
from tests.objects import job, job_spec
from tests.served import serving
from webhook.serving.limits import LARGEST_BODY

PER_SECOND = 100
CONNECTING = 50  # connections that are opened at the same time
HEAD = b"POST /mutate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Kind = Callable[["Target"], Awaitable[None]]


class Target:
    """The server; at most CONNECTING clients connect at the same time, because more would time out by themselves."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.context = ssl.create_default_context(cafile=question.ca)
        self.connecting = asyncio.Semaphore(CONNECTING)
        self.opened = 0

    async def connect(self, *, tls: bool = True) -> Streams:
        async with self.connecting:
            context = self.context if tls else None
            streams = await asyncio.open_connection("127.0.0.1", self.question.port, ssl=context)
            self.opened += 1
            return streams


async def slow_head(target: Target) -> None:
    _, writer = await target.connect()
    await drip(writer, HEAD % 10 + b"0123456789")


async def slow_body(target: Target) -> None:
    _, writer = await target.connect()
    writer.write(HEAD % 1000)
    await drip(writer, b" " * 1000)


async def stalled_body(target: Target) -> None:
    reader, writer = await target.connect()
    writer.write(HEAD % LARGEST_BODY + b" " * (LARGEST_BODY - 1))
    await reader.read()


async def half_open(target: Target) -> None:
    reader, _ = await target.connect(tls=False)
    await reader.read()


async def garbage(target: Target) -> None:
    reader, writer = await target.connect(tls=False)
    writer.write(os.urandom(4096))
    await reader.read()


async def silent(target: Target) -> None:
    reader, _ = await target.connect()
    await reader.read()


async def idle(target: Target) -> None:
    reader, writer = await target.connect()
    writer.write(target.question.request())
    while await reader.read(65536):
        pass


async def idle_after_large(target: Target) -> None:
    reader, writer = await target.connect()
    writer.write(replace(target.question, body=b" " * 1_000_000).request())
    while await reader.read(65536):
        pass


async def answers_not_taken(target: Target) -> None:
    reader, writer = await target.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    request = target.question.request()
    while not writer.is_closing():
        writer.write(request * 100)
        await writer.drain()
        await asyncio.sleep(0)  # if the transport takes all, `drain` does not suspend, and no other task would run
    await reader.read()


async def large_answers_not_taken(target: Target) -> None:
    reader, writer = await target.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    name = "x" * 2_500_000  # the answer contains it twice, in base64
    writer.write(replace(target.question, body=review_of(job(job_spec(containers=(name,))))).request())
    await asyncio.sleep(20)
    await reader.read()


async def comes_and_goes(target: Target) -> None:
    _, writer = await target.connect()
    writer.close()


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    for byte in data:
        writer.write(bytes((byte,)))
        await asyncio.sleep(0.5)
        if writer.is_closing():
            return


KINDS: dict[str, tuple[Kind | None, int]] = {
    "nobody": (None, 0),
    "heads byte by byte": (slow_head, 1000),
    "bodies byte by byte": (slow_body, 1000),
    "bodies that lack the last byte": (stalled_body, 100),
    "TCP without TLS": (half_open, 10_000),
    "garbage instead of TLS": (garbage, 100),
    "silent after the handshake": (silent, 10_000),
    "idle after a request": (idle, 10_000),
    "idle after a request of 1 MB": (idle_after_large, 10_000),
    "answers that nobody takes": (answers_not_taken, 100),
    "large answers that nobody takes": (large_answers_not_taken, 200),
    "connections opened and closed": (comes_and_goes, 20),
}


def attack(name: str, question: Question, end: float) -> int:
    """Run the clients of a kind until `end` (monotonic); return the number of connections that they opened."""
    os.nice(10)  # real clients run on other machines, and do not use the server's processor
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kind, clients = KINDS[name]

    async def run() -> int:
        target = Target(question)
        asyncio.get_running_loop().set_exception_handler(
            lambda *_: None
        )  # errors are expected: the server closes connections

        async def client() -> None:
            while kind is not None:
                with contextlib.suppress(OSError):
                    await kind(target)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(client()) for _ in range(clients)]
        await asyncio.sleep(end - time.monotonic())
        for task in tasks:
            task.cancel()
        return target.opened

    return uvloop.run(run())


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    columns = ("clients", "opened", "asked", "refused", "failed", "wrong", "p99 ms", "RSS MiB", "log KiB")
    print(f"{'kind':32}" + "".join(f"{column:>9}" for column in columns))
    for name, (_, clients) in KINDS.items():
        measure(name, clients, seconds)


def measure(name: str, clients: int, seconds: float) -> None:
    """Attack a new server, and print the figures of the other client."""
    with (
        tempfile.TemporaryDirectory(prefix="retry-policy-hostile-") as folder,
        serving(Path(folder)) as served,
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
    ):
        body = review_of(job())
        question = Question(served.https_port, served.addresses["ca"], body, served.post("/mutate", body).body)
        end = time.monotonic() + 2 + seconds
        asking = pool.submit(at_a_constant_rate, question, PER_SECOND, end)
        attacking = pool.submit(attack, name, question, end)
        with Peak(served) as peak:
            answers, opened = asking.result(), attacking.result()
        log = served.log.stat().st_size // 1024
    statuses = Counter(answer.status for answer in answers)
    right, wrong, refused = (statuses.pop(which, 0) for which in (HTTPStatus.OK, WRONG, HTTPStatus.TOO_MANY_REQUESTS))
    p99 = percentile([answer for answer in answers if answer.status == HTTPStatus.OK], 0.99)
    asked, failed = right + wrong + refused + statuses.total(), statuses.total()
    figures = "".join(f"{figure:9}" for figure in (clients, opened, asked, refused, failed, wrong))
    print(f"{name:32}{figures}{p99:9.1f}{peak.mebibytes:9.0f}{log:9}", flush=True)


if __name__ == "__main__":
    main()
