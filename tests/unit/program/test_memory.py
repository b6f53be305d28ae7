"""The heap is trimmed after a burst, and only then: this takes milliseconds, in which no request is answered."""

import asyncio
import ctypes
import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests import virtual_time
from webhook.program import memory
from webhook.program.memory import BURST, PAUSE


class Heap:
    """The heap of a process; a trim resets its size to the first one."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = iter(sizes)
        self.size = 0
        self.trimmed = 0

    def resident(self) -> int:
        return self.size

    def trim(self, _: int) -> None:
        self.trimmed += 1
        self.size = 0

    def grow(self) -> Iterator[None]:
        for size in self.sizes:
            self.size = size
            yield


def trims(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> int:
    """Return the number of trims while the heap has these sizes, one after the other."""
    heap = Heap(*sizes)
    monkeypatch.setattr(memory, "resident", heap.resident)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=heap.trim))

    async def run() -> None:
        giving = asyncio.create_task(memory.trim_after_bursts())
        for _ in heap.grow():
            await asyncio.sleep(PAUSE)
        giving.cancel()

    virtual_time.run(run())
    return heap.trimmed


def test_a_burst_is_followed_by_a_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trims(monkeypatch, 0, BURST + 1, BURST, BURST) == 1


def test_a_heap_that_grows_little_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trims(monkeypatch, 0, BURST, 1, BURST) == 0


def test_what_fills_a_cache_is_not_examined_by_the_garbage_collector_from_then_on() -> None:
    async def run() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        work = asyncio.create_task(memory.exempt(first, second))
        for event in (first, second):
            cached = [{"number": number} for number in range(1000)]
            kept.append(cached)
            await asyncio.sleep(1)
            assert any(one is cached for one in gc.get_objects())
            event.set()
            await asyncio.sleep(1)
            assert not any(one is cached for one in gc.get_objects())
        assert work.done()

    kept: list[Any] = []
    try:
        virtual_time.run(run())
    finally:
        gc.unfreeze()


def test_with_another_c_library_nothing_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    virtual_time.run(memory.trim_after_bursts())
