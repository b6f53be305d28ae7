"""A replica of this webhook on the store, which can be killed; and the Lease by which one of them leads."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from tests.admission import answer_of, review_of
from tests.bench.leaders.store import StoreApi
from tests.objects import STATE_KEY
from tests.virtual_time import now
from webhook.admission import engine, review
from webhook.admission.subject import read
from webhook.controller.ledger import Ledger
from webhook.kube.events import Events
from webhook.serving import endpoints
from webhook.serving.endpoints import Endpoints
from webhook.tracking.cluster import Cluster, UnavailableError
from webhook.tracking.policy_source import PolicySource

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.bench.leaders.world import World
    from webhook.objects.problem import Json

NAMESPACE: Final = "ml"
TICK: Final = 0.5  # seconds between two looks
TAKEOVER: Final = 15.0  # seconds after which the Lease of a killed leader ends


class Lease:
    """The Lease: one replica leads; after its death another one leads once the Lease has ended."""

    def __init__(self) -> None:
        self.free_from = 0.0
        self.holder: Replica | None = None

    async def lead(self, replica: Replica, work: Callable[[], Coroutine[None, None, None]]) -> None:
        while self.holder is not None or now() < self.free_from:  # noqa: ASYNC110 - or the time
            await asyncio.sleep(TICK)
        self.holder = replica
        await work()

    def release(self, replica: Replica) -> None:
        """Let the Lease of a killed leader end in its time."""
        if self.holder is replica:
            self.holder, self.free_from = None, now() + TAKEOVER


class Replica:
    """One replica of the webhook: it answers admission requests, watches, and leads if it holds the Lease."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.api = StoreApi(world.store)
        client: Any = self.api
        self.cluster = Cluster(client)
        self.cluster.state_key.key = STATE_KEY.key
        self.policy = PolicySource(world.policy)
        self.ledger = Ledger(self.cluster, self.policy, Events(client), clock=asyncio.get_running_loop().time)
        waiting: Any = getattr(self.ledger, "waiting", None)
        if waiting is not None:
            waiting.clock = world.wall
        self.endpoints = Endpoints(self.policy, self.cluster, self.ledger.trackers)
        lease: Any = self
        self.tasks = [asyncio.create_task(work) for work in (self.cluster.run(), self.ledger.run(lease))]

    async def lead(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Lead, as a Lease lets its holder."""
        await self.world.lease.lead(self, work)

    @property
    def is_ready(self) -> bool:
        """Whether the API server sends it requests."""
        return not self.api.dead and not self.endpoints.reasons()

    async def ready(self) -> None:
        """Wait until all lists are read."""
        await self.cluster.namespaces.synced.wait()
        await self.cluster.jobs.synced.wait()
        await self.ledger.trackers.pods.synced.wait()

    async def admit(self, root: Json) -> Json | None:
        """Return an object as admission changes it; None if it cannot tell, and is to be asked again."""
        body = review_of(root, namespace=NAMESPACE)
        request = read(body)
        with patch.object(endpoints, "time", self.world.wall, create=True):
            try:
                response = await self.endpoints.judge(engine.mutate, request, body)
            except UnavailableError:
                return None
        answer = answer_of(review.encode(request.uid, response or review.Response()), root)
        assert answer.allowed, answer.message
        found: Json = answer.object
        return found

    async def kill(self) -> None:
        """End at once: nothing that was begun is finished, and nothing more reaches the API."""
        self.api.dead = True
        self.world.lease.release(self)
        for task in self.tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self.tasks, return_exceptions=True)
