"""Gives memory back to the system that a rush of requests has left behind.

glibc keeps what was freed in the midst of its heap, so after a rush a process stays as large as it was then, for ever.
"""

import asyncio
import ctypes
from typing import Final

PAUSE: Final = 10.0  # seconds; a look takes a few milliseconds


async def give_back() -> None:
    """Trim the heap now and again until cancelled; where the C library is not glibc there is nothing to do."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(PAUSE)
        trim(0)
