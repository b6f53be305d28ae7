"""Run I/O in a new Task, so that a coroutine which waits for it may be closed."""

import asyncio
from collections.abc import Coroutine
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
