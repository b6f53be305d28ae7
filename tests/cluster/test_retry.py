"""`retry-policy retry` of Jobs, JobSets and CronJobs, and `suspend` and `resume`, with the real controllers."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import command_line
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import exits, job, job_set, replicated_job
from tests.cluster.objects import account, condition, ended, is_running, restarts
from tests.cluster.test_ledger import explained
from tests.documents import document_of
from webhook.kube import names
from webhook.kube.client import Api
from webhook.retry import executor, reading, record
from webhook.systems.job import rerun as of_job
from webhook.systems.job.spec import JOB
from webhook.systems.job_set import rerun as of_job_set
from webhook.systems.job_set.spec import JOB_SET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

MAY_RUN_TWICE = {names.RETRYABLE: "true"}
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_WRITES, SET_WRITES = 8, 3  # of a retry, at least
CRASHES = 2 * JOB_WRITES  # Jobs that are retried despite crashes: the first one before a write, the next one after it
WHEN = "2026-11-21T12:00:00+00:00"
CRASHING_SETS = 2 * SET_WRITES  # JobSets, likewise


def run_retry(team: Namespace, target: str, *options: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    """Run `retry-policy retry` as a user does; return its exit code, stdout and stderr."""
    where = (f"{team.name}/{target}", f"--kubeconfig={kubeconfig or team.kubeconfig}")
    done = command_line.run("retry", *where, *options)
    return done.exit_code, done.stdout.strip(), done.stderr.strip()


def retryable(manifest: Object, **metadata: Any) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": MAY_RUN_TWICE, **metadata}}


def has_failed(found: Object) -> Object:
    return condition(found, "Failed")


def failed_job(team: Namespace, manifest: Object, code: int = 1) -> Object:
    """Create a Job, and let its running pod fail with an exit code; return the failed Job."""
    name = manifest["metadata"]["name"]
    team.create(manifest)
    team.ends(team.running(name, 1)[0], code)
    return team.wait_for("jobs", name, has_failed)


def cron_job(name: str) -> Object:
    template = {"spec": job("x", backoffLimit=0)["spec"]}
    spec = {"schedule": "0 0 1 1 *", "failedJobsHistoryLimit": 9, "jobTemplate": template}
    return retryable({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec})


def failed_job_of_cron_job(team: Namespace) -> Object:
    """Create a CronJob `nightly`, and a Job `nightly-1` of it that fails."""
    team.create(cron_job("nightly"))
    assert team.run("create", "job", "nightly-1", "--from=cronjob/nightly").returncode == 0
    team.ends(team.running("nightly-1", 1)[0], 1)
    return team.wait_for("jobs", "nightly-1", has_failed)


def successor_runs(before: Object) -> Any:
    """Return a condition for another Job with running pods in the place of the one that failed."""
    return lambda found: found["metadata"]["uid"] != before["metadata"]["uid"] and found["status"].get("active")


def is_complete(found: Object) -> Object:
    return condition(found, "Complete")


def placeholders(team: Namespace) -> list[str]:
    return [one["metadata"]["name"] for one in team.get("jobs", f"--selector={names.RETRY_OF}")["items"]]


def spec_of(found: Object) -> Object:
    """Return the spec of a Job, without the selector and the labels that the API server makes from its uid."""
    spec = json.loads(json.dumps(found["spec"]))
    del spec["selector"]
    spec["template"]["metadata"].pop("labels", None)
    return dict(spec)


def test_a_failed_job_is_retried_with_its_name_labels_annotations_owners_and_spec(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    owner = team.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "experiment"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "experiment", "uid": owner["metadata"]["uid"]}
    manifest = retryable(job("train", backoffLimit=2), labels={"team": "vision"}, ownerReferences=[reference])
    manifest["metadata"]["annotations"] = {**MAY_RUN_TWICE, "note": "kept"}
    failed_job(team, manifest)
    before = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert run_retry(team, "job/train", "--yes") == (0, f"Job {team.name}/train: will run again", "")
    now = team.wait_for("jobs", "train", successor_runs(before))
    assert spec_of(now) == spec_of(before)
    assert now["metadata"]["labels"] == before["metadata"]["labels"]
    assert now["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    written = {names.RETRY_HISTORY}
    annotations = {key: text for key, text in now["metadata"]["annotations"].items() if key not in written}
    assert annotations == {key: text for key, text in before["metadata"]["annotations"].items() if key not in written}
    assert placeholders(team) == []
    (entry,) = record.read(now)
    assert (entry.by, entry.of) == ("admin", before["metadata"]["uid"])
    team.ends(team.running("train", 1)[0], 0)
    team.wait_for("jobs", "train", is_complete)


def test_a_requested_retry_continues_the_account_and_resets_the_budget(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    failed_job(team, retryable(job("train", backoffLimit=1)))
    before = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    run_retry(team, "job/train", "--yes")
    team.wait_for("jobs", "train", successor_runs(before))
    first = team.running("train", 1)[0]
    team.ends(first, 143)
    team.ends(team.running("train", 1, but=first)[0], 143)
    found = team.wait_for("jobs", "train", lambda found: ended(found, 3))
    details = [(one["attempt"], one["cost"]) for one in account(found)["last"]]
    assert details == [(0, "fatal"), (0, "retry"), (1, "fatal")]
    explanation = explained(team, "train")
    assert [row["attempt"] for row in explanation["rows"]] == [0, 0, 1]
    assert [one["by"] for one in explanation["requested"]] == ["admin"]


def test_a_failure_just_before_a_requested_retry_is_counted(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    assert run_retry(team, "job/train", "--yes")[0] == 0
    now = team.wait_for("jobs", "train", successor_runs(before))
    assert [(one["attempt"], one["cost"]) for one in account(now)["last"]] == [(0, "fatal")]


@pytest.mark.first
def test_a_retry_of_an_indexed_job_runs_exactly_the_failed_indexes(namespace: NewNamespace) -> None:
    team = namespace()
    failing = [3, 17, 18, 41, 64, 65, 99]
    spec = {"completionMode": "Indexed", "completions": 100, "parallelism": 100, "backoffLimitPerIndex": 0}
    team.create(retryable(job("shards", **spec)))
    pods = {pod["metadata"]["annotations"][INDEX]: pod for pod in team.running("shards", 100)}
    team.all_end([pods.pop(str(index)) for index in failing], 1)
    team.all_end(list(pods.values()), 0)
    before = team.wait_for("jobs", "shards", has_failed)
    code, printed, _ = run_retry(team, "job/shards", "--yes")
    assert (code, printed) == (0, f"Job {team.name}/shards: 7 of 100 indexes will run again")
    team.wait_for("jobs", "shards", successor_runs(before))
    again = team.running("shards", 7)
    assert sorted(int(pod["metadata"]["annotations"][INDEX]) for pod in again) == sorted(failing)
    team.all_end(again, 0)
    done = team.wait_for("jobs", "shards", is_complete)
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (100, "0-99")


def test_a_retry_of_a_job_with_completions_runs_only_the_missing_ones(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(retryable(job("batch", completions=4, parallelism=4, backoffLimit=0)))
    *good, bad = team.running("batch", 4)
    team.all_end(good, 0)
    team.wait_for("jobs", "batch", lambda found: found["status"].get("succeeded") == 3)
    team.ends(bad, 1)
    before = team.wait_for("jobs", "batch", has_failed)
    assert run_retry(team, "job/batch", "--yes")[0] == 0
    team.wait_for("jobs", "batch", successor_runs(before))
    team.ends(team.running("batch", 1)[0], 0)
    assert team.wait_for("jobs", "batch", is_complete)["status"]["succeeded"] == 4


@with_operators
def test_a_failed_job_set_is_restarted_and_not_created_again(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(retryable(job_set("train", *(replicated_job(one, backoffLimit=0) for one in ("worker", "driver")))))
    (worker, _) = team.pods_of_set("train", 0, 2)
    team.ends(worker, 1)
    before = team.wait_for("jobsets", "train", has_failed)
    assert run_retry(team, "jobset/train", "--yes") == (
        0,
        f"JobSet {team.name}/train: all of its Jobs will run again",
        "",
    )
    again = team.pods_of_set("train", 1, 2)
    now = team.get("jobset", "train")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(now) == (1, 0)
    assert "terminalState" not in now["status"]
    team.all_end(again, 0)
    team.wait_for("jobsets", "train", lambda found: condition(found, "Completed"))
    (entry,) = record.read(now)
    assert (entry.by, entry.of) == ("admin", "restart 0")


def test_a_retry_of_a_cron_job_retries_its_last_job(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    before = failed_job_of_cron_job(team)
    assert run_retry(team, "cronjob/nightly", "--yes") == (0, f"Job {team.name}/nightly-1: will run again", "")
    now = team.wait_for("jobs", "nightly-1", successor_runs(before))
    assert [one["name"] for one in now["metadata"]["ownerReferences"]] == ["nightly"]


def test_a_label_selector_retries_matching_failed_jobs_and_reports_one_that_is_not_retryable(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    for name in ("one", "two"):
        team.create(retryable(job(name, exits(1), backoffLimit=0), labels={"run": "7"}))
    team.create(job("three", exits(1), backoffLimit=0) | {"metadata": {"name": "three", "labels": {"run": "7"}}})
    team.create(retryable(job("four", exits(0)), labels={"run": "7"}))
    for name in ("one", "two", "three"):
        team.wait_for("jobs", name, has_failed)
    team.wait_for("jobs", "four", is_complete)
    code, printed, complaints = run_retry(team, "job", "-l", "run=7", "--failed-since=1h", "--yes")
    assert (code, sorted(printed.splitlines())) == (
        1,
        [f"Job {team.name}/{name}: will run again" for name in ("one", "two")],
    )
    assert complaints.startswith(
        f"Job {team.name}/three does not say that it may run twice; if it may: kubectl annotate"
    )


def test_a_dry_run_changes_nothing(namespace: NewNamespace) -> None:
    team = namespace()
    failed_job(team, retryable(job("train", backoffLimit=0)))
    before = team.get("job", "train")
    code, printed, _ = run_retry(team, "job/train", "--dry-run")
    assert (code, printed) == (0, f"Job {team.name}/train: would run again")
    assert team.get("job", "train") == before
    assert placeholders(team) == []


def refusals(team: Namespace) -> dict[str, str]:
    """Create Jobs that cannot be retried; return the expected reason for each target."""
    team.create(retryable(job("good", exits(0))))
    team.create(retryable(job("runs")))
    team.create(job("silent", exits(1), backoffLimit=0))
    team.wait_for("jobs", "good", is_complete)
    team.wait_for("jobs", "silent", has_failed)
    team.running("runs", 1)
    name = f"Job {team.name}"
    return {
        "job/good": f"{name}/good has succeeded; create another one to run it again",
        "job/runs": f"{name}/runs has not ended; request the retry again once it has failed",
        "job/silent": f"{name}/silent does not say that it may run twice; if it may: "
        f"kubectl annotate -n {team.name} job/silent {names.RETRYABLE}=true",
        "job/nobody": f"Job {team.name}/nobody does not exist; list them: kubectl get -n {team.name} jobs",
    }


def test_a_job_that_cannot_be_retried_is_refused_with_the_reason_and_not_changed(namespace: NewNamespace) -> None:
    team = namespace()
    refused = refusals(team)
    before = team.get("jobs")
    for target, why in refused.items():
        assert run_retry(team, target, "--yes") == (1, "", why)
    assert team.get("jobs")["items"] == before["items"]


def test_an_unsupported_kind_is_refused_with_the_list_of_supported_kinds(namespace: NewNamespace) -> None:
    code, _, complaints = run_retry(namespace(), "deployment/web")
    assert code == 2
    assert "'deployment' is no kind of this command; write NAMESPACE/KIND/NAME, KIND one of job, cronjob" in complaints


def test_the_kind_can_be_omitted_if_only_one_object_has_the_name(namespace: NewNamespace) -> None:
    team = namespace()
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    assert run_retry(team, "train", "--yes")[0] == 0
    team.wait_for("jobs", "train", successor_runs(before))
    team.create(cron_job("train"))
    both = f"several objects are named {team.name}/train; write {team.name}/job/train or {team.name}/cronjob/train"
    assert run_retry(team, "train", "--yes") == (1, "", both)
    assert run_command(team, "suspend", "train") == (1, "", both)
    assert explained(team, "job/train")["kind"] == "Job"
    code, _, complaints = run_retry(team, "other")
    assert code == 1
    assert complaints.startswith(f"there is no workload {team.name}/other that you may read")


def test_a_selector_that_matches_no_failed_job_prints_a_warning(namespace: NewNamespace) -> None:
    team = namespace()
    how = f"list them: kubectl get -n {team.name} jobs"
    complaints = f"warning: no Job in {team.name} that you chose has failed; {how}\nnothing was changed"
    assert run_retry(team, "job", "-l", "run=9", "--yes") == (0, "", complaints)


def test_an_option_for_another_kind_is_refused(namespace: NewNamespace) -> None:
    code, _, complaints = run_retry(namespace(), "job/train", "--keep-finally")
    assert code == 2
    assert "--keep-finally is for PipelineRuns, and this is a Job; leave it out" in complaints


def test_a_user_without_permission_is_told_which_permissions_are_missing(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = namespace()
    failed_job(team, retryable(job("train", backoffLimit=0)))
    before = team.get("job", "train")
    viewer = new_user(team, tmp_path, "ClusterRole/view")
    lacking = "you may not create jobs, patch jobs, delete jobs; ask an admin for these rights"
    why = f"Job {team.name}/train is unchanged: {lacking}"
    assert run_retry(team, "job/train", "--yes", kubeconfig=viewer) == (1, "", why)
    assert team.get("job", "train") == before


def new_user(team: Namespace, folder: Path, *roles: str) -> Path:
    """Create a user with roles, each `Role/NAME` or `ClusterRole/NAME`, here; return the user's kubeconfig."""
    team.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "requester"}})
    for role in roles:
        team.bind(role, "ServiceAccount", "requester", of=team.name)
    token = team.token("requester")
    config = document_of(team.kubeconfig.read_text())
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    return file


