"""The runs of Airflow's DAGs, which are no objects."""

import time
from typing import Any

from tests.accounts import stored
from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kube.packed import Packed
from webhook.ledger.model.account import Account
from webhook.ledger.store.cached import CachedAccount, compressed, trimmed_account, whole
from webhook.ledger.store.runs import Runs, informer_of_accounts
from webhook.lookups.cluster import Cluster

NO_API: Any = None


def runs() -> Runs:
    """Return the runs of DAGs, of which one has an Account."""
    accounts = informer_of_accounts(
        NO_API, Packed[CachedAccount](compressed, whole), Cluster(NO_API).scope, time.monotonic
    )
    root = stored(DAG_RUN, account.run_of("ml", "etl.one", "etl"), Account(ended=7))
    accounts.items["ml", root["metadata"]["name"]] = trimmed_account({**root, "status": None})
    return Runs(accounts)


def test_a_run_is_known_by_its_account_with_its_dag() -> None:
    found = runs().get("ml", "etl.one")
    assert found is not None
    assert found["metadata"]["ownerReferences"][0]["name"] == "etl"


def test_a_run_without_an_account_of_which_no_pod_was_seen_is_not_known() -> None:
    assert runs().get("ml", "etl.two") is None
