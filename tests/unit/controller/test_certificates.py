"""Which state of the certificates is stored next; what is written is tested on a real API server (tests/faults)."""

from datetime import UTC, datetime, timedelta
from typing import Any

from certs import store
from certs.rotate import Lifetimes, Rotation
from tests import virtual_time
from webhook.controller.certificates import Issuer
from webhook.tracking.certificates import CABundles

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """The time, which tests set."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


def issuer(clock: Clock) -> Issuer:
    events: Any = type("Events", (), {"api": None, "tell": lambda *_: None})()
    api: Any = None
    return Issuer(events, "ops", CABundles(api), Rotation(name="webhook", hosts=["a"], lifetimes=Lifetimes()), clock)


def test_a_first_certificate_is_issued_and_a_due_one_renewed() -> None:
    async def work() -> None:
        clock = Clock()
        found = issuer(clock)
        first = found.next_state(None, deleted=True)
        assert first is not None
        assert found.next_state(first, deleted=False) is None
        clock.time = NOW + Lifetimes().leaf
        second = found.next_state(first, deleted=False)
        assert second is not None
        assert (second.authority, second.leaf != first.leaf) == (first.authority, True)

    virtual_time.run(work())


def test_a_deleted_secret_gets_new_keys_and_the_old_authority_stays_trusted() -> None:
    async def work() -> None:
        found = issuer(Clock())
        first = found.next_state(None, deleted=True)
        assert first is not None
        found.next_state(first, deleted=False)
        again = found.next_state(None, deleted=True)
        assert again is not None
        assert again.next_authority is not None
        assert store.issued_by(first.leaf.certificate, again.trusted)

    virtual_time.run(work())


def test_a_step_waits_until_the_secret_and_the_configurations_are_read() -> None:
    async def work() -> None:
        assert await issuer(Clock()).take_step() >= timedelta(seconds=1).total_seconds()

    virtual_time.run(work())