class CrashError(Exception):
    """The simulated end of the program."""


class CrashingApi(Api):
    """An API client that raises CrashError after `left` writes: before the next write, or with `after`, after it."""

    left = 0
    after = False

    async def write(self, method: str, path: str, body: Any, query: dict[str, str] | None = None) -> Object:
        self.left -= 1
        if self.left < 0 and not self.after:
            raise CrashError
        answer = await super().write(method, path, body, query)
        if self.left < 0:
            raise CrashError
        return answer


def crash_after(kubeconfig: str, writes: int, retry: Callable[[CrashingApi], Any]) -> None:
    """Retry an object as the command does, and crash after this number of writes."""

    async def crashing() -> None:
        async with await CrashingApi.connect(kubeconfig) as api:
            api.left, api.after = writes, False
            try:
                await retry(api)
            except CrashError:
                return
        raise AssertionError(f"it ended without write {writes + 1}")

    asyncio.run(crashing())


def retry_of(root: Object) -> Callable[[CrashingApi], Any]:
    return lambda api: executor.rerun(api, of_job.ADAPTER, root, "admin", WHEN)


def test_a_retry_that_was_interrupted_is_completed_by_the_next_command_that_chooses_its_job(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    one, two = (failed_job(team, retryable(job(name, backoffLimit=0), labels={"run": "7"})) for name in ("one", "two"))
    nightly = failed_job_of_cron_job(team)
    for root in (one, two, nightly):  # the writes: the trial, the placeholder, its stage, the deletion
        crash_after(str(team.kubeconfig), 4, retry_of(root))
    assert len(placeholders(team)) == 3
    continued = ", whose retry has begun: will run again"
    assert run_retry(team, "job/one", "--yes") == (0, f"Job {team.name}/one{continued}", "")
    assert run_retry(team, "cronjob/nightly", "--yes") == (0, f"Job {team.name}/nightly-1{continued}", "")
    assert run_retry(team, "job", "--failed-since=1h", "--yes") == (0, f"Job {team.name}/two{continued}", "")
    for root in (one, two, nightly):
        team.wait_for("jobs", root["metadata"]["name"], successor_runs(root))
    assert placeholders(team) == []


def test_a_job_that_was_deleted_during_its_retry_is_not_created_again_and_its_manifest_is_kept(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    before = failed_job(team, retryable(job("train", backoffLimit=0)))
    crash_after(str(team.kubeconfig), 2, retry_of(before))
    (placeholder,) = placeholders(team)
    team.delete("job/train")
    remedy = f"create it again: Job {team.name}/{placeholder} has its manifest"
    why = f"Job {team.name}/train was deleted by another user; {remedy}"
    assert run_retry(team, "job/train", "--yes") == (1, "", why)
    assert placeholders(team) == [placeholder]


def test_a_retry_of_all_cron_jobs_retries_only_those_whose_last_job_has_failed(namespace: NewNamespace) -> None:
    team = namespace()
    before = failed_job_of_cron_job(team)
    team.create(cron_job("idle"))
    assert run_retry(team, "cronjob", "--failed-since=1h", "--yes") == (
        0,
        f"Job {team.name}/nightly-1: will run again",
        "",
    )
    team.wait_for("jobs", "nightly-1", successor_runs(before))


async def retry_all_despite_crashes(
    kubeconfig: str, writes: int, before: list[Object], retry: Callable[[CrashingApi, Object, int], Awaitable[None]]
) -> int:
    """Retry each object until that ends without a crash; return the number of crashes.

    The first crash comes before or after another write for each of them, and four more within as many writes.
    """
    crashes = random.Random(7)  # noqa: S311 - not a secret

    async def one(which: int, root: Object) -> int:
        for number in range(50):
            async with await CrashingApi.connect(kubeconfig) as api:
                api.left, api.after = crashes.randrange(writes if number < 5 else 50), crashes.random() < 0.5
                if number == 0:
                    api.left, api.after = which // 2, bool(which % 2)
                with suppress(CrashError):
                    await retry(api, root, number)
                    assert number, f"it ended without write {which // 2 + 1}"
                    return number
        raise AssertionError("it did not come to an end")

    return sum(await asyncio.gather(*(one(which, root) for which, root in enumerate(before))))


async def retry_job(api: CrashingApi, before: Object, _number: int) -> None:
    """Start or continue the retry of a Job as the command does."""
    namespace, name = before["metadata"]["namespace"], before["metadata"]["name"]
    begun = [one for one in await reading.placeholders(api, namespace) if of_job.state_of(one).name == name]
    if begun:
        await executor.resume(api, begun[0])
        return
    there = await api.find(JOB.path(namespace, name))
    if there is not None and there["metadata"]["uid"] == before["metadata"]["uid"]:
        await executor.rerun(api, of_job.ADAPTER, there, "somebody", WHEN)


@pytest.mark.first
def test_after_a_crash_between_any_two_steps_a_job_is_retried_exactly_once(namespace: NewNamespace) -> None:
    team = namespace()
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0}
    for number in range(CRASHES):
        team.create(retryable(job(f"job-{number}", **spec)))
    pods = team.wait_for_all("pods", lambda found: len(found) == 2 * CRASHES and all(map(is_running, found)))
    for index, code in (("0", 0), ("1", 1)):
        team.all_end([pod for pod in pods if pod["metadata"]["annotations"][INDEX] == index], code)
    before = team.wait_for_all("jobs", lambda found: len(found) == CRASHES and all(map(has_failed, found)))
    crashed = asyncio.run(retry_all_despite_crashes(str(team.kubeconfig), JOB_WRITES, before, retry_job))
    assert crashed > CRASHES  # else the test has tried nothing
    old_uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in before}
    now = {one["metadata"]["name"]: one for one in team.get("jobs")["items"]}
    assert now.keys() == old_uids.keys()
    for name, one in now.items():
        assert [entry.of for entry in record.read(one)] == [old_uids[name]]
    uids = {one["metadata"]["uid"] for one in now.values()}
    again = team.wait_for_all(
        "pods",
        lambda found: len([pod for pod in found if owner_of(pod) in uids and is_running(pod)]) == CRASHES,
    )
    assert [pod["metadata"]["annotations"][INDEX] for pod in again if owner_of(pod) in uids] == ["1"] * CRASHES


