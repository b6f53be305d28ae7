"""Leader election by a Lease: one replica writes what all replicas know.

As in client-go (tools/leaderelection): the holder renews the lease in time, or stops leading before the lease ends.
Clocks of replicas are never compared; each replica measures for how long it has seen the lease unchanged. The official
client's election is not used: it sets no deadline on its calls, so that a leader whose call hangs leads after its lease
has ended; it does not release a lease; and it does not report a task that fails.
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
from webhook.kube.bulkhead import step
from webhook.kube.client import UNREACHABLE, Api, ApiError, wait_after
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

API_VERSION: Final = "coordination.k8s.io/v1"
# Seconds: the validity of a lease, the time within which it must be renewed, the pause between attempts. As client-go.
DURATION: Final = 15.0
DEADLINE: Final = 10.0
PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0  # between two attempts of a leader whose work fails
# A replica that has watched for this long while the last leader still led has seen all that the leader left unfinished.
OVERLAP: Final = 3.0

log = structlog.get_logger()


class Lease:
    """A lease that at most one replica holds.

    `since` returns the time from which this replica has watched the objects that the leader works on. `on_forbidden` is
    called after each attempt that the API forbids, `on_permitted` after each other answer of the API. `clock` and
    `since` are in seconds of a monotonic clock of this replica.
    """

    def __init__(  # noqa: PLR0913 - the parameters of a lease
        self,
        api: Api,
        namespace: str,
        name: str,
        holder: str,
        *,
        since: Callable[[], float] = lambda: float("-inf"),
        on_forbidden: Callable[[], None] = lambda: None,
        on_permitted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.list_path = path_of(API_VERSION, "leases", namespace)
        self.path = path_of(API_VERSION, "leases", namespace, name)
        self.name = name
        self.holder = holder
        self.clock = clock
        self.seen: tuple[Json, float] | None = None  # the lease's spec, and the time since which it is unchanged
        self.wait = PAUSE  # seconds until the next attempt: more if a busy API server asks for that
        self.since = since
        self.on_forbidden = on_forbidden
        self.on_permitted = on_permitted

    async def lead(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `work` while the lease is held, and cancel it when the lease is lost; again and again until cancelled.

        An exception of `work` is logged, and the lease is released, so that another replica can lead; this replica
        keeps answering admission requests. It tries to lead again after a pause, which doubles until `work` has run
        for more than LONGEST_PAUSE.
        """
        backoff = Backoff(PAUSE, LONGEST_PAUSE)
        while True:
            requested_at = self.clock()
            while not await self.try_to_hold():
                await asyncio.sleep(self.wait)
                requested_at = self.clock()
            log.info("leading", lease=self.name, holder=self.holder)
            started_at = self.clock()
            working = asyncio.create_task(work())
            try:
                await self.renew(working, requested_at)
            finally:
                working.cancel()
                await asyncio.wait({working})
                log.info("no longer leading", lease=self.name, holder=self.holder)
                with step("release the lease"), contextlib.suppress(ApiError, *UNREACHABLE):
                    async with asyncio.timeout(PAUSE):  # else it ends after DURATION
                        await self.release()
            if not working.cancelled() and (error := working.exception()) is not None:
                if self.clock() - started_at > LONGEST_PAUSE:
                    backoff.reset()
                metrics.LEADER_FAILURES.labels(self.name).inc()
                log.error("the work of the leader failed", lease=self.name, retry_in=backoff.pause, exc_info=error)
                await asyncio.sleep(backoff.take())

    async def renew(self, working: "asyncio.Task[None]", renewed_at: float) -> None:
        """Renew the lease until `working` ends, or no attempt has succeeded for DEADLINE seconds.

        `renewed_at`: the time at which the last successful write was sent. Its answer may come much later, and other
        replicas count the lease's duration from the moment at which they see the write. If the API server is busy, wait
        as long as it asks, but at most half of the time that is left.
        """
        while not working.done() and self.clock() - renewed_at < DEADLINE:
            left = DEADLINE - (self.clock() - renewed_at)
            await asyncio.wait({working}, timeout=max(PAUSE, min(self.wait, left / 2)))
            left = DEADLINE - (self.clock() - renewed_at)
            requested_at = self.clock()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(left, 0.1)):
                    if await self.try_to_hold():
                        renewed_at = requested_at

    async def try_to_hold(self) -> bool:
        """Acquire or renew the lease; return True if this replica holds it now. Log what the API raises."""
        self.wait = PAUSE
        with step("hold the lease"):
            return await self.held_now()
        return False

    async def held_now(self) -> bool:
        """Acquire or renew the lease, as `try_to_hold`, but raise what is no answer of the API."""
        try:
            held = await self.hold()
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self.on_forbidden()
            elif error.status != HTTPStatus.CONFLICT:
                self.wait = max(PAUSE, wait_after(error) or 0.0)
                log.warning("lease not held", lease=self.name, error=str(error))
            return False
        except UNREACHABLE as error:
            log.warning("lease not held", lease=self.name, error=repr(error))
            return False
        self.on_permitted()
        return held

    async def hold(self) -> bool:
        """Acquire or renew the lease if no other replica holds it; return True if so. Raise as `Api` does."""
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
            ends += DURATION  # a replica that watched beside the last leader may lead first
        if self.clock() < ends:
            return False
        transitions = spec.get("leaseTransitions") or 0
        await self.api.replace(self.path, self.lease(lease, transitions=transitions + (holder != self.holder)))
        return True

    def lease(self, lease: Json, *, transitions: int) -> Json:
        """Return the lease with this replica as its holder."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = lease.get("spec") or {}
        own = spec.get("holderIdentity") == self.holder
        return {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": lease["metadata"],
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": int(DURATION),
                "acquireTime": spec.get("acquireTime") if own else now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }

    async def release(self) -> None:
        """Release the lease, so that another replica need not wait until it ends."""
        lease = await self.api.get(self.path)
        if (lease.get("spec") or {}).get("holderIdentity") == self.holder:
            lease["spec"]["holderIdentity"] = ""
            await self.api.replace(self.path, lease)
