"""The sentences in which Events and `explain` describe attempts."""

from tests.objects import DISRUPTION, exit_codes
from tests.unit.ledger.model.test_limits import PER_INDEX, settings
from tests.unit.ledger.pods import EVICTED, disrupted, failed, job, job_set
from webhook.ledger.model import words
from webhook.ledger.model.account import Account
from webhook.ledger.model.counting import count
from webhook.ledger.model.limits import budgets_of
from webhook.ledger.model.outcomes import outcome_of
from webhook.ledger.model.pods import Pod
from webhook.objects.problem import Json


def sentence(*pods: Pod, root: Json | None = None, above: Json | None = None) -> str:
    """Return the sentence about the last of these pods."""
    root, account, text = root or job(), Account(), ""
    budgets = budgets_of(root, above, settings())
    for pod in pods:
        detail = count(account, pod, root, above, budgets)
        text = words.sentence(detail, budgets.retries if above is None else None)
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
