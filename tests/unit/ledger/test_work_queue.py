"""The order in which the leader processes workloads."""

import asyncio

import pytest

from tests.unit.ledger.leader import KEY
from tests.virtual_time import now, run
from webhook.ledger.model.tracker import Key
from webhook.ledger.work_queue import WorkQueue

OTHER = Key("ml", "", "other")


def test_a_workload_that_is_queued_twice_is_given_out_once_when_the_first_time_comes() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 3)
        queue.add(KEY, 1)
        assert (await queue.get(), now()) == (KEY, 3)
        assert queue.ready.empty()

    run(work())


def test_workloads_are_given_out_in_the_order_in_which_their_time_comes() -> None:
    async def work() -> list[Key]:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 2)
        queue.add(OTHER, 1)
        return [await queue.get(), await queue.get()]

    assert run(work()) == [OTHER, KEY]


def test_one_that_is_worked_on_is_given_out_again_once_that_is_done() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 0)
        assert await queue.get() == KEY
        queue.add(KEY, 0)
        queue.add(OTHER, 1)
        assert await queue.get() == OTHER
        queue.done(KEY)
        assert (await queue.get(), now()) == (KEY, 1)

    run(work())


@pytest.mark.parametrize("after", [0, 1, 30], ids=["due", "not yet due", "later than the pause"])
def test_one_whose_work_fails_is_given_out_after_its_pause_whatever_was_queued_meanwhile(after: float) -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 0)
        assert await queue.get() == KEY
        queue.add(KEY, after)
        queue.add(OTHER, 0.5)
        assert await queue.get() == OTHER
        queue.done(KEY, 10)
        assert (await queue.get(), now()) == (KEY, 10.5)
        queue.done(KEY)
        queue.add(KEY, 40)
        assert (await queue.get(), now()) == (KEY, 50.5)

    run(work())


def test_while_it_is_closed_it_takes_no_workload() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(KEY, 0)
        await asyncio.sleep(1)
        queue.open()
        queue.add(OTHER, 0)
        assert await queue.get() == OTHER

    run(work())


def test_when_it_is_closed_it_forgets_those_whose_time_has_not_come() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 1)
        queue.close()
        queue.open()
        queue.add(OTHER, 2)
        assert await queue.get() == OTHER
        queue.add(KEY, 1)
        assert (await queue.get(), now()) == (KEY, 3)

    run(work())


def test_one_that_is_gone_delays_none_of_its_name() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 30)
        queue.discard(KEY)
        queue.add(KEY, 1)
        assert (await queue.get(), now()) == (KEY, 1)

    run(work())
