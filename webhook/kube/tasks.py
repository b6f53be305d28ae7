"""Begin a coroutine without a Task, and divide long loops into slices, between which requests are answered."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Generator, Iterable
from types import coroutine
from typing import Any, Final, TypeVar

SLICE: Final = 0.02  # seconds

Item = TypeVar("Item")


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield items; let other tasks run whenever the caller's loop has taken SLICE seconds."""
    end = time.monotonic() + SLICE
    for item in items:
        yield item
        if time.monotonic() >= end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE


Result = TypeVar("Result")


async def in_task(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new Task, and return its result; cancel the Task if the caller is closed or cancelled.

    A coroutine that is closed cannot await its own cleanup; see `webhook.serving.places`, which closes look-ups.
    """
    task = asyncio.create_task(work)
    try:
        return await task
    finally:
        task.cancel()


@coroutine
def rest_of(work: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
    """Run a suspended coroutine to its end, and return its result; `awaited` is the value that it yielded."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - every exception is passed on to the coroutine
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration as done:
        result: Result = done.value
        return result
