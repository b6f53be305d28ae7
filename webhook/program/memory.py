"""Keeps the costs of memory small: returns it after a burst of requests, and does not examine what stays.

glibc keeps memory that was freed in the middle of its heap, so the process would stay as large as during the burst.
Settings of glibc do not replace the timer. A MALLOC_TRIM_THRESHOLD_ of 128 KiB returns as much, but then a request of
4 KiB causes 4 page faults instead of none, and one of 200 KB 280: a third more CPU time, and twice as much. Larger
thresholds have no cost, but leave 10 to 20 MiB more. jemalloc returns as much only with an additional thread.
"""

import asyncio
import ctypes
import gc
import os
from pathlib import Path
from typing import Final

from webhook import metrics

PAUSE: Final = 10.0  # seconds
BURST: Final = 8 * 2**20  # bytes of growth before the heap is trimmed, which blocks the server for milliseconds
RESIDENT: Final = Path("/proc/self/statm")


async def trim_after_bursts() -> None:
    """Trim the heap after each burst until cancelled; return at once if the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    settled = 0
    while trim is not None:
        await asyncio.sleep(PAUSE)
        if resident() > settled + BURST:
            trim(0)
            settled = resident()


async def exempt(*filled: asyncio.Event) -> None:
    """Exclude the caches from garbage collection as soon as each is filled, and all objects that exist then.

    To examine the objects of 100,000 Jobs takes a second, in which no request is answered.
    """
    for event in filled:
        await event.wait()
        gc.freeze()


def measure() -> None:
    """Report the resident memory in the metrics, if the system says how much it is."""
    if RESIDENT.exists():
        metrics.RESIDENT_MEMORY.set_function(resident)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
