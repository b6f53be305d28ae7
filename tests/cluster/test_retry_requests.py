"""Retries requested by an annotation: the users who may, the effects, and retries that a command left unfinished."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.awaiting import until
from tests.cluster import rights
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.installation import BASE, CONTROLLER_ACCOUNT, SYSTEM, built
from tests.cluster.kubectl import Kubectl
from tests.cluster.manifests import exits, job, job_set, pod, replicated_job
from tests.cluster.objects import ACCOUNT, condition, is_running
from tests.cluster.test_retry import (
    WHEN,
    crash_after,
    cron_job,
    failed_job,
    failed_job_of_cron_job,
    has_failed,
    is_complete,
    new_user,
    placeholders,
    refusals,
    retry_of,
    retryable,
    run_retry,
    successor_runs,
)
from tests.cluster.test_retry_pipeline_runs import (
    end_custom_task,
    end_tasks,
    pipeline_run,
    succeeded_is,
    task,
    task_runs,
)
from tests.documents import documents_of
from tests.volcano import volcano_job
from webhook.controller import retries
from webhook.controller.brake import Brake
from webhook.kube import names
from webhook.kube.client import Api as ApiOfServer
from webhook.kube.events import Events
from webhook.kube.lease import Lease
from webhook.policy.model import Profile
from webhook.policy.parse import load_default
from webhook.retry import executor, reading, record
from webhook.systems.argo.spec import WORKFLOW
from webhook.systems.job import spec as batch
from webhook.systems.job.rerun import placeholder_for, placeholder_name, stage_patch, state_of
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set import rerun as of_job_set
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.ray.spec import RAY_JOB
from webhook.systems.reruns import ADAPTERS
from webhook.systems.tekton.rerun import run_of
from webhook.systems.tekton.spec import PIPELINE_RUN
from webhook.systems.volcano.spec import JOB as VOLCANO_JOB
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object, Result
    from tests.cluster.namespace import Namespace

COMPONENT = BASE.parent / "overlays" / "requested-retries" / "rbac.yaml"
LONG_AGO = "2026-01-01T00:00:00Z"


def request_retry(kubectl: Kubectl, target: str, when: datetime | str | None = None) -> Result:
    """Request a retry by the annotation, with the current time or another one."""
    text = when if isinstance(when, str) else (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return kubectl.run("annotate", target, f"{names.RETRY_REQUESTED_AT}={text}", "--overwrite")


def as_user(team: Namespace, folder: Path, *rights: str) -> Kubectl:
    """Return kubectl for a new user with these permissions in a namespace, each `VERBS RESOURCE.GROUP`."""
    for number, right in enumerate(rights):
        verbs, _, resource = right.partition(" ")
        plural, _, group = resource.partition(".")
        group, *sub = group.split("/")
        rule = {"apiGroups": [group], "resources": ["/".join((plural, *sub))], "verbs": verbs.split(",")}
        team.permit(f"right-{number}", rule)
    kubeconfig = new_user(team, folder, *(f"Role/right-{number}" for number in range(len(rights))))
    return Kubectl(team.program, kubeconfig)


def no_retry_in_progress(found: Object) -> bool:
    return names.RETRY_IN_PROGRESS not in (found["metadata"].get("labels") or {})


def test_an_annotation_requests_the_retry_of_a_job(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    answer = request_retry(team, "job/train")
    assert (answer.returncode, answer.stderr) == (0, "")
    now = team.wait_for("jobs", "train", successor_runs(before))
    (entry,) = record.read(now)
    assert (entry.by, entry.of) == ("admin", before["metadata"]["uid"])
    assert names.RETRY_REQUESTED_AT in now["metadata"]["annotations"]
    assert names.RETRY_ACCEPTED not in now["metadata"]["annotations"]
    assert no_retry_in_progress(now)
    team.ends(team.running("train", 1)[0], 0)
    team.wait_for("jobs", "train", is_complete)
    assert team.told("train", "RetryStarted")[0] == "runs again, as admin requested"
    assert placeholders(team) == []


def test_a_request_from_before_the_end_of_the_job_retries_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    manifest = retryable(job("train", exits(1), backoffLimit=0))
    requested = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest["metadata"]["annotations"] = {**manifest["metadata"]["annotations"], names.RETRY_REQUESTED_AT: requested}
    team.create(manifest)
    before = team.wait_for("jobs", "train", has_failed)
    again = request_retry(team, "job/train", datetime.now(UTC) - timedelta(hours=1))
    assert again.returncode == 0
    assert "is earlier than the end of this run" in again.stderr
    now = team.get("job", "train")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert no_retry_in_progress(now)


@with_operators
def test_an_annotation_requests_the_retry_of_a_job_set(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(retryable(job_set("train", replicated_job("worker", backoffLimit=0))))
    (worker,) = team.pods_of_set("train", 0)
    team.ends(worker, 1)
    team.wait_for("jobsets", "train", has_failed)
    assert request_retry(team, "jobset/train").stderr == ""
    (again,) = team.pods_of_set("train", 1)
    now = team.wait_for("jobsets", "train", no_retry_in_progress)
    assert names.RETRY_ACCEPTED not in now["metadata"]["annotations"]
    assert [one.of for one in record.read(now)] == ["restart 0"]
    team.ends(again, 0)
    team.wait_for("jobsets", "train", lambda found: condition(found, "Completed"))


@with_operators
def test_annotations_request_the_retry_of_a_pipeline_run_without_its_succeeded_finally_tasks(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    said = {names.RETRYABLE: "true", names.KEEP_FINALLY: "true"}
    team.create(pipeline_run(task("a"), task("b", "a"), last=(task("notify"),), annotations=said))
    end_tasks(team, 0, "a")
    end_tasks(team, 1, "b")
    end_tasks(team, 0, "notify")
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    old_uids = task_runs(team)
    assert request_retry(team, "pipelinerun/build").stderr == ""
    end_tasks(team, 0, "b")
    after = team.wait_for("pipelineruns", "build", succeeded_is("True"))
    assert {name for name, uid in task_runs(team).items() if old_uids[name] != uid} == {"build-b"}
    assert [one.by for one in record.read(after)] == ["admin"]
    team.wait_for("pipelineruns", "build", no_retry_in_progress)


def test_an_annotation_on_a_cron_job_requests_the_retry_of_its_last_job(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    before = failed_job_of_cron_job(team)
    assert request_retry(team, "cronjob/nightly").stderr == ""
    team.wait_for("jobs", "nightly-1", successor_runs(before))
    team.wait_for("cronjobs", "nightly", no_retry_in_progress)


def test_a_request_for_a_job_that_cannot_be_retried_is_denied_at_once_with_the_reason(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    cannot = refusals(team)
    before = team.get("jobs")["items"]
    for target, why in cannot.items():
        if target != "job/nobody":
            refused = request_retry(team, target)
            assert refused.returncode
            assert why in refused.stderr
    assert team.get("jobs")["items"] == before


def test_a_request_with_an_invalid_or_future_time_is_denied(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    failed_job(team, retryable(job("train", backoffLimit=0)))
    assert "is 'yes'; must be the current time, RFC 3339" in request_retry(team, "job/train", "yes").stderr
    to_come = request_retry(team, "job/train", datetime.now(UTC) + timedelta(hours=1))
    assert "which is in the future; must be the current time" in to_come.stderr


def test_in_mode_warn_a_request_gets_a_warning_and_nothing_is_retried(namespace: NewNamespace) -> None:
    team = namespace({names.PROFILE: "default", names.MODE: "Warn"})
    failed_job(team, retryable(job("train", backoffLimit=0)))
    answer = request_retry(team, "job/train")
    assert answer.returncode == 0
    assert "no retries in mode Warn; run: retry-policy retry" in answer.stderr
    assert no_retry_in_progress(team.get("job", "train"))


def test_users_without_the_permissions_that_a_retry_needs_may_not_request_one(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    failed_job(team, retryable(job("train", backoffLimit=0)))
    user = as_user(team, tmp_path, "get,patch jobs.batch", "get,patch jobs.batch/status")
    before = team.get("job", "train")
    lacks = f"system:serviceaccount:{team.name}:requester may not create jobs, delete jobs"
    accepted = json.dumps({"at": LONG_AGO, "by": "admin", "of": before["metadata"]["uid"]})
    state = json.dumps({"name": "other", "uid": "uid", "by": "admin", "at": LONG_AGO, "metadata": {}})
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for labels, said, *subresource in (
        ({}, {names.RETRY_REQUESTED_AT: now}),
        ({names.RETRY_IN_PROGRESS: "true"}, {}),
        ({}, {names.RETRY_ACCEPTED: accepted}),
        ({names.RETRY_IN_PROGRESS: "true"}, {names.RETRY_ACCEPTED: accepted, names.RETRY_REQUESTED_AT: LONG_AGO}),
        ({names.RETRY_OF: "uid"}, {names.SUCCESSOR: state, names.RETRY_REQUESTED_AT: LONG_AGO}),
        ({}, {names.RETRY_HISTORY: f"[{accepted}]"}),
        ({names.RETRY_IN_PROGRESS: "true"}, {}, "--subresource=status"),
    ):
        patch = json.dumps({"metadata": {"labels": labels, "annotations": said}})
        where = (f"--namespace={team.name}", "--type=merge", *subresource)
        refused = user.run("patch", "job/train", f"--patch={patch}", *where)
        assert lacks in refused.stderr, patch
    assert team.get("job", "train") == before


def test_request_keys_in_the_template_of_a_cron_job_are_removed_from_its_jobs(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    template: Object = {"metadata": {"labels": {names.RETRY_IN_PROGRESS: "true"}}, "spec": job("x")["spec"]}
    template["metadata"]["annotations"] = {names.RETRY_ACCEPTED: "{}"}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": template}
    team.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
    assert team.run("create", "job", "nightly-1", "--from=cronjob/nightly").returncode == 0
    made = team.get("job", "nightly-1")["metadata"]
    assert names.RETRY_IN_PROGRESS not in made["labels"]
    assert names.RETRY_ACCEPTED not in made["annotations"]


def test_the_history_names_the_user_who_requested_a_retry_and_cannot_be_forged(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    user = as_user(team, tmp_path, "get,create,patch,delete jobs.batch")
    forged = json.dumps({"at": "2026-11-22T08:30:00Z", "by": "admin", "of": before["metadata"]["uid"]})
    where = f"--namespace={team.name}"
    for more in ((), ("--overwrite", f"{names.RETRY_REQUESTED_AT}={LONG_AGO}")):
        refused = user.run("annotate", "job/train", f"{names.RETRY_ACCEPTED}={forged}", *more, where)
        assert "is written by the webhook alone; set retry-policy.dev/retry-requested-at instead" in refused.stderr
    refused = user.run("annotate", "job/train", f"{names.RETRY_HISTORY}=[{forged}]", where)
    me = f"system:serviceaccount:{team.name}:requester"
    assert f"names admin as requester, and you are {me}; request the retry in your own name" in refused.stderr
    when = datetime.now(UTC).isoformat(timespec="seconds")
    both = (f"{names.RETRY_REQUESTED_AT}={when}", f"{names.RETRY_ACCEPTED}={forged}")
    assert user.run("annotate", "job/train", *both, where).stderr == ""
    now = team.wait_for("jobs", "train", successor_runs(before))
    assert [one.by for one in record.read(now)] == [me]


def refusal_of(team: Namespace, name: str) -> str:
    """Request a retry that admission accepts; wait until the leader refuses it without changes; return the reason."""
    before = team.get("job", name)
    assert request_retry(team, f"job/{name}").stderr == ""
    why = team.told(name, "RetryRefused")[0]
    now = team.wait_for("jobs", name, no_retry_in_progress)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert placeholders(team) == []
    return why


def test_a_job_that_the_leader_may_not_create_is_refused_and_can_be_retried_by_the_command(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    manifest = retryable(job("train", backoffLimit=0))
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    before = failed_job(team, manifest)
    why = refusal_of(team, "train")
    assert "may create no Job in the namespaces of a node" in why
    assert "with rights of your own it runs again: retry-policy retry; nothing was changed" in why
    assert run_retry(team, "job/train", "--yes")[0] == 0
    team.wait_for("jobs", "train", successor_runs(before))


def test_a_job_with_a_service_account_is_retried_if_a_role_lets_the_controller_use_it(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}})
    manifest = retryable(job("train", backoffLimit=0))
    manifest["spec"]["template"]["spec"]["serviceAccountName"] = "trainer"
    before = failed_job(team, manifest)
    assert "unless a Role lets it use that one (verb use)" in refusal_of(team, "train")
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["trainer"], "verbs": ["use"]}
    team.permit("retries", rule)
    team.bind("Role/retries", "ServiceAccount", CONTROLLER_ACCOUNT, of=SYSTEM)
    assert request_retry(team, "job/train").stderr == ""
    team.wait_for("jobs", "train", successor_runs(before))


def test_the_leader_does_not_change_the_spec_of_a_cron_job_from_before_opt_in(namespace: NewNamespace) -> None:
    team = namespace()
    created = team.create(cron_job("nightly"))
    mark_as_accepted(team, "cronjob/nightly", "another")
    team.label({names.PROFILE: "default"})
    now = team.wait_for("cronjobs", "nightly", no_retry_in_progress)  # the request ends because it has no Job
    assert now["spec"] == created["spec"]


@with_operators
@pytest.mark.first
def test_the_leader_completes_retries_that_a_command_left_unfinished(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    gone = failed_job(team, retryable(job("gone", backoffLimit=0)))
    taken = failed_job(team, retryable(job("taken", backoffLimit=0)))
    team.create(retryable(job_set("noted", replicated_job("worker", backoffLimit=0))))
    team.ends(team.pods_of_set("noted", 0)[0], 1)
    noted = team.wait_for("jobsets", "noted", has_failed)
    # The writes: the trial, the placeholder, its stage, the deletion; the crash comes before the successor is created.
    crash_after(str(team.kubeconfig), 4, retry_of(gone))
    crash_after(str(team.kubeconfig), 4, retry_of(taken))
    crash_after(str(team.kubeconfig), 1, lambda api: executor.rerun(api, of_job_set.ADAPTER, noted, "admin", WHEN))
    team.create(job("taken"))
    now = team.wait_for("jobs", "gone", successor_runs(gone))
    assert [one.by for one in record.read(now)] == ["admin"]
    team.pods_of_set("noted", 1)
    after = team.wait_for("jobsets", "noted", no_retry_in_progress)
    assert [one.by for one in record.read(after)] == ["admin"]
    # This retry cannot be completed. The placeholder keeps the manifest, and an Event on it says so.
    placeholder = placeholder_name("taken", taken["metadata"]["uid"])
    team.told(placeholder, "RetryStuck", text=f"another user has created a Job {team.name}/taken in the meantime")
    assert placeholders(team) == [placeholder]


def test_the_history_names_each_user_who_retried_a_job(namespace: NewNamespace, tmp_path: Path) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    assert run_retry(team, "job/train", "--yes")[0] == 0
    again = team.wait_for("jobs", "train", successor_runs(before))
    team.ends(team.running("train", 1)[0], 1)
    team.wait_for("jobs", "train", has_failed)
    user = as_user(team, tmp_path, "get,list,create,patch,delete jobs.batch")
    assert run_retry(team, "job/train", "--yes", kubeconfig=user.kubeconfig) == (
        0,
        f"Job {team.name}/train: will run again",
        "",
    )
    now = team.wait_for("jobs", "train", successor_runs(again))
    assert [one.by for one in record.read(now)] == ["admin", f"system:serviceaccount:{team.name}:requester"]


def test_another_user_can_complete_a_retry_and_the_history_names_the_first_user(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    crash_after(str(team.kubeconfig), 4, retry_of(before))
    user = as_user(team, tmp_path, "get,list,create,patch,delete jobs.batch")
    assert run_retry(team, "job/train", "--yes", kubeconfig=user.kubeconfig)[0] == 0
    now = team.wait_for("jobs", "train", successor_runs(before))
    assert [one.by for one in record.read(now)] == ["admin"]


def test_a_placeholder_with_a_forged_requester_history_or_uid_is_denied(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    user = as_user(team, tmp_path, "get,list,create,patch,delete jobs.batch")
    me, where = f"system:serviceaccount:{team.name}:requester", f"--namespace={team.name}"
    forged = record.with_new(before, record.Requested(at=WHEN, by="somebody", of=before["metadata"]["uid"]))
    for by, requested, why in (
        ("admin", None, f"names admin as requester, and you are {me}"),
        (me, forged, f"names another requester than Job {team.name}/train"),
    ):
        placeholder = placeholder_for(before, by, WHEN)
        state = state_of(placeholder)
        state.history = requested or state.history
        placeholder["metadata"]["annotations"][names.SUCCESSOR] = msgspec.json.encode(state).decode()
        refused = user.run("create", "--filename=-", where, stdin=json.dumps(placeholder))
        assert why in refused.stderr
    other = placeholder_for({**before, "metadata": {**before["metadata"], "uid": "another"}}, me, WHEN)
    refused = user.run("create", "--filename=-", where, stdin=json.dumps(other))
    assert "which has not failed, or has another uid" in refused.stderr
    crash_after(str(team.kubeconfig), 2, retry_of(before))
    (name,) = placeholders(team)
    state = state_of(team.get("job", name))
    state.history = forged
    text = msgspec.json.encode(state).decode()
    refused = user.run("annotate", f"job/{name}", f"{names.SUCCESSOR}={text}", "--overwrite", where)
    assert "must not be changed; delete the Job if the retry is not needed" in refused.stderr


def test_a_job_that_is_changed_into_a_placeholder_is_checked_like_a_new_one(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    user = as_user(team, tmp_path, "get,list,create,patch,delete jobs.batch")
    me, where = f"system:serviceaccount:{team.name}:requester", f"--namespace={team.name}"
    placeholder = placeholder_for(before, "admin", WHEN)
    labels = placeholder["metadata"].pop("labels")
    assert user.run("create", "--filename=-", where, stdin=json.dumps(placeholder)).returncode == 0
    made = team.get("job", placeholder["metadata"]["name"])
    assert names.SUCCESSOR not in made["metadata"].get("annotations", {})
    said = {"metadata": {"labels": labels, "annotations": placeholder["metadata"]["annotations"]}}
    refused = user.run("patch", f"job/{made['metadata']['name']}", where, "--type=merge", f"--patch={json.dumps(said)}")
    assert "must not be changed" in refused.stderr
    team.delete(f"job/{made['metadata']['name']}")
    placeholder = placeholder_for(before, me, WHEN)
    (advanced,) = [one["value"] for one in stage_patch(placeholder, "Deleting") if one["op"] == "replace"]
    placeholder["metadata"]["annotations"][names.SUCCESSOR] = advanced
    refused = user.run("create", "--filename=-", where, stdin=json.dumps(placeholder))
    assert "which has not failed, or has another uid" in refused.stderr


@with_operators
def test_replacing_a_retried_job_set_needs_no_retry_permissions_and_keeps_its_history(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    team.create(retryable(job_set("train", replicated_job("worker", backoffLimit=0))))
    team.ends(team.pods_of_set("train", 0)[0], 1)
    team.wait_for("jobsets", "train", has_failed)
    assert request_retry(team, "jobset/train").stderr == ""
    history = record.read(
        team.wait_for("jobsets", "train", lambda found: record.read(found) and no_retry_in_progress(found))
    )
    team.pods_of_set("train", 1)
    user = as_user(team, tmp_path, "get,update jobsets.jobset.x-k8s.io")
    found = team.get("jobset", "train")
    found["metadata"]["annotations"] = {"note": "mine"}
    found.pop(ACCOUNT, None)
    del found["metadata"]["resourceVersion"]  # else the write conflicts with those of the controller
    replace = ("replace", "--filename=-", f"--namespace={team.name}")
    replaced = user.run(*replace, stdin=json.dumps(found))
    while "(Conflict)" in replaced.stderr:  # the controller wrote between the two requests of kubectl
        replaced = user.run(*replace, stdin=json.dumps(found))
    assert replaced.stderr == ""
    assert record.read(team.get("jobset", "train")) == history


@with_operators
def test_a_copy_of_a_retried_job_set_does_not_get_its_history(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    copied = retryable(job_set("train", replicated_job("worker", backoffLimit=0)))
    noted = record.Requested(at=WHEN, by="admin", of="restart 0")
    copied["metadata"]["annotations"] = {
        **copied["metadata"]["annotations"],
        names.RETRY_HISTORY: record.with_new(copied, noted),
    }
    assert names.RETRY_HISTORY not in team.create(copied)["metadata"]["annotations"]


def test_a_request_is_withdrawn_by_removing_its_label(namespace: NewNamespace) -> None:
    team = namespace({names.PROFILE: "default", names.MODE: "Audit"})  # the leader does nothing in this mode
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    for mark in ("true", None):
        team.patch("job/train", {"metadata": {"labels": {names.RETRY_IN_PROGRESS: mark}}})
    now = team.get("job", "train")
    assert no_retry_in_progress(now)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]


def test_while_the_last_job_of_a_cron_job_is_being_retried_no_older_job_is_retried(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    older = failed_job_of_cron_job(team)
    assert team.run("create", "job", "nightly-2", "--from=cronjob/nightly").returncode == 0
    team.ends(team.running("nightly-2", 1)[0], 1)
    last = team.wait_for("jobs", "nightly-2", has_failed)
    crash_after(str(team.kubeconfig), 4, retry_of(last))
    answer = request_retry(team, "cronjob/nightly")
    assert "a retry of its last Job has begun; wait until it has ended" in answer.stderr
    assert team.get("job", "nightly-1")["metadata"]["uid"] == older["metadata"]["uid"]


@with_operators
def test_a_pipeline_run_that_is_cancelled_after_the_request_stays_cancelled(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(pipeline_run(task("a")))
    end_tasks(team, 1, "a")
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    assert request_retry(team, "pipelinerun/build").stderr == ""
    team.wait_for("pipelineruns", "build", succeeded_is("Unknown"))
    team.patch("pipelinerun/build", {"spec": {"status": "Cancelled"}})
    after = team.wait_for(
        "pipelineruns", "build", lambda found: succeeded_is("False")(found) and no_retry_in_progress(found)
    )
    assert after["spec"]["status"] == "Cancelled"


def mark_as_accepted(team: Namespace, target: str, of: str) -> None:
    """Write the keys of an accepted request on an object; its namespace is not opted in, so admission allows it."""
    said = msgspec.json.encode(record.Requested(at=WHEN, by="admin", of=of)).decode()
    metadata = {"labels": {names.RETRY_IN_PROGRESS: "true"}, "annotations": {names.RETRY_ACCEPTED: said}}
    team.patch(target, {"metadata": metadata})


async def process_requests(kubeconfig: Path, keys: list[retries.RetryKey], events_written: Callable[[], bool]) -> None:
    """Do the work of the leader over another connection: watch, retry, and write Events."""
    async with await ApiOfServer.connect(str(kubeconfig)) as api:
        cluster, events = Cluster(api), Events(api)
        brake = Brake(PolicySource(load_default()), events)
        leader = retries.RetryController(cluster, events, Lease(api, "nowhere", "none", "test"), brake)
        watching = [asyncio.create_task(cluster.namespaces.run())]
        watching += [asyncio.create_task(one.run()) for one in leader.lists.values()]
        watching.append(asyncio.create_task(events.run()))
        for key in keys:
            root = await api.get(key.kind.path(key.namespace, key.name))
            await reading.read(api, ADAPTERS[key.kind], root, WHEN)
            await leader.reconcile(key, retries.RetryDue("", 0.0), Profile())
        while not (events_written() and all(one.live for one in leader.lists.values())):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)


def failed_workflow(team: Namespace) -> None:
    """Create a Workflow whose only node has failed, with its pod; no controller runs it."""
    template = {"name": "main", "container": {"image": "example.invalid/main"}}
    node = {"id": "fit", "name": "fit", "type": "Pod", "phase": "Failed", "templateName": "main"}
    workflow = team.create(
        {
            "apiVersion": WORKFLOW.api_version,
            "kind": WORKFLOW.kind,
            "metadata": {"name": "fit", "annotations": {names.RETRYABLE: "true"}},
            "spec": {"entrypoint": "main", "templates": [template]},
            "status": {"phase": "Failed", "finishedAt": LONG_AGO, "nodes": {"fit": node}},
        }
    )
    owner = {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind, "name": "fit"}
    prefix = "workflows.argoproj.io/"
    made = pod("fit", {f"{prefix}node-id": "fit"})
    made["metadata"] |= {
        "labels": {f"{prefix}workflow": "fit"},
        "ownerReferences": [{**owner, "uid": workflow["metadata"]["uid"], "controller": True}],
    }
    team.create(made)
    team.ends(team.wait_for("pods", "fit", is_running), 1)
    team.wait_for("pods", "fit", lambda found: found["status"]["phase"] == "Failed")


def failed_ray_job(team: Namespace) -> None:
    """Create a RayJob that has failed, as far as its status says; no controller runs it."""
    template = {"spec": {"containers": [{"name": "ray-head", "image": "example.invalid/ray"}]}}
    team.create(
        {
            "apiVersion": RAY_JOB.api_version,
            "kind": RAY_JOB.kind,
            "metadata": {"name": "tune", "annotations": {names.RETRYABLE: "true"}},
            "spec": {
                "entrypoint": "tune",
                "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
            },
        }
    )
    status = {"jobDeploymentStatus": "Failed", "endTime": LONG_AGO, "rayClusterName": "tune-1"}
    team.patch("rayjob/tune", {"status": status}, sub="/status")


def failed_volcano_job(team: Namespace, name: str) -> None:
    """Create a Volcano Job that has failed, as far as its status says, with a pod; no controller runs it."""
    manifest = volcano_job(name=name)
    manifest["metadata"]["annotations"] = {names.RETRYABLE: "true"}
    root = team.create(manifest)
    status = {"state": {"phase": "Failed", "lastTransitionTime": LONG_AGO}}
    team.patch(f"jobs.batch.volcano.sh/{name}", {"status": status}, sub="/status")
    owner = {"apiVersion": VOLCANO_JOB.api_version, "kind": "Job", "name": name, "uid": root["metadata"]["uid"]}
    made = pod(f"{name}-main-0")
    made["metadata"] |= {
        "labels": {"volcano.sh/job-name": name, "volcano.sh/task-spec": "main"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    team.create(made)
    team.ends(team.wait_for("pods", f"{name}-main-0", is_running), 1)
    team.wait_for("pods", f"{name}-main-0", lambda found: found["status"]["phase"] == "Failed")


def is_done(team: Namespace, key: retries.RetryKey) -> bool:
    return no_retry_in_progress(team.get(f"{key.kind.resource}.{key.kind.group}", key.name))


@with_operators
def test_requested_retries_use_exactly_the_permissions_of_the_components_role(
    kubectl: Kubectl, namespace: NewNamespace, tmp_path: Path
) -> None:
    team = namespace()
    nightly = failed_job_of_cron_job(team)
    team.create(retryable(job("half", completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=0)))
    one, other = team.running("half", 2)
    team.ends(one, 0)
    team.ends(other, 1)
    half = team.wait_for("jobs", "half", has_failed)
    team.create(retryable(job_set("train", replicated_job("worker", exits(1), backoffLimit=0))))
    team.wait_for("jobsets", "train", has_failed)
    approval = {"name": "approve", "taskRef": {"apiVersion": "example.test/v1", "kind": "Approval", "name": "x"}}
    team.create(pipeline_run(task("a"), approval))
    end_tasks(team, 1, "a")
    team.wait_for("customruns", "build-approve", bool)
    end_custom_task(team, "False")
    build = team.wait_for("pipelineruns", "build", succeeded_is("False"))
    failed_workflow(team)
    failed_ray_job(team)
    failed_volcano_job(team, "gang")
    asked_for = {
        retries.RetryKey(CRON_JOB, team.name, "nightly"): nightly["metadata"]["uid"],
        retries.RetryKey(batch.JOB, team.name, "half"): half["metadata"]["uid"],
        retries.RetryKey(JOB_SET, team.name, "train"): "restart 0",
        retries.RetryKey(PIPELINE_RUN, team.name, "build"): run_of(build),
        retries.RetryKey(WORKFLOW, team.name, "fit"): LONG_AGO,
        retries.RetryKey(RAY_JOB, team.name, "tune"): "tune-1",
        retries.RetryKey(VOLCANO_JOB, team.name, "gang"): LONG_AGO,
    }
    for key, of in asked_for.items():
        mark_as_accepted(team, f"{key.kind.resource}.{key.kind.group}/{key.name}", of)
    # In mode Warn the cluster's leader does nothing here; without a profile no replica could write anything.
    team.label({names.PROFILE: "default", names.MODE: "Warn"})
    with rights.recording(kubectl, tmp_path, CONTROLLER_ACCOUNT) as (kubeconfig, recorded):
        events_written = lambda: "events" in {right[2] for right in rights.used(recorded(), set())}  # noqa: E731
        asyncio.run(process_requests(kubeconfig, list(asked_for), events_written))
        refused = [request["url"] for request in recorded() if request["status"].startswith("403")]
        base, component = (
            rights.granted(found, CONTROLLER_ACCOUNT) for found in (built(kubectl, BASE), documents(COMPONENT))
        )
        used = rights.used(recorded(), component)
    assert refused == []
    assert used <= base | component
    # Tested elsewhere: only a leader uses the Lease, and Kueue has a scenario. No API server here checks finalizers.
    elsewhere = {"leases", "workloads", "cronjobs/finalizers"}
    assert {right for right in component - used if right[2] not in elsewhere} == set()
    for key in asked_for:
        until(partial(is_done, team, key))


def documents(file: Path) -> list[Object]:
    return documents_of(file.read_text())
