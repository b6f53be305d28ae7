"""Returns freed memory to the system after a burst of requests.

glibc keeps memory that was freed in the middle of its heap, so the process would stay as large as the burst made it.
Its settings do not replace the timer. MALLOC_TRIM_THRESHOLD_ of 128 KiB returns as much, but a request of 4 KiB then
takes four page faults and one of 200 KB 280, where there were none: a third more CPU time, and twice as much. Larger
thresholds, which cost nothing, leave 10 to 20 MiB more. jemalloc returns as much only with a thread of its own.
"""

import asyncio
import ctypes
import os
from pathlib import Path
from typing import Final

PAUSE: Final = 10.0  # seconds
BURST: Final = 8 * 2**20  # bytes of growth below which nothing is trimmed: it takes milliseconds, without an answer
RESIDENT: Final = Path("/proc/self/statm")


async def give_back() -> None:
    """Trim the heap after each burst until cancelled; return at once where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    settled = 0
    while trim is not None:
        await asyncio.sleep(PAUSE)
        if resident() > settled + BURST:
            trim(0)
            settled = resident()


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
