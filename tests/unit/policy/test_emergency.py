"""What admission does with retries while the policy's emergency stops them."""

import re
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from tests.admission import ask, policy
from tests.generated import ROOT
from tests.objects import job, job_spec
from webhook.admission import engine
from webhook.kube import names
from webhook.ledger.model import limits
from webhook.objects.problem import Json
from webhook.policy.emergency import MESSAGE, profile_for_admission
from webhook.policy.model import Emergency, Policy, Profile, Retries
from webhook.policy.parse import KEY, load_default, parse
from webhook.policy.settings import NamedProfile


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
    assert profile_for_admission(under, "default") is under.profiles["default"]


def test_users_are_told_that_it_is_an_emergency() -> None:
    assert profile_for_admission(stopped(Profile(message="Ask the batch team.")), "default").message == MESSAGE


def test_the_ledger_judges_what_runs_by_the_limits_as_they_are_written() -> None:
    under = stopped()
    settings = NamedProfile("default", under.profiles["default"]).settings({})
    assert limits.budgets_of(job(job_spec(backoffLimit=5)), None, settings).free_limit == 10


def test_the_command_that_stops_actions_changes_nothing_else_in_the_shipped_policy() -> None:
    page = (ROOT / "docs" / "how-to" / "stop.md").read_text()
    (config_map,) = yaml.safe_load_all((ROOT / "manifests" / "base" / "configmap.yaml").read_text())
    before = config_map["data"][KEY]
    ((old, new), *others) = re.findall(r"s/([^/]+)/([^/]+)/", page)
    stops = parse(before.replace(old, new))
    assert stops == replace(load_default(), emergency=Emergency(actions="Stop"))
    after = before.replace(old, new).replace("retries: Run", "retries: Stop")
    for old, new in others:
        after = after.replace(old, new)
    assert parse(after) == load_default()
