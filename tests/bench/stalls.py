"""Detects when the machine itself pauses, by a program on each core with a higher priority than all that is measured.

The host stops a virtual machine for a hundred milliseconds and more. A program at real-time priority waits for no
program of lower priority, so only such a pause makes it late. Needs root or CAP_SYS_NICE.
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

# Real-time priorities: of the clients, whose threads spin; of the measured servers; of the watching programs.
ASKING: Final = 50
MEASURED: Final = 60
WATCHING: Final = 90
LOOKS: Final = 0.001  # seconds between two reads of the clock
CATCH_UP: Final = 5.0  # seconds for the stopped processes to do the work that they are late with
LATE: Final = 0.001  # seconds that a read may be late without a pause of the machine

Span = tuple[float, float]  # begin and end, seconds since the epoch


def at_real_time(priority: int = ASKING) -> None:
    """Give this process, and the processes that it starts, a real-time priority.

    Round robin: first in, first out, two loads have each held a core for twenty minutes, while the thread that they
    waited for was ready to run.
    """
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))


@contextmanager
def in_real_time(pids: list[int]) -> Iterator[None]:
    """Give the threads of processes a real-time priority while the block runs."""
    threads = [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    try:
        for thread in threads:
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(MEASURED))
        yield
    except PermissionError:
        raise RuntimeError("real-time priority is refused; run this as root") from None
    finally:
        for thread in threads:
            if Path(f"/proc/{thread}").exists():
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def nobody_else(pids: list[int]) -> Iterator[None]:
    """Stop processes while the block runs; then give them time to catch up."""
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
    """Watch every core while the block runs; yield a list that has the pauses after the block."""
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
            output, _ = watch.communicate()
            found += msgspec.json.decode(output, type=list[Span])


def without(stalls: list[Span], span: Span) -> float:
    """Return the seconds of a span in which no core paused."""
    start, end = span
    left, covered = end - start, start
    for begin, stop in sorted(stalls):
        begin, stop = max(begin, covered), min(stop, end)  # noqa: PLW2901 - cut to what is left of the span
        if stop > begin:
            left -= stop - begin
            covered = stop
    return left


def watch(core: int) -> list[Span]:
    """Watch one core until SIGTERM; return its pauses."""
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
