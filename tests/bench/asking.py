"""Clients, many in one process: they send requests over TLS keep-alive connections and record each answer."""

import asyncio
import math
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import uvloop

LOST = 0  # in place of a status: the connection was closed without an answer
WRONG = -1  # in place of a status: 200, but not the right answer


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of one request; times in seconds, `at` is the monotonic time at which it was sent."""

    at: float
    seconds: float
    status: int


@dataclass(frozen=True, slots=True)
class Question:
    """A request, the server, and the right answer; None if any answer with status 200 is right."""

    port: int
    ca: str
    body: bytes
    right: bytes | None = None

    def request(self) -> bytes:
        head = f"POST /mutate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(self.body)}\r\n\r\n"
        return head.encode() + self.body


class Asking(asyncio.Protocol):
    """One connection with at most one unanswered request."""

    transport: asyncio.Transport

    def __init__(self, question: Question, answered: Callable[["Asking", Answered], None]) -> None:
        self.question = question
        self.request = question.request()
        self.answered = answered
        self.received = bytearray()
        self.at: float | None = None
        self.closed = asyncio.get_running_loop().create_future()

    def ask(self) -> None:
        self.at = time.monotonic()
        self.transport.write(self.request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.received[:end]).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(self.received) < end + 4 + length:
            return
        status = int(head.split(b" ", 2)[1])
        body = bytes(self.received[end + 4 :])
        self.received.clear()
        if status == HTTPStatus.OK and self.question.right not in {None, body}:
            status = WRONG
        self.note(status)

    def connection_lost(self, _: Exception | None) -> None:
        self.note(LOST)
        if not self.closed.done():
            self.closed.set_result(None)

    def note(self, status: int) -> None:
        if self.at is not None:
            answered = Answered(self.at, time.monotonic() - self.at, status)
            self.at = None
            self.answered(self, answered)


async def connected(question: Question, answered: Callable[[Asking, Answered], None]) -> Asking:
    context = ssl.create_default_context(cafile=question.ca)
    loop = asyncio.get_running_loop()
    _, asking = await loop.create_connection(
        lambda: Asking(question, answered), "127.0.0.1", question.port, ssl=context, server_hostname="127.0.0.1"
    )
    return asking


def as_fast_as_answered(question: Question, clients: int, begin: float, end: float) -> list[Answered]:
    """Send requests from `begin` to `end` (monotonic) over this number of connections, each after an answer."""
    answers: list[Answered] = []

    def answered(asking: Asking, answer: Answered) -> None:
        answers.append(answer)
        if time.monotonic() < end and not asking.transport.is_closing():
            asking.ask()

    async def run() -> None:
        opened = [await connected(question, answered) for _ in range(clients)]
        await asyncio.sleep(begin - time.monotonic())
        for asking in opened:
            asking.ask()
        await asyncio.sleep(end - time.monotonic() + 1)

    uvloop.run(run())
    return answers


def at_a_constant_rate(question: Question, per_second: float, end: float) -> list[Answered]:
    """Send requests until `end` (monotonic), each over an idle connection, as an API server does, or over a new one."""
    answers: list[Answered] = []
    free: list[Asking] = []

    def answered(asking: Asking, answer: Answered) -> None:
        answers.append(answer)
        if answer.status != LOST:
            free.append(asking)

    async def ask() -> None:
        while free:
            asking = free.pop()
            if not asking.transport.is_closing():
                return asking.ask()
        at = time.monotonic()
        try:
            asking = await connected(question, answered)
        except OSError:
            answers.append(Answered(at, time.monotonic() - at, LOST))
        else:
            asking.ask()
        return None

    async def run() -> None:
        begin = time.monotonic()
        pending = set()
        for number in range(math.floor((end - begin) * per_second)):
            await asyncio.sleep(max(0.0, begin + number / per_second - time.monotonic()))
            pending.add(task := asyncio.create_task(ask()))
            task.add_done_callback(pending.discard)
        await asyncio.sleep(1)

    uvloop.run(run())
    return answers


def percentile(answers: list[Answered], share: float) -> float:
    """Return the milliseconds within which this share of the requests was answered; NaN without requests."""
    times = sorted(answer.seconds for answer in answers)
    return times[min(len(times) - 1, math.floor(len(times) * share))] * 1000 if times else math.nan


def resident(pid: int, field: str = "VmRSS") -> float:
    """Return the memory of a process in MiB: VmRSS is the current value, VmHWM the highest one."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 - a file of the kernel
        line = next(line for line in status if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123 - a file of the kernel
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