async def retry_job_set(api: CrashingApi, before: Object, _number: int) -> None:
    found = await api.get(JOB_SET.path(before["metadata"]["namespace"], before["metadata"]["name"]))
    if has_failed(found) and restarts(found)[0] == 0:
        await executor.rerun(api, of_job_set.ADAPTER, found, "somebody", WHEN)


@with_operators
def test_after_a_crash_between_any_two_steps_a_job_set_is_retried_exactly_once(namespace: NewNamespace) -> None:
    team = namespace()
    for number in range(CRASHING_SETS):
        team.create(retryable(job_set(f"set-{number}", replicated_job("worker", exits(1), backoffLimit=0))))
    before = team.wait_for_all("jobsets", lambda found: len(found) == CRASHING_SETS and all(map(has_failed, found)))
    crashed = asyncio.run(retry_all_despite_crashes(str(team.kubeconfig), SET_WRITES, before, retry_job_set))
    assert crashed > CRASHING_SETS  # else the test has tried nothing
    after = team.wait_for_all("jobsets", lambda found: all(map(has_failed, found)))
    assert [restarts(one) for one in after] == [(1, 0)] * CRASHING_SETS
    assert [[entry.of for entry in record.read(one)] for one in after] == [["restart 0"]] * CRASHING_SETS


