"""Which rule of a podFailurePolicy a pod matches, as in the Job controller."""

import sys
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costs import assert_affordable, lines_of
from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import BUG, RULES, disrupted, failed, job_set, running_pod
from webhook.objects.problem import Json
from webhook.pods.matching import LONGEST_PATTERN, MOST_RULES, action_of_set, match
from webhook.pods.pods import Condition, Exit


def test_the_first_rule_that_matches_decides() -> None:
    both = disrupted(code=1)
    first, second = match([DISRUPTION, BUG], both), match([BUG, DISRUPTION], both)
    assert first is not None
    assert (first.index, first.action) == (0, "Ignore")
    assert second is not None
    assert (second.index, second.action, second.container) == (0, "FailJob", "main")


def test_a_pod_may_match_no_rule() -> None:
    assert match(RULES, failed(code=143)) is None
    assert match([], failed(code=1)) is None


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (exit_codes("FailJob", "In", 1, 2), True),
        (exit_codes("FailJob", "In", 3), False),
        (exit_codes("FailJob", "NotIn", 3), True),
        (exit_codes("FailJob", "NotIn", 2), False),
        (exit_codes("FailJob", "In", 2, container="main"), True),
        (exit_codes("FailJob", "In", 2, container="side"), False),
        ({"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}, False),
    ],
)
def test_an_exit_code_rule_checks_the_containers_that_it_covers(rule: dict[str, object], matches: bool) -> None:  # noqa: FBT001
    assert (match([rule], failed(code=2)) is not None) is matches


def test_init_containers_are_checked_last() -> None:
    pod = failed(exits=(Exit("main", 1, "", ""), Exit("setup", 2, "", "")))
    found = match([exit_codes("FailJob", "NotIn", 143)], pod)
    assert found is not None
    assert found.container == "main"


def test_a_rule_whose_condition_has_no_status_matches_status_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert match([rule], disrupted()) is not None
    is_false = running_pod(phase="Failed", conditions=(Condition("DisruptionTarget", "False", "", ""),))
    assert match([rule], is_false) is None


def test_the_message_is_the_same_as_the_job_controllers() -> None:
    restart = {**DISRUPTION, "action": "FailJob"}
    found = match([restart], disrupted())
    assert found is not None
    assert found.message == "Pod ml/train-1 has condition DisruptionTarget matching FailJob rule at index 0"
    bug = match([DISRUPTION, BUG], failed(code=1))
    assert bug is not None
    assert bug.message == "Container main for pod ml/train-1 failed with exit code 1 matching FailJob rule at index 1"


MESSAGE = "Pod ml/train-1 has condition DisruptionTarget matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        ({"action": "FailJobSet"}, "FailJobSet"),
        ({"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}, "RestartJobSet"),
        ({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}, "FailJobSet"),
        ({"action": "FailJobSet", "targetReplicatedJobs": ["driver"]}, "RestartJobSet"),
        ({"action": "FailJobSet", "targetReplicatedJobs": ["workers"]}, "FailJobSet"),
        ({"action": "FailJobSet", "onJobFailureMessagePatterns": ["exit code"]}, "RestartJobSet"),
        (
            {"action": "FailJobSet", "onJobFailureMessagePatterns": ["exit code", "DisruptionTarget.*FailJob"]},
            "FailJobSet",
        ),
        ({"action": "FailJobSet", "onJobFailureMessagePatterns": ["("]}, "RestartJobSet"),
    ],
)
def test_a_job_set_takes_the_action_of_its_first_rule_that_applies(rule: dict[str, object], action: str) -> None:
    assert action_of_set(job_set(rule), "workers", MESSAGE) == action


def test_without_a_rule_that_applies_a_job_set_restarts_unless_max_restarts_is_0() -> None:
    assert action_of_set(job_set(), "workers", MESSAGE) == "RestartJobSet"
    assert action_of_set(job_set(maxRestarts=0), "workers", MESSAGE) == "FailJobSet"


def set_with(*patterns: str) -> Json:
    return job_set({"action": "FailJobSet", "onJobFailureMessagePatterns": list(patterns)})


HOSTILE_MESSAGE = (
    f"Container {'a' * 63} for pod ml/{'a' * 253} failed with exit code 1 matching FailJob rule at index 0"
)


@pytest.mark.parametrize(
    "patterns",
    [
        ["(a+)+!"],
        ["(a|a)*!", "(a*)*!", "(.*)*!"] * 1000,
        ["(a?){200}b"] * 1000,  # falls back from the automaton to a simulation of 800 states
        ["(((a?){10}){10}){2}b"],
        ["[[:alpha:]]{0,490}x"],
        ["[[:alpha:]]{0,1000}x" * 3 + str(number) for number in range(1000)],  # each too large to be compiled
        [f"\\pL{{0,{number}}}x" for number in range(1000)],
        ["x" * 1_000_000],
        ["("] * 100_000,
    ],
    ids=lambda patterns: f"{len(patterns)} of {patterns[0][:24]}",
)
def test_no_pattern_that_a_user_can_write_takes_long(patterns: list[str]) -> None:
    hostile = set_with(*patterns)
    assert_affordable(lambda: action_of_set(hostile, "workers", HOSTILE_MESSAGE), lines=34_000, mebibytes=4)


PIECES = st.sampled_from(["a", ".", "[[:alpha:]]", r"\pL", "(?i)ab", "b", "!", "^", "$", r"\b"])
PATTERNS = st.recursive(
    PIECES,
    lambda inner: (
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{0,9}", "{50}", "{0,1000}", "{2,}"]))
        | st.builds("({}|{})".format, inner, inner)
        | st.builds("{}{}".format, inner, inner)
    ),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.lists(PATTERNS, max_size=30))
def test_matching_a_message_costs_little_with_any_patterns(patterns: list[str]) -> None:
    hostile = set_with(*patterns)
    assert lines_of(lambda: action_of_set(hostile, "workers", HOSTILE_MESSAGE)) <= 1_450


def test_only_a_limited_number_of_rules_of_a_job_set_is_read() -> None:
    hostile = job_set(*[{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}] * 100_000)
    assert lines_of(lambda: action_of_set(hostile, "workers", MESSAGE)) <= 12 * MOST_RULES


def test_a_pattern_beyond_the_bounds_matches_nothing() -> None:
    assert action_of_set(set_with("x?" * LONGEST_PATTERN), "workers", MESSAGE) == "RestartJobSet"
    assert action_of_set(set_with("[[:alpha:]]{0,1000}" * 3), "workers", MESSAGE) == "RestartJobSet"
    assert action_of_set(set_with(*(f"({number}" for number in range(10)), "."), "workers", MESSAGE) == "RestartJobSet"


def test_twelve_usual_patterns_are_within_the_bounds() -> None:
    usual = [f".*has condition DisruptionTarget matching FailJob rule at index {number}" for number in range(1, 12)]
    assert action_of_set(set_with(*usual, ".*at index 0"), "workers", MESSAGE) == "FailJobSet"


def test_the_command_line_does_not_load_re2_before_it_is_needed() -> None:
    loaded = run(
        [sys.executable, "-c", "import sys, webhook.cli.main, webhook.cli.render; print('re2' in sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert loaded.stdout.strip() == "False"
