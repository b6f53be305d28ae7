"""Simulated minutes on a real control plane: their clock, the tasks that run in them, and what the tasks need first."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from typing import Any

    from webhook.kube.client import Api
    from webhook.objects.problem import Json


class Simulation:
    """A clock, and tasks that go on until the simulation is over; `minute`: the seconds that a simulated one takes."""

    def __init__(self, api: Api, minute: float) -> None:
        self.api = api
        self.minute = minute
        self.tasks: list[asyncio.Task[None]] = []
        self.begin = 0.0

    @property
    def now(self) -> float:
        """Minutes since the clock was started."""
        return (time.monotonic() - self.begin) / self.minute

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start the clock, and end all tasks at the end of the block."""
        self.begin = time.monotonic()
        async with asyncio.TaskGroup() as self.group:
            yield
            for task in self.tasks:
                task.cancel()

    def later(self, call: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        self.tasks.append(self.group.create_task(call))

    async def pause(self, minutes: float) -> None:
        await asyncio.sleep(minutes * self.minute)

    async def until(self, time: float) -> None:
        """Wait until a time of the clock, which may be over."""
        await self.pause(time - self.now)

    async def until_true(self, is_over: Callable[[], bool]) -> None:
        """Wait until a condition is true, which may depend on the time."""
        while not is_over():
            await self.pause(0.1)

    async def prepare(self, namespace: Json, nodes: Iterable[Json]) -> None:
        """Create nodes and a namespace, and wait until pods can be created there."""
        for node in nodes:
            await self.api.create("/api/v1/nodes", node)
        await self.api.create("/api/v1/namespaces", namespace)
        accounts = f"/api/v1/namespaces/{namespace['metadata']['name']}/serviceaccounts"
        query = {"watch": "1", "fieldSelector": "metadata.name=default", "timeoutSeconds": "60"}
        async with self.api.stream(accounts, query, "application/json") as lines:
            await anext(lines)
