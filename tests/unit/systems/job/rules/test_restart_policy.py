"""Whether the author of a JobSet wrote restartPolicy, which only managedFields show."""

import pytest

from webhook.objects.problem import Json
from webhook.systems.job.rules import restart_policy


def managed(*owned: Json) -> Json:
    entries = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicatedJobs": fields}}} for fields in owned]
    return {"metadata": {"managedFields": entries}}


def of(name: str, *, wrote: bool) -> Json:
    fields: Json = {"f:restartPolicy": {}} if wrote else {"f:containers": {}}
    return {f'k:{{"name":"{name}"}}': {"f:template": {"f:spec": {"f:template": {"f:spec": fields}}}}}


def test_managed_fields_show_which_replicated_jobs_have_a_restart_policy_of_the_author() -> None:
    said = restart_policy.said_in(managed({**of("driver", wrote=True), **of("worker", wrote=False)}))
    assert restart_policy.is_said(said, "driver")
    assert not restart_policy.is_said(said, "worker")


@pytest.mark.parametrize("first", [True, False])
def test_one_of_several_managers_that_wrote_the_restart_policy_is_enough(*, first: bool) -> None:
    said = restart_policy.said_in(managed(of("worker", wrote=first), of("worker", wrote=not first)))
    assert restart_policy.is_said(said, "worker")


def test_without_managed_fields_the_restart_policy_counts_as_the_authors() -> None:
    assert restart_policy.is_said(restart_policy.said_in({}), "worker")


@pytest.mark.parametrize("fields", [None, 1, "x", [None], [{"fieldsV1": 3}], [{"fieldsV1": {"f:spec": []}}]])
def test_malformed_managed_fields_are_ignored(fields: object) -> None:
    assert restart_policy.said_in({"metadata": {"managedFields": fields}}) == {}
