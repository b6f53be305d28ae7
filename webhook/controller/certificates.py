"""Issues the webhook's certificate: one Secret with it and its authority, and the caBundles that trust that.

Every replica of the controller takes each step that is due, by writes that fail if another replica was faster. What is
in use follows from what the watches have returned, never from what a replica has tried to write.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

import structlog

from certs import bundle, store
from certs.issue import KeyPair, valid, validity
from certs.rotate import Rotation
from certs.store import Shared, UnusableError
from webhook import metrics
from webhook.kube.backoff import Backoff
from webhook.kube.bulkhead import step
from webhook.kube.client import UNREACHABLE, ApiError, wait_after
from webhook.kube.events import Events, Notice
from webhook.kube.names import OF_INSTALLATION
from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.tracking.certificates import SECRET, CABundles, secrets_of

KIND: Final = {"apiVersion": "v1", "kind": "Secret", "type": store.TYPE}
# Seconds.
CLOCK_INTERVAL: Final = 1.0  # between two reads of the wall clock, which may jump, as on a machine that was suspended
LONGEST_PAUSE: Final = 10.0
SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE_AFTER_FAILURE: Final = 60.0

log = structlog.get_logger()


class Issuer:
    """Keeps the Secret with the certificate and its authority current, and the caBundles. `now`: the time, in UTC."""

    def __init__(
        self, events: Events, namespace: str, trust: CABundles, rotation: Rotation, now: Callable[[], datetime]
    ) -> None:
        self.api = events.api
        self.events = events
        self.namespace = namespace
        self.trust = trust
        self.rotation = rotation
        self.now = now
        self.list_path = path_of("v1", "secrets", namespace)
        self.path = path_of("v1", "secrets", namespace, SECRET)
        self.secrets = secrets_of(self.api, namespace)
        self.last_good: Shared | None = None
        self.unusable: str | None = None  # the resource version of the last Secret that was reported as unusable
        self.announcement = rotation.lifetimes.announcement.total_seconds()
        self.seen: tuple[KeyPair, float] | None = None  # a next authority, and since when it is in all caBundles
        self.changed = asyncio.Event()
        self.secrets.on_change(self.changed.set)
        trust.on_change(self.changed.set)

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.secrets.run())
            group.create_task(self.trust.run())
            group.create_task(self.work())

    async def work(self) -> None:
        """Take the steps that are due, at every change and at least every LONGEST_PAUSE seconds, until cancelled.

        After an error the pause doubles, up to LONGEST_PAUSE_AFTER_FAILURE.
        """
        backoff = Backoff(2 * SHORTEST_PAUSE, LONGEST_PAUSE_AFTER_FAILURE)
        while True:
            self.changed.clear()
            pause = None
            with step("renew the certificate"):
                pause = await self._try_step(backoff)
            await self.sleep(backoff.take() if pause is None else pause)

    async def _try_step(self, backoff: Backoff) -> float:
        """Take one step if one is due, and report why it failed if it did; return the seconds until the next one."""
        try:
            pause = await self.take_step()
        except (ApiError, UnusableError, *UNREACHABLE) as error:
            is_explained = isinstance(error, (ApiError, UnusableError))
            what = f"the API server does not answer: {error!r}; the controller tries again"
            self.failed(str(error) if is_explained else what)
            return max(backoff.take(), wait_after(error) or 0.0)
        backoff.reset()
        return pause

    async def sleep(self, seconds: float) -> None:
        """Wait until the wall clock has advanced by `seconds`, also by a jump, or until something changes."""
        end = self.now() + timedelta(seconds=seconds)
        while not self.changed.is_set() and (left := (end - self.now()).total_seconds()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, CLOCK_INTERVAL)):
                    await self.changed.wait()

    def failed(self, trouble: str) -> None:
        """Report a failure in the log, in the metrics and in an Event on the Secret."""
        metrics.CERTIFICATE_RENEWALS.labels("bad").inc()
        log.error("certificate not renewed", error=trouble)
        self.events.tell(Notice("Secret", self.namespace, SECRET, "CertificateNotRenewed", trouble))

    async def take_step(self) -> float:
        """Take one step if one is due; return the seconds until the next one may be due, unless something changes.

        Raise UnusableError, and as `Api` does.
        """
        if not (self.secrets.synced.is_set() and self.trust.synced):
            return LONGEST_PAUSE
        secret = self.secrets.get(self.namespace, SECRET)
        shared = None if secret is None else self.read(secret)
        due = self.next_state(shared, deleted=secret is None)
        if due is not None:
            await self.write(secret, due)
        elif secret is not None and shared is not None:
            metrics.CERTIFICATE_NOT_AFTER.labels("authority").set(validity(shared.authority)[1].timestamp())
            await self._write_ca_bundles(secret, shared)
            return self.pause(shared)
        return LONGEST_PAUSE

    def read(self, secret: Json) -> Shared | None:
        """Return the certificates in a Secret; None if they cannot be used, which is reported once per version."""
        try:
            return store.from_data(secret.get("data") or {})
        except UnusableError as error:
            version = secret["metadata"]["resourceVersion"]
            if self.unusable != version:
                self.unusable = version
                self.failed(f"Secret {self.namespace}/{SECRET}: {error}; the controller writes a new one")
            return None

    def next_state(self, shared: Shared | None, *, deleted: bool) -> Shared | None:
        """Return the next state to store; None if nothing is due. `deleted`: whether there is no Secret."""
        now = self.now()
        if shared is not None:
            before = self.last_good
            if before and valid(before.leaf, now) and not store.issued_by(before.leaf.certificate, shared.trusted):
                # The Secret was replaced by another one, such as a backup: the certificate in use must stay trusted.
                return self.rotation.keep_trusted(shared, before.trusted, now)
            self.last_good = shared
            return self.rotation.step(shared, now, announced=self.announced(shared))
        if self.last_good is None:
            return self.rotation.begin(now, bundle.trusted_by_any(self.trust.configurations.values()))
        # A user who deletes the Secret wants new keys. The keys in use stay until the new authority is trusted.
        return self.rotation.restart(self.last_good, now) if deleted else self.last_good

    def announced(self, shared: Shared) -> bool:
        """Return True if the next authority has been in every caBundle for `Lifetimes.announcement`."""
        authority = shared.next_authority
        if authority is None or not (self.trust.live and self.trust.trusts(authority.certificate)):
            self.seen = None
            return False
        if self.seen is None or self.seen[0] != authority:
            self.seen = authority, time.monotonic()
        return self._announced_for() >= self.announcement

    def _announced_for(self) -> float:
        """Return the seconds for which the next authority has been in every caBundle."""
        return 0.0 if self.seen is None else time.monotonic() - self.seen[1]

    def pause(self, shared: Shared) -> float:
        """Return the seconds until a step is due by the clock, between SHORTEST_PAUSE and LONGEST_PAUSE."""
        seconds = (self.rotation.due(shared) - self.now()).total_seconds()
        if self.seen is not None:
            seconds = min(seconds, self.announcement - self._announced_for())
        return min(max(seconds, SHORTEST_PAUSE), LONGEST_PAUSE)

    async def write(self, secret: Json | None, shared: Shared) -> None:
        """Store the next state; do nothing if another replica was faster, because the watch returns that state.

        Raise as `Api` does.
        """
        before = {} if secret is None else secret.get("data") or {}
        data = store.to_data(shared)
        try:
            if secret is None:
                await self.api.create(
                    self.list_path, {**KIND, "metadata": {"name": SECRET, "labels": OF_INSTALLATION}, "data": data}
                )
            else:
                await self.api.replace(self.path, {**KIND, **secret, "data": data})
        except ApiError as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise
        else:
            changed = sorted(key for key in data.keys() | before.keys() if data.get(key) != before.get(key))
            log.info("certificates stored", secret=f"{self.namespace}/{SECRET}", changed=changed)

    async def _write_ca_bundles(self, secret: Json, shared: Shared) -> None:
        """Write the authorities into every caBundle that differs, and into no other field; raise as `Api` does."""
        edits = {path: bundle.edits(root, shared.trusted) for path, root in self.trust.configurations.items()}
        if not any(edits.values()):
            return
        # Only for the newest Secret: with an older one, from a slow watch, this would remove an authority that another
        # replica has just announced.
        if not await self._is_newest(secret):
            return
        refused = None
        for path, operations in edits.items():
            if operations:
                try:
                    await self.api.patch(path, operations)
                except ApiError as error:
                    if error.status not in {
                        HTTPStatus.CONFLICT,
                        HTTPStatus.NOT_FOUND,
                    }:  # the configuration has changed: the watch returns its new state
                        refused = error
                else:
                    log.info("caBundle written", configuration=path)
        if refused is not None:
            raise refused

    async def _is_newest(self, secret: Json) -> bool:
        """Return True if the API server has no newer version of the Secret; raise as `Api` does."""
        try:
            newest = await self.api.get(self.path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return bool(newest["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"])
