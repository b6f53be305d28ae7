"""Writes and deletes Accounts."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from webhook import metrics
from webhook.kinds import batch
from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kube.bulkhead import Bulkhead, repeat
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.slices import in_slices
from webhook.ledger.model.stored.status import decode
from webhook.ledger.model.tracker import Key
from webhook.ledger.store.cached import MOST_OWNERS, CachedAccount
from webhook.ledger.tracking.roots import where
from webhook.ledger.tracking.trackers import Trackers
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.objects.times import seconds

MOST: Final = 1000  # Accounts of runs in a namespace
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
        self.is_missing_told = False
        self.bulkhead = Bulkhead("old accounts", trackers.clock)

    async def write(self, key: Key, root: Json, text: str) -> bool:
        """Write the account of a workload; return False if its namespace has no room for it. Raise what `Api` raises.

        The write fails if another writer was faster.
        """
        status, found = msgspec.json.decode(text), self.trackers.account_of(key, root)
        if found is not None:
            path = account.ACCOUNT.path(key.namespace, found["metadata"]["name"])
            operations = [unless_changed(found), {"op": "add", "path": "/status", "value": status}]
            await self.api.patch(path, operations)
            return True
        if not self.has_room(key):
            return False
        await self.api.create(account.ACCOUNT.path(key.namespace), account.new(key.row, root) | {"status": status})
        return True

    async def keep(self, found: CachedAccount, placeholder: Json) -> None:
        """Let an Account live as long as the placeholder of a retry too; raise what `Api` raises.

        So it is not lost between the deletion of the failed Job and the first write of its successor's Account.
        """
        metadata = found["metadata"]
        owner = account.owner_reference(batch.JOB, placeholder)
        owners = account.owners_of(found)
        if owner["uid"] not in owners and len(owners) < MOST_OWNERS:
            operations = [unless_changed(found), {"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]
            await self.api.patch(account.ACCOUNT.path(metadata["namespace"], metadata["name"]), operations)

    def has_room(self, key: Key) -> bool:
        """Return True if a namespace may get one more Account; else log and count it.

        Users may create pods with any labels: so those of runs of DAGs have a bound.
        """
        if self.trackers.accounts.missing:
            self.tell_missing()
            return False
        if key.row is not DAG_RUN or self.trackers.number_of_runs(key.namespace) < MOST:
            self.full.discard(key.namespace)
            return True
        metrics.LEDGER_WRITES.labels("full").inc()
        if key.namespace not in self.full:
            self.full.add(key.namespace)
            log.warning("no account: the namespace has too many Accounts of runs", **where(key), most=MOST)
        return False

    def tell_missing(self) -> None:
        """Log once that the CRD of Accounts is not installed."""
        if not self.is_missing_told:
            what = "no account: the CRD accounts.retry-policy.dev is not installed; apply manifests/base/accounts.yaml"
            log.error(what, disruptions="have no limit", settle="acts as Retry")
        self.is_missing_told = True

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
        """Return the metadata of AT_ONCE Accounts without an owner that are old: those of runs, and orphans."""
        old: list[Json] = []
        async for key in in_slices(list(self.trackers.accounts.items)):
            found = self.trackers.accounts.get(*key)
            if found is not None and self.bulkhead.call(*key, self.is_old, found):
                old.append(found["metadata"])
            if len(old) == AT_ONCE:
                break
        return old

    def is_old(self, found: CachedAccount) -> bool:
        """Return True if an Account has no owner, its workload has no pods, and its last attempt ended long ago."""
        if account.owners_of(found):
            return False
        metadata = found["metadata"]
        if (metadata["namespace"], found["spec"].get("name")) in self.trackers.dag_runs.seen:
            return False
        end = seconds(last_end(found)) or seconds(metadata["creationTimestamp"])
        return end is not None and self.now() - end > KEPT_FOR


def last_end(found: CachedAccount) -> str:
    """Return when the last attempt of an account ended; empty if it does not say it."""
    try:
        last = decode(found["text"]).last
    except ValueError:
        return ""
    return last[-1].end if last else ""
