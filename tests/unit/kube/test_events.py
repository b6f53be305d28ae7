"""Events: their content, and their queue while the API does not accept them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from tests import virtual_time
from tests.metrics import sample
from tests.unit.controller.leader import beside
from tests.virtual_time import now, run
from webhook.kube import events
from webhook.kube.client import MOST_REPEATS, ApiError
from webhook.kube.events import BURST, LONGEST, MOST, MOST_NORMAL, RATE, Events, Notice, event
from webhook.kube.names import COMPONENT
from webhook.objects.problem import Json

NOTICE = Notice("Job", "ml", "train", "RetryStarted", "runs again", type="Normal", api_version="batch/v1", uid="u")


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


class Api:
    """Stores Events; raises the errors that a test has set for the next ones."""

    def __init__(self, *faults: Exception | None) -> None:
        self.faults = list(faults)
        self.paths: list[str] = []
        self.messages: list[str] = []

    async def create(self, path: str, root: Json) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.paths.append(path)
        self.messages.append(root["message"])


def written(server: Api, *notices: Notice) -> None:
    """Write all queued Events."""

    async def work() -> None:
        api: Any = server
        events = Events(api)
        for notice in notices:
            events.tell(notice)
        running = asyncio.create_task(events.run())
        for _ in range(2 * len(notices)):
            await asyncio.sleep(0)
        assert events.waiting.empty()
        assert not running.done()
        running.cancel()

    asyncio.run(work())


def notice_of(message: str) -> Notice:
    return Notice("ConfigMap", "retry-policy", "policy", "PolicyRefused", message)


def test_an_event_has_all_known_fields_of_its_object() -> None:
    found = event(NOTICE)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ml", "name": "train", "uid": "u"}
    assert found["involvedObject"] == reference
    assert found["metadata"]["namespace"] == "ml"
    assert (found["type"], found["reason"], found["message"]) == ("Normal", "RetryStarted", "runs again")
    assert found["source"]["component"] == COMPONENT
    assert found["count"] == 1


def test_without_a_uid_an_event_is_about_any_object_with_the_name() -> None:
    assert "uid" not in event(notice_of("bad"))["involvedObject"]


def test_the_name_of_an_event_begins_with_that_of_its_object_and_depends_on_the_message() -> None:
    names = [event(notice_of(message))["metadata"]["name"] for message in ("a", "b")]
    assert len(set(names)) == 2
    assert all(name.startswith("policy.") for name in names)


def test_an_event_about_an_occasion_has_the_same_name_in_whichever_minute_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = []
    for minute in (1, 2):
        times = Mock(now=Mock(return_value=datetime(2026, 1, 1, 0, minute, tzinfo=UTC)))
        monkeypatch.setattr(events, "datetime", times)
        notices = (notice_of("bad"), replace(notice_of("bad"), occasion="pod-uid"))
        names.append([event(notice)["metadata"]["name"] for notice in notices])
    assert [one == other for one, other in zip(*names, strict=True)] == [False, True]


def test_a_long_message_is_cut_to_the_api_servers_limit() -> None:
    assert len(event(notice_of("x" * 5000))["message"]) == LONGEST


def test_events_are_written_in_order_to_the_namespace_of_their_object() -> None:
    server = Api()
    written(server, notice_of("a"), NOTICE, notice_of("b"))
    assert server.messages == ["a", "runs again", "b"]
    assert server.paths[1] == "/api/v1/namespaces/ml/events"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        *((fault, "event not written") for fault in (ApiError(403, "no"), ApiError(500, "no"), TimeoutError())),
        (ConnectionResetError(), "event not written"),
        (ValueError("odd"), "object set aside"),
    ],
)
def test_an_event_that_cannot_be_written_is_logged_and_the_next_one_is_written(
    fault: Exception, line: str, logged: list[Any]
) -> None:
    server = Api(fault)
    written(server, notice_of("a"), notice_of("b"))
    assert server.messages == ["b"]
    assert [one["event"] for one in logged] == [line]


def test_while_the_api_server_is_busy_events_wait_and_none_is_lost(logged: list[Any]) -> None:
    server = Api(*[ApiError(429, "too many requests", 4.0)] * 3)

    async def work() -> float:
        api: Any = server
        events = Events(api)
        events.tell(notice_of("a"))
        events.tell(notice_of("b"))
        async with beside(events.run()):
            while len(server.messages) < 2:  # noqa: ASYNC110 - another task writes them
                await asyncio.sleep(0.1)
        return now()

    assert 3 * 4.0 <= virtual_time.run(work()) <= 3 * 6.0 + 1
    assert (server.messages, logged) == (["a", "b"], [])


def test_an_event_that_a_busy_api_server_refuses_again_and_again_is_dropped(logged: list[Any]) -> None:
    server = Api(*[ApiError(429, "too many requests", 1.0)] * (1 + MOST_REPEATS))

    async def work() -> None:
        api: Any = server
        events = Events(api)
        events.tell(notice_of("a"))
        events.tell(notice_of("b"))
        async with beside(events.run()):
            await asyncio.sleep(60)

    virtual_time.run(work())
    assert server.messages == ["b"]
    assert [line["event"] for line in logged] == ["event not written"]


def test_an_event_that_another_replica_has_written_is_not_an_error(logged: list[Any]) -> None:
    server = Api(ApiError(409, "already exists"))
    written(server, notice_of("a"), notice_of("b"))
    assert (server.messages, logged) == (["b"], [])


def dropped() -> float:
    return sample("retry_policy_events_dropped_total") or 0.0


def test_the_number_of_waiting_events_is_limited() -> None:
    no_api: Any = None
    events, before = Events(no_api), dropped()
    for number in range(MOST + 10):
        events.tell(notice_of(str(number)))
    assert events.waiting.qsize() == MOST
    assert dropped() - before == 10


def test_while_many_events_wait_a_normal_one_is_dropped_and_a_warning_is_not() -> None:
    no_api: Any = None
    events = Events(no_api)
    for _ in range(MOST_NORMAL + 5):
        events.tell(NOTICE)
    events.tell(notice_of("a warning"))
    assert events.waiting.qsize() == MOST_NORMAL + 1


def test_events_are_written_at_once_up_to_a_burst_and_then_at_a_bounded_rate() -> None:
    server = Api()

    async def work() -> list[int]:
        api: Any = server
        events = Events(api)
        for number in range(MOST):
            events.tell(notice_of(str(number)))
        running = asyncio.create_task(events.run())
        found = []
        for seconds in (0.001, 1.0, 1.0):
            await asyncio.sleep(seconds)
            found.append(len(server.messages))
        running.cancel()
        return found

    assert run(work()) == [BURST, BURST + RATE, BURST + 2 * RATE]
