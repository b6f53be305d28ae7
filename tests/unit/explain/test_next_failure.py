"""What `explain` shows for the next failure of a pod."""

from functools import reduce
from operator import attrgetter, getitem
from typing import Any, get_args

import msgspec
import pytest

from tests.cluster.on_failure_matrix import CRITERIA, Criterion
from tests.objects import DISRUPTION, exit_codes, job_spec
from tests.unit.accounts.pods import disrupted, failed, running_pod
from webhook.accounts.account import Account
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import count
from webhook.accounts.forecast import Standing
from webhook.explain import next_failure
from webhook.explain.next_failure import next_failures
from webhook.kube.names import RETRY_HISTORY
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.causes import MatchedCause
from webhook.policy.model import Disruptions, FailureRule, Match, Next, Placement, Profile, RequestedRetry
from webhook.policy.settings import NamedProfile

BUG = exit_codes("FailJob", "NotIn", 143, container="main")
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


def standing(*ended: Pod, profile: Profile, live: tuple[Pod, ...] = (), **spec: Any) -> Standing:
    root: Json = {
        "metadata": {"namespace": "ml", "name": "train", "uid": "job-uid"},
        "spec": job_spec(**{"rules": [DISRUPTION, BUG], "backoffLimit": 3, **spec}),
        "status": {"failed": sum(pod.disruption is None for pod in ended)},
    }
    account, named = Account(), NamedProfile("default", profile)
    for pod in ended:
        count(account, pod, PodsOfJob(root, None, named.settings({})))
    return Standing(job=root, job_set=None, account=account, live=live, profile=named)


def shown(*ended: Pod, pod: Pod | None = None, live: tuple[Pod, ...] = (), **fields: Any) -> list[str]:
    """Return what is shown for the next failure of a pod, after others have ended."""
    threshold = fields.pop("threshold", -1)
    limits = {name: fields.pop(name) for name in ("limit", "on_exceed", "action") if name in fields}
    profile = Profile(disruptions=Disruptions(**limits), placement=Placement(interruptible_failure_threshold=threshold))
    failing_pod = pod or running_pod(50)
    found = standing(*ended, profile=profile, live=(failing_pod, *live), **fields)
    return [following.text for following in next_failures(found, [failing_pod], placed=True)]


def test_explain_says_if_one_more_disruption_fails_the_job() -> None:
    assert shown(on_exceed="Fail")[0] == (
        "a disruption: costs no retry; then 0 disruptions left; the next pod goes to on-demand nodes (rule 0)"
    )
    assert shown(disrupted(1), on_exceed="Fail")[0] == (
        "a disruption: ends the Job: disruptions exceed the limit of 1 (rule 0)"
    )


def test_explain_says_if_one_more_disruption_suspends_the_job_unless_other_pods_run() -> None:
    assert shown(disrupted(1), on_exceed="Suspend")[0] == (
        "a disruption: suspends the Job: disruptions exceed the limit of 1 (rule 0)"
    )
    beside = shown(
        disrupted(1), disrupted(2), on_exceed="Suspend", live=(running_pod(51),), parallelism=2, completions=2
    )
    assert beside[0].startswith("a disruption: costs no retry; then 0 disruptions left; the next pod goes to")


@pytest.mark.parametrize(("threshold", "spot"), [(-1, 3), (-2, 2), (-3, 1), (1, 1), (2, 2), (0, 3), (9, 3)])
def test_the_predicted_kind_of_node_follows_from_the_threshold_and_the_disruption_limit(
    threshold: int, spot: int
) -> None:
    found = [shown(*map(disrupted, range(number)), limit=3, threshold=threshold)[0] for number in range(4)]
    assert [("spot nodes" in text) for text in found] == [number + 1 < spot for number in range(4)]


def test_explain_predicts_the_kind_of_node_for_each_of_the_last_retries() -> None:
    assert shown(failed(1))[-1] == "anything else: costs a retry; then 1 retry left; the next pod goes to spot nodes"
    assert shown(failed(1), failed(2))[-1] == (
        "anything else: costs a retry; then 0 retries left; the next pod goes to on-demand nodes"
    )
    assert shown(failed(1), failed(2), failed(3))[-1] == "anything else: ends the Job; no retry is left"


def test_a_crash_that_the_ledger_settles_later_is_shown_with_both_possible_verdicts() -> None:
    retry = "costs a retry; then 2 retries left; the next pod goes to spot nodes"
    bug = "it is a bug, which ends the Job, if no other pod of it is disrupted within 30 s before or after it"
    assert shown(rules=[DISRUPTION], pod=running_pod(50, index="1"), **COUPLED)[1:] == [
        f"any exit code but 137, 143 of main: {bug}; else {retry}",
        f"anything else: {retry}",
    ]


