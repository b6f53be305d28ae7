"""A workload's account: every ended pod once, in at most 4 KiB."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ledger.pods import EVICTED, disrupted, failed, job
from webhook.ledger.account import DETAILS, KEPT, LARGEST, MOST_RECENT, Account, decode, encode, id_of
from webhook.ledger.endings import ending_of
from webhook.ledger.limits import unit_of
from webhook.ledger.pods import Pod

REASONS = ("PreemptionByScheduler", "DeletionByTaintManager", EVICTED, "DeletionByPodGC", "TerminationByKubelet")


def counted(*pods: Pod, account: Account | None = None) -> Account:
    account = account or Account()
    for pod in pods:
        account.count(ending_of(pod, job()), unit_of(pod), 0)
    return account


def test_ended_pods_are_counted_by_cause_and_by_cost() -> None:
    account = counted(disrupted(1), failed(2), disrupted(3), failed(4, code=1))
    assert account.ended == 4
    assert account.cost == {"disruption": 2, "retry": 1, "fatal": 1}
    assert account.causes == {"Disruption": {EVICTED: 2}, "ExitCode": {"main 143": 1, "main 1": 1}}
    assert account.spot == 4


def test_a_counted_pod_is_known_and_another_is_not() -> None:
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


def test_what_is_written_is_read_again() -> None:
    account = counted(disrupted(1, index="3"), failed(2, code=1))
    assert decode(encode(account)) == account
    assert decode(None) == Account()


@pytest.mark.parametrize(
    "spoilt",
    [
        "",
        "{",
        "[]",
        '{"units":[]}',
        '{"units":{"1":5}}',
        '{"units":null}',
        '{"ended":"two"}',
        '{"units":{"1":"0-99999999"}}',
        '{"last":[{}]}',
    ],
)
def test_what_nobody_wrote_is_refused(spoilt: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(spoilt)


def test_ids_of_pods_that_stay_are_never_forgotten_and_of_the_others_the_newest_are_kept() -> None:
    pods = [failed(number) for number in range(MOST_RECENT)]
    account = counted(*pods)
    assert account.room == 0
    staying = {id_of(pods[0]), id_of(pods[1])}
    account.forget(KEPT, staying)
    assert account.recent == [id_of(pod) for pod in (pods[0], pods[1], *pods[-KEPT:])]


def test_a_crash_that_was_a_bug_cost_no_retry_but_ended_it_all() -> None:
    account = counted(failed(1, code=143))
    assert account.settle("train-1")
    assert account.cost == {"retry": 0, "fatal": 1}
    assert account.last[0].settled
    assert not account.settle("train-1")


def test_a_bug_counts_though_its_detail_was_pushed_out_meanwhile() -> None:
    account = counted(*(failed(number) for number in range(DETAILS + 1)))
    assert account.settle("train-0")
    assert account.cost == {"retry": DETAILS, "fatal": 1}


def test_a_new_grant_forgets_the_disruptions_of_the_units_and_not_those_in_all() -> None:
    account = counted(disrupted(1), disrupted(2))
    account.suspended = True
    account.grant()
    assert account.units.of("") == 0
    assert account.spent("disruption") == 2
    assert (account.grants, account.suspended) == (1, False)


def test_failures_that_only_the_status_tells_of_are_retries() -> None:
    account = Account()
    account.count_unseen(2)
    assert account.causes == {"Other": {"Unseen": 2}}
    assert account.cost == {"retry": 2}


def test_ten_thousand_disruptions_fit() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    account = Account()
    truth: dict[str, int] = {}
    for number in range(10_000):
        index = str(chance.randrange(2_000))
        truth[index] = truth.get(index, 0) + 1
        pod = disrupted(number, chance.choice(REASONS), index=index, name=f"train-{index}-x{number:05}")
        account.count(ending_of(pod, job()), unit_of(pod), 0)
        account.forget(KEPT, ())
        if number % 100 == 0:
            text = encode(account)
            assert len(text.encode()) <= LARGEST
            account = decode(text)
    account = decode(encode(account))
    assert (account.ended, account.spent("disruption")) == (10_000, 10_000)
    assert sum(account.causes["Disruption"].values()) == 10_000
    assert all(account.units.of(index) >= count for index, count in truth.items())


names = st.text("abcdefghij-", min_size=63, max_size=63)


@given(st.lists(st.tuples(names, st.integers(1, 255), names), min_size=1, max_size=70))
def test_nothing_that_a_pod_can_say_makes_it_too_long(endings: list[tuple[str, int, str]]) -> None:
    account = Account()
    for number, (container, code, reason) in enumerate(endings):
        if account.room:
            pod = failed(number, code, container=container, exit_reason=reason, name=container * 4, node=reason * 4)
            account.count(ending_of(pod, job()), container, 0)
        if account.room:
            pod = disrupted(number + 1000, reason, index=str(number * 7))
            account.count(ending_of(pod, job()), f"{container}/{number * 7}", 0)
    assert len(encode(account).encode()) <= LARGEST
    assert decode(encode(account)).ended == account.ended
