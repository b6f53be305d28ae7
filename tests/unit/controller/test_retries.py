"""The leader's writes for a requested retry: their order and time, and the answers of the API server before them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from tests import virtual_time
from tests.admission import policy
from tests.costs import assert_grows_with_its_input
from tests.objects import job_spec
from tests.unit.retry.server import PLACEHOLDER, STEPS_OF_A_JOB, TRAIN, Server, queued_events, served
from tests.virtual_time import now
from webhook.controller.brake import REPORTED, STOPPED, Brake
from webhook.controller.retries import (
    AT_ONCE,
    INTERRUPTED_AFTER,
    LONGEST_PAUSE,
    SHORTEST_PAUSE,
    TRIES,
    RetryController,
    RetryDue,
    RetryKey,
)
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.kube.events import Events
from webhook.objects.problem import Json
from webhook.policy.model import Emergency, Profile
from webhook.retry import record, requests
from webhook.retry.record import Requested
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource

NO_API: Any = None
NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
FAILED = [{"type": "Failed", "status": "True"}]
SETS = JOB_SET.path("ml", "train")
NIGHTLY = batch.CRON_JOB.path("ml", "nightly")
CRON_JOB_KEY = RetryKey(batch.CRON_JOB, "ml", "nightly")
SET_KEY, JOB_KEY = RetryKey(JOB_SET, "ml", "train"), RetryKey(batch.JOB, "ml", "train")
UNAVAILABLE, CHANGED, FORBIDDEN = (ApiError(status, "no") for status in (503, 409, 403))


def with_accepted_request(of: str, spec: Json, status: Json, *, retryable: str = "true") -> Json:
    """Return a failed workload with an accepted request."""
    metadata = {"name": "train", "namespace": "ml", "uid": "uid-1", "resourceVersion": "1"}
    root: Json = {"metadata": {**metadata, "annotations": {names.RETRYABLE: retryable}, "labels": {}}}
    text = requests.accept(root, Requested(at="2026-11-22T08:30:00Z", by="alice", of=of))[0]["value"]
    root["metadata"]["annotations"][names.RETRY_ACCEPTED] = text
    root["metadata"]["labels"][names.RETRY_IN_PROGRESS] = "true"
    return {**root, "spec": spec, "status": {"conditions": FAILED, **status}}


def job_set(**how: Any) -> tuple[KindSpec, Json]:
    return JOB_SET, with_accepted_request(
        "restart 0", {"replicatedJobs": [{"name": "a", "template": {}}]}, {"restarts": 0}, **how
    )


def job() -> tuple[KindSpec, Json]:
    return batch.JOB, with_accepted_request("uid-1", job_spec(backoffLimit=0), {})


class Clock:
    """A monotonic clock that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Leader:
    """A leader with the API and the clock of a test; `see` adds an object to its watch."""

    def __init__(
        self, server: Server, *keys: RetryKey, request: str = "accepted", profile: Profile | None = None
    ) -> None:
        self.clock = Clock()
        self.cluster = served(server)
        self.events = Events(NO_API)
        self.policy = PolicySource(policy(default=profile or Profile()))
        self.controller = RetryController(
            self.cluster, self.events, NO_API, Brake(self.policy, self.events), clock=self.clock, now=lambda: NOW
        )
        for key in keys:
            self.see(key, request)

    def see(self, key: RetryKey, request: str) -> None:
        self.controller.lists[key.kind].items[key.namespace, key.name] = request

    async def act(self) -> float:
        """Process the retries that are due, and wait until they end; return the seconds until the next one is due."""
        async with asyncio.TaskGroup() as group:
            return self.controller.start_due(group)

    def set(self, **fields: Any) -> None:
        """Put a policy with these fields in force."""
        assert self.policy.current is not None
        self.policy.put_in_force(replace(self.policy.current, **fields), "the test")

    def due(self, key: RetryKey) -> RetryDue:
        return self.controller.due[key]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def started() -> None:
        await work()

    asyncio.run(started())


def test_the_retry_of_a_job_set_is_recorded_before_the_restart_and_its_mark_removed_after_it() -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY)
        await leader.act()
        assert server.writes == [("PATCH", SETS), ("PUT", f"{SETS}/status"), ("PATCH", SETS)]
        stored = server.items[SETS]
        assert stored["status"] == {"conditions": [], "restarts": 1, "restartsCountTowardsMax": 0}
        assert [(one.by, one.of, one.at) for one in record.read(stored)] == [("alice", "restart 0", NOW.isoformat())]
        assert not requests.is_marked(stored)
        assert queued_events(leader.events) == [("RetryStarted", "runs again, as alice requested")]

    run(work)


