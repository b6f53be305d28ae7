"""`retry-policy report` of Jobs that fail, are evicted and succeed, compared with what a watch of the test saw."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import LONGEST, until
from tests.cluster import command_line
from tests.cluster.conftest import opted_in
from tests.cluster.installation import CONTROLLER
from tests.cluster.manifests import exits, job
from tests.cluster.objects import condition, ended
from tests.cluster.test_retry import new_user

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

CORES, GIB = 0.05, 0.0625  # that each pod requests
CAUSES = {"Succeeded": 3, "ExitCode": 3, "Disruption": 1}
NO_TIME = 1e-6


def with_requests(manifest: Object) -> Object:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return manifest


def reported(team: Namespace, *options: str, kubeconfig: Path | None = None) -> Object:
    answer = command_line.run("report", "-o", "json", *options, f"--kubeconfig={kubeconfig or team.kubeconfig}")
    assert answer.exit_code == 0, answer.stderr
    parsed: Object = json.loads(answer.stdout)
    return parsed


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def end_of(pod: Object) -> float:
    """Return when an ended pod ended: its last container, or else the disruption that ended it."""
    states = [one["state"].get("terminated") for one in pod["status"].get("containerStatuses", [])]
    ends = [one["finishedAt"] for one in states if one]
    return time_of(max(ends) if ends else condition(pod, "DisruptionTarget")["lastTransitionTime"])


class Watched:
    """The pods of a namespace since this object was made, also those that are gone."""

    def __init__(self, team: Namespace) -> None:
        self.team = team
        self.path = f"api/v1/namespaces/{team.name}/pods"
        self.version = team.api.list(self.path)["metadata"]["resourceVersion"]

    def seconds(self) -> dict[str, float]:
        """Return how long each pod of `run_jobs` has run, by its name, once all have ended."""
        found = {}
        for _, pod in self.team.api.watch(self.path, resourceVersion=self.version, timeoutSeconds=f"{LONGEST:g}"):
            if pod["status"]["phase"] in {"Failed", "Succeeded"}:
                found[pod["metadata"]["name"]] = end_of(pod) - time_of(pod["status"]["startTime"])
            if len(found) == PODS:
                break
        return found


PODS: Final = 7  # of `run_jobs`


def run_jobs(team: Namespace) -> None:
    """Run Jobs until one has succeeded after two failures, one after an eviction, one at once, and one has failed."""
    team.create(with_requests(job("retried", exits(143, 143, 0), backoffLimit=3)))
    team.create(with_requests(job("evicted", backoffLimit=3)))
    team.create(with_requests(job("good", exits(0), backoffLimit=3)))
    team.create(with_requests(job("buggy", exits(1), backoffLimit=3)))
    (first,) = team.running("evicted", 1)
    team.evict(first["metadata"]["name"])
    (second,) = team.running("evicted", 1, but=first)
    team.ends(second, 0)
    for name in ("retried", "evicted", "good"):
        team.wait_for("jobs", name, lambda found: condition(found, "Complete"))
    team.wait_for("jobs", "retried", lambda found: ended(found, 2))
    team.wait_for("jobs", "evicted", lambda found: ended(found, 1))
    team.wait_for("jobs", "buggy", lambda found: condition(found, "Failed") and ended(found, 1))


@pytest.mark.first
def test_the_report_agrees_with_what_a_watch_saw_also_after_the_pods_are_gone(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    watched = Watched(team)
    run_jobs(team)
    seconds = watched.seconds()
    found = reported(team, "-n", team.name)
    assert agrees(found["total"], seconds)
    states = {row["name"]: row["state"] for row in found["workloads"]}
    assert states == {"retried": "Complete", "evicted": "Complete", "good": "Complete", "buggy": "Failed"}
    assert found["total"]["savedRetries"]["attempts"] == 3
    by_capacity = [found["total"][name].get("attempts", 0) for name in ("spot", "onDemand")]
    assert sum(by_capacity) == len(seconds)
    (bug,) = next(row["attempts"] for row in found["workloads"] if row["name"] == "buggy")
    assert (bug["cause"], bug["cost"], bug["rule"], bug["retriesLeft"]) == (
        "ExitCode",
        "fatal",
        "podFailurePolicy rule 1: FailJob",
        3,
    )
    team.run("delete", "pods", "--field-selector=status.phase=Failed", "--wait")
    left = reported(team, "-n", team.name)["total"]
    assert agrees(left, seconds)
    assert (left["lost"], left["lostTo"]) == (found["total"]["lost"], found["total"]["lostTo"])


def agrees(total: Object, seconds: dict[str, float]) -> bool:
    """Return True if sums are those of the pods that ended, and the causes those of the Jobs of `run_jobs`."""
    used: Any = total["used"]
    assert used["attempts"] == len(seconds) == 7
    assert used["seconds"] == pytest.approx(sum(seconds.values()), abs=NO_TIME)
    assert used.get("resources", {}).get("cpu", 0) == pytest.approx(CORES * sum(seconds.values()), abs=NO_TIME)
    assert used.get("resources", {}).get("memory", 0) == pytest.approx(GIB * sum(seconds.values()), abs=NO_TIME)
    assert total["causes"] == CAUSES
    return True


@pytest.mark.first
def test_the_servers_log_says_the_same_as_the_live_report(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    watched = Watched(team)
    run_jobs(team)
    seconds = watched.seconds()
    log = f"{os.environ['RETRY_POLICY_TEST_LOGS']}/{CONTROLLER}.log"
    options = ("-n", team.name, "--history", log)
    until(lambda: reported(team, *options)["total"]["used"].get("attempts", 0) == len(seconds))
    until(lambda: reported(team, *options)["total"]["complete"] == 3)
    found = reported(team, *options)
    assert agrees(found["total"], seconds)
    assert (found["total"]["complete"], found["total"]["failed"], found["source"]) == (3, 1, "history")


def test_a_user_of_one_namespace_gets_its_report_with_notes_about_what_is_missing(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    team.create(with_requests(job("good", exits(0), backoffLimit=3)))
    team.wait_for("jobs", "good", lambda found: condition(found, "Complete"))
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "lists"}, "rules": rules}
    team.create(role)
    user = new_user(team, tmp_path, "Role/lists")
    found = reported(team, "-n", team.name, kubeconfig=user)
    assert (found["total"]["used"]["attempts"], found["total"]["complete"]) == (1, 1)
    assert any(note.startswith("nodes cannot be listed: ") for note in found["notes"])
    assert any(note.startswith("the policy cannot be read, so its prices are not known") for note in found["notes"])
    everywhere = command_line.run("report", f"--kubeconfig={user}")
    assert (everywhere.exit_code, everywhere.stdout) == (2, "")
    assert everywhere.stderr.endswith("; name a namespace with -n\n")


def test_a_selector_chooses_workloads_by_their_labels(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    for name in ("red", "blue"):
        manifest = with_requests(job(name, exits(0), backoffLimit=3))
        manifest["metadata"]["labels"] = {"team": name}
        team.create(manifest)
        team.wait_for("jobs", name, lambda found: condition(found, "Complete"))
    found = reported(team, "-n", team.name, "-l", "team in (red)")
    assert [row["name"] for row in found["workloads"]] == ["red"]
    assert found["total"]["used"]["attempts"] == 1
    assert reported(team, "-n", team.name, "--profile", "strict")["workloads"] == []


@pytest.mark.first
def test_another_policy_is_tried_on_what_the_cluster_has(namespace: NewNamespace, tmp_path: Path) -> None:
    team = opted_in(namespace)
    run_jobs(team)
    other = tmp_path / "other.yaml"
    other.write_text(
        "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\n"
        "profiles: {default: {failurePolicy: {retriableExitCodes: [1, 143]}}}\n"
    )
    arguments = ("-n", team.name, "--policy", str(other), "-o", "json", f"--kubeconfig={team.kubeconfig}")
    answer = command_line.run("simulate", *arguments)
    assert answer.exit_code == 0, answer.stderr
    (found,) = [one for one in json.loads(answer.stdout)["namespaces"] if one["name"] == team.name]
    assert (found["seen"]["attempts"], found["seen"]["complete"], found["seen"]["failed"]) == (7, 3, 1)
    assert found["then"]["attempts"]["mean"] > 7, "a bug that is worth retries has more attempts"
