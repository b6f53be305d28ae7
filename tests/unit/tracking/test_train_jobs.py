"""What is known of the training of TrainJobs, and since when."""

import asyncio
from typing import Any

import msgspec

from tests.unit.accounts.pods import job_set
from tests.unit.controller.leader import FakeApi, api_of
from tests.unit.systems.trainer.test_progress import train_job
from tests.virtual_time import BEGIN, run
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.tracking.train_jobs import Told, TrainJobs

OWNER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "set", "uid": "train-uid"}


def set_of_train_job(**owner: Any) -> Json:
    root = job_set()
    root["metadata"]["ownerReferences"] = [{**OWNER, "controller": True, **owner}]
    return root


def watching() -> TrainJobs:
    """Return what is known of TrainJobs, in a loop with virtual time."""
    loop = asyncio.get_running_loop()  # whose time a gauge also reads after it has ended
    found = TrainJobs(api_of(FakeApi()), clock=lambda: loop.time() - BEGIN)
    found.informer.live = True
    return found


def tell(found: TrainJobs, root: Json, kind: str = "MODIFIED") -> None:
    root["metadata"]["resourceVersion"] = "7"
    found.informer.take(Event(kind, msgspec.Raw(msgspec.json.encode(root))))


def said(second: int, **told: Any) -> Json:
    return train_job(**{"progressPercentage": 42, "lastUpdatedTime": f"2026-01-01T00:00:{second:02}Z", **told})


def times(found: TrainJobs) -> list[float]:
    return [told.at for told in found.told.values()]


def test_a_new_time_alone_is_news_and_the_same_status_is_none() -> None:
    async def work() -> list[list[float]]:
        found, seen = watching(), []
        for second in (0, 0, 1):
            await asyncio.sleep(10)
            tell(found, said(second, metrics=[]))
            seen.append(times(found))
        return seen

    assert run(work()) == [[10], [10], [30]]


def test_each_list_may_hide_news() -> None:
    async def work() -> list[float]:
        found = watching()
        tell(found, said(0))
        root = said(0)
        root["metadata"]["resourceVersion"] = "7"
        found.informer.api.lists[found.informer.path] = [root]  # type: ignore[attr-defined]
        await asyncio.sleep(10)
        await found.informer.list()
        return times(found)

    assert run(work()) == [10]


def test_what_is_not_there_any_more_is_forgotten() -> None:
    async def work() -> None:
        found = watching()
        for forget in (
            lambda: tell(found, said(0), "DELETED"),
            lambda: tell(found, train_job()),
            lambda: asyncio.ensure_future(found.informer.list()),
            lambda: asyncio.ensure_future(found.forget_namespaces({"ml"})),
        ):
            tell(found, said(0))
            assert found.told
            forget()
            await asyncio.sleep(1)
            assert found.told == {}

    run(work())


def test_only_the_train_job_that_controls_a_job_set_speaks_for_it() -> None:
    async def work() -> list[Told | None]:
        found = watching()
        tell(found, said(0))
        asked = (set_of_train_job(), set_of_train_job(uid="other"), set_of_train_job(kind="RayJob"), job_set())
        return [found.of(one) for one in asked]

    first, *others = run(work())
    assert first is not None
    assert first.status.percent == 42
    assert others == [None] * 3


def test_a_train_job_that_is_not_watched_may_be_saying_something_new() -> None:
    async def work() -> list[float]:
        found = watching()
        tell(found, said(0))
        found.informer.live = False
        await asyncio.sleep(10)
        told = found.of(set_of_train_job())
        assert told is not None
        return [told.at, *times(found)]

    assert run(work()) == [10, 0]
