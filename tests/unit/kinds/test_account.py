"""The Account of a workload: its name, what it says, and what is read of it."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.kinds import account
from webhook.kinds.airflow import DAG_RUN
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kube import names
from webhook.kube.paths import is_name

ROOT = {"metadata": {"namespace": "ml", "name": "f1", "uid": "u-1", "annotations": {"a": "b", names.LEDGER: "forged"}}}


@given(st.text(max_size=400), st.text(max_size=400))
def test_each_workload_has_an_account_of_its_own_whose_name_the_api_accepts(one: str, other: str) -> None:
    found = [account.name_of(DAG_RUN, name) for name in (one, other)]
    assert all(is_name(name) and len(name) <= 100 for name in found)
    assert (found[0] == found[1]) == (one == other)
    assert found[0] != account.name_of(FLYTE_WORKFLOW, one)


def test_an_account_is_found_by_the_name_of_its_workload() -> None:
    assert account.name_of(DAG_RUN, "etl.Manual__2026").startswith("dagrun-etl-manual-2026-")
    assert account.path_of(FLYTE_WORKFLOW, "ml", "f1").startswith(
        "/apis/retry-policy.dev/v1alpha1/namespaces/ml/accounts/flyteworkflow-f1-"
    )


def test_an_account_belongs_to_the_workload_that_is_an_object_and_keeps_it_from_no_deletion() -> None:
    (owner,) = account.new(FLYTE_WORKFLOW, ROOT, "{}")["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "flyte.lyft.com/v1alpha1", "kind": "FlyteWorkflow", "name": "f1", "uid": "u-1"}
    run = account.new(DAG_RUN, account.run_of("ml", "etl.one", "etl"), "{}")
    assert "ownerReferences" not in run["metadata"]
    assert run["spec"] == {"kind": "DAGRun", "name": "etl.one", "uid": "etl.one", "owner": "etl"}


def test_an_account_that_the_author_of_a_workload_wrote_into_it_does_not_count() -> None:
    assert account.with_account(ROOT, None)["metadata"]["annotations"] == {"a": "b"}
    own = account.new(FLYTE_WORKFLOW, ROOT, "ours")
    assert account.with_account(ROOT, own)["metadata"]["annotations"] == {"a": "b", names.LEDGER: "ours"}
    own["spec"]["uid"] = "u-0"  # of a former workload of this name
    assert account.with_account(ROOT, own)["metadata"]["annotations"] == {"a": "b"}