def test_the_placeholder_is_stored_before_the_job_is_deleted_and_deleted_after_the_release() -> None:
    async def work() -> None:
        server = Server(job())
        await Leader(server, JOB_KEY).act()
        assert server.writes == STEPS_OF_A_JOB
        assert server.items[TRAIN]["spec"]["suspend"] is False
        assert PLACEHOLDER not in server.items

    run(work)


def test_after_a_conflict_the_job_set_is_read_again_and_its_retry_recorded_once() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.faults["PUT"] = [CHANGED]
        leader = Leader(server, SET_KEY)
        await leader.act()
        assert server.writes == [
            ("PATCH", SETS),
            ("PUT", f"{SETS}/status"),
            ("PUT", f"{SETS}/status"),
            ("PATCH", SETS),
        ]
        assert len(record.read(server.items[SETS])) == 1

    run(work)


def test_a_job_set_that_another_user_has_restarted_is_not_restarted_twice() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.late.add("PATCH")
        leader = Leader(server, SET_KEY)
        async with asyncio.TaskGroup() as group:
            leader.controller.start_due(group)
            await server.is_waited_for()
            server.store(SETS, {**server.items[SETS], "status": {"conditions": [], "restarts": 1}})
            server.answer.set()
        assert server.writes == [("PATCH", SETS), ("PUT", f"{SETS}/status"), ("PATCH", SETS)]
        assert server.items[SETS]["status"]["restarts"] == 1
        assert not requests.is_marked(server.items[SETS])
        assert queued_events(leader.events) == [("RetryStarted", "runs again, as alice requested")]

    run(work)


def test_a_job_that_a_user_deletes_during_the_retry_is_not_created_and_its_placeholder_stays() -> None:
    async def work() -> None:
        server = Server(job())
        server.late.add("POST")
        leader = Leader(server, JOB_KEY)
        async with asyncio.TaskGroup() as group:
            leader.controller.start_due(group)
            await server.is_waited_for()
            del server.items[TRAIN]
            server.answer.set()
        ((reason, message),) = queued_events(leader.events)
        assert reason == "RetryStuck"
        assert message.startswith("Job ml/train was deleted by another user; create it again")
        assert server.items.keys() == {PLACEHOLDER}

    run(work)


def test_the_retry_of_an_object_that_changes_each_time_is_stuck_and_ends_after_a_few_attempts() -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY)
        for number in range(TRIES):
            assert requests.is_marked(server.items[SETS])
            server.faults["PUT"] = [CHANGED] * 5
            leader.clock.now += LONGEST_PAUSE
            await leader.act()
            assert [reason for reason, _ in queued_events(leader.events)] == ["RetryStuck"]
            assert leader.due(SET_KEY).stuck == number + 1
        assert not requests.is_marked(server.items[SETS])

    run(work)


def test_a_retry_with_a_forbidden_write_is_stuck_and_continued_while_it_has_a_placeholder() -> None:
    async def work() -> None:
        server = Server(job())
        server.faults["DELETE"] = [FORBIDDEN]
        leader = Leader(server, JOB_KEY)
        await leader.act()
        assert [reason for reason, _ in queued_events(leader.events)] == ["RetryStuck"]
        key = JOB_KEY._replace(name=PLACEHOLDER.rpartition("/")[2])
        leader.see(key, "accepted")
        for _ in range(TRIES + 1):
            server.faults["DELETE"] = [FORBIDDEN, FORBIDDEN]
            leader.clock.now += LONGEST_PAUSE
            await leader.act()
        assert requests.is_marked(server.items[PLACEHOLDER])
        server.faults["DELETE"] = []
        leader.clock.now += LONGEST_PAUSE
        await leader.act()
        assert (server.items[TRAIN]["spec"]["suspend"], PLACEHOLDER in server.items) == (False, False)

    run(work)


@pytest.mark.parametrize("verb", ["GET", "PATCH", "PUT"])
@pytest.mark.parametrize("fault", [UNAVAILABLE, TimeoutError(), ConnectionResetError()])
def test_while_the_api_does_not_answer_the_pauses_grow(verb: str, fault: Exception) -> None:
    async def work() -> None:
        server = Server(job_set())
        server.faults[verb] = [fault, fault]
        leader = Leader(server, SET_KEY)
        for pause in (SHORTEST_PAUSE, 2 * SHORTEST_PAUSE):
            with capture_logs() as logged:
                await leader.act()
            assert [(line["event"], line["retry_in"]) for line in logged] == [("not run again yet", pause)]
            assert leader.due(SET_KEY).next == leader.clock.now + pause
            writes = len(server.writes)
            leader.clock.now += pause - 0.1
            assert await leader.act() == pytest.approx(0.1)
            assert len(server.writes) == writes
            leader.clock.now += 0.1
        await leader.act()
        assert server.items[SETS]["status"]["restarts"] == 1
        assert len(record.read(server.items[SETS])) == 1

    run(work)


def test_a_retry_that_a_busy_api_server_refuses_waits_as_long_as_it_asks_and_is_recorded_once() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.faults["PUT"] = [ApiError(429, "too many requests", 7.0)]
        leader = Leader(server, SET_KEY)
        await leader.act()
        assert 7.0 <= now() <= 10.5
        leader.clock.now += SHORTEST_PAUSE
        await leader.act()
        assert server.items[SETS]["status"]["restarts"] == 1
        assert len(record.read(server.items[SETS])) == 1

    virtual_time.run(work())


@pytest.mark.parametrize("retryable", ["true", "false"])
def test_the_result_is_told_once_if_the_mark_cannot_be_removed_at_first(retryable: str) -> None:
    async def work() -> None:
        server = Server(job_set(retryable=retryable))
        is_refused = retryable == "false"
        server.faults["PATCH"] = [UNAVAILABLE] if is_refused else [None, UNAVAILABLE, UNAVAILABLE]
        leader = Leader(server, SET_KEY)
        for _ in range(4):
            await leader.act()
            leader.clock.now += LONGEST_PAUSE
        assert [reason for reason, _ in queued_events(leader.events)] == [
            "RetryRefused" if is_refused else "RetryStarted"
        ]
        assert server.items[SETS]["status"]["restarts"] == (0 if is_refused else 1)
        assert not requests.is_marked(server.items[SETS])

    run(work)


def test_a_leader_tells_the_start_of_a_retry_whose_mark_the_leader_before_could_not_remove() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.faults["PATCH"] = [None, UNAVAILABLE]
        before, leader = Leader(server, SET_KEY), Leader(server, SET_KEY)
        await before.act()
        await leader.act()
        assert queued_events(before.events) == []
        assert queued_events(leader.events) == [("RetryStarted", "runs again, as alice requested")]

    run(work)


def cron_job(server: Server) -> None:
    """Put the CronJob of the failed Job on a server: it has the request."""
    made = server.items[TRAIN]
    metadata = made["metadata"]
    server.items[NIGHTLY] = {"metadata": {**metadata, "name": "nightly", "uid": "cron"}, "spec": {}}
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "cron", "controller": True}
    annotations = {names.RETRYABLE: "true"}
    metadata = {**metadata, "annotations": annotations, "labels": {}, "ownerReferences": [owner]}
    made["metadata"] = {**metadata, "creationTimestamp": "2026-11-22T08:00:00Z"}


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("key", [JOB_KEY, CRON_JOB_KEY], ids=["Job", "CronJob"])
def test_the_start_of_a_retry_is_told_once_whichever_read_fails(key: RetryKey, number: int) -> None:
    async def work() -> None:
        server = Server(job())
        if key is CRON_JOB_KEY:
            cron_job(server)
        server.faults["GET"] = [*[None] * number, UNAVAILABLE]
        leader = Leader(server, key)
        for _ in range(3):
            await leader.act()
            for path in (PLACEHOLDER, TRAIN):  # as the watch would
                root, one = server.items.get(path), RetryKey(batch.JOB, "ml", path.rpartition("/")[2])
                leader.controller.lists[batch.JOB].items.pop((one.namespace, one.name), None)
                if root is not None and requests.is_marked(root):
                    leader.see(one, "")
            leader.clock.now += LONGEST_PAUSE
        assert server.items[TRAIN]["spec"]["suspend"] is False
        assert [reason for reason, _ in queued_events(leader.events)] == ["RetryStarted"]

    virtual_time.run(work())


