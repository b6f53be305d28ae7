"""Objects that make a handler raise, and steps that fail."""

import asyncio
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests import virtual_time
from tests.metrics import counted
from webhook.kube.bulkhead import AGAIN, LONGEST_PAUSE, MOST, Bulkhead, itself, repeat, step


class Clock:
    """The seconds that a bulkhead sees."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def too_deep() -> int:
    raise RecursionError("too deep")


def test_an_object_that_changes_again_and_again_is_counted_each_time_and_logged_once_an_hour() -> None:
    clock = Clock()
    found = Bulkhead("jobs", clock)
    before = counted("retry_policy_objects_set_aside_total", work="jobs")
    with capture_logs() as logged:
        for second in range(int(AGAIN) + 1):
            clock.now = float(second)
            assert found.call("ml", "train", too_deep) is None
    assert counted("retry_policy_objects_set_aside_total", work="jobs") == before + AGAIN + 1
    assert [(line["event"], line["namespace"], line["name"]) for line in logged] == [
        ("object set aside", "ml", "train")
    ] * 2


def test_so_many_objects_that_the_log_would_fill_are_counted_alone_and_named_again_an_hour_later() -> None:
    clock = Clock()
    found = Bulkhead("jobs", clock)
    with capture_logs() as logged:
        for number in range(2 * MOST):
            found.set_aside(ValueError(), "ml", str(number))
        assert len(logged) == MOST + 1
        assert logged[-1]["event"] == "more objects are set aside than the log names"
        assert len(found.logged) == MOST
        clock.now = AGAIN
        found.set_aside(ValueError(), "ml", "another")
    assert logged[-1]["name"] == "another"
    assert len(found.logged) == 1


def test_what_is_returned_about_an_object_that_raises_nothing_is_passed_on() -> None:
    assert Bulkhead("jobs").call("ml", "train", int, "12") == 12


def test_an_object_that_raises_hides_none_of_those_after_it() -> None:
    seen = []

    def handler(place: tuple[str, str]) -> None:
        if place[1] == "b":
            raise KeyError("metadata")
        seen.append(place[1])

    with capture_logs() as logged:
        virtual_time.run(Bulkhead("jobs").each([("ml", name) for name in "abc"], handler, itself))
    assert seen == ["a", "c"]
    assert [(line["namespace"], line["name"]) for line in logged] == [("ml", "b")]


def test_a_task_that_is_cancelled_sets_no_object_aside() -> None:
    async def work() -> None:
        with Bulkhead("jobs").around("ml", "train"):
            await asyncio.sleep(100)

    async def cancelled() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    with capture_logs() as logged:
        virtual_time.run(cancelled())
    assert not logged


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), OverflowError(), KeyError("metadata")])
def test_a_step_that_fails_is_taken_again_after_a_longer_pause(error: Exception) -> None:
    times: list[float] = []

    async def take() -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 4:
            raise error

    async def work() -> None:
        task = asyncio.create_task(repeat("look", 1.0, take))
        await asyncio.sleep(20)
        assert not task.done()
        task.cancel()

    with capture_logs() as logged:
        virtual_time.run(work())
    assert [second - first for first, second in pairwise(times)][:4] == [2, 4, 8, 1]
    assert [line["event"] for line in logged] == ["step failed"] * 3
    assert LONGEST_PAUSE >= 8


def test_a_step_that_fails_is_counted_and_what_follows_is_done() -> None:
    before = counted("retry_policy_steps_failed_total", step="look")
    with capture_logs() as logged, step("look"):
        too_deep()
    assert counted("retry_policy_steps_failed_total", step="look") == before + 1
    assert [line["step"] for line in logged] == ["look"]


def test_a_step_that_is_cancelled_ends() -> None:
    async def work() -> None:
        task = asyncio.create_task(repeat("look", 1.0, lambda: asyncio.sleep(100)))
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    virtual_time.run(work())
