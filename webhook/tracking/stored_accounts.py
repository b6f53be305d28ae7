"""The Accounts that the watch delivers, and which workload each is of."""

from collections.abc import Callable
from sys import intern

from webhook.accounts.cached_account import ACCOUNT_READ, CachedAccount, compressed, trimmed_account, whole
from webhook.accounts.stored import begun
from webhook.accounts.tracker import Key
from webhook.kube import names
from webhook.kube.informer import Informer
from webhook.kube.packed import Packed
from webhook.kube.tasks import in_slices
from webhook.objects.problem import Json
from webhook.systems import account_object as account
from webhook.systems import retry_history
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.workload_state import Root


class StoredAccounts:
    """The Accounts. `names`: namespace and name of each, by the uid of the workload that it is about."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self.items = Packed[CachedAccount](compressed, whole)
        self.informer = Informer(
            cluster.api,
            account.ACCOUNT.path(),
            trimmed_account,
            shape=ACCOUNT_READ,
            query={},
            items=self.items,
            scope=cluster.scope,
            clock=clock,
        )
        self.names: dict[str, tuple[str, str]] = {}

    def see(self, found: CachedAccount) -> None:
        """Record which workload an Account is about."""
        metadata = found["metadata"]
        self.names[found["spec"].get("uid") or ""] = intern(metadata["namespace"]), metadata["name"]

    def forget(self, found: CachedAccount) -> None:
        """Record that an Account was deleted."""
        self.names.pop(found["spec"].get("uid") or "", None)

    async def forget_gone(self) -> None:
        """Forget, after a gap in the watch, the Accounts that were deleted."""
        async for uid in in_slices(list(self.names)):
            if self.names.get(uid) not in self.informer.items:
                self.names.pop(uid, None)

    def account_of(self, key: Key, root: Json) -> CachedAccount | None:
        """Return the Account of a workload; None if it has none."""
        metadata = root["metadata"]
        found = self.informer.get(key.namespace, account.name_of(key.kind, metadata["name"], metadata["uid"]))
        return found if found is not None and account.is_of(found, key.kind, root) else None

    def account_about(self, namespace: str, uid: str) -> CachedAccount | None:
        """Return the Account about the Job with a uid in a namespace, whether it still exists or not; None without."""
        found = self.informer.get(*self.names.get(uid, ("", "")))
        is_it = found is not None and found["metadata"]["namespace"] == namespace
        return found if found is not None and is_it and found["spec"].get("kind") == batch.JOB.kind else None

    def text_of(self, key: Key, root: Root) -> str | None:
        """Return the text of the account of a workload, as it is after the last requested retry; None if it has none.

        A Job that replaces a failed one has the account of that until it has one of its own.
        """
        found, at = self.account_of(key, root), retry_history.last_at(root)
        if found is None and key.kind is batch.JOB:
            replaced = (root["metadata"].get("annotations") or {}).get(names.RETRY_OF)
            found = None if replaced is None else self.account_about(key.namespace, replaced)
            if found is None or found["spec"].get("name") != key.name:
                return None
            at = at or root["metadata"].get("creationTimestamp") or ""
        if found is None:
            return None
        text: str = found["text"]
        return begun(text, at)

    def holds(self, key: Key, root: Json, text: str | None) -> bool:
        """Return True if the account of a workload is stored so in its own Account, or if it has none."""
        found = self.account_of(key, root)
        return text is None if found is None else bool(found["text"] == text)
