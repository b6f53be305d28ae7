"""Sees when the machine itself stands still: watches each core at a priority above all that is measured.

A virtual machine is stopped by its host, for a hundred milliseconds and more. Whatever runs at real-time priority waits
for nothing else. Needs root, or CAP_SYS_NICE.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

ASKING: Final = 50  # real-time priorities: of those who ask, whose threads spin, of what is measured, of the watches
MEASURED: Final = 60
WATCHING: Final = 90
LOOKS: Final = 0.001  # seconds between looks
CATCH_UP: Final = 5.0  # seconds, in which watches tell that they are there
LATE: Final = 0.001  # seconds that a look may be late and nothing has stood still

Span = tuple[float, float]  # from when to when, seconds since the epoch


def at_real_time(priority: int = ASKING) -> None:
    """Have this process, and what it starts, wait for nobody of lower priority."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


@contextmanager
def in_real_time(pids: list[int]) -> Iterator[None]:
    """Have the threads of processes wait for nobody of lower priority."""
    threads = [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    try:
        for thread in threads:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(MEASURED))
        yield
    except PermissionError:
        raise RuntimeError("real-time priority is refused; run this as root") from None
    finally:
        for thread in threads:
            if Path(f"/proc/{thread}").exists():
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def nobody_else(pids: list[int]) -> Iterator[None]:
    """Have processes do nothing meanwhile, and after that what they are late with."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(CATCH_UP)


@contextmanager
def watched() -> Iterator[list[Span]]:
    """Watch every core; the list is filled once the block has ended."""
    cores = sorted(os.sched_getaffinity(0))
    watches = [
        subprocess.Popen([sys.executable, "-m", "tests.bench.stalls", str(core)], stdout=subprocess.PIPE)
        for core in cores
    ]
    found: list[Span] = []
    try:
        yield found
    finally:
        for watch in watches:
            watch.send_signal(signal.SIGTERM)
        for watch in watches:
            told, _ = watch.communicate()
            found += msgspec.json.decode(told, type=list[Span])


def without(stalls: list[Span], span: Span) -> float:
    """Return how many seconds of a span none of the cores stood still in."""
    start, end = span
    left, covered = end - start, start
    for begin, stop in sorted(stalls):
        begin, stop = max(begin, covered), min(stop, end)  # noqa: PLW2901 - cut to what is left of the span
        if stop > begin:
            left -= stop - begin
            covered = stop
    return left


def watch(core: int) -> list[Span]:
    """Watch one core until SIGTERM."""
    os.sched_setaffinity(0, {core})
    at_real_time(WATCHING)
    found: list[Span] = []
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    before = time.time()
    while not stopped:
        time.sleep(LOOKS)
        now = time.time()
        if now - before > LOOKS + LATE:
            found.append((before, now))
        before = now
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(watch(int(sys.argv[1]))))
