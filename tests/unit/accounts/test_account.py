"""The account of a workload, which counts every ended pod once."""

import random

from tests.costs import lines_of
from tests.unit.accounts.pods import EVICTED, disrupted, failed, job
from webhook.accounts.account import DETAILS, KEPT, MOST_MESSAGES, MOST_RECENT, Account, Attempt, Left, id_of
from webhook.accounts.kueue import CountedEvictions
from webhook.accounts.limits import scope_of
from webhook.accounts.stored import LARGEST, decode, encode
from webhook.history.usage import Used, UsedRow
from webhook.pods.outcomes import UNSEEN, outcome_of
from webhook.pods.pods import Pod
from webhook.policy.settings import LARGEST_COUNT

REASONS = (
    *("PreemptionByScheduler", "DeletionByTaintManager", EVICTED, "DeletionByPodGC", "TerminationByKubelet"),
    "DeletionByDeviceTaintManager",
)


def counted(*pods: Pod, account: Account | None = None) -> Account:
    account = account or Account()
    for pod in pods:
        account.count(outcome_of(pod, job()), scope_of(pod), 0)
    return account


def test_ended_pods_are_counted_by_cause_and_by_cost() -> None:
    account = counted(disrupted(1), failed(2), disrupted(3), failed(4, code=1))
    assert account.ended == 4
    assert account.cost == {"disruption": 2, "retry": 1, "fatal": 1}
    assert account.causes == {"Disruption": {EVICTED: 2}, "ExitCode": {"main 143": 1, "main 1": 1}}
    assert account.spot == 4


def test_an_account_knows_which_pods_it_has_counted() -> None:
    account = counted(failed(1))
    assert account.has(failed(1))
    assert not account.has(failed(2))
    assert account.has(failed(3, counted=True))


def test_the_last_attempts_are_kept_in_detail() -> None:
    account = counted(*(failed(number) for number in range(DETAILS + 3)))
    assert [detail.pod for detail in account.last] == [f"train-{number}" for number in range(3, DETAILS + 3)]
    detail = counted(disrupted(1)).last[0]
    assert (detail.pod, detail.node, detail.placement) == ("train-1", "spot-1", "Spot")
    assert (detail.cause, detail.reason, detail.rule, detail.action) == ("Disruption", EVICTED, 0, "Ignore")


def test_an_account_that_is_written_can_be_read_again() -> None:
    account = counted(disrupted(1, index="3"), failed(2, code=1))
    assert decode(encode(account)) == account
    assert decode(None) == Account()


def test_an_account_forgets_the_oldest_pods_but_none_that_still_exists() -> None:
    pods = [failed(number) for number in range(MOST_RECENT)]
    account = counted(*pods)
    assert account.room == 0
    staying = {id_of(pods[0]), id_of(pods[1])}
    account.forget(KEPT, staying)
    assert account.recent == [id_of(pod) for pod in (pods[0], pods[1], *pods[-KEPT:])]


def test_a_crash_that_is_settled_as_a_bug_is_fatal_and_costs_no_retry() -> None:
    account = counted(failed(1, code=143))
    account.note_left(Left(retries=4, disruptions=1))
    assert account.settle("train-1")
    assert account.cost == {"retry": 0, "fatal": 1}
    assert account.last[0].settled
    assert account.last[0].left == Left(retries=5, disruptions=1)
    assert not account.settle("train-1")


def test_a_verdict_gives_back_no_retry_beyond_what_an_account_can_hold() -> None:
    account = counted(failed(1, code=143))
    account.note_left(Left(retries=LARGEST_COUNT, disruptions=0))
    assert account.settle("train-1")
    assert account.left == Left(retries=LARGEST_COUNT, disruptions=0)


def test_a_verdict_on_a_crash_within_a_job_of_a_set_gives_back_no_restart() -> None:
    account = counted(failed(1, code=143))
    account.note_left(Left(retries=2, disruptions=0))
    assert account.settle("train-1", in_set=True)
    assert (account.left, account.last[0].left) == (Left(retries=2, disruptions=0), Left(retries=2, disruptions=0))


def test_a_disruption_that_is_found_fatal_costs_no_disruption() -> None:
    account = counted(failed(1, code=143), disrupted(2))
    assert account.settle("train-2")
    assert account.cost == {"retry": 1, "disruption": 0, "fatal": 1}


