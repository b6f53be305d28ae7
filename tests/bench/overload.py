"""Ten times as many clients of one namespace as the server lets wait, each of which sends requests without a pause.

`python -m tests.bench.overload [SECONDS]`, by default 60. Reviews of 4 KiB; then of 3 MiB, for a third of the time.
"""

import multiprocessing
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Self

from tests.admission import review_of
from tests.bench.asking import (
    LOST,
    WRONG,
    Answered,
    Question,
    as_fast_as_answered,
    at_a_constant_rate,
    percentile,
    resident,
)
from tests.objects import job, job_spec
from tests.served import Served, serving
from webhook.program import memory
from webhook.serving.limits import LIMITS

PROCESSES = 2
SHARE = LIMITS.requests // 2  # requests of one namespace at the same time
CLIENTS = 10 * SHARE
CONNECTING = 10.0  # seconds before the load, so that all connections are open when it begins
AFTER = 1.2 * memory.PAUSE  # seconds that are measured after the load
PROBES = 50  # requests a second of the probing client, before, during and after the load
WINDOW = 0.2  # seconds for one p99 of the probing client, to see when it is back to normal


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    big = job_spec()
    big["template"]["spec"]["containers"][0]["env"] = [
        {"name": f"VARIABLE_{number}", "value": f"a value of ordinary length, {number}"} for number in range(48_000)
    ]
    overload("4 KiB", review_of(job(annotations={"padding": "x" * 3600})), CLIENTS, seconds)
    overload("3 MiB", review_of(job(big)), SHARE, seconds / 3)


def overload(name: str, body: bytes, clients: int, seconds: float) -> None:
    """Load a new server, and print the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="retry-policy-overload-") as folder,
        serving(Path(folder)) as served,
        ProcessPoolExecutor(PROCESSES + 1, multiprocessing.get_context("spawn")) as pool,
    ):
        question = Question(served.https_port, served.addresses["ca"], body)
        probe = Question(question.port, question.ca, review_of(job()))
        before = resident(served.process.pid)
        begin = time.monotonic() + CONNECTING
        end = begin + seconds
        probing = pool.submit(at_a_constant_rate, probe, PROBES, end + AFTER)
        asking = [
            pool.submit(as_fast_as_answered, question, clients // PROCESSES, begin, end) for _ in range(PROCESSES)
        ]
        with Peak(served) as peak:
            answers = [answer for part in asking for answer in part.result()]
            probes = probing.result()
        after = resident(served.process.pid)
        accepted = [answer for answer in answers if answer.status == HTTPStatus.OK]
        refused = [answer for answer in answers if answer.status == HTTPStatus.TOO_MANY_REQUESTS]
        others = sorted({answer.status for answer in answers} - {HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS})
    print(f"{name} ({len(body)} bytes), {clients} clients, {seconds:g} s")
    print(f"  memory  before {before:.0f}, peak {peak.mebibytes:.0f}, after {after:.0f} MiB")
    print(f"  a second  accepted {len(accepted) / seconds:.0f}, refused {len(refused) / seconds:.0f}")
    print(f"  accepted  p50 {percentile(accepted, 0.5):.0f}, p99 {percentile(accepted, 0.99):.0f} ms")
    print(f"  refused   p50 {percentile(refused, 0.5):.0f}, p99 {percentile(refused, 0.99):.0f} ms")
    lost = sum(answer.status == LOST for answer in answers)
    print(f"  other answers {[status for status in others if status > 0]}, connections lost {lost}")
    print_probes(probes, begin, end)


def print_probes(probes: list[Answered], begin: float, end: float) -> None:
    """Print the figures of the probing client, and when they were back to normal."""
    calm = [probe for probe in probes if begin - CONNECTING / 2 < probe.at < begin - 0.5]
    meanwhile = [probe for probe in probes if begin <= probe.at < end]
    served = [probe for probe in meanwhile if probe.status == HTTPStatus.OK]
    lost = sum(probe.status in {LOST, WRONG} for probe in probes)
    normal = percentile(calm, 0.99)
    print(f"  a client of {PROBES}/s  p99 before {normal:.1f}, meanwhile {percentile(served, 0.99):.0f} ms; ", end="")
    print(f"{len(meanwhile) - len(served)} of {len(meanwhile)} refused, {lost} lost or wrong; ", end="")
    window = 0.0
    while window < AFTER:
        now = [probe for probe in probes if end + window <= probe.at < end + window + WINDOW]
        if all(probe.status == HTTPStatus.OK for probe in now) and percentile(now, 0.99) <= 2 * normal:
            break
        window += WINDOW
    print(f"p99 at most twice that again {window:.1f} s after the end")


class Peak:
    """The highest memory of a server while the block runs."""

    def __init__(self, served: Served) -> None:
        self.pid = served.process.pid
        self.mebibytes = 0.0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self) -> None:
        while not self.done.wait(0.02):
            self.mebibytes = max(self.mebibytes, resident(self.pid))

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()


if __name__ == "__main__":
    main()
