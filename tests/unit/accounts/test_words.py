"""The sentences in which Events and `explain` describe attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable
from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import EVICTED, disrupted, failed, job, job_set
from tests.unit.accounts.test_limits import PER_INDEX, settings
from webhook.accounts import words
from webhook.accounts.account import Account
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import count
from webhook.accounts.kueue import CountedEvictions
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.on_failure import FailureState
from webhook.pods.outcomes import outcome_of
from webhook.pods.pods import Exit, Pod
from webhook.policy.model import Delay, Duration, MemoryGrowth, Next


def sentence(*pods: Pod, root: Json | None = None, above: Json | None = None) -> str:
    """Return the sentence about the last of these pods."""
    root, account, text = root or job(), Account(), ""
    counted = PodsOfJob(root, above, settings())
    for pod in pods:
        detail = count(account, pod, counted)
        text = words.sentence(detail, counted.budgets_of().retries, words.OF_JOB if above is None else words.OF_JOB_SET)
    return text


def test_the_sentence_of_a_retriable_exit_code_says_that_it_cost_a_retry() -> None:
    assert sentence(disrupted(1), disrupted(2), failed(3)) == (
        "pod train-3, attempt 0 (max-retries 3), ended: container main exit code 143; cost 1 retry; "
        "left: 2 retries, 18 disruptions"
    )


def test_the_sentence_of_a_disruption_says_that_it_cost_a_disruption() -> None:
    expected = (
        f"pod train-2, attempt 1 (max-retries 3), ended: disruption {EVICTED}; cost 1 disruption; "
        "left: 2 retries, 19 disruptions"
    )
    assert sentence(failed(1), disrupted(2)) == expected


def test_the_sentence_of_a_bug_names_the_rule_that_ends_the_job() -> None:
    assert sentence(failed(1, code=1)) == (
        "pod train-1, attempt 0 (max-retries 3), ended: container main exit code 1; rule 1 (FailJob) ends the Job; "
        "left: 3 retries, 20 disruptions"
    )


def test_the_sentence_of_a_pod_that_never_started_does_not_say_that_no_retry_was_left() -> None:
    message = "Container main for pod ml/train-1 has not started in 60 s"
    failing = {"type": "FailureTarget", "status": "True", "reason": "NeverStarted", "message": message}
    root = job(status={"conditions": [failing]})
    assert "a container did not start, which ends the Job" in sentence(failed(1, code=137, deleting=True), root=root)


def test_the_sentence_of_an_index_shows_the_budget_of_that_index() -> None:
    assert sentence(failed(1, index="3", index_failures=1), root=job(PER_INDEX)) == (
        "index 3: pod train-1, attempt 1 (max-retries 2), ended: container main exit code 143; cost 1 retry; "
        "left: 0 retries, 20 disruptions"
    )


def test_the_sentence_of_a_job_set_shows_its_restarts() -> None:
    root = job()
    root["spec"]["podFailurePolicy"] = {"rules": [{**DISRUPTION, "action": "FailJob"}, exit_codes("FailJob", "In", 1)]}
    pod = disrupted(1, job="set-workers-0", job_set="set", index="0", restart=0)
    assert sentence(pod, root=root, above=job_set()) == (
        f"workers-0/0: pod train-1, attempt 0, ended: disruption {EVICTED}; cost 1 restart; "
        "left: 2 restarts, 20 disruptions"
    )


def test_the_summary_shows_all_attempts_by_their_cost() -> None:
    account = Account()
    for pod in (disrupted(1), failed(2), failed(3), failed(4, code=1)):
        account.count(outcome_of(pod, job()), "", 0)
    assert words.summary(account) == "4 attempts ended: 2 retries, 1 disruption, 1 fatal end"
    assert words.summary(Account()) == "0 attempts ended"


@pytest.mark.parametrize(
    ("following", "text"),
    [
        (Next(cost="Retry"), "rule 1 of onFailure decided"),
        (
            Next(memory=MemoryGrowth(factor=1.5, limit="64Gi")),
            "rule 1 of onFailure decided: the next pod gets 1.5 times the memory, at most 64Gi",
        ),
        (
            Next(delay=Delay(initial=Duration(30)), avoid="Zone", placement="OnDemand"),
            "rule 1 of onFailure decided: the next pod gets a delay, another zone if there is one, on-demand nodes",
        ),
        (None, "rule 1 of onFailure decided"),
    ],
)
def test_a_rule_of_on_failure_is_named_with_what_the_next_pod_gets(following: Next | None, text: str) -> None:
    assert words.decided(1, following) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (FailureState(cause="ExitCode"), "no rule decided after ExitCode"),
        (FailureState(), "no rule decided after an end that was no failure"),
        (
            FailureState(
                rule=2, cause="Disruption", not_before="2026-01-01T00:00:30Z", avoid_zones=("a", "b"), on_demand=True
            ),
            (
                "rule 2 decided after Disruption; waits until 2026-01-01T00:00:30Z; avoids the zones a, b; "
                "runs on on-demand nodes"
            ),
        ),
        (
            FailureState(rule=0, cause="OOMKilled", kills={"main": 1}, avoid_nodes=("n1",)),
            "rule 0 decided after OOMKilled; container main was killed for its memory 1 time; avoids the nodes n1",
        ),
    ],
)
def test_the_state_of_a_pod_is_told_in_words(state: FailureState, text: str) -> None:
    assert words.state(state) == text


def said_by(pod: Pod) -> str:
    return words.last_words(outcome_of(pod, job()))


def saying(*exits: tuple[str, int, str]) -> Pod:
    """Return a failed pod with containers that ended with a code and a message, in this order of time."""
    ends = [
        Exit(name, code, "Error", f"2026-01-01T00:00:{at:02}Z", said) for at, (name, code, said) in enumerate(exits)
    ]
    return failed(exits=tuple(ends))


def test_the_last_words_are_those_of_the_container_by_which_the_pod_ended() -> None:
    assert said_by(saying(("main", 1, "loss is NaN"), ("proxy", 137, "connection closed"))) == "loss is NaN"
    assert said_by(saying(("proxy", 137, "connection closed"), ("main", 1, "loss is NaN"))) == "loss is NaN"


def test_if_that_container_left_none_those_of_another_one_count() -> None:
    assert said_by(saying(("main", 1, ""), ("proxy", 137, "connection closed"))) == "connection closed"
    assert said_by(failed()) == ""


def test_a_disrupted_pod_has_last_words_too() -> None:
    assert said_by(disrupted(exits=(Exit("main", 143, "Error", "", "saved step 1200"),))) == "saved step 1200"


def test_several_lines_become_one_without_what_a_terminal_would_obey() -> None:
    assert words.in_one_line("Traceback:\n  File\tx\r\n\x1b[31mValueError\x07 \u202eb\n") == (
        "Traceback: File x [31mValueError b"
    )


def test_of_a_long_message_the_end_is_kept() -> None:
    found = words.in_one_line("x" * 1000 + "CUDA out of memory")
    assert found.startswith("…xxx")
    assert found.endswith("xCUDA out of memory")
    assert len(found.encode()) == words.LONGEST_MESSAGE


@given(st.text(st.characters(), max_size=400))
@pytest.mark.filterwarnings("error")
def test_no_message_makes_them_longer_or_unprintable(message: str) -> None:
    found = words.in_one_line(message)
    assert len(found.encode()) <= words.LONGEST_MESSAGE
    assert found.isprintable()


def test_the_longest_message_costs_little() -> None:
    assert_affordable(lambda: words.in_one_line("\u202e" * pods.LONGEST_MESSAGE), lines=1_545, mebibytes=1)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (CountedEvictions(reasons={"Preempted": 1}), "evicted by Kueue 1 time (1 Preempted)"),
        (
            CountedEvictions(reasons={"Preempted": 2, "PodsReadyTimeout": 1}, limit=5, before=2, requeues=1),
            "evicted by Kueue 3 times (2 Preempted, 1 PodsReadyTimeout); 4 left; requeued 1 time",
        ),
        (
            CountedEvictions(reasons={"PodsReadyTimeout": 2}, limit=1, requeues=2, requeue_at="2026-01-01T00:11:00Z"),
            "evicted by Kueue 2 times (2 PodsReadyTimeout); 0 left; requeued 2 times, waits until 2026-01-01T00:11:00Z",
        ),
    ],
)
def test_evictions_by_kueue_are_told_with_their_reasons_what_is_left_and_the_requeues(
    found: CountedEvictions, text: str
) -> None:
    assert words.evictions(found) == text
