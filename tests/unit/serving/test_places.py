"""Places of requests that wait for the API: each namespace may have as many as remain free."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.listening import eventually
from webhook.kube.tasks import in_task
from webhook.serving.limits import LIMITS, Limits
from webhook.serving.places import CrowdedError, Places
from webhook.systems.kind_spec import OwnerReference
from webhook.tracking.cluster import Cluster, UnavailableError


class Waiting:
    """Places, and requests that each hold one until `answer`."""

    def __init__(self, limits: Limits = LIMITS, *, known: bool = True) -> None:
        self.places = Places(limits, lambda _: known)
        self.go = asyncio.Event()
        self.tasks: list[asyncio.Task[str]] = []

    async def answer(self) -> str:
        await self.go.wait()
        return "answered"

    async def ask(self, namespace: str, size: int = 1) -> bool:
        """Start a request that has to wait; return True if it may."""
        task = asyncio.create_task(self.places.wait(self.answer(), namespace, size))
        await asyncio.sleep(0)
        if task.done():
            assert isinstance(task.exception(), CrowdedError)
            return False
        self.tasks.append(task)
        return True

    async def may(self, namespace: str, number: int, size: int = 1) -> int:
        """Start several requests; return the number of those that may wait."""
        return sum([await self.ask(namespace, size) for _ in range(number)])


def test_ninety_requests_of_one_namespace_cause_no_refusal_in_another() -> None:
    async def run() -> None:
        waiting = Waiting()
        assert await waiting.may("attacker", 90) == LIMITS.requests // 2
        assert await waiting.may("ml", 5) == 5

    asyncio.run(run())


def test_a_namespace_without_a_waiting_request_gets_a_place_even_if_others_take_all_they_can() -> None:
    async def run() -> None:
        waiting = Waiting()
        shares = [await waiting.may(f"attacker-{number}", 90) for number in range(6)]
        assert shares == [64, 32, 16, 8, 4, 2]
        assert await waiting.ask("ml")

    asyncio.run(run())


def test_large_bodies_of_one_namespace_leave_room_for_another() -> None:
    async def run() -> None:
        waiting = Waiting(Limits(waiting_bytes=8000))
        assert await waiting.may("attacker", 90, size=1000) == 4
        assert await waiting.may("ml", 2, size=1000) == 2

    asyncio.run(run())


def test_a_body_larger_than_any_share_may_wait_if_no_other_request_waits() -> None:
    async def run() -> None:
        waiting = Waiting(Limits(waiting_bytes=1000))
        assert await waiting.ask("ml", size=5000)
        assert not await waiting.ask("ml")

    asyncio.run(run())


def test_all_unknown_namespaces_share_the_places_of_one_namespace() -> None:
    async def run() -> None:
        waiting = Waiting(known=False)
        assert sum([await waiting.ask(f"made-up-{number}") for number in range(90)]) == LIMITS.requests // 2

    asyncio.run(run())


def test_a_request_that_does_not_wait_takes_no_place() -> None:
    async def known() -> str:
        return "from a cache"

    async def run() -> None:
        waiting = Waiting(Limits(requests=2))
        assert await waiting.may("ml", 2) == 1
        assert await waiting.places.wait(known(), "ml", 1) == "from a cache"
        assert waiting.places.requests == 1

    asyncio.run(run())


def test_every_place_is_released_after_an_answer_a_failure_or_a_cancellation() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise UnavailableError("no answer")

    async def run() -> None:
        waiting = Waiting()
        await waiting.may("ml", 3, size=10)
        waiting.tasks[0].cancel()
        with pytest.raises(UnavailableError):
            await waiting.places.wait(fails(), "other", 10)
        waiting.go.set()
        assert await asyncio.gather(*waiting.tasks[1:]) == ["answered"] * 2
        assert (waiting.places.requests, waiting.places.bytes, waiting.places.shares) == (0, 0, {})

    asyncio.run(run())


class SilentApi:
    """An API that counts requests and does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, *_: object, **__: object) -> None:
        self.asked += 1
        await asyncio.Event().wait()


def test_a_refused_request_causes_no_call_of_the_api() -> None:
    async def run() -> None:
        silent = SilentApi()
        api: Any = silent
        cluster, places = Cluster(api), Places(Limits(requests=2), lambda _: True)

        def look_up(name: str) -> Coroutine[Any, Any, object]:
            return cluster.object("ml", OwnerReference("batch", "v1", "Job", name, "uid"))

        first = asyncio.create_task(places.wait(look_up("first"), "ml", 1))
        await eventually(lambda: silent.asked == 1)
        for number in range(10):
            with pytest.raises(CrowdedError, match="1 requests of 1 bytes wait for the API"):
                await places.wait(look_up(f"more-{number}"), "ml", 1)
        await asyncio.sleep(0)
        assert silent.asked == 1
        first.cancel()

    asyncio.run(run())


def test_a_task_is_cancelled_with_the_coroutine_that_waits_for_it() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.create_task(in_task(work()))
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        waiting.cancel()
        await ended.wait()

    asyncio.run(run())
