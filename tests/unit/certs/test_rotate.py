"""Rotation over years of an injected clock, step by step: no caller is refused at any time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from certs.issue import issue, new_authority, validity
from certs.rotate import Lifetimes, Rotation, hosts_of, renewal_of
from certs.store import Shared, from_data, issued_by, to_data

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
HOST = "webhook.ns.svc"
ROTATION = Rotation(name="webhook", hosts=[HOST, "127.0.0.1"], lifetimes=Lifetimes())


@pytest.fixture(scope="module")
def begun() -> Shared:
    return ROTATION.begin(NEW_YEAR)


def step(shared: Shared, now: datetime, *, announced: bool = False) -> Shared:
    following = ROTATION.step(shared, now, announced=announced)
    assert following is not None
    return following


def has_no_step(shared: Shared, now: datetime, *, announced: bool = False) -> bool:
    return ROTATION.step(shared, now, announced=announced) is None


def authorities(pem: bytes) -> int:
    return len(x509.load_pem_x509_certificates(pem)) if pem else 0


def test_an_authority_is_valid_for_a_year_and_a_leaf_for_thirty_days(begun: Shared) -> None:
    assert validity(begun.authority)[1] == NEW_YEAR + 365 * DAY
    assert validity(begun.leaf)[1] == NEW_YEAR + 30 * DAY
    assert set(hosts_of(begun.leaf)) == {HOST, "127.0.0.1"}


def test_a_leaf_is_renewed_at_two_thirds_of_its_life_and_not_before(begun: Shared) -> None:
    assert has_no_step(begun, NEW_YEAR + 20 * DAY - SECOND)
    renewed = step(begun, NEW_YEAR + 20 * DAY)
    assert renewed == replace(begun, leaf=renewed.leaf)
    assert issued_by(renewed.leaf.certificate, begun.authority.certificate)
    assert validity(renewed.leaf)[1] == NEW_YEAR + 50 * DAY
    assert has_no_step(renewed, NEW_YEAR + 20 * DAY)


def test_a_leaf_that_has_expired_is_renewed(begun: Shared) -> None:
    assert validity(step(begun, NEW_YEAR + 40 * DAY).leaf)[1] == NEW_YEAR + 70 * DAY


def test_a_new_authority_is_announced_then_signs_and_the_old_one_stays_until_its_last_leaf_expires(
    begun: Shared,
) -> None:
    due = renewal_of(begun.authority)
    current = replace(begun, leaf=issue(begun.authority, "w", now=due, lifetime=30 * DAY, hosts=ROTATION.hosts))
    assert has_no_step(current, due - SECOND)
    announced = step(current, due)
    assert announced.next_authority is not None
    assert announced == replace(current, next_authority=announced.next_authority)
    assert has_no_step(announced, due)

    promoted = step(announced, due + MINUTE, announced=True)
    assert promoted.authority == announced.next_authority
    assert promoted.next_authority is None
    assert issued_by(promoted.leaf.certificate, promoted.authority.certificate)
    assert promoted.retired == begun.authority.certificate
    assert promoted.retired_until is not None
    assert promoted.retired_until > validity(current.leaf)[1]
    assert has_no_step(promoted, due + MINUTE)

    renewed = step(promoted, renewal_of(promoted.leaf))
    assert renewed.retired == promoted.retired
    forgotten = step(renewed, promoted.retired_until)
    assert (forgotten.retired, forgotten.retired_until) == (b"", None)
    assert forgotten.trusted == promoted.authority.certificate


def test_while_an_authority_is_announced_the_old_one_signs_new_leaves(begun: Shared) -> None:
    announced = ROTATION.restart(begun, NEW_YEAR)
    renewed = step(announced, NEW_YEAR + 20 * DAY)
    assert issued_by(renewed.leaf.certificate, begun.authority.certificate)
    assert renewed.next_authority == announced.next_authority


def test_two_restarts_announce_one_authority(begun: Shared) -> None:
    announced = ROTATION.restart(begun, NEW_YEAR)
    assert ROTATION.restart(announced, NEW_YEAR) == announced


def test_the_successor_of_an_expired_authority_signs_at_once(begun: Shared) -> None:
    late = NEW_YEAR + 400 * DAY
    anew = step(begun, late)
    assert validity(anew.authority)[1] == late + 365 * DAY
    assert anew.trusted == anew.authority.certificate
    announced = ROTATION.restart(begun, late)
    assert step(announced, late).authority == announced.next_authority


def test_a_leaf_that_expires_with_its_authority_is_not_renewed_repeatedly() -> None:
    signer = new_authority("webhook", now=NEW_YEAR, lifetime=365 * DAY)
    end = NEW_YEAR + 365 * DAY
    leaf = issue(signer, "webhook", now=end - 3 * DAY, lifetime=30 * DAY, hosts=ROTATION.hosts)
    shared = ROTATION.restart(Shared(authority=signer, leaf=leaf), end - 3 * DAY)
    assert has_no_step(shared, end - SECOND)


def test_authorities_that_were_trusted_before_stay_trusted_for_the_lifetime_of_a_leaf(
    begun: Shared,
) -> None:
    anew = ROTATION.begin(NEW_YEAR + DAY, begun.trusted)
    assert anew.trusted == anew.authority.certificate + begun.authority.certificate
    assert anew.retired_until is not None
    assert anew.retired_until >= validity(begun.leaf)[1]
    assert ROTATION.begin(NEW_YEAR + 400 * DAY, begun.trusted).retired == b""


def test_a_new_host_requires_a_new_leaf_which_has_the_former_hosts_too(begun: Shared) -> None:
    other = Rotation(name="webhook", hosts=["webhook.other.svc"], lifetimes=Lifetimes())
    moved = other.step(begun, NEW_YEAR, announced=False)
    assert moved is not None
    assert set(hosts_of(moved.leaf)) == {"webhook.other.svc", HOST, "127.0.0.1"}
    assert has_no_step(moved, NEW_YEAR)


def test_a_leaf_is_valid_to_a_clock_that_is_five_minutes_behind(begun: Shared) -> None:
    assert validity(begun.leaf)[0] == NEW_YEAR - 5 * MINUTE


def test_a_step_is_taken_exactly_when_it_is_due(begun: Shared) -> None:
    shared = begun
    for _ in range(30):
        due = ROTATION.due(shared)
        assert has_no_step(shared, due - SECOND)
        shared = step(shared, due)
        if shared.next_authority is not None:
            shared = step(shared, due + MINUTE, announced=True)


@given(st.data())
@settings(max_examples=30, deadline=None, phases=[Phase.generate])  # shrinking makes keys for minutes
def test_no_caller_is_refused_when_any_replica_takes_a_step_at_any_time(data: st.DataObject) -> None:
    """Replicas see the Secret late, over years of the wall clock, and write the caBundle in between."""
    now = NEW_YEAR
    shared = ROTATION.begin(now)
    bundle, served, announced_at = shared.trusted, shared.leaf, None
    for _ in range(40):
        now += data.draw(st.sampled_from([MINUTE, 5 * DAY, 29 * DAY]))
        for _ in range(data.draw(st.integers(0, 3))):  # steps of replicas, which may be killed after each
            if shared.next_authority is not None and issued_by(shared.next_authority.certificate, bundle):
                announced_at = announced_at or now
            else:
                announced_at = None
            announced = announced_at is not None and now - announced_at >= MINUTE
            shared = ROTATION.step(shared, now, announced=announced) or shared
            shared = from_data(to_data(shared))
        if data.draw(st.booleans()):
            bundle = shared.trusted
        if data.draw(st.booleans()) and issued_by(shared.leaf.certificate, bundle):
            served = shared.leaf
        expired = validity(served)[1] <= now  # because no replica took a step for that long
        assert expired or issued_by(served.certificate, bundle)
