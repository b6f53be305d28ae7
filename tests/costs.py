"""What a piece of work costs: for the tests that hold each reader of user data to a bound.

Three measures, because each sees what the others miss: instructions of Python's virtual machine (the same on each
machine, each time), CPU seconds (C code executes no instructions), and the peak of the memory allocated meanwhile.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

MEBIBYTE: Final = 1024 * 1024
MOST_GROWTH: Final = 5.0  # of the cost, where the input grows fourfold
# Below these a ratio says nothing: start-up of the work, the clock's resolution.
LEAST_INSTRUCTIONS: Final = 2_000
LEAST_SECONDS: Final = 0.005
LEAST_BYTES: Final = 64 * 1024
RUNS: Final = 3  # of which the cheapest counts: other processes only ever add
PATIENCE: Final = 5  # times as many, before CPU time is too much

Input = TypeVar("Input")


class Cost(NamedTuple):
    """Instructions of Python, CPU seconds of this process, bytes at the peak beyond those before."""

    instructions: int
    seconds: float
    bytes: int


def instructions_of(work: Callable[[], object]) -> int:
    """Count the instructions of all Python code that `work` runs in this thread."""
    counted = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def seconds_of(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the CPU seconds of the cheapest of a few runs."""
    before = sys.gettrace()
    sys.settrace(None)  # coverage would be measured along
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
    """Return the peak of what `work` allocates, its result included."""
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
    """Fail where four times the input costs more than five times as much; `made` makes an input of a size."""
    small, large = made(size), made(4 * size)
    before, after = cost_of(lambda: work(small)), cost_of(lambda: work(large))
    for _ in range(PATIENCE):  # what else runs on the machine makes single runs dearer, and none cheaper
        if grown(before, after)["seconds"] <= MOST_GROWTH:
            break
        before = before._replace(seconds=min(before.seconds, seconds_of(lambda: work(small))))
        after = after._replace(seconds=min(after.seconds, seconds_of(lambda: work(large))))
    for name, growth in grown(before, after).items():
        assert growth <= MOST_GROWTH, f"{name} grow {growth:.1f} times with four times the input: {before} to {after}"


def grown(before: Cost, after: Cost) -> dict[str, float]:
    """Return how many times each measure has grown."""
    floors = Cost(LEAST_INSTRUCTIONS, LEAST_SECONDS, LEAST_BYTES)
    return {
        name: large / max(small, floor)
        for name, small, large, floor in zip(Cost._fields, before, after, floors, strict=True)
    }


def assert_affordable(work: Callable[[], object], *, seconds: float, mebibytes: int = 128) -> None:
    """Fail where `work` costs more CPU time or memory than it may."""
    spent = seconds_of(work)
    for _ in range(PATIENCE):
        if spent <= seconds:
            break
        spent = min(spent, seconds_of(work))
    peak = bytes_of(work)
    assert spent <= seconds, f"{spent:.3f} s of CPU time, at most {seconds} s"
    assert peak <= mebibytes * MEBIBYTE, f"{peak / MEBIBYTE:.0f} MiB at the peak, at most {mebibytes} MiB"
