"""Writes Accounts."""

import msgspec
import structlog

from webhook.accounts.cached_account import MOST_OWNERS, CachedAccount
from webhook.accounts.tracker import Key
from webhook.kube.client import Api
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.systems import account_object as account
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
        status, found = msgspec.json.decode(text), self.trackers.account_of(key, root)
        if found is not None:
            path = account.ACCOUNT.path(key.namespace, found["metadata"]["name"])
            operations = [unless_changed(found), {"op": "add", "path": "/status", "value": status}]
            await self.api.patch(path, operations)
            return True
        if self.trackers.accounts.missing:
            self._tell_missing()
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

    def _tell_missing(self) -> None:
        if not self.is_missing_told:
            what = "no account: the CRD accounts.retry-policy.dev is not installed; apply manifests/base/accounts.yaml"
            log.error(what, disruptions="have no limit", settle="acts as Retry")
        self.is_missing_told = True
