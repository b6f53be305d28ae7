"""The retry fields of an object to which the limit applies."""

import pytest

from tests.objects import job, job_spec
from tests.unit.systems.job_set.rules.test_job_set import job_set
from webhook.objects.problem import Json, field
from webhook.policy.model import Profile, Retries
from webhook.policy.settings import NamedProfile
from webhook.rules import limits
from webhook.rules.contexts import ValidationContext
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec

TWO = NamedProfile("default", Profile(retries=Retries(limit=2)))
JOBS_OF_SET = "spec.replicatedJobs[{}].template.spec.backoffLimit"


def denied(kind: KindSpec, root: Json, old: Json | None = None) -> list[str]:
    """Return the fields for which an object is denied."""
    context = ValidationContext(kind, root, old, TWO, Facts(profile_name="default"))
    return [field(problem.path) for problem in limits.problems(context)]


def test_the_limit_holds_for_the_retries_of_each_job_and_for_the_restarts_of_the_job_set() -> None:
    root = job_set(job_spec(backoffLimit=3), job_spec(backoffLimit=4), failure_policy={"maxRestarts": 5})
    found = denied(JOB_SET, root)
    assert found == [JOBS_OF_SET.format(0), JOBS_OF_SET.format(1), "spec.failurePolicy.maxRestarts"]
    assert denied(JOB_SET, job_set(job_spec(backoffLimit=2), failure_policy={"maxRestarts": 2})) == []


@pytest.mark.parametrize(("retries", "found"), [(4, []), (5, []), (6, ["spec.backoffLimit"])])
def test_an_update_is_denied_if_it_raises_a_field_beyond_the_limit(retries: int, found: list[str]) -> None:
    before = job(job_spec(backoffLimit=5))
    assert denied(batch.JOB, job(job_spec(backoffLimit=retries)), before) == found
