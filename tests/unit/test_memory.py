"""The memory of what is cached, by tracemalloc: bytes for each more object, the same on every machine and run."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.costs import kept_bytes_of
from tests.opted_in import opted_in
from webhook.kube import names, packed
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.tracking.cluster import Cluster

JOBS = 5000
NAMESPACES = 50
MOST_OF_JOB = 400  # bytes; the goal is 500
HISTORY = msgspec.json.encode([{"at": "2026-01-01T00:00:00Z", "of": "0"}] * 3).decode()
POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [137, 143]}},
    ]
}


def running_job(number: int, **annotations: str) -> Json:
    """Return a running Job as the API server sends it, after admission."""
    return {
        "metadata": {
            "namespace": f"team-{number % NAMESPACES:03d}",
            "name": f"train-recommender-{number:06d}",
            "uid": str(UUID(int=2**127 + number * 7919)),
            "resourceVersion": str(10_000_000 + number),
            "creationTimestamp": f"2026-11-23T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "labels": {names.PROFILE: "default", "app": "train"},
            "annotations": {names.POLICY: '{"limit": 3}', **annotations},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:template": {}}}}],
        },
        "spec": {
            "backoffLimit": 3,
            "completions": 2,
            "parallelism": 2,
            "suspend": False,
            "completionMode": "NonIndexed",
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": POLICY,
            "template": {"spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]}},
        },
        "status": {"active": 2, "ready": 2, "startTime": "2026-11-23T10:00:00Z"},
    }


def bytes_of_each(**annotations: str) -> float:
    """Return the bytes that the informer of Jobs holds for each of JOBS running Jobs with these annotations."""
    no_api: Any = None
    jobs = opted_in(Cluster(no_api), *(f"team-{number:03d}" for number in range(NAMESPACES))).jobs
    events = [
        Event("ADDED", msgspec.Raw(msgspec.json.encode(running_job(number, **annotations)))) for number in range(JOBS)
    ]
    for event in events[:NAMESPACES]:  # a first name may let the table of all interned strings grow, which is no Job's
        jobs.take(event)

    def work() -> None:
        for kind in ("ADDED", "MODIFIED"):  # a change must not leave parts of the former state behind
            for event in events:
                jobs.take(msgspec.structs.replace(event, type=kind))

    kept = kept_bytes_of(work)
    assert len(jobs.items) == JOBS
    return kept / (JOBS - NAMESPACES)


def test_a_running_job_is_cached_in_few_bytes() -> None:
    assert bytes_of_each() <= MOST_OF_JOB


def test_a_hundred_thousand_distinct_specs_do_not_grow_what_jobs_share_without_bound() -> None:
    for number in range(100_000):
        packed.shared(b'{"completions":%d}' % number)
    assert packed.same.cache_info().currsize == packed.SHARED
    before = packed.same.cache_info()
    packed.shared(b"x" * (packed.MOST_SHARED + 1))
    assert packed.same.cache_info() == before  # a large one is not shared at all


@pytest.mark.parametrize("annotations", [{}, {names.RETRY_HISTORY: HISTORY}])
def test_a_job_is_read_as_it_was_stored(annotations: dict[str, str]) -> None:
    no_api: Any = None
    jobs = opted_in(Cluster(no_api), *(f"team-{number:03d}" for number in range(NAMESPACES))).jobs
    read = jobs.read(msgspec.Raw(msgspec.json.encode(running_job(1, **annotations))))
    assert read is not None
    key, kept = read
    jobs.items[key] = kept
    assert jobs.get(*key) == kept


def test_a_reader_that_changes_a_cached_job_changes_it_for_no_other_reader() -> None:
    no_api: Any = None
    jobs = opted_in(Cluster(no_api), *(f"team-{number:03d}" for number in range(NAMESPACES))).jobs
    for number in range(2 * NAMESPACES):
        jobs.take(Event("ADDED", msgspec.Raw(msgspec.json.encode(running_job(number)))))
    found = jobs.get("team-001", "train-recommender-000001")
    assert found is not None
    found["spec"]["podFailurePolicy"]["rules"].clear()
    found["metadata"]["labels"].clear()
    for number in (1, 1 + NAMESPACES):
        other = jobs.get("team-001", f"train-recommender-{number:06d}")
        assert other is not None
        assert other["spec"]["podFailurePolicy"] == POLICY
        assert other["metadata"]["labels"] == {names.PROFILE: "default"}
