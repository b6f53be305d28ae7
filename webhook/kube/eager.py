"""Runs a coroutine at once as far as it goes without waiting: only one that has to wait becomes a task.

That saves a request whose answer is in the caches a turn of the loop, with its system calls. Python 3.12 has it as
eager tasks. Until a coroutine waits it is in no task: what needs one, as asyncio.timeout does, makes one of its own.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Return the task in which the rest is done; None where nothing is left."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(rest_of(work, awaited))


async def in_task(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a task of its own, which is cancelled if the caller is closed or cancelled first."""
    task = asyncio.create_task(work)
    try:
        return await task
    finally:
        task.cancel()


@coroutine
def rest_of(work: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
    """Go on with what has begun to wait; return what it returns."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the work
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration as done:
        result: Result = done.value
        return result
