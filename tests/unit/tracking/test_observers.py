"""What is passed on of a list: each object, then once what of the last list is gone."""

from __future__ import annotations

import asyncio

from tests.unit.accounts.pods import job, running_pod
from webhook.accounts.cached import CachedJob
from webhook.tracking.observers import PodObserver, WorkloadObserver

ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


class Passed:
    """Remembers what an observer passes on."""

    def __init__(self) -> None:
        self.news: list[bool] = []
        self.lists: list[set[str]] = []

    def seen(self, _item: object, *, news: bool = True) -> None:
        self.news.append(news)

    def deleted(self, _item: object) -> None:
        raise AssertionError("nothing was deleted")

    async def see_only(self, there: set[str]) -> None:
        self.lists.append(there)

    async def forget_gone(self) -> None:
        self.lists.append(set())


def test_after_each_list_of_pods_only_those_of_this_list_exist() -> None:
    async def work() -> None:
        for pods in ([running_pod(1), running_pod(2)], [running_pod(2)]):
            observer.begin_list()
            for pod in pods:
                observer.listed(pod)
            await observer.end_list()

    passed = Passed()
    observer = PodObserver(passed.seen, passed.deleted, passed.see_only, passed.see_only)
    asyncio.run(work())
    assert passed.lists == [{running_pod(1).uid, running_pod(2).uid}, {running_pod(2).uid}]
    assert passed.news == [False] * 3


def test_what_a_second_list_of_jobs_shows_is_new_and_jobs_that_it_lacks_are_no_longer_known_to_have_ended() -> None:
    async def work(*jobs: CachedJob) -> None:
        observer.begin_list()
        for one in jobs:
            observer.listed(one)
        await observer.end_list()

    passed, known_ended = Passed(), {"2", "3"}
    observer = WorkloadObserver[CachedJob](passed.seen, passed.deleted, passed.forget_gone, known_ended)
    running, ended = job(uid="1"), job(status=ENDED, uid="2")
    asyncio.run(work(running, ended))
    assert (known_ended, passed.news) == ({"2"}, [False, False])
    asyncio.run(work(running))
    assert (known_ended, passed.news[2:], len(passed.lists)) == (set(), [True], 2)
