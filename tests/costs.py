"""Measure the cost of a call, for the tests that bound the work of each reader of user data.

Two measures that are the same on every machine, beside whatever else runs there: instructions of Python's virtual
machine, and the peak of the memory that the call allocates. What C code costs is measured by `make bench`.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

MEBIBYTE: Final = 1024 * 1024
MOST_GROWTH: Final = 5.0  # of the cost when the input grows fourfold
# Ratios of smaller values mean little: they are dominated by start-up.
LEAST_INSTRUCTIONS: Final = 2_000
LEAST_LINES: Final = 400
LEAST_BYTES: Final = 64 * 1024

Input = TypeVar("Input")


class Cost(NamedTuple):
    """Python instructions, and bytes allocated at the peak."""

    instructions: int
    bytes: int


def instructions_of(work: Callable[[], object]) -> int:
    """Return the number of Python instructions that `work` executes in this thread."""
    return _traced(work, "opcode")


def lines_of(work: Callable[[], object]) -> int:
    """Return the number of lines that `work` executes, each round of a loop anew: a growth, in half the time."""
    return _traced(work, "line")


def _traced(work: Callable[[], object], what: str) -> int:
    counted = 0

    def count(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        counted += event == what
        return count

    def trace(frame: FrameType, _event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = what == "opcode", what == "line"
        return count

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


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
    return Cost(instructions_of(work), bytes_of(work))


def assert_grows_with_its_input(work: Callable[[Input], object], made: Callable[[int], Input], size: int) -> None:
    """Fail if four times the input costs more than MOST_GROWTH times as much; `made` returns an input of a size."""
    small, large = made(size), made(4 * size)
    before, after = cost_of(lambda: work(small)), cost_of(lambda: work(large))
    for name, growth in grown(before, after).items():
        assert growth <= MOST_GROWTH, f"{name} grow {growth:.1f} times with four times the input: {before} to {after}"


def grown(before: Cost, after: Cost) -> dict[str, float]:
    """Return the factor by which each measure has grown."""
    floors = Cost(LEAST_INSTRUCTIONS, LEAST_BYTES)
    return {
        name: large / max(small, floor)
        for name, small, large, floor in zip(Cost._fields, before, after, floors, strict=True)
    }


def assert_affordable(work: Callable[[], object], *, instructions: int, mebibytes: int = 128) -> None:
    """Fail if `work` executes more instructions than allowed, or needs more memory."""
    cost = cost_of(work)
    assert cost.instructions <= instructions, f"{cost.instructions} instructions, at most {instructions}"
    peak = cost.bytes / MEBIBYTE
    assert peak <= mebibytes, f"{peak:.0f} MiB at the peak, at most {mebibytes} MiB"
