"""The failures in the status of a RayJob, for the pods of its cluster and of its submitter."""

from functools import partial
from typing import Any

import pytest

from tests.objects import job_spec, stored_job
from tests.unit.systems.pods import (
    NO_NUMBERS,
    UNTOUCHED,
    last_of_four_off_spot,
    made,
    none_on_spot,
    off_spot,
    on_spot,
    owned,
    place,
    read,
    with_value,
)
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.systems.pod_source import Level
from webhook.systems.ray import pods as ray

ask = partial(read, of=ray.levels)

CLUSTER = "train-abcde"
OF_RAY_JOB = owned("ray.io/v1", "RayJob", "train")


def head(**metadata: Any) -> Json:
    """Return a head pod as KubeRay writes it: without the attempt and without the RayJob."""
    return node("head", "headgroup", **metadata)


def worker(**metadata: Any) -> Json:
    return node("worker", "small", **metadata)


def node(node_type: str, group: str, **metadata: Any) -> Json:
    own = {"cluster": CLUSTER, "node-type": node_type, "group": group, "is-ray-node": "yes"}
    labels = {f"ray.io/{key}": value for key, value in own.items()}
    return made(
        owned("ray.io/v1", "RayCluster", CLUSTER), generateName=f"{CLUSTER}-{group}-", labels=labels, **metadata
    )


def submitter() -> Json:
    labels = {"batch.kubernetes.io/job-name": "train"}
    return made(owned("batch/v1", "Job", "train"), generateName="train-", labels=labels)


def cluster(*owners: Json) -> Json:
    return {"kind": "RayCluster", "metadata": {"name": CLUSTER, "ownerReferences": list(owners)}, "spec": {}}


def ray_job(failed: int | None = 0, backoff_limit: int | None = 3) -> Json:
    spec = {} if backoff_limit is None else {"backoffLimit": backoff_limit}
    status = {} if failed is None else {"failed": failed, "rayClusterName": CLUSTER, "succeeded": 0}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": spec, "status": status}


@pytest.mark.parametrize("root", [head(), worker()], ids=["head", "worker"])
def test_the_last_of_a_ray_jobs_four_attempts_leaves_spot(root: Json) -> None:
    placed = [place(root, cluster(OF_RAY_JOB), ray_job(failed)) for failed in range(4)]
    assert placed == last_of_four_off_spot("RayJob")


def test_a_cluster_of_the_previous_api_version_leaves_spot_at_the_last_attempt_too() -> None:
    root = head()
    root["metadata"]["ownerReferences"][0]["apiVersion"] = "ray.io/v1alpha1"
    assert place(root, cluster(OF_RAY_JOB), ray_job(2)) == on_spot("RayJob", 2, 3)


@pytest.mark.parametrize("backoff_limit", [None, 0])
def test_a_ray_job_without_a_backoff_limit_has_no_retries(backoff_limit: int | None) -> None:
    placed = [place(head(), cluster(OF_RAY_JOB), ray_job(failed, backoff_limit)) for failed in range(4)]
    assert placed == none_on_spot("RayJob")


def test_a_ray_job_that_has_no_status_yet_is_at_its_first_attempt() -> None:
    assert place(head(), cluster(OF_RAY_JOB), ray_job(None)) == on_spot("RayJob", 0, 3)


@pytest.mark.parametrize("owners", [[], [owned("ray.io/v1", "RayService", "serve")]], ids=["nobody", "RayService"])
def test_the_pods_of_a_cluster_without_a_ray_job_are_unchanged(owners: list[Json]) -> None:
    """Such a cluster serves until a user deletes it."""
    assert place(head(), cluster(*owners)) == UNTOUCHED
    assert place(worker(), cluster(*owners)) == UNTOUCHED


def test_the_pods_of_a_cluster_that_does_not_exist_are_unchanged() -> None:
    assert place(head()) == UNTOUCHED


def test_a_pod_of_a_cluster_without_a_ray_job_is_placed_if_it_is_annotated() -> None:
    assert place(worker(annotations={names.INTERRUPTIBLE: "true"}), cluster()) == on_spot("Unknown", 0, 3)
    assert place(worker(annotations={names.ATTEMPT: "3"}), cluster()) == off_spot("Annotation", 3, 3)


def test_a_submitter_has_a_level_of_its_job_and_one_of_the_ray_job() -> None:
    job = stored_job(job_spec(backoffLimit=2), {"failed": 1}, ownerReferences=[OF_RAY_JOB])
    assert read(submitter(), job, ray_job(2)) == ([Level("JobStatus", 1, 2), Level("RayJob", 2, 3)], [])


def test_a_submitter_is_placed_on_demand_with_its_cluster_or_at_its_own_last_retry() -> None:
    fresh, last = (
        stored_job(job_spec(backoffLimit=2), {"failed": failed}, ownerReferences=[OF_RAY_JOB]) for failed in (0, 2)
    )
    assert [place(submitter(), fresh, ray_job(failed)) for failed in range(4)] == [
        on_spot("JobStatus", 0, 2),
        on_spot("RayJob", 1, 3),
        on_spot("RayJob", 2, 3),
        off_spot("RayJob", 3, 3),
    ]
    assert place(submitter(), last, ray_job(0)) == off_spot("JobStatus", 2, 2)


def test_volcanos_labels_on_a_ray_pod_are_not_volcanos_attempt() -> None:
    root = head(annotations={"volcano.sh/task-spec": "headgroup", "volcano.sh/job-retry-count": "3"})
    assert place(root, cluster(OF_RAY_JOB), ray_job(1)) == on_spot("RayJob", 1, 3)


@pytest.mark.parametrize("nonsense", [*NO_NUMBERS, "3.5"])
@pytest.mark.parametrize("path", [("status",), ("status", "failed"), ("spec",), ("spec", "backoffLimit")])
def test_malformed_fields_of_the_ray_job_are_not_an_error_and_a_first_worker_stays_on_spot(
    path: tuple[str, ...], nonsense: Any
) -> None:
    placed = place(worker(), cluster(OF_RAY_JOB), with_value(ray_job(0), path, nonsense))
    assert (placed.placement, placed.attempt) == ("Spot", "0")


def test_a_cluster_and_its_pods_have_no_failures_of_their_own() -> None:
    assert ask(worker(), {**cluster(), "kind": "RayCluster", "status": {"failed": 2}}) == ([], [])


@pytest.mark.parametrize("kind", [None, 5, "JobSet", ["RayJob"]])
def test_an_object_that_is_not_a_ray_job_gives_no_level(kind: object) -> None:
    assert ask(head(), cluster(), {**ray_job(2), "kind": kind}) == ([], [])
