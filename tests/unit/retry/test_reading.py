"""The related objects that are read before a retry is judged."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.objects import job_spec
from tests.unit.retry.server import Server, api_of
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.retry import reading
from webhook.retry.reading import RefusedError
from webhook.systems.adapter import Adapter, Right, Workload
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.job.rerun import OF_CRON_JOB
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set import rerun as job_set
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.tekton import rerun as pipeline_run
from webhook.systems.tekton import spec as tekton

WHEN = "2026-11-22T08:30:00+00:00"
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)


def owner(kind: str, name: str, api_version: str = "batch/v1") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def root(name: str, created: str = "08:00", owners: tuple[Json, ...] = (), **more: Any) -> Json:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = f"2026-11-22T{created}:00Z"
    return {"metadata": {**metadata, "ownerReferences": list(owners), **more}, "spec": job_spec(), "status": {}}


def read(adapter: Adapter, subject: Json, *items: tuple[KindSpec, Json], **how: Any) -> Workload:
    server = Server((adapter.kind, subject), *items)
    return run(reading.read(api_of(server), adapter, subject, WHEN, **how))


NIGHTLY = root("nightly")
OF_NIGHTLY = (owner("CronJob", "nightly"),)


def test_a_job_set_is_read_without_related_objects() -> None:
    subject = root("train")
    assert read(job_set.ADAPTER, subject) == Workload(root=subject, run=subject, when=WHEN)


def test_a_job_is_read_with_the_cron_job_that_controls_it() -> None:
    subject = root("nightly-1", owners=OF_NIGHTLY)
    assert read(of_job.ADAPTER, subject, (CRON_JOB, NIGHTLY)).controller == NIGHTLY
    assert read(of_job.ADAPTER, subject).controller is None


@pytest.mark.parametrize("name", ["../../secrets/x", "a/b", "", "Nightly"])
def test_a_controller_with_an_invalid_name_is_not_read(name: str) -> None:
    server = Server()
    server.faults["GET"] = [AssertionError("asked")]
    subject = root("nightly-1", owners=({**owner("CronJob", "nightly"), "name": name},))
    assert run(reading.controller(api_of(server), of_job.ADAPTER, subject)) is None


def test_a_controller_of_another_kind_is_not_read() -> None:
    subject = root("train-w-0", owners=(owner("JobSet", "train", "jobset.x-k8s.io/v1alpha2"),))
    assert read(of_job.ADAPTER, subject, (JOB_SET, root("train"))).controller is None


def test_the_run_of_a_cron_job_is_the_newest_of_its_own_jobs() -> None:
    jobs = [
        root("nightly-3", "03:00", OF_NIGHTLY),
        root("nightly-1", "05:00", OF_NIGHTLY),
        root("nightly-2", "04:00", OF_NIGHTLY),
        root("other", "07:00"),
    ]
    found = read(OF_CRON_JOB, NIGHTLY, *((batch.JOB, one) for one in jobs))
    assert found.run is not None
    assert found.run["metadata"]["name"] == "nightly-1"
    assert found.placeholder is None


def test_a_cron_job_without_a_job_has_no_run() -> None:
    found = read(OF_CRON_JOB, NIGHTLY, (batch.JOB, root("other")))
    assert (found.run, found.placeholder) == (None, None)


def test_a_job_that_was_replaced_after_it_was_listed_is_not_used() -> None:
    class Replacing(Server):
        async def find(self, path: str) -> Json | None:
            found = await super().find(path)
            return None if found is None else {**found, "metadata": {**found["metadata"], "uid": "another"}}

    server = Replacing((batch.JOB, root("nightly-1", owners=OF_NIGHTLY)))
    assert run(reading.last_of(api_of(server), batch.JOB, NIGHTLY)) is None


def test_a_cron_job_is_read_with_the_placeholder_of_its_own_job() -> None:
    mine, other = (
        of_job.placeholder_for(root(f"{name}-1", owners=(owner("CronJob", name),)), "alice", WHEN)
        for name in ("nightly", "weekly")
    )
    assert read(OF_CRON_JOB, NIGHTLY, known=[other, mine]).placeholder == mine
    assert read(OF_CRON_JOB, NIGHTLY, known=[other]).placeholder is None


def test_the_placeholders_of_a_namespace_are_found_by_label_and_content() -> None:
    placeholder = of_job.placeholder_for(root("train"), "alice", WHEN)
    labelled = {
        **root("train-2"),
        "metadata": {**root("train-2")["metadata"], "labels": placeholder["metadata"]["labels"]},
    }
    server = Server((batch.JOB, placeholder), (batch.JOB, labelled), (batch.JOB, root("other")))
    found = run(reading.placeholders(api_of(server), "ml"))
    assert [one["metadata"]["name"] for one in found] == [placeholder["metadata"]["name"]]


def task_run(name: str, of: str = "build") -> Json:
    owners = (owner("PipelineRun", of, "tekton.dev/v1"),)
    return root(name, owners=owners, labels={"tekton.dev/pipelineRun": "build"})


def test_a_pipeline_run_is_read_with_its_task_runs_and_custom_runs_and_their_kinds() -> None:
    found = read(
        pipeline_run.ADAPTER,
        root("build"),
        (tekton.TASK_RUN, task_run("build-a")),
        (tekton.CUSTOM_RUN, task_run("build-b")),
        (tekton.TASK_RUN, task_run("build-c", of="another")),
        keep_finally=True,
    )
    assert [(one["kind"], one["metadata"]["name"]) for one in found.children] == [
        ("TaskRun", "build-a"),
        ("CustomRun", "build-b"),
    ]
    assert found.keep_finally


class Kueue(Server):
    """Serves Kueue's API group with its preferred version."""

    async def get(self, path: str, *_: Any, **__: Any) -> Any:
        if path == "/apis/kueue.x-k8s.io":
            await self.call("GROUP")
            return {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}
        return await super().get(path)


