"""Gives memory back to the system that a rush of requests has left behind.

glibc keeps what was freed in the midst of its heap, so after a rush a process stays as large as it was then, for ever.
"""

import asyncio
import ctypes
import os
from pathlib import Path
from typing import Final

PAUSE: Final = 10.0  # seconds
RUSH: Final = 8 * 2**20  # bytes that it has grown by since: to trim takes milliseconds, in which nobody is answered
RESIDENT: Final = Path("/proc/self/statm")


async def give_back() -> None:
    """Trim the heap after a rush until cancelled; where the C library is not glibc there is nothing to do."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    settled = 0
    while trim is not None:
        await asyncio.sleep(PAUSE)
        if resident() > settled + RUSH:
            trim(0)
            settled = resident()


def resident() -> int:
    """Return how many bytes of memory this process has."""
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
