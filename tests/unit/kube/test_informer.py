"""Watched lists: the cost of reading an object with any content, and the fields that are kept."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costs import assert_affordable, bytes_of
from tests.opted_in import opted_in
from webhook.kube import client, names, tasks
from webhook.kube.client import Api, ApiError, ListMeta, Page, TooLargeError
from webhook.kube.informer import Event, Informer
from webhook.objects.problem import Json
from webhook.systems import retry_history
from webhook.systems.argo import spec as argo
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import Trackers

NO_API: Any = None
CLUSTER = opted_in(Cluster(NO_API))
JOBS, JOB_SETS, PODS = CLUSTER.jobs, CLUSTER.job_sets, Trackers(CLUSTER).pods
WORKFLOWS = Trackers(CLUSTER).roots[argo.WORKFLOW]
STORED = 3 * 1024 * 1024  # bytes of JSON of the largest object
METADATA = {"namespace": "ml", "name": "train", "uid": "u", "resourceVersion": "7"}
CONDITION = {"type": "Failed", "status": "True", "reason": "R", "message": "m" * 40, "lastTransitionTime": "t"}
TERMINATED = {"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}


def job_with(**fields: Any) -> Json:
    found = {"metadata": {**METADATA, **fields.pop("metadata", {})}, "spec": fields.pop("spec", {})}
    return {**found, "status": fields}


# By the part that grows: the list, an object with that part, and the bytes of JSON for one more entry.
LARGE: dict[str, tuple[Informer[Any], Callable[[int], Json], int]] = {
    "variables of a Job": (
        JOBS,
        lambda n: job_with(
            spec={"template": {"spec": {"containers": [{"env": [{"name": f"V{one}"} for one in range(n)]}]}}}
        ),
        16,
    ),
    "conditions of a Job": (JOBS, lambda n: job_with(conditions=[CONDITION] * n), 130),
    "pods that end with a Job": (
        JOBS,
        lambda n: job_with(uncountedTerminatedPods={"failed": [str(one) for one in range(n)]}),
        9,
    ),
    "owners of a Job": (
        JOBS,
        lambda n: job_with(metadata={"ownerReferences": [{"kind": "X", "name": "x", "controller": False}] * n}),
        45,
    ),
    "annotations of a Job": (JOBS, lambda n: job_with(metadata={"annotations": {names.SKIP: "x" * n}}), 1),
    "rules of a JobSet": (
        JOB_SETS,
        lambda n: job_with(spec={"failurePolicy": {"rules": [{"action": "FailJobSet"}] * n}}),
        25,
    ),
    "patterns of a JobSet": (
        JOB_SETS,
        lambda n: job_with(spec={"failurePolicy": {"rules": [{"onJobFailureMessagePatterns": ["(a+)+!"] * n}]}}),
        9,
    ),
    "annotations of a Workflow": (WORKFLOWS, lambda n: job_with(metadata={"annotations": {names.SKIP: "x" * n}}), 1),
    "labels of a Workflow": (
        WORKFLOWS,
        lambda n: job_with(metadata={"labels": {f"{number}": "" for number in range(n)}}),
        12,
    ),
    "conditions of a pod": (PODS, lambda n: job_with(phase="Failed", conditions=[CONDITION] * n), 130),
    "containers of a pod": (PODS, lambda n: job_with(phase="Failed", containerStatuses=[TERMINATED] * n), 75),
    "finalizers of a pod": (PODS, lambda n: job_with(metadata={"finalizers": ["a/b"] * n}), 6),
}


@pytest.mark.parametrize("grows", LARGE)
def test_the_largest_object_is_read_at_low_cost_and_little_of_it_is_kept(grows: str) -> None:
    watched, made, each = LARGE[grows]
    raw = msgspec.Raw(msgspec.json.encode(made(STORED // each)))
    read: list[Any] = []
    assert_affordable(lambda: read.append(watched.read(raw)), lines=73_500)
    assert read[0] is not None
    assert len(msgspec.json.encode(read[0][1], enc_hook=repr)) <= 16 * 1024  # a kind is one object for all


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
HOSTILE = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries(dict.fromkeys(("namespace", "name"), st.text()))},
    optional={
        "spec": st.dictionaries(st.sampled_from(["backoffLimit", "podFailurePolicy", "failurePolicy"]), ANY_JSON),
        "status": st.dictionaries(st.sampled_from(["conditions", "failed", "phase", "containerStatuses"]), ANY_JSON),
    },
)


class Taken:
    """An observer that takes the objects of lists."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.listed = self.seen = self.deleted = self.items.append

    def begin_list(self) -> None:
        """Do nothing."""

    async def end_list(self) -> None:
        """Do nothing."""

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Do nothing."""


@settings(max_examples=25)
@given(HOSTILE, st.sampled_from([JOBS, JOB_SETS, PODS]))
def test_a_malformed_object_does_not_keep_other_objects_from_being_read(hostile: Json, watched: Informer[Any]) -> None:
    async def pages(*_: object) -> Any:
        items = [msgspec.Raw(msgspec.json.encode(one)) for one in (hostile, job_with())]
        yield Page(client.ListMeta(version="9"), items)

    opted_in(CLUSTER, "ml", hostile["metadata"]["namespace"])
    watched.api = type("Listing", (), {"pages": staticmethod(pages)})()
    taken = Taken()
    observers, watched.observers = watched.observers, [taken]
    assert asyncio.run(watched.list()) == "9"
    watched.observers = observers
    sound = watched.read(msgspec.Raw(msgspec.json.encode(job_with())))
    assert sound is not None
    assert sound[1] in taken.items
    assert ("ml", "train") in watched.items or not watched.stored


def test_of_a_cached_retry_history_only_what_others_read_is_kept() -> None:
    entries = [{"at": "2026-01-01T00:00:00Z", "by": "x" * 5000, "of": str(number)} for number in range(3)]
    text = msgspec.json.encode(entries).decode()
    read = JOBS.read(msgspec.Raw(msgspec.json.encode(job_with(metadata={"annotations": {names.RETRY_HISTORY: text}}))))
    assert read is not None
    kept = retry_history.read(read[1]["metadata"]["annotations"][names.RETRY_HISTORY])
    assert [one.of for one in kept] == ["0", "1", "2"]
    assert len(read[1]["metadata"]["annotations"][names.RETRY_HISTORY]) < 200


def test_failures_that_the_job_controller_has_not_counted_yet_are_kept_as_failures() -> None:
    read = JOBS.read(msgspec.Raw(msgspec.json.encode(job_with(failed=2, uncountedTerminatedPods={"failed": ["a"]}))))
    assert read is not None
    assert read[1]["status"] == {"failed": 3}


def test_the_terminal_conditions_of_a_job_are_kept_in_order_one_of_each_type() -> None:
    others = [{**CONDITION, "type": "Suspended"}, {**CONDITION, "status": "False"}]
    ends = [{**CONDITION, "type": kind, "message": kind * 1000} for kind in ("FailureTarget", "Failed")]
    read = JOBS.read(msgspec.Raw(msgspec.json.encode(job_with(conditions=[*others, *ends, *ends]))))
    assert read is not None
    kept = read[1]["status"]["conditions"]
    assert [one["type"] for one in kept] == ["FailureTarget", "Failed"]
    assert all(len(one["message"]) == 1024 for one in kept)


def test_a_failure_policy_that_many_jobs_share_is_kept_once_unless_it_is_large() -> None:
    def policy_of(values: int) -> Json:
        rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(values))}}]
        raw = msgspec.json.encode(job_with(spec={"podFailurePolicy": {"rules": rules}}))
        read = JOBS.read(msgspec.Raw(raw))
        assert read is not None
        found: Json = read[1]["spec"]["podFailurePolicy"]
        assert found["rules"] == rules
        return found

    assert policy_of(3) is policy_of(3)
    assert policy_of(2000) is not policy_of(2000)


class Listing(Api):
    """An API server with objects of given sizes, which it lists without Content-Length."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.most = 0.0  # bytes of the largest page that was read
        self.requests = 0

    async def body(self, path: str, query: dict[str, str], accept: str, most: float = 0, **_: object) -> bytearray:
        del path, accept
        self.requests += 1
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        chosen = self.sizes[start : start + limit]
        if sum(chosen) > most:
            raise TooLargeError
        self.most = max(self.most, sum(chosen))
        following = str(start + limit) if start + limit < len(self.sizes) else ""
        metadata = {"resourceVersion": "1", "continue": following}
        items = [{"number": start + place} for place in range(len(chosen))]
        return bytearray(msgspec.json.encode({"metadata": metadata, "items": items}))


