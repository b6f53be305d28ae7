"""The attempt of a pod with several sources, or with none."""

import pytest

from tests.objects import job_spec, pod, stored_job
from tests.unit.systems.pods import UNTOUCHED, made, on_spot, owned, place, read
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.systems.pod_source import Level, PodSource, number_at
from webhook.systems.pods import SOURCES

# The signal of each system on its own pods.
SIGNS: Json = {
    "labels": {"jobset.sigs.k8s.io/restart-attempt": "2", "attempt": "2", "ray.io/cluster": "train"},
    "annotations": {
        "batch.kubernetes.io/job-index-failure-count": "2",
        "workflows.argoproj.io/node-name": "w(2)",
        "volcano.sh/job-retry-count": "2",
    },
}
EVERY_SOURCE = [source for of in SOURCES.values() for source in of]


def test_a_pod_whose_controller_does_not_exist_has_no_level() -> None:
    assert read(pod(), None) == ([], [])


def test_the_budget_is_the_owners_or_else_max_retries_or_else_the_default() -> None:
    annotated = pod(annotations={names.ATTEMPT: "1"}, owner=None)
    own = resolve("default", Profile(), {names.MAX_RETRIES: "8"})
    ours = pod(annotations={names.ATTEMPT: "1"})
    assert read(ours, stored_job(job_spec(backoffLimit=5)), settings=own)[0][0].budget == 5
    assert read(annotated, None, settings=own)[0][0].budget == 8
    assert read(annotated, None)[0][0].budget == 3


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),  # such as Tekton's affinity assistant
        ("v1", "Pod"),
        ("v1", "ReplicationController"),
        ("example.test/v1", "Job"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("ray.io/v1", "RayService"),
        ("sparkoperator.k8s.io/v1alpha1", "SparkConnect"),
        ("tekton.dev/v1", "PipelineRun"),
    ],
)
def test_a_pod_whose_owner_is_not_a_known_kind_is_unchanged_with_any_signal(api_version: str, kind: str) -> None:
    assert place(made(owned(api_version, kind, "w"), name="w-pod-retry2", **SIGNS)) == UNTOUCHED


def test_a_pod_without_a_controller_is_unchanged_with_any_signal() -> None:
    assert place(made(name="w-pod-retry2", **SIGNS)) == UNTOUCHED


def test_an_mpi_job_has_no_signal_so_that_a_pod_counts_as_a_first_attempt() -> None:
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-index": "2"}
    worker = made(owned("kubeflow.org/v1", "MPIJob", "train"), name="train-worker-2", labels=labels)
    owner = {"kind": "MPIJob", "spec": {"runPolicy": {"backoffLimit": 7}}, "status": {"replicaStatuses": {}}}
    assert read(worker, owner) == ([], [])
    assert place(worker, owner) == on_spot("Unknown", 0, 3)


def test_signals_of_other_systems_give_a_job_no_level() -> None:
    assert read(pod(labels={"attempt": "2"}, annotations={"volcano.sh/job-retry-count": "2"}), stored_job())[0] == [
        Level("JobStatus", 0, 6)
    ]


def test_a_pod_that_cannot_run_on_spot_also_gets_the_annotation_of_its_attempt() -> None:
    refuses = pod({"nodeSelector": {"eks.amazonaws.com/capacityType": "ON_DEMAND"}})
    found = place(refuses, stored_job(job_spec(backoffLimit=3), {"failed": 1}))
    assert (found.placement, found.attempt, found.source, found.required) == ("None", "1", "JobStatus", ())


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (7, 7),
        (10**30, 10**30),
        ("7", 7),
        (None, None),
        (True, None),
        (-1, None),
        ("-1", None),
        (1.5, None),
        ([], None),
    ],
)
def test_a_number_is_a_whole_number_or_none(value: object, number: int | None) -> None:
    assert number_at({"status": {"failed": value}}, ("status", "failed")) == number


@pytest.mark.parametrize("status", [None, "text", 5, [], [1]])
def test_a_number_is_none_if_its_parent_has_another_type(status: object) -> None:
    assert number_at({"status": status}, ("status", "failed")) is None


@pytest.mark.parametrize("source", EVERY_SOURCE, ids=lambda source: source.name)
def test_a_source_gives_no_level_to_a_pod_without_its_signal(source: PodSource) -> None:
    assert read(made(name="web"), of=source.levels)[0] == []
    assert read(made(generateName="web-"), of=source.levels) == ([], [])