def owner_of(pod: Object) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def test_two_simultaneous_retries_of_a_job_run_it_again_only_once(namespace: NewNamespace) -> None:
    team = namespace()
    before = failed_job(team, retryable(job("train", backoffLimit=0)))

    async def both() -> None:
        async with await Api.connect(str(team.kubeconfig)) as one, await Api.connect(str(team.kubeconfig)) as other:
            await asyncio.gather(
                *(executor.rerun(api, of_job.ADAPTER, before, "somebody", WHEN) for api in (one, other)),
                return_exceptions=True,
            )

    asyncio.run(both())
    now = team.wait_for("jobs", "train", successor_runs(before))
    assert len(record.read(now)) == 1
    assert placeholders(team) == []
    team.running("train", 1)


def run_command(team: Namespace, command: str, target: str) -> tuple[int, str, str]:
    done = command_line.run(command, f"{team.name}/{target}", f"--kubeconfig={team.kubeconfig}")
    return done.exit_code, done.stdout.strip(), done.stderr.strip()


def test_suspend_stops_a_job_and_resume_continues_it(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(job("train"))
    (first,) = team.running("train", 1)
    assert run_command(team, "suspend", "job/train") == (0, f"Job {team.name}/train: suspended", "")
    team.pods_of("train", lambda pods: not pods)
    assert run_command(team, "suspend", "job/train") == (
        1,
        "",
        f"Job {team.name}/train is suspended already; nothing was changed",
    )
    assert run_command(team, "resume", "job/train") == (0, f"Job {team.name}/train: resumed", "")
    team.ends(team.running("train", 1, but=first)[0], 0)
    team.wait_for("jobs", "train", is_complete)
    assert run_command(team, "resume", "job/train") == (
        1,
        "",
        f"Job {team.name}/train has ended; nothing was changed",
    )


def test_suspend_prints_the_warnings_of_the_webhook(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train"))
    team.running("train", 1)
    code, _, warning = run_command(team, "suspend", "job/train")
    assert code == 0
    assert warning.startswith(f"warning: Job {team.name}/train: spec.suspend: pods that this ends may fail the Job")
