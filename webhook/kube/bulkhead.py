"""Set aside the one object that makes a handler raise, so that nothing else stops.

An object is data of somebody. Whatever it contains, it must end no task, list, report or loop. What a handler raises
about it is counted and logged once for each version of the object; the next version is handled anew.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from webhook import metrics

MOST: Final = 10_000  # objects that are remembered, so that the log names each once
LONGEST: Final = 500  # characters of an error in a log line
LONGEST_PAUSE: Final = 60.0  # seconds between two runs of a step that fails again and again

log = structlog.get_logger()


class Bulkhead:
    """What was set aside by the handlers of one kind of work. `name`: of that work, for log and metric."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logged: OrderedDict[tuple[str, str], str] = OrderedDict()  # version by namespace and name, oldest first
        metrics.OBJECTS_SET_ASIDE.labels(name)  # reported as 0: an alert must see the first one

    def set_aside(self, error: Exception, namespace: str, name: str, version: str) -> None:
        """Count that a version of an object was set aside, and log it once with the place of the error."""
        metrics.OBJECTS_SET_ASIDE.labels(self.name).inc()
        key = (namespace, name)
        if self.logged.pop(key, None) != version:
            about = {"namespace": namespace, "name": name, "error": repr(error)[:LONGEST]}
            log.error("object set aside", work=self.name, **about, exc_info=error)
        self.logged[key] = version
        if len(self.logged) > MOST:
            self.logged.popitem(last=False)


async def repeat(name: str, pause: float, step: Callable[[], Awaitable[None]]) -> None:
    """Take a step every `pause` seconds until cancelled; if it raises, log that and take it later again."""
    wait = pause
    while True:
        await asyncio.sleep(wait)
        try:
            await step()
            wait = pause
        except Exception:
            wait = min(max(pause, 2 * wait), LONGEST_PAUSE)
            metrics.STEPS_FAILED.labels(name).inc()
            log.exception("step failed", step=name, retry_in=wait)