def test_indexes_with_the_same_forecast_are_shown_together() -> None:
    pods = [running_pod(number, index=str(number)) for number in range(5)]
    profile = Profile(disruptions=Disruptions(on_exceed="Fail"))
    spec = {**COUPLED, "completions": 5, "parallelism": 5}
    found = standing(disrupted(9, index="1"), disrupted(8, index="2"), profile=profile, live=tuple(pods), **spec)
    texts = [following.text for following in next_failures(found, pods, placed=True)]
    on_demand = "costs no retry; then 0 disruptions left; the next pod goes to on-demand nodes"
    assert [text for text in texts if text.startswith("a disruption")] == [
        f"a disruption of index 0,3-4: {on_demand} (rule 0)",
        "a disruption of index 1-2: ends the Job: disruptions exceed the limit of 1 (rule 0)",
    ]


def test_no_node_is_shown_if_the_webhook_chooses_none() -> None:
    found = standing(profile=Profile(), live=(running_pod(50),))
    texts = [following.text for following in next_failures(found, [running_pod(50)], placed=False)]
    assert texts[0] == "a disruption: costs no retry; then 0 disruptions left (rule 0)"


def test_a_rule_that_no_failure_reaches_is_left_out() -> None:
    rules = [exit_codes("FailJob", "NotIn", 143), exit_codes("Count", "In", 1)]
    assert [text.partition(":")[0] for text in shown(rules=rules)] == ["any exit code but 143", "anything else"]


def test_the_forecast_is_part_of_the_structured_output() -> None:
    found = standing(disrupted(1), profile=Profile(disruptions=Disruptions(on_exceed="Fail")), live=(running_pod(50),))
    first = msgspec.to_builtins(next(next_failures(found, [running_pod(50)], placed=True)))
    assert (first["forecast"]["ends"], first["forecast"]["reason"]) == ("Job", "DisruptionLimitExceeded")
    assert next_failure.ELSE == "anything else"


@pytest.mark.parametrize("path", [(), ("spec", "template")])
def test_the_next_pod_of_a_requested_retry_is_foretold_on_the_nodes_that_the_profile_names(
    path: tuple[str, ...],
) -> None:
    found = standing(profile=Profile(requested_retry=RequestedRetry(placement="OnDemand")))
    retried = reduce(getitem, path, found.job)
    retried["metadata"] = {**retried.get("metadata", {}), "annotations": {RETRY_HISTORY: "[]"}}
    *_, last = next_failures(found, [running_pod(50)], placed=True)
    assert last.text == "anything else: costs a retry; then 2 retries left; the next pod goes to on-demand nodes"


MEMORY = FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node"))
FREE = FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free"))
CORRUPT = FailureRule(match=Match(message="*corrupt*", containers=("main",)), next=Next(cost="Fatal"))
UNLESS = "unless a rule of its author says otherwise; else costs a retry; then 2 retries left"
AGAIN = FailureRule(match=Match(same_node=2), next=Next(avoid="Node"))


def by_rules(*rules: FailureRule, injected: list[Json]) -> list[str]:
    profile = Profile(on_failure=rules)
    found = standing(profile=profile, live=(running_pod(50),), rules=[DISRUPTION, *injected])
    return [following.text for following in next_failures(found, [running_pod(50)], placed=False)]


def test_explain_says_what_each_rule_about_ended_attempts_costs() -> None:
    assert by_rules(MEMORY, FREE, injected=[exit_codes("Ignore", "In", 75)]) == [
        "a disruption: costs no retry; then 0 disruptions left (rule 0)",
        "exit code 75: costs no retry; the ledger ends the Job after 10 such failures (rule 1; rule 1 of onFailure)",
        "OOMKilled: costs a retry; then 2 retries left (rule 0 of onFailure)",
        f"any exit code but 143 of main: no rule of onFailure retries it, which ends the Job, {UNLESS}",
        "anything else: costs a retry; then 2 retries left",
    ]


def test_explain_says_that_the_ledger_ends_a_job_for_a_fatal_message() -> None:
    found = by_rules(AGAIN, CORRUPT, injected=[])
    assert found[1:3] == [
        "a failure 2 times on the same node: costs a retry; then 2 retries left (rule 0 of onFailure)",
        (
            "a failure of main with a message like *corrupt*: rule 1 of onFailure ends the Job, "
            f"{UNLESS} (rule 1 of onFailure)"
        ),
    ]


def assert_foretold(match: Match) -> None:
    """Assert that explain has a line for a rule with a match."""
    found = by_rules(FailureRule(match=match, next=Next(cost="Fatal")), injected=[])
    wrong = f"_ended_as in webhook/explain/next_failure.py makes no end that {match} matches"
    assert any("rule 0 of onFailure" in text for text in found), wrong


@pytest.mark.parametrize("one", [one for one in CRITERIA if one.name != "other"], ids=attrgetter("name"))
def test_explain_foretells_a_failure_that_each_criterion_matches(one: Criterion) -> None:
    """A failure of which the API says nothing, as `other`, is told by "anything else"."""
    assert_foretold(msgspec.convert(one.match, Match))


@pytest.mark.parametrize("cause", sorted({*get_args(MatchedCause)} - {"NeverStarted", "Other"}))
def test_explain_foretells_a_failure_of_each_cause_that_a_rule_may_name(cause: MatchedCause) -> None:
    assert_foretold(Match(cause=cause))


def test_without_rules_there_is_nothing_else_that_a_failure_could_be() -> None:
    assert [text.partition(":")[0] for text in shown(rules=[])] == ["any failure"]
