"""Leader election, second by second, with an API in memory and virtual time."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
import structlog

from tests import virtual_time
from tests.metrics import counted
from tests.virtual_time import now
from webhook.kube.client import ApiError
from webhook.kube.lease import DEADLINE, DURATION, LONGEST_PAUSE, OVERLAP, PAUSE, Lease
from webhook.objects.problem import Json

NAME = "leader"
FAR_FUTURE = "2999-01-01T00:00:00.000000Z"
SERVER_ERROR = ApiError(500, "no leader in etcd")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Print no tracebacks: formatting them takes longer than all the tests."""
    with structlog.testing.capture_logs():
        yield


class LeaseApi:
    """One Lease of an API server, which may be slow, fail, or lose its answers."""

    def __init__(self, spec: Json | None = None) -> None:
        self.stored: Json | None = None
        self.version = 0
        self.fault: Exception | None = None  # raised by every call
        self.delay = 0.0  # seconds that every call takes
        self.late = 0.0  # seconds between a write and its answer
        self.writes: list[tuple[float, str]] = []  # the time and the holder of each write
        if spec is not None:
            self.store({"metadata": {"name": NAME}, "spec": spec})

    def store(self, lease: Json) -> Json:
        self.version += 1
        self.stored = deepcopy({**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}})
        return deepcopy(self.stored)

    @property
    def spec(self) -> Json:
        assert self.stored is not None
        found: Json = self.stored["spec"]
        return found

    async def called(self) -> None:
        await asyncio.sleep(self.delay)
        if self.fault is not None:
            raise self.fault

    async def written(self, lease: Json) -> Json:
        self.writes.append((now(), lease["spec"]["holderIdentity"]))
        answer = self.store(lease)
        await asyncio.sleep(self.late)
        return answer

    async def get(self, path: str) -> Json:
        assert path == f"/apis/coordination.k8s.io/v1/namespaces/system/leases/{NAME}"
        await self.called()
        if self.stored is None:
            raise ApiError(404, "not found")
        return deepcopy(self.stored)

    async def create(self, path: str, lease: Json) -> Json:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/system/leases"
        await self.called()
        if self.stored is not None:
            raise ApiError(409, "already exists")
        return await self.written(lease)

    async def replace(self, path: str, lease: Json) -> Json:
        assert path == f"/apis/coordination.k8s.io/v1/namespaces/system/leases/{NAME}"
        await self.called()
        if self.stored is None or lease["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            raise ApiError(409, "the object has been modified")
        return await self.written(lease)


class Replica:
    """A candidate for the lease, which records when it began to lead and when it stopped.

    `ahead`: seconds between its clock and the others'. `fails`: the seconds of leading after which its work raises.
    """

    def __init__(self, api: Any, holder: str, *, ahead: float = 0.0, fails: float | None = None) -> None:
        self.lease = Lease(api, "system", NAME, holder, clock=lambda: now() + ahead)
        self.fails = fails
        self.terms: list[list[float]] = []
        self.leading = asyncio.Event()
        self.task = asyncio.create_task(self.lease.lead(self.work))

    async def work(self) -> None:
        self.terms.append([now()])
        self.leading.set()
        try:
            await asyncio.sleep(1e6 if self.fails is None else self.fails)
            raise RuntimeError("the work has failed")
        finally:
            self.leading.clear()
            self.terms[-1].append(now())

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def crash(self) -> None:
        """Stop without releasing the lease."""
        self.lease.release = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        await self.stop()


def held_by(holder: str, **spec: Any) -> Json:
    return {"holderIdentity": holder, "leaseDurationSeconds": int(DURATION), "renewTime": FAR_FUTURE, **spec}


def test_the_first_replica_leads_at_once_and_writes_the_duration_of_its_lease() -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        assert now() == 0
        assert (api.spec["holderIdentity"], api.spec["leaseDurationSeconds"]) == ("a", DURATION)
        assert api.spec["leaseTransitions"] == 0
        assert api.spec["acquireTime"] == api.spec["renewTime"]
        await first.stop()

    virtual_time.run(run())


def test_only_one_of_two_replicas_that_create_the_lease_at_once_leads() -> None:
    async def run() -> None:
        api = LeaseApi()
        api.delay = 0.5
        replicas = [Replica(api, "a"), Replica(api, "b")]
        await asyncio.sleep(100)
        assert sorted(len(one.terms) for one in replicas) == [0, 1]
        for one in replicas:
            await one.stop()

    virtual_time.run(run())


def test_a_replica_that_is_stopped_when_it_has_just_released_the_lease_ends() -> None:
    async def run() -> None:
        replica, released = Replica(LeaseApi(), "a", fails=1.0), asyncio.Event()
        replica.lease.release = released.wait  # type: ignore[method-assign, assignment]
        await asyncio.sleep(1.5)
        released.set()
        replica.task.cancel()
        await asyncio.sleep(0.1)
        assert replica.task.cancelled()

    virtual_time.run(run())


def test_a_leader_leads_as_long_as_it_renews() -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        second = Replica(api, "b")
        acquired = api.spec["acquireTime"]
        await asyncio.sleep(1000)
        assert (first.terms, second.terms) == ([[0]], [])
        assert {holder for _, holder in api.writes} == {"a"}
        assert (api.spec["acquireTime"], api.spec["leaseTransitions"]) == (acquired, 0)
        await first.stop()
        await second.stop()

    virtual_time.run(run())


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_a_lease_is_acquired_after_its_duration_without_a_change_even_if_clocks_differ(ahead: float) -> None:
    async def run() -> None:
        api = LeaseApi(held_by("crashed", leaseTransitions=4))
        follower = Replica(api, "b", ahead=ahead)
        await follower.leading.wait()
        assert DURATION <= now() <= DURATION + PAUSE
        assert (api.spec["holderIdentity"], api.spec["leaseTransitions"]) == ("b", 5)
        assert api.spec["acquireTime"] != FAR_FUTURE
        await follower.stop()

    virtual_time.run(run())


@pytest.mark.parametrize(
    "spec", [{}, held_by(""), held_by("b"), {"holderIdentity": None}], ids=["empty", "released", "own", "null"]
)
def test_a_lease_that_no_other_replica_holds_is_acquired_at_once(spec: Json) -> None:
    async def run() -> None:
        replica = Replica(LeaseApi(spec), "b")
        await replica.leading.wait()
        assert now() == 0
        await replica.stop()

    virtual_time.run(run())


@pytest.mark.parametrize("spec", ["a string", ["b"], {"holderIdentity": "a", "leaseDurationSeconds": "long"}])
def test_a_malformed_lease_is_not_acquired_and_is_read_again(spec: Any) -> None:
    async def run() -> None:
        api = LeaseApi(spec)
        replica = Replica(api, "b")
        await asyncio.sleep(30)
        assert not replica.terms
        api.store({"metadata": {"name": NAME}, "spec": {}})
        await replica.leading.wait()
        assert now() <= 30 + PAUSE
        await replica.stop()

    virtual_time.run(run())


def test_a_replica_whose_write_meets_a_conflict_does_not_lead() -> None:
    async def run() -> None:
        api = LeaseApi(held_by("crashed"))
        follower = Replica(api, "b")
        await asyncio.sleep(DURATION - 1)
        api.delay = 1  # so that another replica writes between the read and the write
        while not api.writes and now() < DURATION + PAUSE:
            await asyncio.sleep(0.5)
            api.store({"metadata": {"name": NAME}, "spec": held_by("c", leaseTransitions=int(now() * 2))})
        assert not follower.terms
        await follower.stop()

    virtual_time.run(run())


def after_ten_seconds(disturb: Callable[[LeaseApi], None]) -> tuple[LeaseApi, list[list[float]], list[list[float]]]:
    """Let two replicas compete, disturb the API after ten seconds, and return the state after a hundred."""

    async def run() -> tuple[LeaseApi, list[list[float]], list[list[float]]]:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        second = Replica(api, "b")
        await asyncio.sleep(10)
        disturb(api)
        await asyncio.sleep(90)
        found = api, deepcopy(first.terms), deepcopy(second.terms)
        await first.stop()
        await second.stop()
        return found

    return virtual_time.run(run())


def fail(api: LeaseApi) -> None:
    api.fault = SERVER_ERROR


def hang(api: LeaseApi) -> None:
    api.delay = 1e6


def answer_late(api: LeaseApi) -> None:
    api.late = 1e6


@pytest.mark.parametrize("disturb", [fail, hang])
def test_a_leader_that_cannot_renew_stops_before_its_lease_ends(disturb: Callable[[LeaseApi], None]) -> None:
    api, (term,), others = after_ten_seconds(disturb)
    renewed = max(when for when, _ in api.writes)
    assert renewed + DEADLINE <= term[1] < renewed + DURATION
    assert not others


def test_a_leader_whose_writes_are_answered_too_late_stops_before_its_lease_ends() -> None:
    api, terms, others = after_ten_seconds(answer_late)
    answered = max(when for when, _ in api.writes if when <= 10)
    assert terms[0][1] < answered + DURATION
    assert not others  # its write arrived, so the lease has not ended


@pytest.mark.parametrize(
    "fault", [SERVER_ERROR, ApiError(409, "conflict"), TimeoutError(), OSError("reset"), KeyError()]
)
def test_one_renewal_that_fails_has_no_effect(fault: Exception) -> None:
    def disturb(api: LeaseApi) -> None:
        api.fault = fault
        asyncio.get_running_loop().call_later(DEADLINE - 2 * PAUSE, setattr, api, "fault", None)

    _, terms, others = after_ten_seconds(disturb)
    assert (terms, others) == ([[0]], [])


@pytest.mark.parametrize("seconds", [1.0, 3.0, 8.0, 32.0])
def test_while_the_api_server_is_busy_a_leader_asks_seldom_and_stays_leader_if_that_ends_in_time(
    seconds: float,
) -> None:
    calls: list[float] = []

    def disturb(api: LeaseApi) -> None:
        async def called() -> None:
            calls.append(now())
            if now() < 10 + DEADLINE / 2:
                raise ApiError(429, "too many requests", seconds)

        api.called = called  # type: ignore[method-assign]

    _, terms, others = after_ten_seconds(disturb)
    assert (terms, others) == ([[0]], [])
    of_each_replica = DEADLINE / 2 / max(PAUSE, min(seconds, DEADLINE / 4)) + 1
    assert len([when for when in calls if when < 10 + DEADLINE / 2]) <= 2 * of_each_replica


def test_a_leader_steps_down_in_time_if_the_api_server_stays_busy_and_then_asks_as_seldom_as_it_wants() -> None:
    def disturb(api: LeaseApi) -> None:
        api.fault = ApiError(429, "too many requests", 20.0)

    api, (term,), others = after_ten_seconds(disturb)
    renewed = max(when for when, _ in api.writes)
    assert renewed + DEADLINE <= term[1] < renewed + DURATION
    assert not others


def test_a_replica_whose_lease_ended_before_the_answer_came_does_not_lead() -> None:
    async def run() -> None:
        api = LeaseApi()
        api.late = DURATION + 1
        first = Replica(api, "a")
        await asyncio.sleep(100)
        assert not first.terms
        api.late = 0
        await first.leading.wait()
        await first.stop()

    virtual_time.run(run())


def test_no_two_replicas_lead_at_once_while_the_api_fails_repeatedly() -> None:
    async def run() -> None:
        api = LeaseApi()
        replicas = [Replica(api, holder, ahead=ahead) for holder, ahead in (("a", 0.0), ("b", 500.0), ("c", -500.0))]
        for outage in range(60):
            await asyncio.sleep(3 + outage % 7)
            api.fault, api.delay, api.late = [(SERVER_ERROR, 0, 0), (None, 20, 0), (None, 0, 20), (None, 3, 3)][
                outage % 4
            ]
            await asyncio.sleep(5 + outage % 13)
            api.fault, api.delay, api.late = None, 0, 0
            if outage % 10 == 0:
                await asyncio.sleep(60)
                leader = next(one for one in replicas if one.leading.is_set())
                await leader.crash()
                replicas.append(Replica(api, f"again-{outage}"))
        for one in replicas:
            await one.stop()
        terms = sorted(term for one in replicas for term in one.terms)
        assert len(terms) > 6
        assert [(one, next_) for one, next_ in pairwise(terms) if one[1] > next_[0]] == []

    virtual_time.run(run())


def test_a_leader_whose_lease_another_replica_has_acquired_stops_and_does_not_change_the_lease() -> None:
    def disturb(api: LeaseApi) -> None:
        api.store({"metadata": {"name": NAME}, "spec": held_by("thief", leaseDurationSeconds=1000)})

    api, (term,), others = after_ten_seconds(disturb)
    assert term[1] <= 10 + DEADLINE + PAUSE
    assert not others
    assert api.spec["holderIdentity"] == "thief"


def test_a_leader_that_stops_releases_the_lease_and_another_replica_leads_at_its_next_attempt() -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        second = Replica(api, "b")
        await asyncio.sleep(10.5)
        await first.stop()
        assert api.spec["holderIdentity"] == ""
        await second.leading.wait()
        assert now() <= 10.5 + PAUSE
        await second.stop()

    virtual_time.run(run())


@pytest.mark.parametrize("disturb", [fail, hang])
def test_a_leader_stops_soon_even_if_its_lease_cannot_be_released(disturb: Callable[[LeaseApi], None]) -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        disturb(api)
        begin = now()
        await first.stop()
        assert now() - begin <= PAUSE
        assert len(first.terms[0]) == 2

    virtual_time.run(run())


def test_work_that_fails_is_logged_and_another_replica_leads() -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a", fails=5)
        await first.leading.wait()
        second = Replica(api, "b")
        with structlog.testing.capture_logs() as logs:
            await second.leading.wait()
        assert now() <= 5 + 2 * PAUSE
        (failed,) = [line for line in logs if line["log_level"] == "error"]
        assert str(failed["exc_info"]) == "the work has failed"
        assert not first.task.done()
        await first.stop()
        await second.stop()

    virtual_time.run(run())


def test_work_that_always_fails_is_counted_and_tried_with_growing_pauses() -> None:
    async def run() -> tuple[list[list[float]], float]:
        before = failures()
        replica = Replica(LeaseApi(), "a", fails=0)
        await asyncio.sleep(10 * LONGEST_PAUSE)
        await replica.stop()
        return replica.terms, failures() - before

    def failures() -> float:
        return counted("retry_policy_leader_failures_total", lease=NAME)

    terms, count = virtual_time.run(run())
    pauses = [after[0] - began[0] for began, after in pairwise(terms)]
    assert pauses[:6] == [PAUSE, 2 * PAUSE, 4 * PAUSE, 8 * PAUSE, 16 * PAUSE, LONGEST_PAUSE]
    assert set(pauses[5:]) == {LONGEST_PAUSE}
    assert count == len(terms)


def test_work_that_fails_after_a_long_success_is_tried_again_soon() -> None:
    async def run() -> Replica:
        replica = Replica(LeaseApi(), "a", fails=2 * LONGEST_PAUSE)
        await asyncio.sleep(10 * LONGEST_PAUSE)
        await replica.stop()
        return replica

    terms = virtual_time.run(run()).terms
    assert [after[0] - before[1] for before, after in pairwise(terms)] == [PAUSE] * (len(terms) - 1)


def test_a_replica_that_began_to_watch_late_lets_other_replicas_lead_first() -> None:
    async def run() -> None:
        api = LeaseApi()
        first = Replica(api, "a")
        await first.leading.wait()
        late = Replica(api, "late")
        late.lease.since = now
        await asyncio.sleep(20)
        early = Replica(api, "early")
        early.lease.since = lambda: 0.0
        await asyncio.sleep(2 * OVERLAP)
        crashed = now()
        await first.crash()
        await early.leading.wait()
        assert now() <= crashed + DURATION + 2 * PAUSE
        await early.crash()
        crashed = now()
        await late.leading.wait()
        assert crashed + DURATION < now() <= crashed + 2 * (DURATION + PAUSE)
        await late.stop()

    virtual_time.run(run())


def test_a_lease_that_the_api_forbids_is_reported_until_it_is_permitted() -> None:
    async def run() -> list[str]:
        api, reported = LeaseApi(), list[str]()
        api.fault = ApiError(403, "forbidden")
        replica = Replica(api, "a")
        replica.lease.on_forbidden = lambda: reported.append("refused")
        replica.lease.on_permitted = lambda: reported.append("allowed")
        await asyncio.sleep(PAUSE / 2)
        api.fault = None
        await replica.leading.wait()
        await replica.stop()
        return reported

    assert virtual_time.run(run()) == ["refused", "allowed"]
