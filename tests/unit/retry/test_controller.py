"""Which objects the leader takes up that are marked to run again."""

import asyncio
from typing import Any

from tests.costs import assert_grows_with_its_input
from webhook.kinds import batch
from webhook.kube.events import Events
from webhook.lookups.cluster import Cluster
from webhook.retry.controller import AT_ONCE, Key, RetryController

NO_API: Any = None


def retrier(marked: int, namespace: str = "ml") -> RetryController:
    """A leader that knows of a namespace that is opted in, and of so many marked Jobs of one."""
    cluster = Cluster(NO_API)
    cluster.namespaces.items["", "ml"] = ("default", None)
    cluster.namespaces.live = True
    found = RetryController(cluster, Events(NO_API), NO_API)
    found.lists[batch.JOB].items = {(namespace, f"job-{number}"): "asked" for number in range(marked)}
    return found


class Begun:
    """Takes note of what is begun, and does nothing."""

    def __init__(self) -> None:
        self.number = 0

    def create_task(self, coroutine: Any) -> None:
        coroutine.close()
        self.number += 1


def begin(found: RetryController) -> int:
    group: Any = Begun()
    found.begin_what_is_due(group)
    number: int = group.number
    return number


def test_a_few_of_many_are_taken_up_at_once() -> None:
    found = retrier(100)
    assert begin(found) == AT_ONCE
    assert begin(found) == 0
    found.due[next(iter(found.due))].busy = False
    assert begin(found) == 1


def test_what_anybody_may_mark_where_nobody_has_opted_in_is_not_looked_at() -> None:
    found = retrier(100, "other")
    assert begin(found) == 0
    assert found.due == {}


def test_a_namespace_that_may_have_been_opted_in_meanwhile_is_asked_about() -> None:
    found = retrier(1, "other")
    found.cluster.namespaces.live = False
    assert begin(found) == 1
    assert list(found.due) == [Key(batch.JOB, "other", "job-0")]


def test_a_namespace_that_is_opted_in_is_news() -> None:
    async def run() -> bool:
        found = retrier(1, "other")
        found.cluster.namespaces.changed()
        return found.news.is_set()

    assert asyncio.run(run())


def test_what_a_look_at_all_of_them_costs_grows_with_their_number() -> None:
    assert_grows_with_its_input(begin, retrier, 500)
