"""What every System must keep: the controller and the admission policies rely on it."""

from importlib import import_module
from typing import Any

import pytest

from tests.unit.systems.costs import cost_by
from webhook import systems
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.accounts import SYSTEMS, WITHOUT_JOBS
from webhook.systems.argo.account import WORKFLOW
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.pod_source import no_place
from webhook.systems.system import System, Write
from webhook.systems.tekton.account import PIPELINE_RUN, TASK_RUN

FOLDER = systems.__name__
ROOT: Json = {
    "metadata": {"namespace": "ml", "name": "train", "uid": "uid", "resourceVersion": "7"},
    "spec": {"runPolicy": {}},
}
CACHED: Json = {"metadata": ROOT["metadata"], "spec": {}, "status": {}}


def pod(system: System, **fields: Any) -> Pod:
    """Return a failed pod of a workload of a system."""
    kind = {"group": system.kind.group, "kind_name": system.kind.kind}
    of_workload = {**kind, "job": "train", "job_uid": "uid", "controller": "train", "controller_uid": "uid"}
    return Pod(namespace="ml", name="train-0", uid="uid-0", phase="Failed", **{**of_workload, **fields})


def writes_of(system: System) -> list[Write]:
    """Return what a system writes into a workload to fail and to suspend it, outside of its status."""
    found = (system.fail(ROOT, pod(system), "Reason", "message"), system.suspend(ROOT))
    return [one for one in found if isinstance(one, Write) and not one.path.endswith("/status")]


def test_a_system_is_found_by_its_kind_and_only_jobs_and_job_sets_have_jobs() -> None:
    assert [SYSTEMS[system.kind] for system in (WORKFLOW, PIPELINE_RUN, TASK_RUN)] == [
        WORKFLOW,
        PIPELINE_RUN,
        TASK_RUN,
    ]
    assert {kind for kind in SYSTEMS if kind not in WITHOUT_JOBS} == {batch.JOB, JOB_SET}


@pytest.mark.parametrize("kind", SYSTEMS, ids=repr)
def test_a_system_writes_only_what_the_admission_policies_allow_it(kind: KindSpec) -> None:
    allowed = {
        f"{other.kind.path('ml', 'train')} /spec/{'/'.join(map(str, path))}"
        for other in SYSTEMS.values()
        for path in other.writes
    }
    for write in writes_of(SYSTEMS[kind]):
        changing = [one for one in write.operations if one["op"] != "test" and one["path"] != VERSION]
        assert {f"{write.path} {one['path']}" for one in changing} <= allowed


VERSION = "/metadata/resourceVersion"


@pytest.mark.parametrize("kind", SYSTEMS, ids=repr)
def test_a_new_workload_has_not_ended(kind: KindSpec) -> None:
    assert not SYSTEMS[kind].has_ended(ROOT)


@pytest.mark.parametrize("kind", WITHOUT_JOBS, ids=repr)
def test_metadata_alone_is_enough_to_count_a_pod_of_no_job(kind: KindSpec) -> None:
    system = SYSTEMS[kind]
    cost = cost_by(system, pod(system), CACHED)
    assert cost in {"retry", "disruption", "free", "fatal", "none"}


@pytest.mark.parametrize(
    "name", [one for one in systems.SYSTEMS if "account" in import_module(f"{FOLDER}.{one}").PARTS]
)
def test_a_system_with_an_account_says_which_pods_are_counted_in_it(name: str) -> None:
    account = import_module(f"{FOLDER}.{name}.account")
    pods = import_module(f"{FOLDER}.{name}.pods")
    reads_places = any(source.place is not no_place for source in pods.PODS)
    assert reads_places or all(one.has_jobs for one in account.SYSTEMS), f"give a PodSource of {pods.__name__} a place"


def test_a_write_can_be_made_to_fail_if_the_object_has_changed() -> None:
    assert unless_changed(ROOT) == {"op": "replace", "path": VERSION, "value": "7"}
