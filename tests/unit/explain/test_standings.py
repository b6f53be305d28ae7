"""Where a workload stands before its next failure."""

from tests.accounts import held, holding
from tests.unit.explain.test_build import job
from tests.unit.explain.workflows import workflow
from webhook.accounts.account import Account
from webhook.accounts.scopes import Scopes
from webhook.explain.standings import NOBODYS, account_with, standings_of
from webhook.kube.names import SKIP
from webhook.objects.left_out import RAISING
from webhook.objects.times import seconds
from webhook.policy.applied import applied
from webhook.policy.model import Disruptions, Duration, Profile
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch

START = "2026-01-01T00:00:00Z"


def test_a_job_without_a_record_has_a_profile_that_injects_nothing() -> None:
    root = job()
    root["metadata"]["annotations"][SKIP] = "true"
    (standing,) = standings_of(batch.JOB, root, [root], Account(), [], 0.0)
    assert standing.profile == NOBODYS


def test_disruptions_that_count_no_more_are_not_those_of_the_workload() -> None:
    daily = applied(Profile(disruptions=Disruptions(per=Duration(86_400))))
    counted = Account(ended=1, cost={"disruption": 1}, scopes=Scopes({"": 1}), window_start=START, applied=daily)
    root = holding(batch.JOB, job(), counted)
    for after, spent in ((86_399, 1), (86_400, 0)):
        now = (seconds(START) or 0.0) + after
        found = account_with(batch.JOB, root, [root], [*held(root)], [], RAISING, now)
        assert found.scopes.of("") == spent


def test_of_another_kind_the_codes_are_known_by_its_record_and_the_rest_by_its_account_too() -> None:
    (recorded,) = standings_of(argo.WORKFLOW, workflow(profile=Profile()), [], Account(), [], 0.0)
    (counted,) = standings_of(argo.WORKFLOW, workflow(), [], Account(applied=applied(Profile())), [], 0.0)
    assert (recorded.knows_codes, counted.knows_codes) == (True, False)
    assert standings_of(argo.WORKFLOW, workflow(), [], Account(), [], 0.0) == []
