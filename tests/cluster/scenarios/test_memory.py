"""Containers that are killed because they use more memory than their limit, and get more in the next pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import with_operators
from tests.cluster.objects import condition, exit_codes, is_running, restarts
from tests.cluster.scenarios.conftest import MANIFESTS, program
from tests.cluster.scenarios.test_jobs import failed_for, index, is_complete
from tests.cluster.scenarios.test_kueue import with_a_queue
from tests.documents import document_of
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene


def limit(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["limits"]["memory"])


def request(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["memory"])


def note(pod: Object) -> str:
    return str(pod["metadata"]["annotations"].get(names.MEMORY, ""))


def create_bound(here: Scene, file: str) -> None:
    """Create a LimitRange or a ResourceQuota; wait until the quota is in force."""
    bound = here.team.create(document_of((MANIFESTS / file).read_text()))
    if bound["kind"] == "ResourceQuota":
        here.team.wait_for("resourcequotas", "team", lambda found: found["status"].get("hard"))


def attempts(here: Scene, name: str, number: int) -> list[Object]:
    """Return the pods of a Job once it has had this many."""
    return here.team.pods_of(name, lambda pods: len(pods) >= number)


def forbidden(here: Scene) -> list[str]:
    """Return why a ResourceQuota or a LimitRange has forbidden pods."""
    failed = [one["message"] for one in here.team.get("events")["items"] if one["reason"] == "FailedCreate"]
    return [message for message in failed if "is forbidden" in message]


def running(pods: list[Object]) -> Iterator[Object]:
    return filter(is_running, pods)


@pytest.mark.first
def test_a_job_that_needs_four_times_its_memory_succeeds_after_two_kills(scene: NewScene) -> None:
    here = scene("memory")
    here.create("out-of-memory.yaml", program(0, 0, 0, needs="4Gi"))
    here.team.wait_for("jobs", "train", is_complete)
    pods = attempts(here, "train", 3)
    assert [exit_codes(pod)["main"] for pod in pods] == [137, 137, 0]
    assert [limit(pod) for pod in pods] == ["1Gi", "2Gi", "4Gi"]
    assert [request(pod) for pod in pods] == ["512Mi", "1Gi", "2Gi"]
    assert note(pods[2]) == "main: 4Gi instead of 1Gi (killed 2 times)"


@pytest.mark.first
def test_at_the_limit_of_its_author_a_container_stays_there(scene: NewScene) -> None:
    here = scene("memory")
    here.create("out-of-memory-with-a-limit.yaml", program(0, 0, 0, needs="64Gi"))
    failed = here.team.wait_for("jobs", "train", failed_for)
    assert failed_for(failed) == "BackoffLimitExceeded"
    pods = attempts(here, "train", 3)
    assert [limit(pod) for pod in pods] == ["1Gi", "2Gi", "2Gi"]
    assert note(pods[2]) == "main: 2Gi instead of 1Gi (killed 2 times, held by its author's limit 2Gi)"


@pytest.mark.first
def test_a_container_gets_what_is_left_of_a_resource_quota(scene: NewScene) -> None:
    here = scene("memory")
    create_bound(here, "memory-quota.yaml")
    here.create("out-of-memory.yaml", program(0, 0, 0, needs="3Gi"))
    here.team.wait_for("jobs", "train", is_complete)
    pods = attempts(here, "train", 3)
    assert [limit(pod) for pod in pods] == ["1Gi", "2Gi", "3Gi"]
    assert note(pods[2]) == "main: 3Gi instead of 1Gi (killed 2 times, held by ResourceQuota team)"
    assert forbidden(here) == []


@pytest.mark.first
def test_a_container_gets_no_more_than_a_limit_range_allows(scene: NewScene) -> None:
    here = scene("memory")
    create_bound(here, "memory-bounds.yaml")
    here.create("out-of-memory.yaml", program(0, 0, 0, needs="3Gi"))
    pods = attempts(here, "train", 3)
    assert [limit(pod) for pod in pods] == ["1Gi", "2Gi", "2Gi"]
    assert note(pods[2]) == "main: 2Gi instead of 1Gi (killed 2 times, held by LimitRange small-containers)"
    assert forbidden(here) == []


def test_a_container_gets_no_more_than_the_largest_node_has(scene: NewScene) -> None:
    here = scene("memory-unlimited")
    here.create("out-of-memory-large.yaml", program(0, 0, needs="254Gi"))
    here.team.wait_for("jobs", "train", is_complete)  # the second pod has found a node
    pods = attempts(here, "train", 2)
    assert [limit(pod) for pod in pods] == ["200Gi", "254Gi"]
    assert note(pods[1]) == "main: 254Gi instead of 200Gi (killed 1 time, held by the largest node)"


@pytest.mark.first
def test_of_an_indexed_job_only_the_index_that_was_killed_gets_more(scene: NewScene) -> None:
    here = scene("memory")
    here.create("out-of-memory-indexes.yaml", program(needs="1Gi,2Gi,1Gi"))
    pods = here.team.pods_of("shards", lambda pods: len([*running(pods)]) == 3 and len(pods) == 4)
    first = next(pod for pod in running(pods) if index(pod) == "0")
    here.team.evict(first["metadata"]["name"])
    now = here.team.running("shards", 3, but=first)
    assert {index(pod): limit(pod) for pod in now} == {"0": "1Gi", "1": "2Gi", "2": "1Gi"}
    assert {index(pod): note(pod) for pod in now} == {
        "0": "",
        "1": "main: 2Gi instead of 1Gi (killed 1 time)",
        "2": "",
    }


@with_operators
def test_of_a_job_set_only_the_pod_that_was_killed_gets_more(scene: NewScene) -> None:
    here = scene("memory")
    here.create("out-of-memory-set.yaml", program(needs="1Gi,2Gi"))
    pods = here.team.pods_of_set("llm", 1, 2)
    assert {index(pod): limit(pod) for pod in pods} == {"0": "1Gi", "1": "2Gi"}
    assert restarts(here.team.get("jobset", "llm")) == (1, 1)


@with_operators
@pytest.mark.kueue
def test_a_job_in_a_queue_of_kueue_stays_within_what_kueue_has_admitted(scene: NewScene) -> None:
    here = with_a_queue(scene, "memory")
    here.create("queued-out-of-memory.yaml", program(0, 0, needs="2Gi"))
    failed = here.team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert failed_for(failed) == "BackoffLimitExceeded"
    pods = attempts(here, "train", 2)
    assert [limit(pod) for pod in pods] == ["1Gi", "1Gi"]
    assert note(pods[1]) == "main: stays at 1Gi (killed 1 time, held by the quota of its Kueue queue)"
