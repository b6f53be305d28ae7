"""Divide long loops into slices of time, so that admission requests are answered between them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

SLICE: Final = 0.02  # seconds

Item = TypeVar("Item")


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield items; let other tasks run whenever the caller's loop has taken SLICE seconds."""
    end = time.monotonic() + SLICE
    for item in items:
        yield item
        if time.monotonic() >= end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE
