"""Begin a coroutine without a Task, and let only what waits for I/O run in one."""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

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
