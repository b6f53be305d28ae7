"""The Account of a workload: its name, what it says, and whose it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.paths import is_name
from webhook.objects.problem import Json
from webhook.systems import account_object as account
from webhook.systems.argo import spec as argo
from webhook.systems.flyte.spec import FLYTE_WORKFLOW
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.volcano import spec as volcano

ROOT: Json = {"metadata": {"namespace": "ml", "name": "f1", "uid": "u-1"}}


@given(st.text(max_size=400), st.text(max_size=400))
def test_each_workload_has_an_account_of_its_own_whose_name_the_api_accepts(one: str, other: str) -> None:
    found = [account.name_of(argo.WORKFLOW, name, name) for name in (one, other)]
    assert all(is_name(name) and len(name) <= 100 for name in found)
    assert (found[0] == found[1]) == (one == other)
    assert found[0] != account.name_of(FLYTE_WORKFLOW, one, one)


def test_jobs_of_two_systems_and_a_job_that_was_created_again_have_accounts_of_their_own() -> None:
    names = {account.name_of(kind, "train", uid) for kind in (batch.JOB, volcano.JOB) for uid in ("1", "2")}
    assert len(names) == 4


def test_an_account_is_found_by_the_name_of_its_workload() -> None:
    assert account.name_of(argo.WORKFLOW, "etl.Manual__2026", "u").startswith("workflow-etl-manual-2026-")
    assert account.path_of(FLYTE_WORKFLOW, ROOT).startswith(
        "/apis/retry-policy.dev/v1alpha1/namespaces/ml/accounts/flyteworkflow-f1-"
    )


def test_an_account_belongs_to_the_workload_that_is_an_object_and_keeps_it_from_no_deletion() -> None:
    made = account.new(FLYTE_WORKFLOW, ROOT)
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "flyte.lyft.com/v1alpha1", "kind": "FlyteWorkflow", "name": "f1", "uid": "u-1"}
    assert made["spec"] == owner


@pytest.mark.parametrize("kind", [batch.JOB, JOB_SET, FLYTE_WORKFLOW])
def test_an_account_is_that_of_the_workload_that_it_was_made_for(kind: KindSpec) -> None:
    made = account.new(kind, ROOT)
    assert account.is_of(made, kind, ROOT)
    assert not account.is_of(made, kind, {"metadata": {**ROOT["metadata"], "uid": "u-2"}})
    assert not account.is_of(made, kind, {"metadata": {**ROOT["metadata"], "name": "f2"}})


def test_an_account_without_an_owner_is_nobodys() -> None:
    made = account.new(batch.JOB, ROOT)
    made["metadata"]["ownerReferences"] = [{"uid": "u-2"}]
    assert not account.is_of(made, batch.JOB, ROOT)
    del made["metadata"]["ownerReferences"]
    assert not account.is_of(made, batch.JOB, ROOT)
