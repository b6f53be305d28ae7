"""How many bytes the ledger keeps for each pod and workload: numbers of allocated bytes, which are the same each time.

What the cache of Jobs keeps is not in them. The text of an account, at most 4 KiB, is named apart.
"""

import sys
from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest

from tests.costs import kept_bytes_of
from tests.opted_in import opted_in
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import see_account
from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob
from webhook.accounts.counting import CountingPass
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.systems.core import DISRUPTED
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import Trackers

NUMBER: Final = 600  # of Jobs
DECODER: Final = msgspec.json.Decoder(type_of(pods.READ))
SETTINGS: Final = resolve("default", Profile(), {})
INDEXED: Final = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
EXIT: Final = {"exitCode": 137, "reason": "Error", "finishedAt": "2026-11-23T10:30:00Z"}
NO_API: Any = None
uids: Final[Iterator[int]] = count(1)


@pytest.fixture(autouse=True, scope="module")
def grown_buffer() -> None:
    """Grow the buffer that all pods are packed in to the largest of them; it is none of the memory of a pod."""
    trackers_of_jobs().see_pod(read(restarted(0, 12, "💥" * 12_000)))


def stored_pod(number: int, place: int, **status: Any) -> bytes:
    """Return a pod of a Job as the API has it; no two texts of it are the same object."""
    root = {
        "metadata": {
            "name": f"train-model-{number:06}-{place:05}",
            "namespace": f"team-{number % 100:03}",
            "uid": str(UUID(int=next(uids) << 80)),
            "resourceVersion": "123456",
            "creationTimestamp": f"2026-11-23T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            "labels": {"batch.kubernetes.io/job-name": f"train-model-{number:06}", pods.ZONE: f"zone-{place}"},
            "annotations": {names.PLACEMENT: "Spot", names.ATTEMPT: "0", pods.INDEX: str(place)},
            "finalizers": [pods.TRACKING],
            "ownerReferences": [owner(number)],
        },
        "spec": {
            "nodeName": f"node-{number % 5000}",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running", "startTime": "2026-11-23T10:00:00Z", **status},
    }
    return msgspec.json.encode(root)


def owner(number: int) -> Json:
    uid = str(UUID(int=number + 1))
    return {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-model-{number:06}", "uid": uid, "controller": True}


def cached_job(number: int, spec: Json) -> CachedJob:
    reference = owner(number)
    root = job({"parallelism": 2, **spec}, name=reference["name"], uid=reference["uid"])
    root["metadata"]["namespace"] = f"team-{number % 100:03}"
    return root


def trackers_of_jobs(**spec: Any) -> Trackers:
    """Return trackers that know the Jobs, with the pods' watch open."""
    found = Trackers(opted_in(Cluster(NO_API), *(f"team-{number:03}" for number in range(100))))
    found.pods.live = True
    for number in range(NUMBER):
        root = cached_job(number, spec)
        found.cluster.jobs.items[root["metadata"]["namespace"], root["metadata"]["name"]] = root
        found.see_job(root)
    return found


def read(stored: bytes) -> Pod:
    return pods.read(DECODER.decode(stored))


def indexes(pod: bytes, *, indexed: bool) -> bytes:
    return pod if indexed else pod.replace(pods.INDEX.encode(), b"x")


@pytest.mark.parametrize("indexed", [False, True], ids=["", "Indexed"])
@pytest.mark.parametrize("most", [1, 2], ids=["one pod", "one and a half pods"])
def test_a_running_pod_costs_at_most_750_bytes(most: int, *, indexed: bool) -> None:
    found = trackers_of_jobs(**(INDEXED if indexed else {}))
    places = [(number, place) for number in range(NUMBER) for place in range(number % most + 1)]
    stored = [indexes(stored_pod(number, place), indexed=indexed) for number, place in places]

    def work() -> None:
        for one in stored:
            found.see_pod(read(one))

    assert kept_bytes_of(work) / len(stored) <= 750
    assert len(found.running.packed) == len(stored)
    assert found.states == {}


def test_a_job_that_runs_costs_nothing_beside_its_cached_record() -> None:
    found = trackers_of_jobs()
    roots = list(found.cluster.jobs.items.values())

    def work() -> None:
        for root in roots:
            found.see_job(root)

    assert kept_bytes_of(work) / NUMBER <= 1


def test_pods_that_succeeded_leave_nothing() -> None:
    found = trackers_of_jobs()
    stored = [(stored_pod(number, 0), number) for number in range(NUMBER)]

    def work() -> None:
        for one, _ in stored:
            found.see_pod(read(one))
        for one, _ in stored:
            found.see_pod(read(one.replace(b'"Running"', b'"Succeeded"')))

    assert kept_bytes_of(work) / NUMBER <= 200  # the room that dicts and the set of a zone keep
    assert found.running.packed == {}


def failed(number: int) -> bytes:
    """Return a pod of a Job that has failed after a disruption."""
    disrupted = {"type": DISRUPTED, "status": "True", "reason": "EvictionByEvictionAPI"}
    state = {"name": "main", "state": {"terminated": EXIT}}
    return stored_pod(
        number,
        0,
        phase="Failed",
        conditions=[{**disrupted, "lastTransitionTime": "2026-11-23T10:30:00Z"}],
        containerStatuses=[state],
    )


def restarted(number: int, containers: int, message: str) -> bytes:
    """Return a pod of a Job that has failed after one restart in place, each with this message of each container."""
    ends = [
        {"name": f"c{one}", "state": {"terminated": {**EXIT, "message": message}}, "restartCount": 1}
        for one in range(containers)
    ]
    lasts = [{**one, "lastState": one["state"]} for one in ends]
    return stored_pod(number, 0, phase="Failed", containerStatuses=lasts)


def count_all(found: Trackers, stored: list[bytes]) -> None:
    """Let pods fail, and the leader's account of each of their Jobs arrive."""
    for one in stored:
        found.see_pod(read(one))
    for key in list(found.states):
        root = found.root_of(key)
        assert root is not None
        text = counted(found, key, root)
        see_account(found, batch.JOB, root, text)


def counted(found: Trackers, key: Key, root: Json) -> str:
    """Return the account of a workload with its failed pods."""
    tracker = found.states[key].tracker
    counting = CountingPass(key, root, None, tracker, Account(), lambda _: SETTINGS)
    counting.count(tracker.uncounted(counting.account))
    return encode(counting.account)


def texts_of(found: Trackers) -> int:
    """Return the bytes of the texts of all accounts, and of the Accounts that have them."""
    packed = (piece for of in found.stored.items.namespaces.values() for one in of.values() for piece in one)
    return sum(sys.getsizeof(state.text) for state in found.states.values()) + sum(map(sys.getsizeof, packed))


def test_a_failed_pod_that_exists_costs_at_most_3400_bytes_with_its_workload_beside_the_account() -> None:
    found = trackers_of_jobs()
    stored = [failed(number) for number in range(NUMBER)]
    assert (kept_bytes_of(lambda: count_all(found, stored)) - texts_of(found)) / NUMBER <= 3400
    assert all(state.tracker.failed is not None for state in found.states.values())


def test_a_workload_with_a_counted_failure_costs_at_most_2400_bytes_beside_the_account() -> None:
    found = trackers_of_jobs()
    stored = [failed(number) for number in range(NUMBER)]

    def work() -> None:
        count_all(found, stored)
        for one in stored:
            found.see_pod_gone(read(one))

    assert (kept_bytes_of(work) - texts_of(found)) / NUMBER <= 2400
    assert len(found.states) == NUMBER
    assert all(state.tracker.failed is None for state in found.states.values())
    assert all(decode(state.text).ended == 1 for state in found.states.values())


@pytest.mark.parametrize("text", ["m" * 12_000, "é" * 12_000, "💥" * 12_000], ids=["ascii", "two bytes", "four bytes"])
@pytest.mark.parametrize("containers", [1, 12])
def test_the_messages_of_an_ended_pod_cost_at_most_1400_bytes(text: str, containers: int) -> None:
    """A status of users may have 1 KiB of each of its containers, or more: with 50,000 pods that were 618 MiB."""

    def grown(message: str) -> float:
        found = trackers_of_jobs()
        stored = [restarted(number, containers, message) for number in range(60)]

        def work() -> None:
            for one in stored:
                found.see_pod(read(one))

        return kept_bytes_of(work) / len(stored)

    assert grown(text) - grown("") <= 1_400  # 256 are those of its last restart in place
