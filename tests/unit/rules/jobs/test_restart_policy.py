"""Whether the author of a JobSet set restartPolicy, which only managedFields show."""

import pytest

from webhook.objects.problem import Json
from webhook.rules.jobs import restart_policy


def managed(*owned: Json) -> Json:
    entries = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicatedJobs": one}}} for one in owned]
    return {"metadata": {"managedFields": entries}}


def of(name: str, *, wrote: bool) -> Json:
    fields: Json = {"f:restartPolicy": {}} if wrote else {"f:containers": {}}
    return {f'k:{{"name":"{name}"}}': {"f:template": {"f:spec": {"f:template": {"f:spec": fields}}}}}


def test_a_replicated_job_whose_author_wrote_one_is_told_from_one_whose_author_did_not() -> None:
    said = restart_policy.said_in(managed({**of("driver", wrote=True), **of("worker", wrote=False)}))
    assert restart_policy.is_said(said, "driver")
    assert not restart_policy.is_said(said, "worker")


@pytest.mark.parametrize("first", [True, False])
def test_of_several_managers_one_that_wrote_it_is_enough(*, first: bool) -> None:
    said = restart_policy.said_in(managed(of("worker", wrote=first), of("worker", wrote=not first)))
    assert restart_policy.is_said(said, "worker")


def test_where_nothing_tells_it_is_taken_for_the_authors() -> None:
    assert restart_policy.is_said(restart_policy.said_in({}), "worker")


@pytest.mark.parametrize("fields", [None, 1, "x", [None], [{"fieldsV1": 3}], [{"fieldsV1": {"f:spec": []}}]])
def test_managed_fields_of_any_shape_are_read(fields: object) -> None:
    assert restart_policy.said_in({"metadata": {"managedFields": fields}}) == {}
