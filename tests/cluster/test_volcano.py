"""Volcano Jobs on the real API server with Volcano's CRDs. The tests play its controller, which cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.disruptions import evict
from tests.cluster.manifests import pod
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.objects import account, is_running, last, noted
from tests.cluster.test_ledger import explained
from tests.unit.rules.systems.test_volcano import CASES
from tests.volcano import on, refusals, task, volcano_job

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

JOBS = "apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs/{}"
COMMANDS = "apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands"


def job_in(team: Namespace, name: str = "train") -> Object:
    return team.api.send("GET", JOBS.format(team.name, name))


def commands(team: Namespace) -> list[Object]:
    return list(team.api.list(COMMANDS.format(team.name))["items"])


def start(team: Namespace, number: int = 0, retries: int = 0, of: str = "main") -> Object:
    """Create a pod as Volcano's controller does; return it when it runs."""
    root = job_in(team)
    metadata = root["metadata"]
    owner = {"apiVersion": root["apiVersion"], "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    keys = {"job-name": metadata["name"], "task-spec": of, "task-index": "0"}
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
    evict(team, str(start(team)["metadata"]["name"]))
    assert last(counted(team, 1)) == [("Disruption", "EvictionByEvictionAPI", cost)]


@pytest.mark.parametrize(("profile", "action"), [("suspend", "AbortJob"), ("fail", "TerminateJob")])
def test_the_limit_on_disruptions_suspends_or_ends_the_job(namespace: NewNamespace, profile: str, action: str) -> None:
    team = opted_in(namespace, profile)
    created(team)
    for number in range(2):
        evict(team, str(start(team, number)["metadata"]["name"]))
    until(lambda: commands(team))
    (command,) = commands(team)
    assert command["action"] == action


def test_explain_shows_the_account_by_task_and_index(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    created(team, on("PodFailed", action="RestartTask"), tasks=[task(name="driver"), task(name="worker")])
    team.ends(start(team, of="worker"), 143)
    evict(team, str(start(team, of="driver")["metadata"]["name"]))
    counted(team, 2)
    rows = explained(team, "job.batch.volcano.sh/train")["rows"]
    assert {(row["unit"], row["cost"]) for row in rows if row["cost"] != "none"} == {
        ("worker/0", "retry"),
        ("driver/0", "retry"),
    }
