"""Simulated time on a real control plane: its clock, the tasks that run in it, and what the tasks need first."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from typing import Any

    from webhook.kube.client import Api
    from webhook.objects.problem import Json


def name_of(policy: str) -> str:
    """Return the name of a compared policy as that of a namespace, a profile and files."""
    return policy.replace(",", "").replace(" ", "-").lower()


def policy_of(profiles: dict[str, Json]) -> str:
    """Return the text of a policy with these profiles; JSON is YAML too."""
    return json.dumps({"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicy", "profiles": profiles})


def namespace_of(policy: str, *, opted_in: bool) -> Json:
    """Return the namespace of a compared policy."""
    labels = {names.PROFILE: name_of(policy)} if opted_in else {}
    return {"metadata": {"name": name_of(policy), "labels": labels}}


async def new_namespace(api: Api, name: str, profile: str = "default") -> None:
    """Create a namespace that is opted in, in which pods can be created."""
    await create_namespace(api, {"metadata": {"name": name, "labels": {names.PROFILE: profile}}})


async def create_namespace(api: Api, namespace: Json) -> None:
    """Create a namespace, and wait for its ServiceAccount, without which no pod can be created."""
    await api.create("/api/v1/namespaces", namespace)
    accounts = f"/api/v1/namespaces/{namespace['metadata']['name']}/serviceaccounts"
    query = {"watch": "1", "fieldSelector": "metadata.name=default", "timeoutSeconds": "60"}
    async with api.stream(accounts, query, "application/json") as lines:
        await anext(lines)


class Simulation:
    """A clock, and tasks that go on until the simulation is over.

    `unit`: the seconds that a simulated minute takes, or hour, or in whatever the clock counts.
    """

    def __init__(self, api: Api, unit: float) -> None:
        self.api = api
        self.unit = unit
        self.tasks: set[asyncio.Task[None]] = set()
        self.begin = 0.0

    @property
    def now(self) -> float:
        """Units since the clock was started."""
        return (time.monotonic() - self.begin) / self.unit

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start the clock, and end all tasks at the end of the block."""
        self.begin = time.monotonic()
        async with asyncio.TaskGroup() as self.group:
            yield
            for task in [*self.tasks]:
                task.cancel()

    def later(self, call: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = self.group.create_task(call)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def pause(self, units: float) -> None:
        await asyncio.sleep(units * self.unit)

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
        await create_namespace(self.api, namespace)
