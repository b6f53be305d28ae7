"""What admission does with retries while the policy's emergency stops them."""

from textwrap import indent
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import ask, policy
from tests.objects import job, job_spec
from tests.stop_page import GO_ON, STOP, edited
from tools.generate import ROOT
from webhook.accounts import limits
from webhook.admission import engine
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.emergency import MESSAGE, profile_to_edit, profile_to_judge
from webhook.policy.model import Emergency, Policy, Profile, Retries
from webhook.policy.parse import parse
from webhook.policy.settings import NamedProfile
from webhook.rules.facts import Facts


def stopped(profile: Profile | None = None, **emergency: Any) -> Policy:
    found = policy(default=profile or Profile())
    return replace(found, emergency=Emergency(**{"retries": "Stop", **emergency}))


def admitted(spec: Json, annotations: Json | None = None, *, old: Json | None = None, under: Policy) -> Any:
    root = job(spec, annotations=annotations or {})
    answer = ask(engine.mutate, root, under=under, old=old)
    assert ask(engine.validate, answer.object, under=under, old=old).allowed
    return answer


@pytest.mark.parametrize("on_exceed", ["Deny", "Clamp"])
@pytest.mark.parametrize("said", [{}, {"backoffLimit": 5}, {"backoffLimit": 0}])
def test_a_new_job_runs_once_whatever_its_author_and_its_profile_say(said: Json, on_exceed: Any) -> None:
    under = stopped(Profile(retries=Retries(limit=8, default=3, on_exceed=on_exceed)))
    assert admitted(job_spec(**said), under=under).object["spec"]["backoffLimit"] == 0


def test_the_annotation_max_retries_allows_none_either() -> None:
    answer = admitted(job_spec(), {names.MAX_RETRIES: "5"}, under=stopped())
    assert answer.object["spec"]["backoffLimit"] == 0


def test_the_author_is_warned_that_the_number_was_lowered() -> None:
    warnings = admitted(job_spec(backoffLimit=5), under=stopped()).warnings
    assert any("5 lowered to 0" in warning for warning in warnings)


@pytest.mark.parametrize("on_exceed", ["Deny", "Clamp"])
@pytest.mark.parametrize("annotations", [{}, {names.MAX_RETRIES: "5"}])
def test_a_job_that_another_replica_has_just_edited_under_the_policy_before_is_not_denied(
    on_exceed: Any, annotations: Json
) -> None:
    profile = Profile(retries=Retries(limit=8, on_exceed=on_exceed))
    for edits, judges in ((policy(default=profile), stopped(profile)), (stopped(profile), policy(default=profile))):
        edited = ask(engine.mutate, job(job_spec(backoffLimit=5), annotations=annotations), under=edits).object
        assert ask(engine.validate, edited, under=judges).allowed


def test_a_number_beyond_the_limit_of_the_profile_is_denied_as_without_an_emergency() -> None:
    under = stopped(Profile(retries=Retries(limit=4)))
    assert not ask(engine.validate, job(job_spec(backoffLimit=5)), under=under).allowed
    assert not ask(engine.validate, job(job_spec(backoffLimit=5)), under=replace(under, emergency=Emergency())).allowed


def test_where_the_policy_is_not_enforced_a_number_that_would_be_lowered_is_no_problem() -> None:
    root, facts = job(job_spec(backoffLimit=25)), Facts(profile_name="default", mode="Warn")
    answer = ask(engine.validate, root, facts, under=stopped())
    assert not any("would deny" in warning for warning in answer.warnings)
    assert any("would deny" in warning for warning in ask(engine.validate, root, facts).warnings)


def test_an_update_of_an_older_job_leaves_its_retries_alone() -> None:
    old = ask(engine.mutate, job(job_spec(backoffLimit=5))).object
    new = {**old, "metadata": {**old["metadata"], "labels": {**old["metadata"].get("labels", {}), "team": "a"}}}
    answer = ask(engine.mutate, new, under=stopped(), old=old)
    assert answer.object["spec"]["backoffLimit"] == 5
    assert ask(engine.validate, answer.object, under=stopped(), old=old).allowed


def test_after_the_emergency_new_jobs_have_their_retries_again() -> None:
    assert admitted(job_spec(backoffLimit=5), under=policy()).object["spec"]["backoffLimit"] == 5


def test_stopping_only_the_actions_of_the_leader_leaves_retries_alone() -> None:
    under = stopped(retries="Run", actions="Stop")
    assert admitted(job_spec(backoffLimit=5), under=under).object["spec"]["backoffLimit"] == 5
    assert profile_to_edit(under, "default") is profile_to_judge(under, "default") is under.profiles["default"]


def test_users_are_told_that_it_is_an_emergency() -> None:
    assert profile_to_edit(stopped(Profile(message="Ask the batch team.")), "default").message == MESSAGE


def test_the_ledger_judges_what_runs_by_the_limits_as_they_are_written() -> None:
    under = stopped()
    settings = NamedProfile("default", under.profiles["default"]).settings({})
    assert limits.budgets_of(job(job_spec(backoffLimit=5)), None, settings).free_limit == 10


SHIPPED = (ROOT / "manifests" / "base" / "configmap.yaml").read_text()
# As the chart stores a policy of its values, and as a user may write it.
OTHER = "apiVersion: v1\nkind: ConfigMap\ndata:\n  policy.yaml: |\n" + indent(
    "kind: RetryPolicy\nprofiles:\n  default:\n    retries: {limit: 4}\napiVersion: retry-policy.dev/v1alpha1\n", "    "
)


@pytest.mark.parametrize("before", [SHIPPED, OTHER], ids=["shipped", "other"])
def test_the_commands_of_the_page_stop_actions_and_go_on_and_change_nothing_else(before: str) -> None:
    normal = parse(before)
    assert isinstance(normal, Policy)
    stopped = edited(before, STOP)
    assert parse(stopped) == replace(normal, emergency=Emergency(actions="Stop"))
    assert edited(stopped, GO_ON) == before
    both = stopped.replace("{actions: Stop}", "{actions: Stop, retries: Stop}")
    assert parse(both) == replace(normal, emergency=Emergency(actions="Stop", retries="Stop"))
    assert edited(both, GO_ON) == before


def test_stopping_twice_is_refused_and_not_ignored() -> None:
    problems = parse(edited(edited(SHIPPED, STOP), STOP))
    assert isinstance(problems, list)
    assert ["emergency: is written twice" in str(problem) for problem in problems] == [True]
