"""Objects that make a handler raise, and steps that fail."""

import asyncio
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests import virtual_time
from tests.metrics import counted
from webhook.kube.bulkhead import LONGEST_PAUSE, MOST, Bulkhead, repeat


def test_a_version_of_an_object_is_logged_once_and_counted_each_time() -> None:
    found = Bulkhead("jobs")
    before = counted("retry_policy_objects_set_aside_total", work="jobs")
    with capture_logs() as logged:
        for version in ("1", "1", "2"):
            found.set_aside(RecursionError("too deep"), "ml", "train", version)
    assert counted("retry_policy_objects_set_aside_total", work="jobs") == before + 3
    assert [(line["event"], line["namespace"], line["name"]) for line in logged] == [
        ("object set aside", "ml", "train")
    ] * 2


def test_the_objects_that_were_logged_are_remembered_within_a_bound() -> None:
    found = Bulkhead("jobs")
    with capture_logs():
        for number in range(MOST + 5):
            found.set_aside(ValueError(), "ml", str(number), "")
    assert len(found.logged) == MOST


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), OverflowError(), KeyError("metadata")])
def test_a_step_that_fails_is_taken_again_after_a_longer_pause(error: Exception) -> None:
    times: list[float] = []

    async def step() -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 4:
            raise error

    async def work() -> None:
        task = asyncio.create_task(repeat("look", 1.0, step))
        await asyncio.sleep(20)
        assert not task.done()
        task.cancel()

    with capture_logs() as logged:
        virtual_time.run(work())
    assert [second - first for first, second in pairwise(times)][:4] == [2, 4, 8, 1]
    assert [line["event"] for line in logged] == ["step failed"] * 3
    assert LONGEST_PAUSE >= 8


def test_a_step_that_is_cancelled_ends() -> None:
    async def work() -> None:
        task = asyncio.create_task(repeat("look", 1.0, lambda: asyncio.sleep(100)))
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    virtual_time.run(work())