@given(st.lists(st.sampled_from([1000, 100_000, 2_300_000, 9_000_000]), max_size=300))
def test_a_list_is_read_completely_in_pages_of_limited_size(sizes: list[int]) -> None:
    listing = Listing(sizes)

    async def run() -> list[int]:
        return [one["number"] async for one in listing.objects("/x", {})]

    assert asyncio.run(run()) == list(range(len(sizes)))
    assert listing.most <= max(client.LARGEST_PAGE, 9_000_000)
    assert listing.requests <= 4 * len(sizes) + 1


def test_many_small_objects_are_read_in_few_pages() -> None:
    listing = Listing([2000] * 10_000)

    async def run() -> int:
        return len([one async for one in listing.objects("/x", {})])

    assert asyncio.run(run()) == 10_000
    assert listing.requests == 10_000 // client.PAGE


def test_thirty_large_jobs_need_little_more_memory_than_a_page() -> None:
    _, made, _ = LARGE["variables of a Job"]
    large = msgspec.json.encode(made(140_000))
    assert len(large) > 2_000_000

    async def pages(*_: object) -> Any:
        for number in range(10):
            body = bytearray(b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % b",".join([large] * 3))
            yield msgspec.json.decode(body.replace(b'"train"', b'"train-%d"' % number), type=Page)

    JOBS.api = type("Listing", (), {"pages": staticmethod(pages)})()
    observers, JOBS.observers = JOBS.observers, []
    assert bytes_of(lambda: asyncio.run(JOBS.list())) <= 64 * 1024 * 1024
    assert len(JOBS.items) == 10
    JOBS.observers = observers


