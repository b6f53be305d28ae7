"""RayJobs under KubeRay's own controllers: what each end costs, and what the leader does about it.

Ray itself does not run: a stand-in answers for the dashboards (tests/cluster/ray_dashboard.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import command_line
from tests.cluster.conftest import opted_in
from tests.cluster.objects import account, ended, is_running, last, noted
from tests.cluster.ray_dashboard import EXIT_CODE
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry_requests import no_retry_in_progress, request_retry
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = pytest.mark.systems
EVICTED = "EvictionByEvictionAPI"
MAY_RUN_TWICE = {names.RETRYABLE: "true"}


def group(role: str) -> Object:
    return {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": f"ray-{role}", "image": "ray"}]}}}


def ray_job(mode: str = "HTTPMode", *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    workers = {**group("worker"), "groupName": "small", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "train", "annotations": annotations or {}},
        "spec": {
            "entrypoint": "python train.py",
            "submissionMode": mode,
            "backoffLimit": 2,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {"headGroupSpec": group("head"), "workerGroupSpecs": [workers]},
            **spec,
        },
    }


def status(found: Object, field: str) -> Any:
    return found.get("status", {}).get(field)


def running_pod(team: Namespace, role: str, *, but: tuple[Object, ...] = ()) -> Object:
    """Return a running head or worker that is none of the known ones, once Ray's job runs on its cluster."""
    known = {pod["metadata"]["uid"] for pod in but}

    def chosen(pods: list[Object]) -> list[Object]:
        return [pod for pod in pods if is_running(pod) and pod["metadata"]["uid"] not in known]

    found = team.wait_for_all("pods", chosen, selector=f"ray.io/node-type={role}")
    team.wait_for("rayjobs", "train", lambda one: status(one, "jobStatus") == "RUNNING")
    return chosen(found)[0]


def entrypoint_ends(team: Namespace, head: Object, code: int) -> None:
    team.annotate(f"pod/{head['metadata']['name']}", {EXIT_CODE: str(code)})


def counted(team: Namespace, number: int) -> Object:
    """Return the RayJob once its account has this many ended pods, of head and workers."""
    return team.wait_for("rayjobs", "train", lambda found: account(found).get("ended", 0) >= number)


def of_head(found: Object) -> list[tuple[str, str, str]]:
    """Return cause, reason and cost of the attempts of heads in the account."""
    attempts = account(found)["last"]
    return [(one["cause"], one.get("reason", ""), one["cost"]) for one in attempts if one.get("scope") == "head"]


def cost_is(cost: str, number: int) -> Any:
    return lambda found: account(found).get("cost", {}).get(cost) == number


def fail_until_the_last_retry(team: Namespace) -> Object:
    """Let the job fail in each run, each time once its costs are counted; return the head of the last run."""
    head = running_pod(team, "head")
    for spent in (1, 2):
        entrypoint_ends(team, head, 1)
        team.wait_for("rayjobs", "train", cost_is("retry", spent))
        head = running_pod(team, "head", but=(head,))
    return head


