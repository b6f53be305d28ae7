"""Measure the cost of a call, for the tests that bound the work of each reader of user data.

Three measures, because each misses some costs: instructions of Python's virtual machine (the same on every machine and
in every run), CPU seconds (which include C code), and the peak of the memory that the call allocates.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

MEBIBYTE: Final = 1024 * 1024
MOST_GROWTH: Final = 5.0  # of the cost when the input grows fourfold
# Ratios of smaller values mean little: they are dominated by start-up and by the clock's resolution.
LEAST_INSTRUCTIONS: Final = 2_000
LEAST_SECONDS: Final = 0.005
LEAST_BYTES: Final = 64 * 1024
RUNS: Final = 3  # the cheapest is used: other processes can only add time
MORE_RUNS: Final = 5  # times as many runs before CPU time counts as too much

Input = TypeVar("Input")


class Cost(NamedTuple):
    """Python instructions, CPU seconds of this process, and bytes allocated at the peak."""

    instructions: int
    seconds: float
    bytes: int


def instructions_of(work: Callable[[], object]) -> int:
    """Return the number of Python instructions that `work` executes in this thread."""
    counted = 0

    def count(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        counted += event == "opcode"
        return count

    def trace(frame: FrameType, _event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def seconds_of(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the CPU seconds of the cheapest of `runs` runs."""
    before = sys.gettrace()
    sys.settrace(None)  # else the time would include the measurement of coverage
    try:
        return min(timed(work) for _ in range(runs))
    finally:
        sys.settrace(before)


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def bytes_of(work: Callable[[], object]) -> int:
    """Return the peak of the bytes that `work` allocates, including its result."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cost_of(work: Callable[[], object]) -> Cost:
    return Cost(instructions_of(work), seconds_of(work), bytes_of(work))


def assert_grows_with_its_input(work: Callable[[Input], object], made: Callable[[int], Input], size: int) -> None:
    """Fail if four times the input costs more than MOST_GROWTH times as much; `made` returns an input of a size."""
    small, large = made(size), made(4 * size)
    before, after = cost_of(lambda: work(small)), cost_of(lambda: work(large))
    for _ in range(MORE_RUNS):  # other processes can make a run more expensive, but none cheaper
        if grown(before, after)["seconds"] <= MOST_GROWTH:
            break
        before = before._replace(seconds=min(before.seconds, seconds_of(lambda: work(small))))
        after = after._replace(seconds=min(after.seconds, seconds_of(lambda: work(large))))
    for name, growth in grown(before, after).items():
        assert growth <= MOST_GROWTH, f"{name} grow {growth:.1f} times with four times the input: {before} to {after}"


def grown(before: Cost, after: Cost) -> dict[str, float]:
    """Return the factor by which each measure has grown."""
    floors = Cost(LEAST_INSTRUCTIONS, LEAST_SECONDS, LEAST_BYTES)
    return {
        name: large / max(small, floor)
        for name, small, large, floor in zip(Cost._fields, before, after, floors, strict=True)
    }


def assert_affordable(work: Callable[[], object], *, seconds: float, mebibytes: int = 128) -> None:
    """Fail if `work` costs more CPU time or memory than allowed."""
    spent = seconds_of(work)
    for _ in range(MORE_RUNS):
        if spent <= seconds:
            break
        spent = min(spent, seconds_of(work))
    peak = bytes_of(work)
    assert spent <= seconds, f"{spent:.3f} s of CPU time, at most {seconds} s"
    assert peak <= mebibytes * MEBIBYTE, f"{peak / MEBIBYTE:.0f} MiB at the peak, at most {mebibytes} MiB"
