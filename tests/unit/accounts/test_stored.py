"""How an account is stored: any bytes give an account or are refused, and every part at its bound fits."""

from datetime import datetime, timedelta
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable, lines_of
from tests.unit.accounts.pods import disrupted, failed, job
from webhook.accounts import account as accounts
from webhook.accounts import kueue
from webhook.accounts.account import (
    DETAILS,
    KEPT,
    MOST_MESSAGES,
    MOST_REASONS,
    MOST_RECENT,
    MOST_RESTARTED,
    WHOLE,
    Account,
    Attempt,
    Left,
    id_of,
)
from webhook.accounts.kueue import CountedEvictions
from webhook.accounts.scopes import Scopes
from webhook.accounts.stored import LARGEST, AccountStatus, decode, encode, known_time, status_of, updated
from webhook.history.record import Capacity
from webhook.history.usage import MOST_RESOURCES, Used, UsedRow, every
from webhook.objects.problem import Json
from webhook.pods.outcomes import outcome_of
from webhook.policy.applied import applied
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.causes import Cause
from webhook.policy.model import Profile
from webhook.policy.settings import LARGEST_COUNT

CAUSES: tuple[Cause, ...] = get_args(Cause)
CAPACITIES: tuple[Capacity, ...] = get_args(Capacity)
COSTS: tuple[AttemptCost, ...] = get_args(AttemptCost)
NOW = "2026-01-01T00:00:00Z"
# As long as a text can be in JSON, and of characters that have more bytes there than characters.
HOSTILE = ("x", '"', "\\", "\x01", "\u00e9", "\U0001f4a5")


def largest(text: str) -> Account:
    """Return an account in which every part has as much as the ledger ever puts there, with texts of one character."""
    resources = tuple((f"{number}{text * 62}"[:63], 1234567.891) for number in range(MOST_RESOURCES + 2))
    account = Account(grants=LARGEST_COUNT, spot=LARGEST_COUNT, applied=applied(Profile()), requested_at=NOW)
    for cause in CAUSES:
        for number in range(MOST_REASONS + 2):
            account.add_cause(cause, f"{number}{text * 500}", LARGEST_COUNT)
        for capacity in CAPACITIES:
            used = Used(86_399.123456, resources, capacity, 1234.567891, "USD")
            account.add_lost(cause, used)
            account.save(cause, used, 1000)
    account.cost = dict.fromkeys(COSTS, LARGEST_COUNT)
    account.in_place = dict.fromkeys(COSTS, LARGEST_COUNT)
    account.before = dict.fromkeys(COSTS, LARGEST_COUNT - 1)
    account.ended = LARGEST_COUNT
    account.backoff_limit, account.renewed, account.retry_window_start = LARGEST_COUNT, LARGEST_COUNT, NOW
    for scopes in (account.scopes, account.free, account.work, account.reached):
        for number in range(2000):
            scopes.put(f"{text * 300}/{number * 2}", 1_000_000_000 + number % 400)
            scopes.put(str(number * 2), 1 + number)
    account.retries = Scopes({f"{text}{number}": number for number in range(2000)})
    account.last = [
        Attempt(
            attempt=LARGEST_COUNT,
            restart=LARGEST_COUNT,
            scope=text * 2000,
            pod=text * 2000,
            node=text * 2000,
            placement=text * 2000,
            start=text * 2000,
            end=text * 2000,
            cause="DeadlineExceeded",
            reason=text * 2000,
            rule=LARGEST_COUNT,
            action=text * 2000,
            cost="disruption",
            on_failure=LARGEST_COUNT,
            settled=True,
            left=Left(retries=LARGEST_COUNT, disruptions=LARGEST_COUNT),
            saved=LARGEST_COUNT,
            progress=WHOLE,
            message=text * 2000 if number < MOST_MESSAGES else "",
        )
        for number in range(DETAILS + 5)
    ]
    account.left = account.last[-1].left
    account.recent = [id_of(failed(number)) for number in range(MOST_RECENT)]
    account.restarted = {id_of(failed(number)): LARGEST_COUNT for number in range(MOST_RESTARTED)}
    reasons = {f"{number}{'x' * 100}"[: kueue.LONGEST_REASON]: LARGEST_COUNT for number in range(kueue.MOST_REASONS)}
    account.evictions = CountedEvictions(
        reasons=reasons, seen=reasons, before=LARGEST_COUNT, limit=LARGEST_COUNT, workload="x" * 8, requeue_at=NOW
    )
    account.suspending = account.suspended = True
    account.conditions = updated(account, NOW)
    return account


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_every_part_at_its_bound_fits_and_no_count_is_lost(text: str) -> None:
    account = largest(text)
    stored = encode(account)
    assert len(stored.encode()) <= LARGEST
    found = decode(stored)
    assert (found.ended, found.cost, found.in_place) == (account.ended, account.cost, account.in_place)
    assert (found.recent, found.restarted) == (account.recent, account.restarted)
    assert {cause: len(reasons) for cause, reasons in found.causes.items()} == dict.fromkeys(CAUSES, MOST_REASONS + 1)
    assert len(every(found.lost)) == len(every(found.saved)) == len(CAUSES) * len(CAPACITIES)
    assert encode(found) == stored


