"""Writes and deletes Accounts: within a bound, because users may create pods with any labels."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import structlog

from webhook import metrics
from webhook.kinds.beside import account
from webhook.kinds.beside.airflow import DAG_RUN
from webhook.kube import names
from webhook.kube.bulkhead import repeat
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.slices import in_slices
from webhook.ledger import patches
from webhook.ledger.model.account import decode
from webhook.ledger.model.cached import CachedRoot
from webhook.ledger.model.tracker import Key
from webhook.ledger.tracking.roots import where
from webhook.ledger.tracking.trackers import Trackers
from webhook.objects.problem import Json
from webhook.objects.times import seconds

MOST: Final = 1000  # Accounts of a namespace
KEPT_FOR: Final = 7 * 24 * 3600.0  # seconds after the last attempt of a run without pods
LOOK_EVERY: Final = 600.0  # seconds between two looks for Accounts to delete
AT_ONCE: Final = 200  # Accounts that are deleted in one look

log = structlog.get_logger()


class AccountStore:
    """Writes the Accounts that `trackers` watches. `now` is Unix time in seconds."""

    def __init__(self, api: Api, trackers: Trackers, now: Callable[[], float] = time.time) -> None:
        self.api = api
        self.trackers = trackers
        self.now = now
        self.full: set[str] = set()  # namespaces for which the log says that they have too many

    async def write(self, key: Key, root: Json, before: str | None, now: str) -> bool:
        """Write the account of a workload; return False if its namespace has no room for it. Raise what `Api` raises.

        `before`: the account that the write replaces; it fails if another writer was faster.
        """
        found = self.trackers.beside[key.row].account_of(key.namespace, key.name)
        if found is not None:
            await self.api.patch(key.path, patches.operations(found, before, now, suspends=False))
            return True
        if not self.has_room(key):
            return False
        await self.api.create(account.ACCOUNT.path(key.namespace), account.new(key.row, root, now))
        return True

    def has_room(self, key: Key) -> bool:
        """Return True if a namespace may get one more Account; else log and count it."""
        if self.trackers.accounts.missing:
            return False  # their CRD is not installed
        if len(self.trackers.account_items.namespaces.get(key.namespace, ())) < MOST:
            self.full.discard(key.namespace)
            return True
        metrics.LEDGER_WRITES.labels("full").inc()
        if key.namespace not in self.full:
            self.full.add(key.namespace)
            log.warning("no account: the namespace has too many Accounts", **where(key), most=MOST)
        return False

    async def run(self, is_leading: Callable[[], bool]) -> None:
        """Delete the Accounts of old runs while this replica leads, until cancelled."""

        async def delete_old() -> None:
            if is_leading():
                await self.delete_old()

        await repeat("delete old accounts", LOOK_EVERY, delete_old)

    async def delete_old(self) -> None:
        """Delete Accounts of runs that have had no pods for KEPT_FOR, at most AT_ONCE."""
        for metadata in await self.old():
            try:
                await self.api.delete(account.ACCOUNT.path(metadata["namespace"], metadata["name"]), metadata["uid"])
            except (ApiError, *UNREACHABLE) as error:
                if not isinstance(error, ApiError) or error.status != HTTPStatus.NOT_FOUND:
                    log.warning("account not deleted", name=metadata["name"], error=str(error))
                    return

    async def old(self) -> list[Json]:
        """Return the metadata of AT_ONCE Accounts of runs that have ended long ago, as far as anything says it."""
        old: list[Json] = []
        async for key in in_slices(list(self.trackers.accounts.items)):
            found = self.trackers.accounts.get(*key)
            if found is not None and found["spec"].get("kind") == DAG_RUN.kind and self.is_old(found):
                old.append(found["metadata"])
            if len(old) == AT_ONCE:
                break
        return old

    def is_old(self, found: CachedRoot) -> bool:
        """Return True if the run of an Account has no pods, and its last attempt ended long ago."""
        metadata = found["metadata"]
        if (metadata["namespace"], found["spec"].get("name")) in self.trackers.dag_runs.seen:
            return False
        end = seconds(last_end(found)) or seconds(metadata["creationTimestamp"])
        return end is not None and self.now() - end > KEPT_FOR


def last_end(found: CachedRoot) -> str:
    """Return when the last attempt of an account ended; empty if it does not say it."""
    try:
        last = decode((found["metadata"].get("annotations") or {}).get(names.LEDGER)).last
    except ValueError:
        return ""
    return last[-1].end if last else ""
