"""The runs of Airflow's DAGs, which are no objects: those that have an Account, and those of which a pod was seen."""

import asyncio
from collections.abc import Callable

from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kube.client import Api
from webhook.kube.informer import Informer, Scope
from webhook.kube.packed import Packed
from webhook.ledger.model.cached import CachedRoot
from webhook.ledger.model.pods import Pod
from webhook.ledger.store.cached import ACCOUNT_READ, CachedAccount, trimmed_account


def informer_of_accounts(
    api: Api, items: Packed[CachedAccount], scope: Scope, clock: Callable[[], float]
) -> Informer[CachedAccount]:
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


class Runs:
    """The runs of DAGs: read as the objects of an Informer.

    `accounts`: all Accounts. `seen`: the runs of which a pod was seen, until `forget`, with the name of their DAG.
    """

    def __init__(self, accounts: Informer[CachedAccount]) -> None:
        self.accounts = accounts
        self.seen: dict[tuple[str, str], str] = {}

    @property
    def live(self) -> bool:
        """As `Informer.live`."""
        return self.accounts.live

    @property
    def missing(self) -> bool:
        """As `Informer.missing`."""
        return self.accounts.missing

    @property
    def synced(self) -> asyncio.Event:
        """As `Informer.synced`."""
        return self.accounts.synced

    def get(self, namespace: str, name: str) -> CachedRoot | None:
        """Return a run; None if it is not known."""
        dag = self.seen.get((namespace, name))
        found = self.accounts.get(namespace, account.name_of(DAG_RUN, name, name))
        if dag is None and found is not None:
            dag = found["spec"].get("owner") or ""
        return None if dag is None else CachedRoot(account.run_of(namespace, name, dag))

    def see(self, pod: Pod) -> None:
        """Record that a run has a pod."""
        self.seen.setdefault((pod.namespace, pod.job), pod.controller)

    def forget(self, namespace: str, name: str) -> None:
        """Record that a run has no pods any more."""
        self.seen.pop((namespace, name), None)
