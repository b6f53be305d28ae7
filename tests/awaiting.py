"""Waits for a condition that only polling can see."""

import time
from collections.abc import Callable

SECONDS = 60.0
INTERVAL = 0.02


def until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; fail if it does not hold within a minute."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"the condition does not hold after {SECONDS:g} s"
        time.sleep(INTERVAL)