def test_the_version_of_an_event_is_read_even_if_its_object_cannot_be() -> None:
    read = JOBS.read(msgspec.Raw(msgspec.json.encode(job_with())))
    assert read is not None
    JOBS.items["ml", "train"] = read[1]
    hostile = job_with(conditions=3)
    assert JOBS.take(Event("MODIFIED", msgspec.Raw(msgspec.json.encode(hostile)))) == "7"
    assert ("ml", "train") not in JOBS.items  # a look-up asks the API for it
    bookmark = {"kind": "Job", "metadata": {"resourceVersion": "8"}}
    assert JOBS.take(Event("BOOKMARK", msgspec.Raw(msgspec.json.encode(bookmark)))) == "8"
    with pytest.raises(ApiError, match="410 too old"):
        JOBS.take(Event("ERROR", msgspec.Raw(b'{"code": 410, "message": "too old"}')))


def served_during(work: Coroutine[Any, Any, object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often another task runs during this work, if each item of a loop in slices takes a millisecond."""
    now = iter(range(1_000_000))
    monkeypatch.setattr("webhook.kube.tasks.time.monotonic", lambda: next(now) * 0.001)
    served = 0

    async def serve() -> None:
        nonlocal served
        while True:
            served += 1
            await asyncio.sleep(0)

    async def run() -> None:
        serving = asyncio.create_task(serve())
        await work
        serving.cancel()

    asyncio.run(run())
    return served


def test_other_tasks_run_while_a_long_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        assert len([one async for one in tasks.in_slices(range(1000))]) == 1000

    assert served_during(work(), monkeypatch) >= 1000 * 0.001 / tasks.SLICE - 3


def test_other_tasks_run_while_many_deleted_objects_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pages(*_: object) -> AsyncIterator[Page]:
        yield Page(ListMeta("1"))

    api: Any = type("Listing", (), {"pages": staticmethod(no_pages)})()
    jobs = Informer[Any](api, "/jobs", dict, query={})
    jobs.items.update({("ml", str(number)): {} for number in range(1000)})
    assert served_during(jobs.list(), monkeypatch) >= 1000 * 0.001 / tasks.SLICE - 3
    assert not jobs.items