def test_a_refusal_whose_mark_may_not_be_removed_is_stuck() -> None:
    async def work() -> None:
        server = Server(job_set(retryable="false"))
        server.faults["PATCH"] = [FORBIDDEN]
        leader = Leader(server, SET_KEY)
        await leader.act()
        assert [reason for reason, _ in queued_events(leader.events)] == ["RetryStuck"]

    run(work)


def test_a_workload_that_cannot_run_again_gets_an_event_and_its_mark_is_removed() -> None:
    async def work() -> None:
        server = Server(job_set(retryable="false"))
        leader = Leader(server, SET_KEY)
        await leader.act()
        ((reason, message),) = queued_events(leader.events)
        assert reason == "RetryRefused"
        assert message.startswith("not retried: JobSet ml/train does not say of a that it may run twice; if")
        assert server.writes == [("PATCH", SETS)]
        assert not requests.is_marked(server.items[SETS])

    run(work)


def test_nothing_is_written_for_an_object_that_was_deleted() -> None:
    async def work() -> None:
        server = Server()
        leader = Leader(server, SET_KEY)
        await leader.act()
        assert (server.writes, queued_events(leader.events)) == ([], [])

    run(work)


def test_the_leader_continues_a_retry_that_a_user_runs_only_after_a_while() -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY, request="")
        assert await leader.act() == INTERRUPTED_AFTER
        assert server.writes == []
        leader.clock.now += INTERRUPTED_AFTER
        await leader.act()
        assert server.items[SETS]["status"]["restarts"] == 1

    run(work)


def test_a_request_during_an_earlier_retry_waits_for_its_end() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.late.add("PUT")
        leader = Leader(server, SET_KEY)
        async with asyncio.TaskGroup() as group:
            leader.controller.start_due(group)
            await server.is_waited_for()
            leader.see(SET_KEY, "another")
            writes = list(server.writes)
            leader.controller.start_due(group)
            assert leader.due(SET_KEY).request == "accepted"
            assert server.writes == writes
            server.answer.set()
        async with asyncio.TaskGroup() as group:
            leader.controller.start_due(group)
            assert (leader.due(SET_KEY).request, leader.due(SET_KEY).busy) == ("another", True)

    run(work)


def test_an_object_that_is_no_longer_listed_is_forgotten_except_during_its_retry() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.late.add("PUT")
        leader = Leader(server, SET_KEY)
        async with asyncio.TaskGroup() as group:
            leader.controller.start_due(group)
            await server.is_waited_for()
            leader.controller.lists[JOB_SET].items.clear()
            leader.controller.start_due(group)
            assert SET_KEY in leader.controller.due
            server.answer.set()
        await leader.act()
        assert leader.controller.due == {}

    run(work)


@pytest.mark.parametrize("number", range(len(STEPS_OF_A_JOB)))
def test_a_leader_that_loses_the_lease_before_an_answer_stops_writing_and_the_next_one_continues(number: int) -> None:
    async def work() -> None:
        server = Server(job())
        lost = Leader(server, JOB_KEY)
        server.late_write = number + 1
        working = asyncio.create_task(lost.controller.work())
        await server.is_waited_for()
        working.cancel()
        await asyncio.wait({working})
        writes = list(server.writes)
        server.late_write = None
        server.answer.set()
        await asyncio.sleep(0)
        assert (len(writes), server.writes) == (number + 1, writes)

        keys = [
            JOB_KEY._replace(name=root["metadata"]["name"])
            for root in server.items.values()
            if requests.is_marked(root)
        ]
        await Leader(server, *keys).act()
        (path,) = server.items
        assert (path, server.items[path]["spec"]["suspend"]) == (TRAIN, False)
        assert [one.of for one in record.read(server.items[path])] == ["uid-1"]

    run(work)


def test_a_leader_forgets_the_pauses_of_its_earlier_term() -> None:
    async def work() -> None:
        server = Server(job_set())
        server.faults["GET"] = [UNAVAILABLE]
        leader = Leader(server, SET_KEY)
        await leader.act()
        server.late.add("PUT")
        working = asyncio.create_task(leader.controller.work())
        await server.is_waited_for()  # although its pause has not ended
        working.cancel()
        await asyncio.wait({working})

    run(work)


def test_nothing_is_written_in_a_namespace_in_mode_warn() -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY)
        leader.cluster.namespaces.items["", "ml"] = ("default", "Warn")
        await leader.act()
        assert server.writes == []

    run(work)


