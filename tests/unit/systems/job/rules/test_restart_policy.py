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


@pytest.mark.parametrize("first", [True, False])
def test_one_of_several_managers_that_wrote_the_restart_policy_is_enough(*, first: bool) -> None:
    said = restart_policy.said_in(managed(of("worker", wrote=first), of("worker", wrote=not first)))
    assert restart_policy.is_said(said, "worker")
