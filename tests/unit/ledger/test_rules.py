"""Which rule of a failure policy a pod matches, as the Job controller would say."""

import pytest

from tests.objects import DISRUPTION, exit_codes
from tests.unit.ledger.pods import BUG, RULES, disrupted, failed, job_set, seen
from webhook.ledger.pods import Condition, Exit
from webhook.ledger.rules import action_of_set, match


def test_rules_are_tried_in_order_and_the_first_that_matches_decides() -> None:
    both = disrupted(code=1)
    first, second = match([DISRUPTION, BUG], both), match([BUG, DISRUPTION], both)
    assert first is not None
    assert (first.index, first.action) == (0, "Ignore")
    assert second is not None
    assert (second.index, second.action, second.container) == (0, "FailJob", "main")


def test_a_pod_that_matches_nothing_is_counted() -> None:
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
def test_exit_codes_are_asked_of_the_containers_in_scope(rule: dict[str, object], matches: bool) -> None:  # noqa: FBT001
    assert (match([rule], failed(code=2)) is not None) is matches


def test_init_containers_are_asked_last() -> None:
    pod = failed(exits=(Exit("main", 1, "", ""), Exit("setup", 2, "", "")))
    found = match([exit_codes("FailJob", "NotIn", 143)], pod)
    assert found is not None
    assert found.container == "main"


def test_a_condition_without_a_status_is_one_that_is_so() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert match([rule], disrupted()) is not None
    not_so = seen(phase="Failed", conditions=(Condition("DisruptionTarget", "False", "", ""),))
    assert match([rule], not_so) is None


def test_the_message_is_the_job_controllers() -> None:
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
def test_a_set_does_what_its_first_rule_says_that_applies(rule: dict[str, object], action: str) -> None:
    assert action_of_set(job_set(rule), "workers", MESSAGE) == action


def test_a_set_without_a_rule_that_applies_restarts_if_it_may() -> None:
    assert action_of_set(job_set(), "workers", MESSAGE) == "RestartJobSet"
    assert action_of_set(job_set(maxRestarts=0), "workers", MESSAGE) == "FailJobSet"
