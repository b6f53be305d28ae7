"""Volcano Jobs on the real API server with Volcano's CRDs. The tests play its controller, which cannot be had."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import pod
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.objects import account, is_running, last, noted
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import run_retry
from tests.cluster.test_retry_requests import request_retry
from tests.unit.systems.volcano.test_rules import CASES
from tests.volcano import on, refusals, task, volcano_job
from webhook.kube import names
from webhook.retry import record

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

JOBS = "apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs/{}"
COMMANDS = "apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands"


def job_in(team: Namespace, name: str = "train") -> Object:
    """Return the Job of Volcano with its Account."""
    found = team.api.send("GET", JOBS.format(team.name, name))
    return team.with_accounts("jobs.batch.volcano.sh", [found])[0]


def commands(team: Namespace) -> list[Object]:
    return list(team.api.list(COMMANDS.format(team.name))["items"])


def start(team: Namespace, number: int = 0, retries: int = 0, of: str = "main", index: int = 0) -> Object:
    """Create a pod as Volcano's controller does; return it when it runs."""
    root = job_in(team)
    metadata = root["metadata"]
    owner = {"apiVersion": root["apiVersion"], "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    keys = {"job-name": metadata["name"], "task-spec": of, "task-index": str(index)}
    manifest = pod(f"train-{of}-0-{number}", {"volcano.sh/job-retry-count": str(retries)})
    manifest["metadata"] |= {
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "labels": {f"volcano.sh/{key}": value for key, value in keys.items()},
    }
    made = team.create(manifest)
    return team.wait_for("pods", str(made["metadata"]["name"]), is_running)


def counted(team: Namespace, number: int) -> Object:
    """Return the Job as soon as its account has so many ended pods."""
    until(lambda: account(job_in(team)).get("ended", 0) >= number)
    return job_in(team)


def created(team: Namespace, *policies: Object, **spec: Any) -> Object:
    """Create a Job that runs, as far as its status says."""
    made = team.create(volcano_job(*policies, **spec))
    status = {"status": {"state": {"phase": "Running"}}}
    answer = team.api.send("PATCH", f"{JOBS.format(team.name, 'train')}/status", status)
    assert answer["kind"] == "Job", answer
    return made


@pytest.mark.parametrize("case", CASES)
def test_the_merged_policies_are_stored_and_an_unchanged_manifest_can_be_applied_again(
    namespace: NewNamespace, case: str
) -> None:
    team = opted_in(namespace)
    own, stored = CASES[case]
    manifest = volcano_job(*own, tasks=[task(*own)])
    applied = team.apply(manifest, *SERVER_SIDE)
    assert applied["spec"].get("policies", []) == stored
    assert applied["spec"]["tasks"][0].get("policies", []) == stored
    assert refusals(applied) == []
    assert team.apply(manifest, *SERVER_SIDE)["spec"] == applied["spec"]
    assert team.apply(manifest)["spec"] == applied["spec"]


def test_a_bug_that_volcano_would_restart_is_ended_by_a_command(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle")
    created(team, on("*", action="RestartJob"))
    team.ends(start(team), 1)
    until(lambda: commands(team))
    (command,) = commands(team)
    assert (command["action"], command["target"]["name"]) == ("TerminateJob", "train")
    assert command["target"]["uid"] == job_in(team)["metadata"]["uid"]
    assert command["message"].endswith("failed with exit code 1")
    until(lambda: account(job_in(team))["cost"].get("fatal") == 1)


def test_retries_are_volcanos_and_the_last_attempt_runs_on_demand(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    created(team, on("PodFailed", action="RestartTask"), maxRetry=3)
    seen = []
    for number in range(3):
        found = start(team, number, retries=number)
        seen.append(noted(found))
        team.ends(found, 143)
        counted(team, number + 1)
    assert [(one["attempt"], one["placement"]) for one in seen] == [("0", "Spot"), ("1", "Spot"), ("2", "OnDemand")]
    assert [cost for _, _, cost in last(job_in(team))] == ["retry", "retry", "fatal"]
    assert commands(team) == []


@pytest.mark.parametrize(
    ("policies", "cost"),
    [([], "disruption"), ([on("PodEvicted", action="RestartJob")], "retry")],
    ids=["no policy", "PodEvicted"],
)
def test_a_disruption_costs_a_retry_only_where_a_policy_restarts_after_it(
    namespace: NewNamespace, policies: list[Object], cost: str
) -> None:
    team = opted_in(namespace)
    created(team, *policies)
    team.evict(str(start(team)["metadata"]["name"]))
    assert last(counted(team, 1)) == [("Disruption", "EvictionByEvictionAPI", cost)]


@pytest.mark.parametrize(("profile", "action"), [("suspend", "AbortJob"), ("fail", "TerminateJob")])
def test_the_limit_on_disruptions_suspends_or_ends_the_job(namespace: NewNamespace, profile: str, action: str) -> None:
    team = opted_in(namespace, profile)
    created(team)
    for number in range(2):
        team.evict(str(start(team, number)["metadata"]["name"]))
    until(lambda: commands(team))
    (command,) = commands(team)
    assert command["action"] == action


def test_explain_shows_the_account_by_task_and_index(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    created(team, on("PodFailed", action="RestartTask"), tasks=[task(name="driver"), task(name="worker")])
    team.ends(start(team, of="worker"), 143)
    team.evict(str(start(team, of="driver")["metadata"]["name"]))
    counted(team, 2)
    rows = explained(team, "job.batch.volcano.sh/train")["rows"]
    assert {(row["unit"], row["cost"]) for row in rows if row["cost"] != "none"} == {
        ("worker/0", "retry"),
        ("driver/0", "retry"),
    }


def failed(team: Namespace, **spec: Any) -> Object:
    """Create a Job of two pods, of which the second failed, and end it as the leader orders; return it when settled."""
    created(team, tasks=[task(name="main", replicas=2)], **spec)
    for index, code in enumerate((0, 1)):
        team.ends(start(team, index, index=index), code)
    until(lambda: commands(team))
    end_job(team, "Failed")
    until(lambda: account(job_in(team))["cost"] == {"fatal": 1})
    return job_in(team)


def end_job(team: Namespace, phase: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"state": {"phase": phase, "lastTransitionTime": now}, "retryCount": 2}
    answer = team.api.send("PATCH", f"{JOBS.format(team.name, 'train')}/status", {"status": status})
    assert answer["kind"] == "Job", answer


def pods_of(team: Namespace) -> dict[str, str]:
    """Return the uid of each pod, by its name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in team.get("pods")["items"]}


def begin_as_volcano(team: Namespace) -> None:
    """Create the pods that do not exist of a Job that is Pending, as Volcano's controller does."""
    until(lambda: job_in(team)["status"]["state"]["phase"] == "Pending")
    for index in range(2):
        if f"train-main-0-{index}" not in pods_of(team):
            start(team, index, index=index)


def allow_retries(team: Namespace) -> None:
    team.annotate("jobs.batch.volcano.sh/train", {names.RETRYABLE: "true"})


@pytest.mark.parametrize(
    ("spec", "again"),
    [({}, {"train-main-0-1"}), ({"plugins": {"svc": []}}, {"train-main-0-0", "train-main-0-1"})],
    ids=["pods that work alone", "pods that know each other"],
)
def test_an_annotation_requests_the_retry_of_a_job(namespace: NewNamespace, spec: Object, again: set[str]) -> None:
    team = opted_in(namespace)
    before = failed(team, **spec)
    allow_retries(team)
    old = pods_of(team)
    requested = request_retry(team, "jobs.batch.volcano.sh/train")
    assert (requested.returncode, requested.stderr) == (0, "")
    begin_as_volcano(team)
    until(lambda: names.RETRY_IN_PROGRESS not in job_in(team)["metadata"].get("labels", {}))
    now = job_in(team)
    assert "retryCount" not in now["status"]
    assert {name for name, uid in pods_of(team).items() if old[name] != uid} == again
    (entry,) = record.read(now)
    assert (entry.by, entry.of) == ("admin", before["status"]["state"]["lastTransitionTime"])
    until(lambda: account(job_in(team)).get("before") == account(before)["cost"])
    team.wait_for_all("events", lambda events: any(one["reason"] == "RetryStarted" for one in events))


def test_the_command_reruns_an_aborted_job_with_the_rights_of_its_user(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    before = failed(team)
    end_job(team, "Aborted")
    target = "job.batch.volcano.sh/train"
    code, _, complaints = run_retry(team, target, "--yes")
    assert code == 1
    assert "does not say of main that it may run twice" in complaints
    allow_retries(team)
    code, printed, complaints = run_retry(team, target, "--yes")
    assert (code, printed, complaints) == (0, f"Job {team.name}/train: 1 of 2 pods will run again", "")
    assert job_in(team)["status"]["state"]["phase"] == "Pending"
    assert list(pods_of(team)) == ["train-main-0-0"]
    until(lambda: account(job_in(team)).get("before") == account(before)["cost"])
    assert "has not ended" in run_retry(team, target, "--yes")[2]
