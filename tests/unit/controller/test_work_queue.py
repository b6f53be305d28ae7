"""The order in which the leader processes workloads."""

import asyncio

import pytest

from tests.unit.controller.leader import KEY
from tests.virtual_time import now, run
from webhook.accounts.tracker import Key
from webhook.controller.work_queue import WorkQueue
from webhook.systems.job import spec as batch

OTHER = Key("ml", batch.JOB, "other")


def test_a_workload_that_is_queued_twice_is_returned_once_at_the_time_that_was_set_first() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 3)
        queue.add(KEY, 1)
        assert (await queue.get(), now()) == (KEY, 3)
        assert queue.ready.empty()

    run(work())


def test_workloads_are_returned_in_the_order_of_their_times() -> None:
    async def work() -> list[Key]:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 2)
        queue.add(OTHER, 1)
        return [await queue.get(), await queue.get()]

    assert run(work()) == [OTHER, KEY]


def test_a_workload_that_is_queued_while_it_is_processed_is_returned_again_after_that() -> None:
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
def test_a_workload_whose_processing_failed_is_returned_only_after_its_pause(after: float) -> None:
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


def test_a_closed_queue_takes_no_workload() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(KEY, 0)
        await asyncio.sleep(1)
        queue.open()
        queue.add(OTHER, 0)
        assert await queue.get() == OTHER

    run(work())


def test_a_queue_that_is_closed_forgets_workloads_that_are_not_due_yet() -> None:
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


def test_a_discarded_workload_does_not_delay_another_one_of_the_same_name() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.open()
        queue.add(KEY, 30)
        queue.discard(KEY)
        queue.add(KEY, 1)
        assert (await queue.get(), now()) == (KEY, 1)

    run(work())
