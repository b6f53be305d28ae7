"""Waits for a condition that only polling can see."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LONGEST = 300.0  # seconds; what a machine that is busy with other work may take
INTERVAL = 0.02
DELAY = 0.05  # at most this part of the time waited is added, so that a long wait takes little CPU time


def until(condition: Callable[[], Found | None]) -> Found:
    """Return what the condition returns as soon as it holds; fail if it does not hold within LONGEST seconds."""
    begin = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begin
        assert waited < LONGEST, f"the condition does not hold after {LONGEST:g} s"
        time.sleep(max(INTERVAL, waited * DELAY))
    return found
