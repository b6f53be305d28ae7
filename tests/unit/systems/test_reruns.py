"""The kinds that can run again, and the common behaviour of their adapters."""

from typing import Any

import pytest

from webhook.objects.problem import Json
from webhook.systems.adapter import Adapter, Workload
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kinds import KINDS
from webhook.systems.ray import spec as ray
from webhook.systems.reruns import ADAPTERS
from webhook.systems.tekton import spec as tekton
from webhook.systems.volcano import spec as volcano

EVERY = pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda adapter: adapter.kind.kind)
WHEN = "2026-11-22T08:30:00+00:00"
ENDED = "2026-11-22T08:00:00Z"
FAILED = [{"type": "Failed", "status": "True"}, {"type": "Succeeded", "status": "False"}]
OWNER = {"apiVersion": "x.test/v1", "kind": "Wonder", "name": "w", "uid": "u", "controller": True}


def failed(**metadata: Any) -> Json:
    """Return an object that is valid as a failed one of each kind, without consent to run twice."""
    of_others = {"phase": "Failed", "finishedAt": ENDED, "rayClusterName": "train-abcde"}
    of_volcano = {"state": {"phase": "Failed", "lastTransitionTime": ENDED}}
    return {
        "metadata": {"name": "train", "namespace": "ml", "uid": "uid-1", **metadata},
        "spec": {"template": {}, "replicatedJobs": [{"name": "a", "template": {}}]},
        "status": {"conditions": FAILED, "completionTime": ENDED, **of_others, **of_volcano},
    }


def workload(root: Json) -> Workload:
    return Workload(root=root, run=root, when=WHEN)


def test_only_these_kinds_can_run_again() -> None:
    rows = {batch.JOB, CRON_JOB, JOB_SET, tekton.PIPELINE_RUN, argo.WORKFLOW, ray.RAY_JOB, volcano.JOB}
    assert set(ADAPTERS) == rows
    assert all(kind is adapter.kind for kind, adapter in ADAPTERS.items())


def test_each_kind_that_gets_the_annotation_retryable_has_an_adapter() -> None:
    assert {kind for kind in KINDS.values() if kind.may_begin_anew} == set(ADAPTERS) - {CRON_JOB}


@EVERY
def test_an_object_without_the_annotation_is_refused_with_the_command_that_adds_it(adapter: Adapter) -> None:
    problem = adapter.refusal(workload(failed()))
    assert problem is not None
    assert "that it may run twice; if it may: kubectl annotate -n ml" in str(problem)


@EVERY
def test_an_object_that_is_being_deleted_is_refused(adapter: Adapter) -> None:
    assert "is being deleted" in str(adapter.refusal(workload(failed(deletionTimestamp=ENDED))))


@EVERY
def test_an_object_that_another_controller_owns_is_refused(adapter: Adapter) -> None:
    assert "is managed by Wonder w" in str(adapter.refusal(workload(failed(ownerReferences=[OWNER]))))


@EVERY
def test_a_failed_object_has_a_run_id_and_a_line_for_the_user(adapter: Adapter) -> None:
    found = workload(failed())
    assert adapter.run_id(found)
    assert adapter.what_reruns(found).startswith(f"{adapter.of_run.kind.kind} ml/train:")


@EVERY
def test_a_retry_requires_permissions_on_the_kind_that_runs(adapter: Adapter) -> None:
    found = {(right.group, right.resource) for right in adapter.rights(failed())}
    assert (adapter.of_run.kind.group, adapter.of_run.kind.resource) in found


@EVERY
def test_only_a_job_runs_again_as_another_object(adapter: Adapter) -> None:
    assert (adapter.in_place is None) is (adapter.of_run.kind is batch.JOB)
