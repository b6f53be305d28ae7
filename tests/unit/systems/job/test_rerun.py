"""The retry of a Job, as another Job of the same name."""

from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.admission import mutate
from tests.objects import job_spec, stored_job
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.systems import kueue
from webhook.systems.job import rerun as of_job

WHEN = "2026-11-21T12:00:00+00:00"
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}
YES = {names.RETRYABLE: "true"}
UID = "1b2c3d4e-0000-4000-8000-000000000000"
GENERATED = {"batch.kubernetes.io/controller-uid": UID, "batch.kubernetes.io/job-name": "train", "team": "vision"}


def failed(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    found = stored_job(spec or job_spec(backoffLimit=3), {**FAILED, **(status or {})})
    found["metadata"] = {"name": "train", "namespace": "ml", "uid": UID, "annotations": YES, **metadata}
    return found


def placeholder_of(job: Json) -> Json:
    return of_job.placeholder_for(job, "alice", WHEN)


def test_a_failed_job_with_consent_can_run_again() -> None:
    assert of_job.refusal(failed()) is None


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (failed(annotations={}), "does not say that it may run twice"),
        (failed(deletionTimestamp="2026-11-21T12:00:00Z"), "is being deleted"),
        (failed(status={"conditions": []}), "has not ended"),
        (failed(status={"conditions": [{"type": "FailureTarget", "status": "True"}]}), "has not ended"),
        (failed(status={"conditions": [{"type": "Complete", "status": "True"}]}), "has succeeded"),
        (failed(job_spec(managedBy="kueue.x-k8s.io/multikueue")), "is managed by kueue.x-k8s.io/multikueue"),
    ],
)
def test_any_other_job_is_refused_with_the_reason(job: Json, why: str) -> None:
    assert why in str(of_job.refusal(job))


@pytest.mark.parametrize(
    ("kind", "version", "why"),
    [
        ("JobSet", "jobset.x-k8s.io/v1alpha2", "retry the whole JobSet: retry-policy retry ml/jobset/above"),
        ("Workflow", "argoproj.io/v1alpha1", "is managed by Workflow above, which decides"),
    ],
)
def test_a_job_of_another_controller_is_refused(kind: str, version: str, why: str) -> None:
    owner = {"apiVersion": version, "kind": kind, "name": "above", "uid": "u", "controller": True}
    assert why in str(of_job.refusal(failed(ownerReferences=[owner])))


def test_the_consent_of_a_cron_job_applies_to_its_jobs() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    job = failed(ownerReferences=[owner], annotations={})
    assert of_job.refusal(job) is not None
    assert of_job.refusal(job, {"metadata": {"annotations": YES}}) is None


def test_the_successor_has_the_authors_manifest_without_labels_that_contain_the_uid() -> None:
    spec = job_spec(backoffLimit=3)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    spec["template"]["metadata"] = {"labels": GENERATED}
    job = failed(spec, labels={"team": "vision", names.PROFILE: "default"}, finalizers=["mine.test/f", "orphan"])
    found = of_job.successor(placeholder_of(job))
    assert "selector" not in found["spec"]
    assert found["spec"]["template"]["metadata"]["labels"] == {"team": "vision"}
    assert found["metadata"] == {
        "name": "train",
        "namespace": "ml",
        "labels": {"team": "vision", names.RETRY_OF: UID},
        "annotations": {**YES, names.RETRY_OF: UID},
        "finalizers": ["mine.test/f"],
    }
    assert found["spec"]["suspend"]


@pytest.mark.parametrize(
    ("limit", "counted", "begins_with"),
    [
        (7, {}, 7),
        (7, {"renewed": 3, "returned": 1}, 3),
        (7, {"renewed": 9}, 7),  # somebody has lowered it since
        (6, {"renewed": 5, "backoffLimit": 11}, 6),  # the raise was refused
        (9, {"renewed": 9, "backoffLimit": 15}, 6),  # the last one came too late
        (13, {}, 10),  # nobody may read the Account
    ],
)
def test_the_successor_begins_with_the_retries_of_before(limit: int, counted: Json, begins_with: int) -> None:
    placeholder = of_job.placeholder_for(failed(job_spec(backoffLimit=limit)), "alice", WHEN, counted)
    assert of_job.successor(placeholder)["spec"]["backoffLimit"] == begins_with


