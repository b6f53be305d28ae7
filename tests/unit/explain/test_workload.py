"""A workload whose account is in an Account beside it, as `explain` reads it."""

import asyncio
from typing import cast

import pytest

from tests.accounts import stored
from webhook.cli.cluster import NotOneError, find
from webhook.cli.console import ObjectArgument, object_argument
from webhook.explain import build
from webhook.explain.roots import ROOTS
from webhook.explain.workload import workload
from webhook.kinds import KindSpec, argo
from webhook.kinds.accounts import account
from webhook.kinds.accounts.airflow import DAG_RUN
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kube.client import Api
from webhook.ledger.model.account import Account
from webhook.ledger.model.scopes import Scopes
from webhook.objects.problem import Json

RUN = "etl.manual__2026-11-23T12.00.00"
SPENT = Account(ended=1, cost={"retry": 1}, retries=Scopes({"load": 1}))
FLYTE: Json = {
    "apiVersion": FLYTE_WORKFLOW.api_version,
    "kind": FLYTE_WORKFLOW.kind,
    "metadata": {"namespace": "ml", "name": "f1", "uid": "u-1"},
    "status": {"phase": 5},
}


class Stored:
    """An API with objects by path."""

    def __init__(self, objects: dict[str, Json]) -> None:
        self.objects = objects

    async def find(self, path: str) -> Json | None:
        return self.objects.get(path)


def found(row: KindSpec, name: str, **objects: Json) -> Json | None:
    """Return what `explain` reads of a workload; `objects`: those that exist, by `own` and `account`."""
    of_it = account.path_of(row, {"metadata": {"namespace": "ml", "name": name, "uid": name}})
    paths = {"own": row.path("ml", name) if row is not DAG_RUN else "", "account": of_it}
    api = cast("Api", Stored({paths[key]: root for key, root in objects.items()}))
    return asyncio.run(workload(api, row, "ml", name))


def of_run() -> Json:
    return stored(DAG_RUN, account.run_of("ml", RUN, "etl"), SPENT)


def test_a_run_of_airflow_is_what_its_account_says_and_without_one_there_is_none() -> None:
    root = found(DAG_RUN, RUN, account=of_run())
    assert root is not None
    explanation = build.explain(DAG_RUN, root, [], [of_run()])
    assert (explanation.kind, explanation.name) == ("DAGRun", RUN)
    assert explanation.budgets == ["task load: 1 retry spent"]
    assert found(DAG_RUN, RUN) is None


def test_a_flyte_workflow_has_the_account_beside_it_and_its_own_phase() -> None:
    root = found(FLYTE_WORKFLOW, "f1", own=FLYTE)
    assert root is not None
    explanation = build.explain(FLYTE_WORKFLOW, root, [], [stored(FLYTE_WORKFLOW, FLYTE, SPENT)])
    assert (explanation.state, explanation.budgets) == ("Failed", ["node load: 1 retry spent"])
    assert found(FLYTE_WORKFLOW, "f1") is None


def test_a_workload_of_another_kind_is_read_as_it_is() -> None:
    root = {"metadata": {"namespace": "ml", "name": "train"}}
    assert found(argo.WORKFLOW, "train", own=root) is root


def test_a_run_is_named_as_its_labels_name_it_and_other_objects_as_the_api_allows() -> None:
    assert object_argument(f"ml/dagrun/{RUN}", ROOTS) == ObjectArgument("ml", DAG_RUN, RUN)
    for wrong in (f"ml/workflow/{RUN}", "ml/dagrun/etl run", "ml/dagrun/" + "r" * 200):
        with pytest.raises(Exception, match="names no object"):
            object_argument(wrong, ROOTS)


def test_a_run_without_an_account_is_an_error_that_says_when_it_gets_one() -> None:
    target = ObjectArgument("ml", DAG_RUN, RUN)
    with pytest.raises(NotOneError, match="has no account; it gets one when a pod of it fails"):
        asyncio.run(find(cast("Api", Stored({})), target, ROOTS, workload))
