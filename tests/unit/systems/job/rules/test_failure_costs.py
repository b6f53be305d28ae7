"""What the rules of onFailure cost, as rules of a podFailurePolicy."""

from copy import deepcopy
from typing import Any

import pytest

from tests.merge_cases import bug
from tests.objects import DISRUPTION, exit_codes, job, job_spec
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, FailureRule, Match, Next, Profile
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_costs, failure_policy, schema
from webhook.systems.job_set.rules import free_restarts

FREE = FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free"))
FATAL = FailureRule(match=Match(exit_codes=(42,)), next=Next(cost="Fatal"))
RETRY = FailureRule(match=Match(exit_codes=(3,)), next=Next(avoid="Node"))
MEMORY = FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node"))
NCCL = FailureRule(match=Match(message="*NCCL*", containers=("main",)), next=Next(avoid="Node"))
IGNORED, FAILED, COUNTED = exit_codes("Ignore", "In", 75), exit_codes("FailJob", "In", 42), exit_codes("Count", "In", 3)
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def settings(*rules: FailureRule, **fields: Any) -> Settings:
    return Settings(profile_name="default", profile=Profile(on_failure=rules, failure_policy=FailurePolicy(**fields)))


def edited(
    root: Json, *rules: FailureRule, counted: bool = True, fails: bool = True, **fields: Any
) -> list[Json] | None:
    """Apply the rule failure_policy to a Job twice; return its rules, which the second time must not change."""
    under = settings(*rules, **fields)
    wanted = failure_policy.Wanted(under.disruption_action, fails_bugs=fails, counted=counted)
    root, found = deepcopy(root), None
    for _ in range(2):
        (embedded,) = batch.JOB.jobs(root)
        failure_policy.edit(embedded, under, Editor(root), wanted)
        policy = root["spec"].get("podFailurePolicy")
        assert found is None or policy == found
        found = deepcopy(policy)
    assert schema.problems(root["spec"], ("spec",)) == []
    return None if found is None else found["rules"]


def test_each_rule_about_exit_codes_becomes_one_before_the_rules_for_bugs() -> None:
    assert edited(job(job_spec()), FREE, FATAL, RETRY) == [DISRUPTION, IGNORED, FAILED, COUNTED, bug()]


def test_rules_stand_in_their_order_so_that_the_first_match_decides() -> None:
    later = FailureRule(match=Match(exit_codes=(75, 76)), next=Next(cost="Fatal"))
    assert edited(job(job_spec()), FREE, later)[1:] == [IGNORED, exit_codes("FailJob", "In", 75, 76), bug()]  # type: ignore[index]
    assert edited(job(job_spec()), later, FREE)[1:] == [exit_codes("FailJob", "In", 75, 76), bug()]  # type: ignore[index]


def test_a_rule_is_about_the_containers_that_it_names_if_the_job_has_them() -> None:
    named = FailureRule(match=Match(exit_codes=(75,), containers=("main", "gone")), next=Next(cost="Free"))
    assert edited(job(job_spec()), named) == [DISRUPTION, exit_codes("Ignore", "In", 75, container="main"), bug()]


def test_neighbours_with_the_same_cost_and_container_are_one_rule() -> None:
    more = FailureRule(match=Match(exit_codes=(4,)), next=Next(cost="Retry"))
    assert edited(job(job_spec()), RETRY, more) == [DISRUPTION, exit_codes("Count", "In", 3, 4), bug()]


def test_with_a_rule_about_memory_the_ledger_judges_every_exit_code_as_a_child_may_have_been_killed() -> None:
    assert edited(job(job_spec()), MEMORY) == [DISRUPTION]
    assert edited(job(job_spec()), FREE, MEMORY) == [DISRUPTION, IGNORED]


def test_where_indexes_have_budgets_a_rule_about_memory_keeps_137_retriable_and_no_other_code() -> None:
    spec = job_spec(completionMode="Indexed", completions=2, backoffLimitPerIndex=1)
    assert edited(job(spec), MEMORY) == [DISRUPTION, bug(action="FailIndex", values=(137, 143))]


def test_a_rule_that_may_match_any_exit_code_leaves_all_of_its_containers_to_the_ledger() -> None:
    two = job_spec(containers=("main", "side"))
    assert edited(job(two), NCCL) == [DISRUPTION, bug("side")]


def test_a_fatal_exit_code_that_an_earlier_rule_may_match_is_left_to_the_ledger() -> None:
    fatal = FailureRule(match=Match(exit_codes=(1, 137)), next=Next(cost="Fatal"))
    assert edited(job(job_spec()), MEMORY, fatal) == [
        DISRUPTION,
        exit_codes("FailJob", "In", 1),
    ]


def test_where_indexes_have_budgets_a_fatal_exit_code_fails_the_index() -> None:
    spec = job_spec(completionMode="Indexed", completions=2, backoffLimitPerIndex=1)
    found = edited(job(spec), FATAL)
    assert found == [DISRUPTION, exit_codes("FailIndex", "In", 42), bug(action="FailIndex")]


@pytest.mark.parametrize(
    "spec",
    [job_spec(successPolicy={"rules": [{"succeededCount": 1}]}, **COUPLED), job_spec(parallelism=2)],
    ids=["success policy", "work queue"],
)
def test_a_job_that_may_succeed_after_failures_gets_free_exit_codes_and_no_fatal_ones(spec: Json) -> None:
    spec.pop("completions", None) if "successPolicy" not in spec else None
    assert edited(job(spec), FREE, FATAL) == [DISRUPTION, IGNORED]