def test_a_manual_selector_is_kept() -> None:
    spec = job_spec(manualSelector=True, selector={"matchLabels": {"job-name": "mine"}})
    spec["template"]["metadata"] = {"labels": {"job-name": "mine"}}
    found = of_job.successor(placeholder_of(failed(spec)))
    assert found["spec"]["selector"] == spec["selector"]
    assert found["spec"]["template"]["metadata"]["labels"] == {"job-name": "mine"}


def test_injected_fields_are_removed_and_injected_again_as_into_a_job_that_is_not_suspended() -> None:
    injected = mutate({"kind": "Job", "metadata": {"name": "train"}, "spec": job_spec(backoffLimit=3)}).object
    annotations = {**injected["metadata"]["annotations"], **YES}
    successor = of_job.successor(placeholder_of(failed(injected["spec"], annotations=annotations)))
    assert "podFailurePolicy" not in successor["spec"]
    again = mutate(successor).object["spec"]
    assert again["podFailurePolicy"] == injected["spec"]["podFailurePolicy"]


def test_a_successor_that_stays_suspended_has_the_fields_of_a_suspended_job() -> None:
    successor = of_job.successor(placeholder_of(failed(labels={"kueue.x-k8s.io/queue-name": "team"})))
    (_, rule) = mutate(successor).object["spec"]["podFailurePolicy"]["rules"]
    assert 137 in rule["onExitCodes"]["values"]


def test_the_successor_gets_its_queue_only_when_it_is_released() -> None:
    job = failed(labels={"kueue.x-k8s.io/queue-name": "team", "team": "vision"})
    placeholder = placeholder_of(job)
    assert placeholder["metadata"]["labels"] == {"team": "vision", names.RETRY_OF: UID, names.RETRY_IN_PROGRESS: "true"}
    successor = of_job.successor(placeholder)
    assert successor["metadata"]["labels"] == {"team": "vision", names.RETRY_OF: UID}
    released = jsonpatch.apply_patch(successor, of_job.release(of_job.state_of(placeholder)))
    assert released["metadata"]["labels"] == job["metadata"]["labels"]
    assert released["metadata"]["annotations"].keys() == {names.RETRYABLE, names.RETRY_HISTORY}
    assert released["spec"]["suspend"]


def test_a_job_with_another_name_or_with_a_controller_is_not_a_placeholder() -> None:
    placeholder = placeholder_of(failed())
    assert of_job.is_placeholder(placeholder)
    assert not of_job.is_placeholder({**placeholder, "metadata": {**placeholder["metadata"], "name": "nightly-2"}})
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    assert not of_job.is_placeholder(
        {**placeholder, "metadata": {**placeholder["metadata"], "ownerReferences": [owner]}}
    )


WRONG_TYPE = '{"name":"train","uid":"u","by":"x","at":"x","metadata":{"ownerReferences":5}}'


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        ("a/../../../victim/jobs/train", UID),
        ("..", UID),
        ("a" * 64, UID),
        ("train", "../x"),
        ("train?x=y", UID),
        ("", UID),
    ],
)
def test_a_retry_state_with_an_invalid_name_is_refused(name: str, uid: str) -> None:
    state = msgspec.to_builtins(of_job.state_of(placeholder_of(failed())))
    text = msgspec.json.encode({**state, "name": name, "uid": uid}).decode()
    metadata = {
        "name": of_job.placeholder_name(name, uid),
        "labels": {names.RETRY_OF: uid},
        "annotations": {names.SUCCESSOR: text},
    }
    assert not of_job.is_placeholder({"metadata": metadata})


@pytest.mark.parametrize("text", ["", "{}", "{" * 100_000, '{"metadata":' + "[" * 100_000, WRONG_TYPE])
def test_a_job_with_a_malformed_retry_state_is_not_a_placeholder(text: str) -> None:
    placeholder = placeholder_of(failed())
    placeholder["metadata"]["annotations"][names.SUCCESSOR] = text
    assert not of_job.is_placeholder(placeholder)
    with pytest.raises(ValueError, match=r"."):
        of_job.state_of(placeholder)