def test_without_the_watch_of_namespaces_the_api_is_called_for_the_opt_in() -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY)
        leader.cluster.namespaces.live = False
        await leader.act()
        assert server.writes == []  # the API has no such namespace
        server.items["/api/v1/namespaces/ml"] = {"metadata": {"name": "ml", "labels": {names.PROFILE: "default"}}}
        leader.clock.now += SHORTEST_PAUSE
        await leader.act()
        assert server.items[SETS]["status"]["restarts"] == 1

    run(work)


@pytest.mark.parametrize(
    ("emergency", "profile", "why"),
    [(Emergency(actions="Stop"), Profile(), STOPPED), (Emergency(), Profile(actions="Report"), REPORTED)],
)
def test_a_retry_that_the_leader_may_not_begin_waits_and_an_event_says_so_once(
    emergency: Emergency, profile: Profile, why: str
) -> None:
    async def work() -> None:
        server = Server(job_set())
        leader = Leader(server, SET_KEY, profile=profile)
        leader.set(emergency=emergency)
        for _ in range(3):
            await leader.act()
            assert leader.due(SET_KEY).next == leader.clock.now + SHORTEST_PAUSE
            leader.clock.now += SHORTEST_PAUSE
        assert server.writes == []
        assert queued_events(leader.events) == [("ActionNotTaken", f"would run it again, as requested; {why}")]
        leader.set(emergency=Emergency(), profiles={"default": Profile()})
        await leader.act()
        assert server.items[SETS]["status"]["restarts"] == 1

    run(work)


@pytest.mark.parametrize("number", range(len(STEPS_OF_A_JOB)))
def test_a_retry_stops_between_any_two_writes_and_continues_there_later(number: int) -> None:
    async def work() -> None:
        server = Server(job())
        leader = Leader(server, JOB_KEY)
        server.late_write = number + 1
        working = asyncio.create_task(leader.controller.work())
        await server.is_waited_for()
        leader.set(emergency=Emergency(actions="Stop"))
        await server.until(lambda: not any(due.busy for due in leader.controller.due.values()))
        server.late_write = None
        server.answer.set()
        await asyncio.sleep(0)
        assert len(server.writes) == number + 1

        for root in server.items.values():
            if requests.is_marked(root):
                leader.see(JOB_KEY._replace(name=root["metadata"]["name"]), "accepted")
        leader.clock.now += LONGEST_PAUSE
        leader.set(emergency=Emergency())
        await server.until(lambda: [*server.items] == [TRAIN] and not requests.is_marked(server.items[TRAIN]))
        working.cancel()
        await asyncio.wait({working})
        assert server.items[TRAIN]["spec"]["suspend"] is False
        assert [one.of for one in record.read(server.items[TRAIN])] == ["uid-1"]

    run(work)


def controller_of_many(marked: int, namespace: str = "ml") -> RetryController:
    """Return a leader with an opted-in namespace, and with this number of marked Jobs in `namespace`."""
    cluster = Cluster(NO_API)
    cluster.namespaces.items["", "ml"] = ("default", None)
    cluster.namespaces.live = True
    events = Events(NO_API)
    found = RetryController(cluster, events, NO_API, Brake(PolicySource(policy()), events))
    found.lists[batch.JOB].items = {(namespace, f"job-{number}"): "asked" for number in range(marked)}
    return found


class TaskCounter:
    """Counts the tasks that are started, and runs none."""

    def __init__(self) -> None:
        self.number = 0

    def create_task(self, coroutine: Any) -> None:
        coroutine.close()
        self.number += 1


def number_started(found: RetryController) -> int:
    group: Any = TaskCounter()
    found.start_due(group)
    number: int = group.number
    return number


def test_a_limited_number_of_retries_runs_at_once() -> None:
    found = controller_of_many(100)
    assert number_started(found) == AT_ONCE
    assert number_started(found) == 0
    found.due[next(iter(found.due))].busy = False
    assert number_started(found) == 1


def test_the_opt_in_of_a_namespace_starts_a_pass() -> None:
    async def work() -> bool:
        found = controller_of_many(1, "other")
        found.cluster.namespaces.notify()
        return found.changed.is_set()

    assert asyncio.run(work())


def test_the_cost_of_a_pass_grows_linearly_with_the_number_of_objects() -> None:
    assert_grows_with_its_input(number_started, controller_of_many, 500)
