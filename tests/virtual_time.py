"""An event loop with virtual time: if no task can run, time jumps to the end of the shortest sleep."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

BEGIN = 1000.0  # seconds; not 0, so that a time that was never set (0) is not a recent one

LONGEST = 3600.0  # seconds of virtual time

Result = TypeVar("Result")


class Selector(selectors.DefaultSelector):
    """Never waits: it adds the seconds that it would wait to the virtual time."""

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
    """Run a coroutine to its end, as asyncio.run does; raise TimeoutError if it does not end within LONGEST."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(asyncio.wait_for(work, LONGEST))


def now() -> float:
    """Return the seconds since the loop began."""
    return asyncio.get_running_loop().time() - BEGIN
