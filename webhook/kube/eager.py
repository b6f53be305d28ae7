"""Run a coroutine immediately until it first suspends, and only then create a Task for it.

A request that is answered from caches so needs no iteration of the event loop, with its system calls. Python 3.12 has
this as eager tasks. The coroutine runs outside any Task until it first suspends: code that needs a Task, such as
asyncio.timeout, must create one (`in_task`).
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run a coroutine until it first suspends; return the Task that runs the rest, None if it has finished."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(rest_of(work, awaited))


async def in_task(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new Task, and return its result; cancel the Task if the caller is closed or cancelled."""
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
