"""Reads a workload whose account is in an Account beside it, as if the account were its own."""

from webhook.kinds import KindSpec
from webhook.kinds.beside import account
from webhook.kinds.beside.airflow import DAG_RUN
from webhook.kube.client import Api
from webhook.ledger.model.systems import system_of
from webhook.objects.problem import Json


async def workload(api: Api, row: KindSpec, namespace: str, name: str) -> Json | None:
    """Return a workload with its account, wherever that is; None if there is no such workload; raise as `Api` does.

    A run of Airflow exists here once it has an Account: once a pod of it has failed.
    """
    system = system_of(row)
    if system is None or not system.beside:
        return await api.find(row.path(namespace, name))
    root = None if row is DAG_RUN else await api.find(row.path(namespace, name))
    if row is not DAG_RUN and root is None:
        return None
    found = await api.find(account.path_of(row, namespace, name))
    if root is None:
        if found is None:
            return None
        root = account.run_of(namespace, name, found["spec"].get("owner") or "")
    return account.with_account(root, found)
