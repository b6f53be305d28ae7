"""Runs a coroutine at once as far as it goes without waiting: only one that has to wait becomes a task.

That saves a request whose answer is in the caches a turn of the loop, with its system calls. Python 3.12 has it as
eager tasks. Until a coroutine waits it is in no task: what needs one, as asyncio.timeout does, makes one of its own.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Return the task in which the rest is done; None where nothing is left."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(rest_of(work, awaited))


@coroutine
def rest_of(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Go on with what has begun to wait."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the work
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration:
        return
