"""Measure the cost of a call, for the tests that bound the work of each reader of user data.

Two measures that are the same on every machine, beside whatever else runs there: the lines that are executed, each
round of a loop or a comprehension anew, and the peak of the memory that the call allocates. To count instructions of
Python's virtual machine would take three times as long. What C code costs is measured by `make bench`.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

MEBIBYTE: Final = 1024 * 1024
UNTIL_IT_BLOCKS: Final = 1e6  # seconds
CACHED_FUNCTION: Final = type(lru_cache(len))
MOST_GROWTH: Final = 5.0  # of the cost when the input grows fourfold
# Ratios of smaller values mean little: they are dominated by start-up.
LEAST_LINES: Final = 330
LEAST_BYTES: Final = 64 * 1024

Input = TypeVar("Input")


class Cost(NamedTuple):
    """Lines executed, and bytes allocated at the peak."""

    lines: int
    bytes: int


def lines_of(work: Callable[[], object]) -> int:
    """Return the number of lines that `work` executes in this thread."""
    counted = 0

    def count(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        counted += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def bytes_of(work: Callable[[], object]) -> int:
    """Return the peak of the bytes that `work` allocates, including its result."""
    with traced():
        work()
        return tracemalloc.get_traced_memory()[1]


def kept_bytes_of(work: Callable[[], object]) -> int:
    """Return by how many bytes the memory has grown after `work`, without what this project's caches remember.

    These are bounded, and how full they are depends on the tests that ran before.
    """
    forget()
    with traced():
        work()
        forget()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


@contextmanager
def traced() -> Iterator[None]:
    """Trace what is allocated, by this thread alone: another one may get what the next tests are, by pytest-xdist."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(UNTIL_IT_BLOCKS)
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        sys.setswitchinterval(before)


def forget() -> None:
    """Empty every cache of a function of this project."""
    modules = [module for name, module in sys.modules.items() if name.startswith("webhook.")]
    for found in [value for module in modules for value in vars(module).values()]:
        if isinstance(found, CACHED_FUNCTION):
            found.cache_clear()


def cost_of(work: Callable[[], object]) -> Cost:
    return Cost(lines_of(work), bytes_of(work))


def assert_grows_with_its_input(work: Callable[[Input], object], made: Callable[[int], Input], size: int) -> None:
    """Fail if four times the input costs more than MOST_GROWTH times as much; `made` returns an input of a size."""
    small, large = made(size), made(4 * size)
    before, after = cost_of(lambda: work(small)), cost_of(lambda: work(large))
    for name, growth in grown(before, after).items():
        assert growth <= MOST_GROWTH, f"{name} grow {growth:.1f} times with four times the input: {before} to {after}"


def grown(before: Cost, after: Cost) -> dict[str, float]:
    """Return the factor by which each measure has grown."""
    floors = Cost(LEAST_LINES, LEAST_BYTES)
    return {
        name: large / max(small, floor)
        for name, small, large, floor in zip(Cost._fields, before, after, floors, strict=True)
    }


def assert_affordable(work: Callable[[], object], *, lines: int, mebibytes: int = 128) -> None:
    """Fail if `work` executes more lines than allowed, or needs more memory."""
    cost = cost_of(work)
    assert cost.lines <= lines, f"{cost.lines} lines, at most {lines}"
    peak = cost.bytes / MEBIBYTE
    assert peak <= mebibytes, f"{peak:.0f} MiB at the peak, at most {mebibytes} MiB"