def test_only_the_stage_of_a_retry_state_can_change() -> None:
    placeholder = placeholder_of(failed())
    further = jsonpatch.apply_patch(placeholder, of_job.stage_patch(placeholder, "Deleting"))
    assert of_job.differ_in_stage_alone(further, placeholder)
    state = of_job.state_of(placeholder)
    state.history = "[]"
    text = msgspec.json.encode(state).decode()
    other = {**placeholder, "metadata": {**placeholder["metadata"], "annotations": {names.SUCCESSOR: text}}}
    assert not of_job.differ_in_stage_alone(other, placeholder)


def test_a_successor_is_released_once() -> None:
    placeholder = placeholder_of(failed())
    successor, state = of_job.successor(placeholder), of_job.state_of(placeholder)
    assert of_job.is_successor(successor, UID)
    assert not of_job.is_released(successor, UID)
    released = jsonpatch.apply_patch(successor, of_job.release(state))
    assert of_job.is_released(released, UID)
    assert released["spec"]["suspend"] is False
    assert record.read(released) == (record.Requested(at=WHEN, by="alice", of=UID),)
    with pytest.raises(jsonpatch.JsonPatchException):
        jsonpatch.apply_patch(released, of_job.release(state))


@pytest.mark.parametrize(
    ("spec", "status", "done"),
    [
        ({"completionMode": "Indexed", "completions": 5}, {"succeeded": 3, "completedIndexes": "0-1,4"}, (3, "0-1,4")),
        ({"completionMode": "Indexed", "completions": 5}, {}, (0, "")),
        ({"completions": 4}, {"succeeded": 3}, (3, "")),
        ({"parallelism": 4}, {"succeeded": 3}, (0, "")),
    ],
)
def test_succeeded_completions_do_not_run_again_except_in_a_work_queue(
    spec: Json, status: Json, done: tuple[int, str]
) -> None:
    found = of_job.done_of(failed(job_spec(**spec), status))
    assert (found.succeeded, found.completed_indexes) == done


def test_a_placeholders_name_depends_only_on_the_job_and_is_never_too_long() -> None:
    assert of_job.placeholder_name("train", UID) == "train-retry-1b2c3d4e"
    assert len(of_job.placeholder_name("x" * 63, UID)) == 63


KUEUES: Json = {
    "kueue.x-k8s.io/podset": "main",
    "kueue.x-k8s.io/workload": "job-train-1",
    "kueue.x-k8s.io/workload-slice-name": "job-train-1",
    "kueue.x-k8s.io/cluster-queue-name": "research",
    "kueue.x-k8s.io/local-queue-name": "team",
}


def test_the_fields_that_kueue_wrote_are_restored_from_its_workload() -> None:
    job = failed()
    job["spec"]["template"]["metadata"] = {"labels": {"a": "b", **KUEUES}, "annotations": KUEUES}
    job["spec"]["template"]["spec"] |= {"nodeSelector": {"flavor": "spot"}, "tolerations": [{"key": "spot"}]}
    kept_by_kueue = {"metadata": {"labels": {"a": "b"}}, "spec": {"tolerations": [{"key": "mine"}]}}
    template = kueue.before_kueue(job, {"spec": {"podSets": [{"template": kept_by_kueue}]}})["spec"]["template"]
    assert template["metadata"] == {"labels": {"a": "b"}, "annotations": {}}
    assert template["spec"]["tolerations"] == [{"key": "mine"}]
    assert "nodeSelector" not in template["spec"]
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"flavor": "spot"}


def test_without_its_workload_only_the_keys_of_kueue_are_removed() -> None:
    job = failed()
    job["spec"]["template"]["metadata"] = {"labels": {"a": "b", **KUEUES}, "annotations": KUEUES}
    template = kueue.before_kueue(job, None)["spec"]["template"]
    assert template["metadata"] == {"labels": {"a": "b"}, "annotations": {}}
