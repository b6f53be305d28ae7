"""The pairs of criterion and answer that scenarios play on a real control plane, judged offline."""

from datetime import UTC, datetime
from itertools import product
from operator import attrgetter
from typing import get_args

import msgspec
import pytest

from tests.cluster.installation import policy_of_tests
from tests.cluster.on_failure_matrix import (
    CRITERIA,
    FOLLOWINGS,
    Criterion,
    Ending,
    Following,
    each_once,
    name_of,
    pairs,
    refusal,
)
from tests.documents import document_of
from tests.objects import job_spec, stored_job
from tests.unit.accounts.pods import failed, job
from webhook.cli import next_pod
from webhook.cli.next_pod import After, Ended
from webhook.kube import names
from webhook.pods import on_failure
from webhook.pods.outcomes import outcome_of
from webhook.policy import costs
from webhook.policy.causes import MatchedCause
from webhook.policy.criteria import KILLED
from webhook.policy.model import FailureRule, Match, Next, Policy
from webhook.policy.parse import parse
from webhook.policy.settings import NamedProfile


def ended(ending: Ending) -> Ended:
    """Return the end of an attempt as a file of `retry-policy test` says it."""
    caused = [one for one in get_args(MatchedCause) if one in {ending.reason, ending.of_pod}]
    has_run = ending.code is not None
    return Ended(
        cause="Disruption" if ending.evicted else next(iter(caused), None),
        reason=ending.of_pod or None,
        container=ending.container if has_run else None,
        exit_code=ending.code,
        message=ending.message,
        node="n1",
    )


def policy() -> Policy:
    found = parse(policy_of_tests())
    assert isinstance(found, Policy), found
    return found


POLICY = policy()


@pytest.mark.parametrize(("criterion", "following"), [pytest.param(*one, id=name_of(*one)) for one in pairs()])
def test_the_first_of_two_rules_that_match_decides(criterion: Criterion, following: Following) -> None:
    name = name_of(criterion, following)
    profile = NamedProfile(name, POLICY.profiles[name])
    root = stored_job(job_spec(containers=("main", "proxy"), backoffLimit=5))
    ends = (ended(criterion.ending),) * criterion.ending.times
    after = After(ends, datetime(2026, 1, 1, tzinfo=UTC))
    made = next_pod.of_job(root, after, None, profile)
    next_pod.admit(made, POLICY)
    said = made.pod["metadata"]["annotations"][names.AFTER_FAILURE]
    assert on_failure.read(said).rule == 0


def test_memory_can_follow_only_its_own_cause_and_all_else_each_cause() -> None:
    refused = {(one.name, other.name) for one in CRITERIA for other in FOLLOWINGS if refusal(one, other)}
    others = {one.name for one in CRITERIA} - {"out-of-memory"}
    assert {(name, "memory") for name in others} == {pair for pair in refused if pair[1] != "free"}


def test_the_policy_of_the_cluster_tests_has_a_profile_for_each_pair() -> None:
    profiles = document_of(policy_of_tests())["profiles"]
    assert {name_of(*pair) for pair in pairs()} <= profiles.keys()


def test_each_make_test_plays_every_criterion_and_every_answer_at_least_once() -> None:
    played = [one for one in pairs() if name_of(*one) in each_once()]
    assert {criterion.name for criterion, _ in played} == {criterion.name for criterion in CRITERIA}
    assert {following.name for _, following in played} == {following.name for following in FOLLOWINGS}


@pytest.mark.parametrize("second", CRITERIA, ids=attrgetter("name"))
@pytest.mark.parametrize("first", CRITERIA, ids=attrgetter("name"))
def test_every_pod_that_ends_with_a_sure_code_of_a_match_is_one_that_it_matches(
    first: Criterion, second: Criterion
) -> None:
    named = {**first.match, **second.match}
    if "exitCodes" in named:
        named["exitCodes"] = [75, KILLED]
    match = msgspec.convert(named, Match)
    rules = (FailureRule(match=match, next=Next(cost="Free")),)
    for code, reason in product(costs.sure_codes(match), ("Error", "OOMKilled")):
        if reason == "Error" or code == KILLED:
            pod = failed(1, code, container=next(iter(match.containers), "main"), exit_reason=reason)
            wrong = f"sure_codes of a row in webhook/policy/criteria.py has {code}, but {match} does not match {pod}"
            assert on_failure.decided(pod, outcome_of(pod, job(), None), rules) == 0, wrong
