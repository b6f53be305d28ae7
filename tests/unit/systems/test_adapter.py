"""The text of permissions, and the defaults of an adapter."""

from webhook.systems.adapter import Adapter, InPlace, Right, Steps, Workload
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB

ROOT = {"metadata": {"name": "train"}}
FOUND = Workload(root=ROOT, run=ROOT, when="2026-11-22T08:30:00Z")


def test_a_permission_is_written_as_for_kubectl() -> None:
    assert str(Right("patch", "batch", "jobs")) == "patch jobs"
    assert str(Right("update", "jobset.x-k8s.io", "jobsets", "status")) == "update jobsets/status"


def test_a_permission_has_the_fields_of_an_access_review() -> None:
    assert Right("delete", "batch", "jobs")._asdict() == {
        "verb": "delete",
        "group": "batch",
        "resource": "jobs",
        "subresource": "",
    }


def test_by_default_an_object_is_neither_reset_nor_stopped_nor_unfinished() -> None:
    steps = Steps(record=[], deleted=(), again=lambda root: root)
    in_place = InPlace(steps=lambda _found, _by: steps, has_begun=lambda _now, _before: False)
    assert not in_place.is_reset(FOUND)
    assert not in_place.is_stopped(FOUND)
    assert not in_place.is_unfinished(FOUND)
    assert in_place.resume(ROOT) == []
    assert not in_place.watches_controller


def adapter(runs: Adapter | None = None) -> Adapter:
    return Adapter(
        kind=batch.JOB if runs is None else CRON_JOB,
        rights=lambda _root: [],
        run_id=lambda _found: "",
        refusal=lambda _found: None,
        what_reruns=lambda _found: "",
        cannot_be_suspended=lambda _root: None,
        runs=runs,
    )


def test_the_object_itself_runs_again_by_default() -> None:
    of_job = adapter()
    assert of_job.of_run is of_job
    assert adapter(of_job).of_run is of_job