def test_where_the_ledger_settles_crashes_it_decides_about_fatal_exit_codes_too() -> None:
    assert edited(job(job_spec(**COUPLED)), FREE, FATAL) == [DISRUPTION, IGNORED]
    assert edited(job(job_spec(**COUPLED)), FREE, FATAL, coupled="Retry") == [DISRUPTION, IGNORED, FAILED]


def test_in_a_job_that_may_be_suspended_the_exit_codes_of_stopped_pods_are_left_to_the_ledger() -> None:
    fatal = FailureRule(match=Match(exit_codes=(42, 137)), next=Next(cost="Fatal"))
    assert edited(job(job_spec(suspend=True)), fatal)[1:3] == [FAILED, exit_codes("Count", "In", 137)]  # type: ignore[index]


def test_no_failure_is_free_where_no_ledger_counts_it() -> None:
    found = edited(job(job_spec()), FREE, counted=False)
    assert found == [DISRUPTION, exit_codes("Count", "In", 75), bug()]


def test_in_a_set_that_restarts_after_bugs_nothing_fails_a_job() -> None:
    assert edited(job(job_spec()), FREE, FATAL, fails=False) == [DISRUPTION, IGNORED]


def test_the_authors_rules_come_first_and_hide_ours() -> None:
    own = exit_codes("Count", "In", 42, 75)
    assert edited(job(job_spec(rules=[own])), FREE, FATAL) == [DISRUPTION, own, bug()]


@pytest.mark.parametrize(("inject", "author"), [("Never", None), ("IfAbsent", [exit_codes("Count", "In", 1)])])
def test_where_the_profile_injects_nothing_the_rules_cost_nothing(inject: str, author: list[Json] | None) -> None:
    assert edited(job(job_spec(rules=author)), FREE, FATAL, inject=inject) == author


def test_with_more_rules_than_the_api_allows_only_that_for_disruptions_is_injected() -> None:
    own = [exit_codes("Count", "In", 100 + number) for number in range(18)]
    assert edited(job(job_spec(rules=own)), FREE, FATAL) == [DISRUPTION, *own]


def test_a_disruption_costs_what_its_rule_says() -> None:
    fatal = FailureRule(match=Match(cause="Disruption"), next=Next(cost="Fatal"))
    assert edited(job(job_spec()), fatal) == [{**DISRUPTION, "action": "FailJob"}, bug()]
    counted = FailureRule(match=Match(cause="Disruption"), next=Next(cost="Retry"))
    assert edited(job(job_spec()), counted) == [{**DISRUPTION, "action": "Count"}, bug()]
    indexed = job_spec(completionMode="Indexed", completions=2, backoffLimitPerIndex=1)
    assert edited(job(indexed), fatal)[0] == {**DISRUPTION, "action": "FailIndex"}  # type: ignore[index]


def test_an_author_is_not_warned_about_a_rule_of_the_profile() -> None:
    root = job(job_spec(rules=edited(job(job_spec(rules=[exit_codes("Ignore", "In", 76)])), FREE)))
    (embedded,) = batch.JOB.jobs(root)
    (warning,) = free_restarts.warnings(embedded, settings(FREE))
    assert warning.path[-1] == 1


def test_the_rules_of_the_profile_are_told_from_those_of_the_author() -> None:
    own = exit_codes("Count", "In", 42, container="main")
    root = job(job_spec(rules=edited(job(job_spec(rules=[own])), FREE, FATAL, MEMORY)))
    (embedded,) = batch.JOB.jobs(root)
    assert failure_policy.without_ours(embedded, settings(FREE, FATAL, MEMORY)) == [own]


def test_rules_without_exit_codes_become_none() -> None:
    (embedded,) = batch.JOB.jobs(job(job_spec()))
    assert failure_costs.rules(embedded, settings(MEMORY, NCCL), failing="FailJob", counted=True) == []


def warned(spec: Json, *rules: FailureRule, fails: bool = True) -> list[str]:
    root, under = job(spec), settings(*rules)
    wanted = failure_policy.Wanted(under.disruption_action, fails_bugs=fails, counted=True)
    (embedded,) = batch.JOB.jobs(root)
    return [str(one) for one in failure_policy.edit(embedded, under, Editor(root), wanted)]


OWN_BUDGETS: Json = {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}
UNSEEN = (
    Match(message="*NaN*"),
    Match(cause="OOMKilled"),
    Match(exit_codes=(3,), same_node=2),
    Match(cause="Disruption", reasons=("PreemptionByScheduler",)),
)


@pytest.mark.parametrize("match", UNSEEN)
def test_a_fatal_rule_that_only_the_ledger_sees_is_a_warning_where_indexes_have_budgets(match: Match) -> None:
    fatal = FailureRule(match=match, next=Next(cost="Fatal"))
    what = "onFailure 1 cannot fail one index, and costs a retry; use FailIndex on exit codes"
    assert warned(job_spec(**OWN_BUDGETS), FATAL, fatal) == [f"spec.backoffLimitPerIndex: {what}"]
    (two,) = warned(job_spec(**OWN_BUDGETS), fatal, fatal)
    assert "onFailure 0, 1 cannot" in two


@pytest.mark.parametrize("match", UNSEEN)
def test_it_is_none_where_the_ledger_can_fail_the_job_or_nothing_is_fatal(match: Match) -> None:
    fatal = FailureRule(match=match, next=Next(cost="Fatal"))
    assert warned(job_spec(), fatal) == []
    injected = {**OWN_BUDGETS, "backoffLimit": 1, "maxFailedIndexes": 0}  # as backOff.perIndex
    assert warned(job_spec(**injected), fatal) == []
    assert warned(job_spec(**OWN_BUDGETS), FATAL, FailureRule(match=match, next=Next(avoid="Node"))) == []
    assert warned(job_spec(**OWN_BUDGETS), fatal, fails=False) == []
