"""What a policy decides in a simulation is what it decides in a cluster: the same functions are asked."""

from typing import Any

import pytest

from tests.unit.insight.simulate.stories import policy
from webhook.insight.simulate.decisions import Decider, ReplicatedJob, Shape, SimulatedEnd, SpentBefore
from webhook.insight.simulate.past import End
from webhook.pods.on_failure import NONE
from webhook.policy.model import Disruptions, FailureRule, Match, Next, Placement, Retries

LOST = End("Disruption", "PreemptionByScheduler")
BUG, STOPPED = End("ExitCode", "", 1), End("ExitCode", "", 143)
ONE = Shape("default", ("main",))


def decide(end: End, spent: SpentBefore = SpentBefore(), shape: Shape = ONE, **fields: Any) -> SimulatedEnd:  # noqa: B008
    return Decider(policy(**fields)).decide(shape, end, spent, NONE, "")


def leaves(spent: SpentBefore, shape: Shape = ONE, **fields: Any) -> bool:
    return Decider(policy(**fields)).leaves_spot(shape, spent, lacked_spot=False)


def test_a_bug_fails_the_job_and_a_disruption_does_not() -> None:
    assert decide(BUG).ends == "Job"
    assert decide(BUG).why == "exit code 1 is not worth a retry (failurePolicy)"
    assert decide(LOST)[:2] == ("disruption", "")


def test_the_last_retry_fails_the_job() -> None:
    assert decide(STOPPED, SpentBefore(retries=2)).ends == ""
    assert decide(STOPPED, SpentBefore(retries=3)).why == "exit code 143 after its last retry (3 allowed)"


def test_after_as_many_disruptions_as_allowed_pods_leave_spot_nodes() -> None:
    assert not leaves(SpentBefore())
    assert leaves(SpentBefore(disruptions=1))
    assert not leaves(SpentBefore(disruptions=1), disruptions=Disruptions(limit=3))


@pytest.mark.parametrize(("threshold", "first_on_demand"), [(-1, 3), (-2, 2), (1, 1), (2, 2)])
def test_the_threshold_says_which_attempt_leaves_spot_nodes(threshold: int, first_on_demand: int) -> None:
    placement = Placement(provider="gke", interruptible_failure_threshold=threshold)

    found = [number for number in range(4) if leaves(SpentBefore(retries=number), placement=placement)]

    assert found[0] == first_on_demand


def test_on_exceed_fail_ends_the_job_with_one_disruption_more_than_allowed() -> None:
    disruptions = Disruptions(limit=1, on_exceed="Fail")

    assert decide(LOST, disruptions=disruptions).ends == ""
    assert decide(LOST, SpentBefore(disruptions=1), disruptions=disruptions).ends == "Job"


def test_a_rule_of_on_failure_decides_first() -> None:
    rules = (FailureRule(match=Match(exit_codes=(1,)), next=Next(cost="Retry")),)

    assert (decide(BUG, on_failure=rules).cost, decide(BUG, on_failure=rules).rule) == ("retry", 0)


def test_a_workload_that_asks_for_too_much_is_denied_or_clamped() -> None:
    greedy = ONE._replace(retries=5)

    denied = Decider(policy(retries=Retries(limit=2, default=2))).admit(greedy)
    clamped = Decider(policy(retries=Retries(limit=2, default=2, on_exceed="Clamp"))).admit(greedy)

    assert denied.refusal == "5 retries exceed the limit of 2 in profile 'default'"
    assert (clamped.refusal, clamped.retries) == ("", 2)


def test_an_authors_own_number_of_retries_is_kept_and_a_missing_one_replaced() -> None:
    decider = Decider(policy(retries=Retries(default=4)))

    assert decider.admit(ONE._replace(retries=1)).retries == 1
    assert decider.admit(ONE).retries == 4


def test_a_crash_of_pods_that_depend_on_each_other_may_be_explained_by_a_disruption() -> None:
    gang = ONE._replace(indexed=True, completions=4, parallelism=4)

    assert (decide(BUG, shape=gang).ends, decide(BUG, shape=gang).within) == ("Job", 30)
    assert decide(STOPPED, shape=gang).within == 0


def test_a_disruption_restarts_a_job_set() -> None:
    job_set = Shape("default", ("main",), indexed=True, retries=2, parts=(ReplicatedJob("workers", 1, 4),))

    assert decide(LOST, shape=job_set).set_action == "RestartJobSetAndIgnoreMaxRestarts"


def test_the_back_off_of_an_index_does_not_grow_with_allowed_disruptions() -> None:
    index = ONE._replace(indexed=True, completions=4, parallelism=4)

    assert Decider(policy()).admit(index).per_index
    assert decide(LOST, shape=index).ignored == 0
    assert decide(LOST, SpentBefore(disruptions=1), index).ignored == 1


def test_an_answer_is_given_again_without_asking_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decider = Decider(policy())
    first = decider.decide(ONE, LOST, SpentBefore(), NONE, "node-1")
    monkeypatch.setattr(Decider, "verdict", lambda *_: pytest.fail("asked again"))

    assert decider.decide(ONE, LOST, SpentBefore(), NONE, "node-2") == first


def test_answers_do_not_grow_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.simulate.decisions.MOST_REMEMBERED", 3)
    decider = Decider(policy())
    for code in range(1, 10):
        decider.decide(ONE, End("ExitCode", "", code), SpentBefore(), NONE, "")
        decider.leaves_spot(ONE, SpentBefore(disruptions=code), lacked_spot=False)

    assert len(decider.verdicts) <= 3
    assert len(decider.placements) <= 3