def counted(*numbers: int) -> Account:
    account = Account()
    for number in numbers:
        pod = disrupted(number, index=str(number)) if number % 2 else failed(number, code=1)
        account.count(outcome_of(pod, job()), pod.index, 0, used=Used(60.0, (("cpu", 1.0),), "Spot"))
        account.note_left(Left(retries=3, disruptions=2**40))
    account.conditions = updated(account, NOW)
    return account


def test_an_account_that_is_written_can_be_read_again() -> None:
    account = counted(1, 2, 3)
    assert decode(encode(account)) == account
    assert decode(None) == Account()
    assert decode(encode(Account())) == Account()


def test_people_read_what_is_spent_and_left_the_last_cause_and_its_node() -> None:
    shown = status_of(counted(1, 3, 4))
    assert (shown.attempts, shown.retries.spent, shown.retries.left) == (3, 0, 3)
    assert (shown.disruptions.spent, shown.disruptions.left) == (2, LARGEST_COUNT)
    assert (shown.last_cause, shown.last_node, shown.lost.seconds) == ("ExitCode main 1", "spot-1", 180.0)


def test_a_column_of_a_workload_without_attempts_shows_zeros() -> None:
    shown = msgspec.json.decode(encode(Account()))
    assert shown == {
        "attempts": 0,
        "retries": {"spent": 0},
        "disruptions": {"spent": 0},
        "lost": {"seconds": 0.0},
    }


GOOD = msgspec.json.decode(encode(counted(1, 2, 3)))


@pytest.mark.parametrize(
    "changed",
    [
        {"attempts": -1},
        {"attempts": 2**31},
        {"attempts": 1e400},
        {"attempts": "two"},
        {"ended": 2**63},
        {"costs": {"retry": -1}},
        {"causes": [{"cause": "Meteor", "attempts": 1}]},
        {"causes": [{"cause": "Other", "attempts": 1}] * 100},
        {"causes": {"Other": 1}},
        {"scopes": {"groups": [{"number": 1, "scopes": "0-9,5"}]}},
        {"scopes": {"groups": [{"number": 1, "scopes": "5-3"}]}},
        {"last": [{}]},
        {"last": [{"attempt": 0, "pod": "p", "cause": "Other", "cost": "much"}]},
        {"last": GOOD["last"] * 5},
        {"counted": {"pods": ["x" * 300]}},
        {"counted": {"pods": ["x"] * 1000}},
        {"usage": {"resources": ["cpu"] * 9}},
        {"usage": {"currency": "DOLLARS"}},
        {"usage": {"lost": [{"cause": "Other", "seconds": -5}]}},
        {"usage": {"lost": [{"cause": "Other", "seconds": 1e300}]}},
        {"usage": {"lost": [{"cause": "Other", "capacity": "Cloud"}]}},
        {"before": {"retry": 9}},
        {"applied": {"freeRestarts": 2**40}},
        {"conditions": [{"type": "Failed"}]},
        {"requestedAt": "x" * 100},
    ],
    ids=str,
)
def test_a_status_that_the_ledger_never_writes_is_refused(changed: Json) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(msgspec.json.encode({**GOOD, **changed}))


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b'{"attempts":1,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b'{"attempts":1,"last":' + b"[" * 2_000,
        b'{"attempts":1,"lastCause":"' + b"x" * 300_000 + b'"}',
        b'{"attempts":1,"lastCause":"\\ud800"}',
    ],
    ids=lambda stored: stored[:30].decode(errors="replace"),
)
def test_any_bytes_give_an_account_or_are_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(stored)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
FIELDS = st.dictionaries(st.sampled_from([*AccountStatus.__struct_encode_fields__]), ANY, max_size=4)


