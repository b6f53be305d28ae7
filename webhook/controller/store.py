"""Writes Accounts, and marks on counted pods: the JSON Patches that fail if another writer was first."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from webhook import metrics
from webhook.accounts.account import KEPT, KEPT_RESTARTED, Account
from webhook.accounts.cached_account import MOST_OWNERS, CachedAccount
from webhook.accounts.tracker import Key, Tracker
from webhook.kube import names
from webhook.kube.client import CHANGED, Api, ApiError
from webhook.kube.state_key import StateKey
from webhook.objects.patch import pointer, unless_changed
from webhook.objects.problem import Json, Path
from webhook.pods.pods import Pod
from webhook.pods.restarts import MARK
from webhook.systems import account_object as account
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.tracking.trackers import Trackers

log = structlog.get_logger()


class AccountStore:
    """Writes the Accounts that `trackers` watches."""

    def __init__(self, api: Api, trackers: Trackers) -> None:
        self.api = api
        self.trackers = trackers
        self.is_missing_told = False

    async def write(self, key: Key, root: Json, text: str) -> bool:
        """Write the account of a workload; return False if their CRD is missing. Raise what `Api` raises.

        The write fails if another writer was faster.
        """
        status, found = msgspec.json.decode(text), self.trackers.stored.account_of(key, root)
        if found is not None:
            path = account.ACCOUNT.path(key.namespace, found["metadata"]["name"])
            operations = [unless_changed(found), {"op": "add", "path": "/status", "value": status}]
            await self.api.patch(path, operations)
            return True
        if self.trackers.accounts.missing:
            self._tell_missing()
            return False
        await self.api.create(account.ACCOUNT.path(key.namespace), account.new(key.kind, root) | {"status": status})
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

    def _tell_missing(self) -> None:
        if not self.is_missing_told:
            what = "no account: the CRD accounts.retry-policy.dev is not installed; apply manifests/base/accounts.yaml"
            log.error(what, disruptions="have no limit", settle="acts as Retry")
        self.is_missing_told = True


ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def _annotated(key: str, value: str, *, first: bool) -> list[Json]:
    if first:
        path = pointer(ANNOTATIONS)
        return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": {key: value}}]
    return [{"op": "add", "path": pointer((*ANNOTATIONS, key)), "value": value}]


async def mark_counted(api: Api, key: StateKey, account: Account, tracker: Tracker) -> None:
    """Mark pods that an account has counted, so that it can forget their ids; raise what `Api` raises."""
    if len(account.recent) > KEPT:
        for pod in list(tracker.staying()):
            await mark(api, key, pod)
    oldest = list(account.restarted.items())[:-KEPT_RESTARTED]
    for pod, number in list(tracker.unmarked(oldest)):
        await mark(api, key, pod, f"{MARK}{number}")


async def mark(api: Api, key: StateKey, pod: Pod, restarts: str = "") -> None:
    """Annotate a counted pod that still exists, so that the account can forget its id; raise what `Api` raises.

    `restarts`: how many of its restarts in place are counted, if its end is not.
    """
    counted = restarts or datetime.now(UTC).isoformat(timespec="milliseconds")
    test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    marks = [test, *_annotated(names.COUNTED, key.mark(pod.uid, counted), first=not pod.annotated)]
    try:
        await api.patch(core.POD.path(pod.namespace, pod.name), marks)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:  # it was deleted, or the next pass marks it
            raise
    else:
        metrics.LEDGER_WRITES.labels("mark").inc()
