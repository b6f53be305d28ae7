"""The workloads of a kind with the accounts beside them."""

import time
from typing import Any

from webhook.ledger.store.roots import Beside, informer_of_accounts

from webhook.kinds import account
from webhook.kinds.airflow import DAG_RUN
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kube import names
from webhook.kube.packed import Packed
from webhook.ledger.model.cached import CachedRoot
from webhook.ledger.store.cached import trimmed_account, whole

NO_API: Any = None


def beside_of_runs() -> Beside:
    """Return the runs of DAGs, of which one has an Account."""
    accounts = informer_of_accounts(NO_API, Packed[CachedRoot](whole), time.monotonic)
    root = account.new(DAG_RUN, account.run_of("ml", "etl.one", "etl"), '{"attempts": 7}')
    root["metadata"] |= {"uid": "account-uid", "resourceVersion": "7"}
    accounts.items["ml", root["metadata"]["name"]] = trimmed_account(root)
    return Beside(DAG_RUN, accounts)


def test_a_run_is_known_by_its_account_with_its_dag_and_what_is_counted() -> None:
    found = beside_of_runs().get("ml", "etl.one")
    assert found is not None
    assert found["metadata"]["ownerReferences"][0]["name"] == "etl"
    assert found["metadata"]["annotations"] == {names.LEDGER: '{"attempts": 7}'}


def test_a_workload_of_another_kind_or_name_has_no_account_there() -> None:
    runs = beside_of_runs()
    assert runs.get("ml", "etl.two") is None
    assert Beside(FLYTE_WORKFLOW, runs.accounts).account_of("ml", "etl.one") is None
