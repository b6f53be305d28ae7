"""Rules of onFailure that contradict themselves or each other, or that nothing could carry out."""

import json

import pytest
from msgspec import structs

from tests.documents import document_of
from tests.unit.policy.test_parse import profile, profile_problems
from webhook.policy.relations import RELATIONS

ON_FAILURE = """
onFailure:
- match: {cause: OOMKilled}
  next: {memory: {factor: 2, limit: 64Gi}}
- match: {exitCodes: [75]}
  next: {cost: Free, delay: {initial: 30s, factor: 1.5, limit: 10m}}
- match: {message: "*NCCL*", containers: [main]}
  next: {avoid: Node}
diagnostics: {lastWords: true}
"""


def test_the_rules_about_ended_attempts_are_read_in_their_order() -> None:
    grow, busy, node = profile(json.dumps(document_of(ON_FAILURE))).on_failure
    assert grow.match.cause == "OOMKilled"
    assert grow.next.memory is not None
    assert (grow.next.memory.factor, grow.next.memory.limit) == (2, "64Gi")
    assert busy.next.delay is not None
    assert (busy.next.delay.initial, busy.next.delay.factor, busy.next.delay.limit) == (30, 1.5, 600)
    assert (node.match.message, node.match.containers, node.next.avoid) == ("*NCCL*", ("main",), "Node")


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{match: {}, next: {avoid: Node}}", "match.cause: has no criterion; must name a cause, reasons, exitCodes, …"),
        (
            "{match: {sameNode: 2}, next: {}}",
            "next.cost: is empty; must say what follows: cost, memory, delay, avoid, …",
        ),
        (
            "{match: {sameNode: 2}, next: {memory: {limit: 1Gi}}}",
            "next: has memory, which only cause OOMKilled may ask for; add cause: OOMKilled, or remove memory",
        ),
        (
            "{match: {sameNode: 2}, next: {cost: Fatal, avoid: Node}}",
            "next.cost: is Fatal, after which there is no next attempt; remove the other fields",
        ),
        (
            "{match: {cause: Disruption, exitCodes: [1]}, next: {avoid: Node}}",
            "match.exitCodes: has no effect with cause Disruption; remove it, or the cause",
        ),
        (
            "{match: {cause: OOMKilled}, next: {memory: {factor: 11, limit: 1Gi}}}",
            "next.memory.factor: is 11; must be a number from 1 to 10",
        ),
        (
            '{match: {message: "a*b*c*d*e*f"}, next: {avoid: Node}}',
            (
                'match.message: is "a*b*c*d*e*f"; '
                "must be one line of 1 to 128 characters, in which up to four * stand for any text"
            ),
        ),
    ],
)
def test_a_rule_that_cannot_be_meant_is_a_problem(rule: str, problem: str) -> None:
    assert profile_problems(f"{{onFailure: [{rule}]}}") == [f"onFailure[0].{problem}"]


def test_a_message_is_matched_only_if_messages_are_kept() -> None:
    rules = '{onFailure: [{match: {message: "*NCCL*"}, next: {avoid: Node}}]}'
    assert profile_problems(rules) == [
        "onFailure: matches messages, which are not kept; set diagnostics.lastWords to true"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "{match: {exitCodes: [75]}, next: {cost: Free}}",
        "{match: {exitCodes: [75], cause: ExitCode, containers: [main]}, next: {cost: Free}}",
        "{match: {cause: Disruption}, next: {cost: Free}}",
        "{match: {cause: Disruption, sameNode: 2}, next: {cost: Fatal}}",
    ],
)
def test_a_cost_that_can_be_carried_out_is_no_problem(rule: str) -> None:
    assert len(profile(f"{{onFailure: [{rule}]}}").on_failure) == 1


FREE = "next: is Free, which the API cannot tell by this match; name exitCodes and containers, or cause: Disruption"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{match: {cause: OOMKilled}, next: {cost: Free}}", FREE),
        ("{match: {exitCodes: [75], sameNode: 2}, next: {cost: Free}}", FREE),
        ("{match: {exitCodes: [75, 137], cause: ExitCode}, next: {cost: Free}}", FREE),
        ("{match: {cause: Disruption, reasons: [TerminationByKubelet]}, next: {cost: Free}}", FREE),
        (
            "{match: {cause: Disruption, sameNode: 2}, next: {cost: Retry}}",
            "next: is Retry for some disruptions, which the API cannot tell; match cause: Disruption alone, or Fatal",
        ),
    ],
)
def test_a_cost_that_cannot_be_carried_out_is_a_problem(rule: str, problem: str) -> None:
    assert profile_problems(f"{{onFailure: [{rule}]}}") == [f"onFailure[0].{problem}"]


def test_a_free_rule_stands_before_rules_that_may_match_its_exit_codes() -> None:
    crashing = "{match: {sameNode: 2}, next: {avoid: Node}}"
    free = "{match: {exitCodes: [75]}, next: {cost: Free}}"
    assert len(profile(f"{{onFailure: [{free}, {crashing}]}}").on_failure) == 2
    assert profile_problems(f"{{onFailure: [{crashing}, {free}]}}") == [
        (
            "onFailure: has rule 1 with cost Free after a rule that may match its exit codes, as only the ledger sees; "
            "move rule 1 up"
        )
    ]


def test_a_free_rule_may_follow_one_about_kills_for_memory_unless_it_lists_137() -> None:
    memory = "{match: {cause: OOMKilled}, next: {avoid: Node}}"
    assert profile(f"{{onFailure: [{memory}, {{match: {{exitCodes: [75]}}, next: {{cost: Free}}}}]}}")
    assert profile_problems(f"{{onFailure: [{memory}, {{match: {{exitCodes: [137]}}, next: {{cost: Free}}}}]}}")


def test_a_profile_has_at_most_a_hundred_exit_codes_that_cost_nothing() -> None:
    codes = [list(range(1, 51)), list(range(51, 101)), [101]]
    rules = [{"match": {"exitCodes": some}, "next": {"cost": "Free"}} for some in codes]
    assert profile(json.dumps({"onFailure": rules[:2]}))
    assert profile_problems(json.dumps({"onFailure": rules})) == [
        "onFailure: has 101 exit codes that cost nothing; must have at most 100"
    ]


def test_costs_need_failure_policies() -> None:
    rule = "{match: {exitCodes: [42]}, next: {cost: Fatal}}"
    assert profile_problems(f"{{failurePolicy: {{inject: Never}}, onFailure: [{rule}]}}") == [
        (
            "onFailure: has costs, which have no effect with failurePolicy.inject Never; "
            "remove them, or set inject to Merge"
        )
    ]


def test_a_wrong_value_in_a_rule_is_reported_once() -> None:
    rule = "{match: {exitCodes: [x], sameNode: 9}, next: {cost: Cheap}}"
    assert len(profile_problems(f"{{onFailure: [{rule}, {{match: 1, next: {{cost: Free}}}}]}}")) == 4


def test_each_relation_is_between_fields_of_its_object() -> None:
    for kind, relations in RELATIONS.items():
        fields = {field.name for field in structs.fields(kind)}
        for names, _ in relations:
            assert names
            assert fields.issuperset(names)
