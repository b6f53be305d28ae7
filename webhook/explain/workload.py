"""Reads a workload by its name: also a run of Airflow, which is no object."""

from webhook.kinds import KindSpec
from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kube.client import Api
from webhook.objects.problem import Json


async def workload(api: Api, row: KindSpec, namespace: str, name: str) -> Json | None:
    """Return a workload; None if there is no such workload; raise as `Api` does.

    A run of Airflow exists here once it has an Account: once a pod of it has failed.
    """
    if row is not DAG_RUN:
        return await api.find(row.path(namespace, name))
    run = account.run_of(namespace, name, "")
    found = await api.find(account.path_of(row, run))
    return None if found is None else account.run_of(namespace, name, (found.get("spec") or {}).get("owner") or "")
