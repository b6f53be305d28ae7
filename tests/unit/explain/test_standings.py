"""Where a workload stands before its next failure."""

from tests.unit.explain.test_build import job
from tests.unit.explain.workflows import workflow
from webhook.accounts.account import Account
from webhook.explain.standings import NOBODYS, standings_of
from webhook.kube.names import SKIP
from webhook.policy.applied import applied
from webhook.policy.model import Profile
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch


def test_a_job_without_a_record_has_a_profile_that_injects_nothing() -> None:
    root = job()
    root["metadata"]["annotations"][SKIP] = "true"
    (standing,) = standings_of(batch.JOB, root, [root], Account(), [])
    assert standing.profile == NOBODYS


def test_of_another_kind_the_codes_are_known_by_its_record_and_the_rest_by_its_account_too() -> None:
    (recorded,) = standings_of(argo.WORKFLOW, workflow(profile=Profile()), [], Account(), [])
    (counted,) = standings_of(argo.WORKFLOW, workflow(), [], Account(applied=applied(Profile())), [])
    assert (recorded.knows_codes, counted.knows_codes) == (True, False)
    assert standings_of(argo.WORKFLOW, workflow(), [], Account(), []) == []