def test_of_two_pods_with_the_same_name_the_newer_one_is_settled() -> None:
    account = Account()
    for reason in ("main 143", "main 1"):
        detail = Attempt(
            attempt=0, scope="worker/0", pod="train-worker-0", cause="ExitCode", reason=reason, cost="retry"
        )
        account.add(detail)
        account.spend_retry("worker/0", "", None)
    assert account.settle("train-worker-0")
    assert [detail.cost for detail in account.last] == ["retry", "fatal"]
    assert account.cost == {"retry": 1, "fatal": 1}
    assert account.retries_of("worker/0") == 1


def test_a_crash_can_be_settled_as_a_bug_after_its_details_were_dropped() -> None:
    account = counted(*(failed(number) for number in range(DETAILS + 1)))
    assert account.settle("train-0")
    assert account.cost == {"retry": DETAILS, "fatal": 1}


def test_a_limit_reset_clears_the_disruptions_of_each_scope_but_not_the_total() -> None:
    account = counted(disrupted(1), disrupted(2))
    account.suspended = True
    account.reset_limits()
    assert account.scopes.of("") == 0
    assert account.spent("disruption") == 2
    assert (account.grants, account.suspended) == (1, False)


def test_failures_known_only_from_the_job_status_cost_retries() -> None:
    account = Account()
    account.count_unseen(2)
    assert account.causes == {"Other": {"Unseen": 2}}
    assert account.cost == {"retry": 2}


def test_the_last_words_of_the_last_three_attempts_that_left_any_are_kept() -> None:
    account = Account()
    for number in range(6):
        message = "" if number == 4 else f"step {number}"
        account.count(outcome_of(failed(number), job()), "", 0, message=message)
        account.forget_messages(MOST_MESSAGES)
    account = decode(encode(account))
    assert [detail.message for detail in account.last] == ["", "", "step 2", "step 3", "", "step 5"]
    account.forget_messages(0)
    assert not any(detail.message for detail in account.last)


def test_an_attempt_without_last_words_takes_no_more_room_than_before() -> None:
    assert "message" not in encode(counted(failed(1)))


def test_ten_thousand_disruptions_fit_into_an_account() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    account = Account()
    truth: dict[str, int] = {}
    for number in range(10_000):
        index = str(chance.randrange(2_000))
        truth[index] = truth.get(index, 0) + 1
        pod = disrupted(number, chance.choice(REASONS), index=index, name=f"train-{index}-x{number:05}")
        account.count(outcome_of(pod, job()), scope_of(pod), 0)
        account.forget(KEPT, ())
        if number % 100 == 0:
            text = encode(account)
            assert len(text.encode()) <= LARGEST
            account = decode(text)
    account = decode(encode(account))
    assert (account.ended, account.spent("disruption")) == (10_000, 10_000)
    assert sum(account.causes["Disruption"].values()) == 10_000
    assert all(account.scopes.of(index) >= count for index, count in truth.items())


def test_any_number_of_unseen_failures_costs_little_to_count() -> None:
    account = counted(failed(1))
    assert lines_of(lambda: account.count_unseen(2_000_000_000)) <= 2_000
    assert (account.ended, account.spent("retry")) == (2_000_000_001, 2_000_000_001)
    assert account.causes["Other"] == {UNSEEN: 2_000_000_000}
    assert [detail.attempt for detail in account.last[-2:]] == [1_999_999_999, 2_000_000_000]


def test_another_currency_starts_the_prices_again() -> None:
    account = Account()
    used = Used(3600.0, (("cpu", 1.0),), "Spot", 2.0, "USD")
    for one in (used, used._replace(currency="EUR", price=1.5), used._replace(currency="", price=None)):
        account.count(outcome_of(failed(1), job()), "", 0, used=one)
    assert account.currency == "EUR"
    assert account.lost == {"ExitCode": {"Spot": UsedRow(3, 10800.0, 1, 1.5, [10800.0])}}


def test_a_requested_retry_and_a_limit_reset_keep_what_was_lost() -> None:
    account = Account()
    account.count(outcome_of(disrupted(1), job()), "", 0, used=Used(60.0, (("cpu", 1.0),), "Spot"))
    lost = dict(account.lost)
    account.reset_limits()
    account.begin_anew("2026-01-01T00:00:00Z")
    assert account.lost == lost
    assert decode(encode(account)).lost == lost


def test_a_requested_retry_resets_the_limit_of_evictions_and_keeps_their_number() -> None:
    account = Account(evictions=CountedEvictions(reasons={"Preempted": 2}, limit=1))
    account.begin_anew("2026-01-01T00:00:00Z")
    found = decode(encode(account)).evictions
    assert found is not None
    assert (found.reasons, found.is_exceeded) == ({"Preempted": 2}, False)
