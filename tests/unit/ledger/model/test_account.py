"""The account of a workload, which counts every ended pod once, in at most 4 KiB."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable, instructions_of
from tests.unit.ledger.pods import EVICTED, disrupted, failed, job
from webhook.history import usage
from webhook.history.record import Capacity
from webhook.history.usage import MOST_RESOURCES, Row, Used, every
from webhook.ledger.model import words
from webhook.ledger.model.account import (
    DETAILS,
    KEPT,
    LONGEST_REASON,
    MOST_AT_ONCE,
    MOST_MESSAGES,
    MOST_RECENT,
    MOST_RESTARTED,
    Account,
    Attempt,
    Left,
    continued,
    id_of,
)
from webhook.ledger.model.kueue.evictions import Evictions
from webhook.ledger.model.limits import scope_of
from webhook.ledger.model.outcomes import UNSEEN, outcome_of
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.scopes import Scopes
from webhook.ledger.model.status import LARGEST, decode, encode
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Profile

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


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "{",
        "[]",
        '{"units":[]}',
        '{"units":{"1":5}}',
        '{"units":null}',
        '{"ended":"two"}',
        '{"units":{"1":"0-9,5"}}',
        '{"last":[{}]}',
    ],
)
def test_a_malformed_account_is_refused(malformed: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(malformed)


def test_an_account_forgets_the_oldest_pods_but_none_that_still_exists() -> None:
    pods = [failed(number) for number in range(MOST_AT_ONCE)]
    account = counted(*pods)
    assert account.room == 0
    staying = {id_of(pods[0]), id_of(pods[1])}
    account.forget(KEPT, staying)
    assert account.recent == [id_of(pod) for pod in (pods[0], pods[1], *pods[-KEPT:])]


def test_a_crash_that_is_settled_as_a_bug_is_fatal_and_costs_no_retry() -> None:
    account = counted(failed(1, code=143))
    assert account.settle("train-1")
    assert account.cost == {"retry": 0, "fatal": 1}
    assert account.last[0].settled
    assert not account.settle("train-1")


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
        account.spend_retry("worker/0")
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


names = st.text("abcdefghij-", min_size=63, max_size=63)


@given(st.lists(st.tuples(names, st.integers(1, 255), names), min_size=1, max_size=70))
def test_no_values_of_pods_make_an_account_too_long(endings: list[tuple[str, int, str]]) -> None:
    account = Account()
    for number, (container, code, reason) in enumerate(endings):
        if account.room:
            pod = failed(number, code, container=container, exit_reason=reason, name=container * 4, node=reason * 4)
            account.count(outcome_of(pod, job()), container, 0, message='"' * words.LONGEST_MESSAGE)
        if account.room:
            pod = disrupted(number + 1000, reason, index=str(number * 7))
            account.count(outcome_of(pod, job()), f"{container}/{number * 7}", 0)
    assert len(encode(account).encode()) <= LARGEST
    assert decode(encode(account)).ended == account.ended


def test_an_annotation_longer_than_any_account_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ValueError, match="longer than 4096 bytes"):
        decode("{" + " " * LARGEST + "}")
    with pytest.raises(ValueError, match="longer than 4096 bytes"):
        decode('{"recent":["' + "é" * 2048 + '"]}')


SPENT = st.dictionaries(st.sampled_from(["retry", "disruption", "fatal", "none"]), st.integers())
# Texts with every field of an account, and with hostile values in `units`.
TEXTS = st.builds(
    lambda **fields: msgspec.json.encode(fields).decode(),
    ended=st.integers(),
    cost=SPENT,
    before=SPENT,
    causes=st.dictionaries(st.text(), st.dictionaries(st.text(), st.integers())),
    units=st.dictionaries(
        st.integers(0, 10**9).map(str) | st.text(),
        st.lists(
            st.builds("{}{}-{}".format, st.sampled_from(["", "a/", "x" * 3000 + "/"]), *[st.integers(0, 10**9)] * 2),
            max_size=300,
        ).map(",".join),
    ),
    last=st.lists(st.fixed_dictionaries({"attempt": st.integers(), "pod": st.text(), "cause": st.text()})),
    recent=st.lists(st.text(), max_size=2000),
)


@given(TEXTS)
def test_any_account_costs_little_to_read_change_and_write(text: str) -> None:
    def work() -> int:
        account = decode_if_any(text) or Account()
        for number in range(60):
            account.count(outcome_of(disrupted(number), job()), f"a/{number}", 0)
        account.forget(KEPT, {id_of(disrupted(1))})
        return len(encode(account))

    assert instructions_of(work) <= 200_000


@pytest.mark.parametrize(
    "fields",
    [
        {"recent": [""] * 1300},
        {"causes": {str(number): {"a": 1} for number in range(250)}},
        {"last": [{"attempt": 0, "pod": "", "cause": "", "cost": "none"}] * 80},
        {"units": {"1": "0-2147483646," * 50 + "a"}, "recent": [""] * 1000},
        {"units": {"1": "x" * 700 + "/0-99999"}},
        {"units": {str(number): str(number) for number in range(200)}},
    ],
)
def test_the_longest_accounts_cost_little_to_read(fields: Json) -> None:
    text = msgspec.json.encode(fields).decode()
    assert len(text) <= LARGEST
    assert_affordable(lambda: decode_if_any(text), seconds=0.01, mebibytes=1)


def decode_if_any(text: str) -> Account | None:
    try:
        return decode(text)
    except ValueError:
        return None


@pytest.mark.parametrize("number", [-1, 2**31])
@pytest.mark.parametrize("field", ["ended", "spot", "grants"])
def test_a_count_below_0_or_above_32_bits_is_refused(field: str, number: int) -> None:
    with pytest.raises(ValueError, match="Expected `int`"):
        decode(msgspec.json.encode({field: number}).decode())
    with pytest.raises(ValueError, match="Expected `int`"):
        decode(msgspec.json.encode({"cost": {"retry": number}}).decode())


def test_any_number_of_unseen_failures_costs_little_to_count() -> None:
    account = counted(failed(1))
    assert instructions_of(lambda: account.count_unseen(2_000_000_000)) <= 20_000
    assert (account.ended, account.spent("retry")) == (2_000_000_001, 2_000_000_001)
    assert account.causes["Other"] == {UNSEEN: 2_000_000_000}
    assert [detail.attempt for detail in account.last[-2:]] == [1_999_999_999, 2_000_000_000]


def test_an_account_with_more_attempts_before_the_last_requested_retry_than_in_total_is_refused() -> None:
    with pytest.raises(ValueError, match="before the last requested retry"):
        decode('{"cost": {"free": 2}, "before": {"free": 3}}')


GPUS = (("cpu", 96.0), ("memory", 2.0**40), *((f"vendor.example/gpu-{number}", 8.0) for number in range(4)))
CAUSES = ("Disruption", "OOMKilled", "DeadlineExceeded", "ExitCode", "Other")
CAPACITIES: tuple[Capacity, ...] = ("Spot", "OnDemand", "")


def crowded(*, reason: str = "preemption-{}", scope: str = "workers-{}/{}", prices: bool = True) -> Account:
    """Return an account in which every part is as long as it can be."""
    left = Left(retries=10, disruptions=1000)
    account = Account(grants=2**31 - 1, spot=2**31 - 1, applied=applied(Profile()), left=left)
    priced = {"price": 1234.567891, "currency": "USD"} if prices else {}
    for number in range(MOST_RECENT):
        cause = CAUSES[number % 5]
        used = Used(86_399.0 + number / 7, GPUS, CAPACITIES[number // 5 % 3], **priced)  # type: ignore[arg-type]
        account.recent.append(id_of(failed(number)))
        detail = Attempt(
            attempt=number,
            scope=scope.format(number, number * 7),
            pod="p" * 63 + str(number),
            node="n" * 200,
            placement="OnDemand",
            start="2026-01-01T00:00:00Z",
            end="2026-01-01T00:00:00Z",
            cause=cause,
            reason=reason.format(number)[:LONGEST_REASON],
            cost="disruption" if number % 2 else "free",
            message="m" * 200,
        )
        account.add(detail, used)
        account.save(cause, used, 10)
    account.before = dict.fromkeys(account.cost, 0)
    return account


def restarting(account: Account) -> Account:
    """Add to an account as many restarts in place as it can hold."""
    account.in_place = {"retry": 2**31 - 1, "free": 2**31 - 1, "fatal": 1}
    account.restarted = {id_of(failed(number)): 2**31 - 1 for number in range(MOST_RESTARTED)}
    return account


@pytest.mark.parametrize(
    "account",
    [
        crowded(),
        crowded(prices=False),
        crowded(reason="r" * 60 + "{}"),
        crowded(reason="\x01" * 60 + "{}"),
        crowded(reason="é" * 60 + "{}", scope="é" * 100 + "{}/{}"),
        crowded(scope='"' * 250 + "{}/{}"),
        restarting(crowded(reason="é" * 60 + "{}")),
    ],
    ids=[
        "usual",
        "without prices",
        "long reasons",
        "hostile reasons",
        "hostile scopes",
        "more hostile scopes",
        "restarts",
    ],
)
def test_every_part_at_its_bound_fits_into_an_account_and_no_count_is_lost(account: Account) -> None:
    ended, cost, recent = account.ended, dict(account.cost), list(account.recent)
    restarted = dict(account.restarted)
    text = encode(account)
    assert len(text.encode()) <= LARGEST
    found = decode(text)
    assert (found.ended, found.cost, found.recent) == (ended, cost, recent)
    assert found.restarted == restarted
    assert {cause: sum(reasons.values()) for cause, reasons in found.causes.items()} == dict.fromkeys(CAUSES, 12)
    assert sum(row.attempts for row in every(found.lost)) == 60
    assert sum(row.attempts for row in every(found.saved)) == 600


def test_the_attempts_in_detail_give_way_before_what_was_lost() -> None:
    account = counted(*(disrupted(number, name="x" * 253, node="n" * 253) for number in range(DETAILS)))
    for cause in CAUSES:
        usage.add(account.lost, cause, Used(1.0, GPUS, "Spot"), account.resources)
    found = decode(encode(account))
    assert len(found.last) < DETAILS
    assert found.lost.keys() == set(CAUSES)


def test_what_was_lost_gives_way_before_the_disruptions_of_each_index() -> None:
    account = crowded(reason="r" * 40 + "{}")
    scopes = account.scopes.written()
    found = decode(encode(account))
    assert found.last == []
    assert len(every(found.lost)) < 15
    assert found.scopes.written() == scopes


def test_the_rows_of_every_cause_and_capacity_fit_beside_the_usual_parts() -> None:
    account = crowded()
    account.scopes = account.free = Scopes({"": 12})
    account.saved.clear()
    assert len(every(decode(encode(account)).lost)) == 15


def test_an_account_of_an_earlier_version_is_read_and_goes_on() -> None:
    account = decode('{"ended": 2, "cost": {"retry": 2}, "causes": {"ExitCode": {"main 143": 2}}}')
    assert (account.lost, account.saved, account.resources, account.currency) == ({}, {}, [], "")
    account.count(outcome_of(failed(3), job()), "", 2, used=Used(60.0, (("cpu", 1.0),), "Spot"))
    assert (account.ended, account.lost) == (3, {"ExitCode": {"Spot": Row(1, 60.0, 0, 0.0, [60.0])}})


def test_another_currency_starts_the_prices_again() -> None:
    account = Account()
    used = Used(3600.0, (("cpu", 1.0),), "Spot", 2.0, "USD")
    for one in (used, used._replace(currency="EUR", price=1.5), used._replace(currency="", price=None)):
        account.count(outcome_of(failed(1), job()), "", 0, used=one)
    assert account.currency == "EUR"
    assert account.lost == {"ExitCode": {"Spot": Row(3, 10800.0, 1, 1.5, [10800.0])}}


def test_a_requested_retry_and_a_limit_reset_keep_what_was_lost() -> None:
    account = Account()
    account.count(outcome_of(disrupted(1), job()), "", 0, used=Used(60.0, (("cpu", 1.0),), "Spot"))
    lost = dict(account.lost)
    account.reset_limits()
    account.begin_anew()
    assert account.lost == lost
    assert decode(continued(encode(account))).lost == lost


@pytest.mark.parametrize("row", ["[-1]", "[1,-5]", '["a"]', "[1,1e300]", "[1,1,1,1,[-1]]", "{}"])
def test_a_row_that_cannot_be_is_refused(row: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(f'{{"lost":{{"Other":{{"":{row}}}}}}}')


@pytest.mark.parametrize(
    "account",
    [
        {"resources": ["x"] * (MOST_RESOURCES + 1)},
        {"resources": ["x" * 64]},
        {"currency": "DOLLARS"},
        {"lost": {"": {"": [1, 1.0, 0, 0.0, [1.0] * (MOST_RESOURCES + 1)]}}},
    ],
)
def test_an_account_with_more_than_the_ledger_writes_is_not_read(account: Json) -> None:
    with pytest.raises(ValueError, match="length"):
        decode(msgspec.json.encode(account).decode())


def test_the_reasons_of_evictions_are_added_up_before_what_was_used_is_forgotten() -> None:
    reasons = {f"{number}{'x' * 63}": 2**31 - 1 for number in range(6)}
    evictions = Evictions(reasons=reasons, seen=reasons, workload="x" * 8, requeue_at="x" * 40)
    account = Account(evictions=evictions, recent=["x" * 48] * 60, lost={"": {"": Row(1, 1.0)}}, resources=["cpu"])
    text = encode(account)
    assert len(text) <= LARGEST
    assert evictions.reasons == {"Other": 2**31 - 1}
    assert decode(text).evictions == evictions
    assert account.lost


def test_a_requested_retry_resets_the_limit_of_evictions_and_keeps_their_number() -> None:
    account = Account(evictions=Evictions(reasons={"Preempted": 2}, limit=1))
    found = decode(continued(encode(account))).evictions
    assert found is not None
    assert (found.reasons, found.is_exceeded) == ({"Preempted": 2}, False)


def test_what_was_used_is_forgotten_last_of_all() -> None:
    account = Account(lost={"": {"": Row(1, 1.0)}}, resources=["cpu"], recent=["x" * 70] * 60)
    assert len(encode(account)) > LARGEST
    assert (account.lost, account.resources) == ({}, [])


def test_the_longest_rows_cost_little_to_read_and_to_add_up() -> None:
    rows = {str(number): {"": [1]} for number in range(150)}
    text = msgspec.json.encode({"lost": rows, "resources": [""] * MOST_RESOURCES}).decode()
    assert len(text) <= LARGEST

    def work() -> None:
        account = decode(text)
        for _ in range(60):
            account.count(outcome_of(disrupted(1), job()), "", 0, used=Used(1.0, GPUS, "Spot"))
        assert len(encode(account)) <= LARGEST

    assert_affordable(work, seconds=0.1, mebibytes=2)