@pytest.mark.generated
@given(FIELDS)
def test_whatever_stands_in_a_field_an_account_is_read_or_refused_and_goes_on(changed: Json) -> None:
    text = msgspec.json.encode({**GOOD, **changed})
    try:
        account = decode(text)
    except ValueError:
        return
    account.count(outcome_of(disrupted(7), job()), "7", 0)
    assert decode(encode(account)).ended == account.ended


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (NOW, NOW),
        ("2026-01-01T00:00:00+14:00", "2026-01-01T00:00:00+14:00"),
        ("2026-01-01T00:00:00", ""),
        ("9999-12-31T23:59:59Z", ""),
        ("0001-01-01T00:00:00Z", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_a_time_without_a_zone_or_near_the_end_of_the_calendar_is_not_known(text: str, known: str) -> None:
    assert known_time(text) == known
    if known:
        assert datetime.fromisoformat(known) + timedelta(days=366 * 900)


def test_times_of_attempts_that_are_none_are_read_as_unknown() -> None:
    detail = {**GOOD["last"][0], "start": "9999-12-31T23:59:59-12:00", "end": "noon"}
    found = decode(msgspec.json.encode({**GOOD, "last": [detail]})).last[0]
    assert (found.start, found.end) == ("", "")


@pytest.mark.parametrize("text", HOSTILE[:1])
def test_the_largest_account_costs_little_to_read_change_and_write(text: str) -> None:
    stored = encode(largest(text))

    def work() -> None:
        account = decode(stored)
        for number in range(60):
            account.count(outcome_of(disrupted(number), job()), f"a/{number}", 0)
        account.forget(KEPT, {id_of(disrupted(1))})
        encode(account)

    assert_affordable(work, lines=36_400, mebibytes=4)


def test_an_account_with_few_ends_costs_little_to_read_and_write() -> None:
    stored = encode(counted(1, 2, 3))
    assert lines_of(lambda: len(encode(decode(stored)))) <= 2_600


def test_the_rows_of_one_cause_are_kept_apart_by_capacity() -> None:
    account = Account()
    for capacity in CAPACITIES:
        account.add_lost("Disruption", Used(60.0, (("cpu", 1.0),), capacity))
    assert decode(encode(account)).lost == {"Disruption": {one: UsedRow(1, 60.0, 0, 0.0, [60.0]) for one in CAPACITIES}}


def test_conditions_change_their_time_only_with_their_status() -> None:
    account = counted(1)
    assert {one.type: one.status for one in account.conditions} == {
        "Failed": "False",
        "RetriesExhausted": "False",
        "Suspended": "False",
    }
    account.suspended = True
    account.left = Left(retries=0, disruptions=0)
    account.conditions = updated(account, "2026-01-01T01:00:00Z")
    assert {one.type: (one.status, one.last_transition_time) for one in account.conditions} == {
        "Failed": ("False", NOW),
        "RetriesExhausted": ("True", "2026-01-01T01:00:00Z"),
        "Suspended": ("True", "2026-01-01T01:00:00Z"),
    }
    assert updated(account, "2026-01-01T02:00:00Z") == account.conditions


def test_a_requested_retry_takes_back_what_kubectl_waits_for() -> None:
    account = counted(2)
    account.cost = {"fatal": 1}
    assert updated(account, NOW)[0].status == "True"
    account.begin_anew(NOW)
    assert [one.status for one in updated(account, NOW)] == ["False", "False", "False"]


def test_an_id_that_begins_a_uid_which_is_no_uuid_fits() -> None:
    account = Account()
    account.count(outcome_of(failed(1, uid="\U0001f4a5" * 30), job()), "", 0)
    assert decode(encode(account)).recent == account.recent
    assert len(account.recent[0]) <= accounts.LONGEST_ID
