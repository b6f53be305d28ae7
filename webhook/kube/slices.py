"""Long work in slices, so that no admission waits until all of it is done."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

SLICE: Final = 0.02  # seconds

Item = TypeVar("Item")


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield items; whenever what is done with them has taken a slice of time, let other tasks run."""
    end = time.monotonic() + SLICE
    for item in items:
        yield item
        if time.monotonic() >= end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE
