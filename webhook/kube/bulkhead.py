"""Set aside the one object that makes a handler raise, so that nothing else stops.

An object is data of somebody. Whatever it contains, it must end no task, list, report or loop. What a handler raises
about it is counted, and logged once an hour for each object. Here alone whatever is raised is caught: by `Bulkhead`
about an object, by `step` in a loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

import structlog

from webhook import metrics
from webhook.kube.tasks import in_slices

AGAIN: Final = 3600.0  # seconds after which the log names an object again
MOST: Final = 1_000  # objects that the log names in that time, for one kind of work
LONGEST: Final = 500  # characters of an error in a log line
LONGEST_PAUSE: Final = 60.0  # seconds between two runs of a step that fails again and again

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Item = TypeVar("Item")

log = structlog.get_logger()


class Bulkhead:
    """Sets objects aside in one kind of work. `name`: of that work, for log and metric.

    `clock`: monotonic, in seconds. `logged`: when the log named an object, by namespace and name, the oldest first.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.clock = clock
        self.logged: dict[tuple[str, str], float] = {}
        metrics.OBJECTS_SET_ASIDE.labels(name)  # reported as 0: an alert must see the first one

    def call(
        self,
        namespace: str,
        name: str,
        handler: Callable[Parameters, Value],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Value | None:
        """Return what a handler returns about an object; set the object aside, and return None, if it raises."""
        try:
            return handler(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one object, others must not notice it
            self.set_aside(error, namespace, name)
            return None

    def around(self, namespace: str, name: str) -> "Around":
        """Return a context manager that sets an object aside if its block raises; what follows the block is next."""
        return Around(self, namespace, name)

    async def each(
        self, items: Iterable[Item], handler: Callable[[Item], None], place_of: Callable[[Item], tuple[str, str]]
    ) -> None:
        """Call a handler with each item, in slices, as `call`; `place_of`: returns namespace and name of an item."""
        async for item in in_slices(items):
            try:
                handler(item)
            except Exception as error:  # noqa: BLE001 - as in `call`
                self.set_aside(error, *place_of(item))

    def set_aside(self, error: Exception, namespace: str, name: str) -> None:
        """Count that an object was set aside, and log it with the place of the error.

        Each object once in AGAIN seconds, however often it changes, and at most MOST objects.
        """
        metrics.OBJECTS_SET_ASIDE.labels(self.name).inc()
        now, key = self.clock(), (namespace, name)
        while self.logged and now - self.logged[oldest := next(iter(self.logged))] >= AGAIN:
            del self.logged[oldest]
        if key in self.logged or len(self.logged) >= MOST:
            return
        self.logged[key] = now
        about = {"namespace": namespace, "name": name, "error": repr(error)[:LONGEST]}
        log.error("object set aside", work=self.name, **about, exc_info=error)
        if len(self.logged) == MOST:
            log.error("more objects are set aside than the log names", work=self.name, named=MOST)


class Around:
    """Sets an object aside if the block raises: see `Bulkhead.around`."""

    __slots__ = ("bulkhead", "name", "namespace")

    def __init__(self, bulkhead: Bulkhead, namespace: str, name: str) -> None:
        self.bulkhead = bulkhead
        self.namespace = namespace
        self.name = name

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None) -> bool:
        """End; return True if the object was set aside."""
        if not isinstance(error, Exception):
            return False
        self.bulkhead.set_aside(error, self.namespace, self.name)
        return True


def itself(place: tuple[str, str]) -> tuple[str, str]:
    """Return the argument: the items of `each` are places themselves."""
    return place


@contextmanager
def step(name: str) -> Iterator[None]:
    """Count and log what a step of a loop raises; its caller waits, and takes the step again."""
    try:
        yield
    except Exception:
        metrics.STEPS_FAILED.labels(name).inc()
        log.exception("step failed", step=name)


async def repeat(name: str, pause: float, take: Callable[[], Awaitable[None]]) -> None:
    """Take a step every `pause` seconds until cancelled; if it raises, log that and take it later again."""
    wait = pause
    while True:
        await asyncio.sleep(wait)
        wait = min(max(pause, 2 * wait), LONGEST_PAUSE)
        with step(name):
            await take()
            wait = pause
