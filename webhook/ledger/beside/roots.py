"""The workloads of a kind with the accounts beside them, as if they were their own."""

import asyncio
from collections.abc import Callable

from webhook.kinds import KindSpec
from webhook.kinds.beside import account
from webhook.kube.client import Api
from webhook.kube.informer import Informer, Scope
from webhook.kube.packed import Packed
from webhook.ledger.beside.cached import ACCOUNT_READ, trimmed_account
from webhook.ledger.model.cached import CachedRoot
from webhook.ledger.model.pods import Pod


def informer_of_accounts(
    api: Api, items: Packed[CachedRoot], scope: Scope, clock: Callable[[], float]
) -> Informer[CachedRoot]:
    """Return the informer of the Accounts in the namespaces of a scope; `clock` is monotonic, in seconds."""
    return Informer(
        api,
        account.ACCOUNT.path(),
        trimmed_account,
        shape=ACCOUNT_READ,
        query={},
        items=items,
        scope=scope,
        clock=clock,
    )


class Beside:
    """The workloads of one kind: read as those of an Informer.

    `accounts`: all Accounts. `workloads`: the objects of the kind; None if there are no such objects. Then those
    workloads are known that have an Account, and those in `seen`, with the name of their DAG: of which a pod was seen,
    until `forget`.
    """

    def __init__(
        self, row: KindSpec, accounts: Informer[CachedRoot], workloads: Informer[CachedRoot] | None = None
    ) -> None:
        self.row = row
        self.accounts = accounts
        self.workloads = workloads
        self.watched = accounts if workloads is None else workloads
        self.seen: dict[tuple[str, str], str] = {}

    @property
    def live(self) -> bool:
        """As `Informer.live`."""
        return self.watched.live

    @property
    def missing(self) -> bool:
        """As `Informer.missing`."""
        return self.watched.missing

    @property
    def synced(self) -> asyncio.Event:
        """As `Informer.synced`."""
        return self.watched.synced

    def get(self, namespace: str, name: str) -> CachedRoot | None:
        """Return a workload with its account; None if it is not known."""
        found = self.account_of(namespace, name)
        if self.workloads is not None:
            root = self.workloads.get(namespace, name)
        else:
            dag = self.seen.get((namespace, name))
            if dag is None and found is not None:
                dag = found["spec"].get("owner") or ""
            root = None if dag is None else CachedRoot(account.run_of(namespace, name, dag))
        return None if root is None else CachedRoot(account.with_account(root, found))

    def account_of(self, namespace: str, name: str) -> CachedRoot | None:
        """Return the Account of a workload; None if it has none."""
        return self.accounts.get(namespace, account.name_of(self.row, name))

    def see(self, pod: Pod) -> None:
        """Record that a workload which is no object has a pod."""
        self.seen.setdefault((pod.namespace, pod.job), pod.controller)

    def forget(self, namespace: str, name: str) -> None:
        """Record that a workload has no pods any more."""
        self.seen.pop((namespace, name), None)
