"""An event loop whose time passes by itself: a sleep ends at once where nothing else can run, and takes its seconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

BEGIN = 1000.0  # seconds: not 0, so that what was never set is not taken for a moment ago

LONGEST = 3600.0  # seconds of this time

Result = TypeVar("Result")


class Selector(selectors.DefaultSelector):
    """Waits for nothing: the seconds that it would wait are added to the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGIN

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "every task waits for another one"
            self.now += max(0.0, timeout)
        return found


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, as asyncio.run does; raise TimeoutError where it does not end in LONGEST."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(asyncio.wait_for(work, LONGEST))


def now() -> float:
    """Return the seconds since the loop began."""
    return asyncio.get_running_loop().time() - BEGIN