def test_a_bug_costs_a_retry_each_time_because_its_exit_code_is_on_no_pod_and_the_last_attempt_is_on_demand(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(ray_job())
    head = fail_until_the_last_retry(team)
    assert noted(head) == {"placement": "OnDemand", "attempt": "2", "max-retries": "2", "attempt-source": "RayJob"}
    entrypoint_ends(team, head, 1)
    found = team.wait_for("rayjobs", "train", lambda one: status(one, "jobDeploymentStatus") == "Failed")
    assert (status(found, "failed"), status(found, "reason")) == (3, "AppFailed")
    assert status(found, "message") == "Job entrypoint command failed with exit code 1"
    assert account(found)["cost"]["retry"] == 2
    explanation = explained(team, "rayjob/train")
    assert explanation["state"] == "Failed: Job entrypoint command failed with exit code 1"
    assert explanation["budgets"] == ["group head: 2 of 2 retries spent"]


def test_a_preempted_head_is_replaced_in_its_cluster_and_costs_no_retry(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job())
    first = running_pod(team, "head")
    team.evict(first["metadata"]["name"])
    second = running_pod(team, "head", but=(first,))
    assert second["metadata"]["labels"]["ray.io/cluster"] == first["metadata"]["labels"]["ray.io/cluster"]
    found = counted(team, 1)
    assert of_head(found) == [("Disruption", EVICTED, "disruption")]
    assert not status(found, "failed")
    explanation = explained(team, "rayjob/train")
    assert explanation["budgets"] == ["group head: 0 of 2 retries spent, 1 disruption"]
    heads = [row for row in explanation["rows"] if row["unit"] == "head"]
    assert [(row["pod"], row["cost"]) for row in heads] == [
        (first["metadata"]["name"], "disruption"),
        (second["metadata"]["name"], ""),
    ]


def test_with_a_submitter_the_job_is_submitted_again_while_that_has_retries(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job("K8sJobMode"))
    first = running_pod(team, "head")
    submitter = team.running("train", 1)[0]
    team.evict(first["metadata"]["name"])
    second = running_pod(team, "head", but=(first,))
    team.ends(submitter, 1)  # its connection to the head is broken
    team.running("train", 1, but=submitter)
    of_submitter = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(of_submitter) == [("ExitCode", "ray-job-submitter 1", "retry")]
    found = counted(team, 1)
    assert of_head(found) == [("Disruption", EVICTED, "disruption")]
    entrypoint_ends(team, second, 0)
    team.wait_for("rayjobs", "train", lambda one: status(one, "jobStatus") == "SUCCEEDED")
    assert not status(found, "failed")


def test_in_sidecar_mode_a_preempted_head_costs_a_retry(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job("SidecarMode"))
    first = running_pod(team, "head")
    team.evict(first["metadata"]["name"])
    found = team.wait_for("rayjobs", "train", cost_is("retry", 1))
    assert of_head(found)[:1] == [("Disruption", EVICTED, "retry")]
    second = running_pod(team, "head", but=(first,))
    assert noted(second)["attempt"] == "1"
    assert second["metadata"]["labels"]["ray.io/cluster"] != first["metadata"]["labels"]["ray.io/cluster"]


def test_a_preempted_worker_is_replaced_and_costs_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job())
    running_pod(team, "head")
    worker = running_pod(team, "worker")
    team.evict(worker["metadata"]["name"])
    found = counted(team, 1)
    assert last(found) == [("Disruption", EVICTED, "free")]
    assert account(found)["last"][0]["scope"] == "worker/small"
    assert (status(found, "jobDeploymentStatus"), status(found, "failed")) == ("Running", 0)


def test_beyond_the_limit_of_disruptions_it_is_suspended_until_a_person_resumes_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "suspend")
    team.create(ray_job())
    first = running_pod(team, "head")
    team.evict(first["metadata"]["name"])
    team.wait_for("rayjobs", "train", cost_is("disruption", 1))
    second = running_pod(team, "head", but=(first,))
    assert second["metadata"]["annotations"][names.PLACEMENT] == "OnDemand"  # the limit of the profile is 1
    team.evict(second["metadata"]["name"])
    found = team.wait_for("rayjobs", "train", lambda one: status(one, "jobDeploymentStatus") == "Suspended")
    assert found["spec"]["suspend"] is True
    done = command_line.run("resume", f"{team.name}/rayjob/train", f"--kubeconfig={team.kubeconfig}")
    assert done.stdout.strip() == f"RayJob {team.name}/train: resumed", done.stderr
    running_pod(team, "head", but=(first, second))


def test_a_failed_ray_job_runs_again_on_request_with_all_of_its_retries(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job(annotations=MAY_RUN_TWICE, backoffLimit=0))
    first = running_pod(team, "head")
    entrypoint_ends(team, first, 1)
    before = team.wait_for("rayjobs", "train", lambda one: status(one, "jobDeploymentStatus") == "Failed")
    done = command_line.run("retry", f"{team.name}/rayjob/train", f"--kubeconfig={team.kubeconfig}", "--yes")
    assert done.stdout.strip() == f"RayJob {team.name}/train: the whole job will run again", done.stderr
    second = running_pod(team, "head", but=(first,))
    assert noted(second)["attempt"] == "0"
    now = team.wait_for("rayjobs", "train", lambda one: status(one, "jobStatus") == "RUNNING")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert status(now, "rayClusterName") != status(before, "rayClusterName")
    assert not status(now, "failed")


def test_an_annotation_lets_the_leader_run_it_again(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(ray_job(annotations=MAY_RUN_TWICE, backoffLimit=0))
    first = running_pod(team, "head")
    entrypoint_ends(team, first, 1)
    team.wait_for("rayjobs", "train", lambda one: status(one, "jobDeploymentStatus") == "Failed")
    answer = request_retry(team, "rayjob/train")
    assert (answer.returncode, answer.stderr) == (0, "")
    running_pod(team, "head", but=(first,))
    team.wait_for("rayjobs", "train", no_retry_in_progress)
    team.wait_for_all("events", lambda events: any(one["reason"] == "RetryStarted" for one in events))