def with_workload(name: str, of: str) -> Kueue:
    server = Kueue()
    workload = root(name, owners=(owner("Job", of),))
    server.items[f"/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads/{name}"] = workload
    return server


def test_the_workload_of_a_queued_job_is_the_one_that_the_job_owns() -> None:
    server = with_workload("job-train-1", "train")
    found = run(reading.workload_of(api_of(server), root("train")))
    assert found is not None
    assert found["metadata"]["name"] == "job-train-1"
    assert run(reading.workload_of(api_of(server), root("other"))) is None


def test_without_kueue_no_job_has_a_workload() -> None:
    server = with_workload("job-train-1", "train")
    server.faults["GROUP"] = [ApiError(404, "not found")]
    assert run(reading.workload_of(api_of(server), root("train"))) is None


def test_a_forbidden_workload_is_a_refusal_and_a_temporary_error_is_not() -> None:
    server = with_workload("job-train-1", "train")
    server.faults["LIST"] = [ApiError(403, "forbidden"), ApiError(503, "later")]
    with pytest.raises(
        RefusedError, match=r"Job ml/train is in a Kueue queue, and its Workload.* cannot be read: .*forbidden"
    ):
        run(reading.workload_of(api_of(server), root("train")))
    with pytest.raises(ApiError):
        run(reading.workload_of(api_of(server), root("train")))


class Reviewing(Server):
    """Answers access reviews, and records them."""

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed = allowed
        self.asked: list[Json] = []

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:  # noqa: ARG002 - as the client
        self.asked.append({"path": path, **root})
        return {"status": {"allowed": root["spec"]["resourceAttributes"]["verb"] in self.allowed}}


RIGHTS = [Right("create", "batch", "jobs"), Right("delete", "batch", "jobs"), Right("patch", "batch", "jobs", "status")]


def test_the_permissions_that_a_user_lacks_are_returned() -> None:
    server = Reviewing("create", "patch")
    assert run(reading.missing_rights(api_of(server), "ml", RIGHTS)) == [RIGHTS[1]]
    assert {one["path"] for one in server.asked} == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}
    assert server.asked[2]["spec"]["resourceAttributes"] == {
        "verb": "patch",
        "group": "batch",
        "resource": "jobs",
        "subresource": "status",
        "namespace": "ml",
    }


def test_the_access_review_of_another_user_has_all_of_the_users_fields() -> None:
    server = Reviewing()
    user = {"user": "alice", "uid": "a", "groups": ["ml"], "extra": {}}
    assert run(reading.missing_rights(api_of(server), "ml", RIGHTS, user=user)) == RIGHTS
    assert server.asked[0]["kind"] == "SubjectAccessReview"
    assert server.asked[0]["spec"].items() >= user.items()


def test_an_absent_object_and_a_kind_that_is_not_installed_have_different_problems() -> None:
    server = Server()
    server.items["/apis/batch/v1/namespaces/ml/jobs"] = {"metadata": {}}
    assert str(run(reading.absent(api_of(server), batch.JOB, "ml", "train"))) == (
        "Job ml/train does not exist; list them: kubectl get -n ml jobs"
    )
    assert str(run(reading.absent(api_of(server), JOB_SET, "ml", "train"))) == (
        "this cluster does not serve jobsets; install the CRD of jobset.x-k8s.io"
    )
