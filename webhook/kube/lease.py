"""Leader election by a Lease, so that one replica writes what all of them know.

As in client-go (tools/leaderelection): who holds the lease renews it in good time or stops leading before it ends;
clocks are never compared, only how long a lease has stayed as it is. Our own, because the official client's sets no
deadline on its calls, so that a leader whose call hangs leads on after its lease has ended; it does not give a lease
back, and a task that it has started fails unheard.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import structlog

from webhook import metrics
from webhook.kube.backoff import Backoff
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

API_VERSION: Final = "coordination.k8s.io/v1"
# Seconds: how long a lease holds, within which it must be renewed, and between tries. client-go's own.
DURATION: Final = 15.0
DEADLINE: Final = 10.0
PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0  # between two tries of a leader whose work fails
OVERLAP: Final = 3.0  # for which one has to have watched beside the last leader to know what that left undone

log = structlog.get_logger()


class Lease:
    """One name that at most one replica holds.

    `since` returns since when this replica has seen what a leader writes about. `refused` is called whenever the API
    forbids the lease, `allowed` whenever it does not. `clock` and `since` return seconds that never go back; they are
    never compared with another replica's.
    """

    def __init__(  # noqa: PLR0913 - what a lease has
        self,
        api: Api,
        namespace: str,
        name: str,
        holder: str,
        *,
        since: Callable[[], float] = lambda: float("-inf"),
        refused: Callable[[], None] = lambda: None,
        allowed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.list_path = path_of(API_VERSION, "leases", namespace)
        self.path = path_of(API_VERSION, "leases", namespace, name)
        self.name = name
        self.holder = holder
        self.clock = clock
        self.seen: tuple[Json, float] | None = None  # the lease's spec, and since when it is as it is
        self.since = since
        self.refused = refused
        self.allowed = allowed

    async def lead(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `work` whenever the lease is held, cancel it when it is lost; until cancelled.

        Work that raises is logged, and the lease released, so that another replica can try: admission goes on here.
        This one tries again after a pause, which doubles until the work goes well for a while.
        """
        backoff = Backoff(PAUSE, LONGEST_PAUSE)
        while True:
            asked = self.clock()
            while not await self.try_to_hold():
                await asyncio.sleep(PAUSE)
                asked = self.clock()
            log.info("leading", lease=self.name, holder=self.holder)
            began = self.clock()
            working = asyncio.create_task(work())
            try:
                await self.renew(working, asked)
            finally:
                working.cancel()
                await asyncio.wait({working})
                log.info("no longer leading", lease=self.name, holder=self.holder)
                with contextlib.suppress(Exception):  # it ends by itself in a moment
                    await asyncio.wait_for(self.release(), PAUSE)
            if not working.cancelled() and (error := working.exception()) is not None:
                if self.clock() - began > LONGEST_PAUSE:
                    backoff.reset()
                metrics.LEADER_FAILURES.labels(self.name).inc()
                log.error("the work of the leader failed", lease=self.name, retry_in=backoff.pause, exc_info=error)
                await asyncio.sleep(backoff.take())

    async def renew(self, working: "asyncio.Task[None]", renewed: float) -> None:
        """Renew the lease until that fails for too long, or `working` ends.

        `renewed`: when the last write that succeeded was begun. Its answer may come much later, and other replicas
        count the lease's duration from when they see the write.
        """
        while not working.done() and self.clock() - renewed < DEADLINE:
            await asyncio.wait({working}, timeout=PAUSE)
            left = DEADLINE - (self.clock() - renewed)
            asked = self.clock()
            with contextlib.suppress(TimeoutError):
                if await asyncio.wait_for(self.try_to_hold(), max(left, 0.1)):
                    renewed = asked

    async def try_to_hold(self) -> bool:
        """Take the lease or renew it; tell whether it is held now."""
        try:
            held = await self.hold()
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self.refused()
            elif error.status != HTTPStatus.CONFLICT:
                log.warning("lease not held", lease=self.name, error=str(error))
            return False
        except UNREACHABLE as error:
            log.warning("lease not held", lease=self.name, error=repr(error))
            return False
        except Exception:  # an answer that nobody foresaw must not end the server
            log.exception("lease not held", lease=self.name)
            return False
        self.allowed()
        return held

    async def hold(self) -> bool:
        """Take the lease where nobody holds it any more; raise what the API raises."""
        try:
            lease = await self.api.get(self.path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            await self.api.create(self.list_path, self.lease({"metadata": {"name": self.name}}, transitions=0))
            return True
        spec = lease.get("spec") or {}
        if self.seen is None or self.seen[0] != spec:
            self.seen = spec, self.clock()
        holder = spec.get("holderIdentity")
        changed = self.seen[1]
        ends = changed if holder in {None, "", self.holder} else changed + (spec.get("leaseDurationSeconds") or 0)
        if self.since() > changed - OVERLAP and holder != self.holder:
            ends += DURATION  # another one may have seen what the last leader left undone
        if self.clock() < ends:
            return False
        transitions = spec.get("leaseTransitions") or 0
        await self.api.replace(self.path, self.lease(lease, transitions=transitions + (holder != self.holder)))
        return True

    def lease(self, lease: Json, *, transitions: int) -> Json:
        """Return the lease as one that this replica holds."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = lease.get("spec") or {}
        own = before.get("holderIdentity") == self.holder
        return {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": lease["metadata"],
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": int(DURATION),
                "acquireTime": before.get("acquireTime") if own else now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }

    async def release(self) -> None:
        """Give the lease back, so that another replica need not wait for its end."""
        lease = await self.api.get(self.path)
        if (lease.get("spec") or {}).get("holderIdentity") == self.holder:
            lease["spec"]["holderIdentity"] = ""
            await self.api.replace(self.path, lease)
