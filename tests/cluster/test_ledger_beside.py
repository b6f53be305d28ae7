"""The accounts of FlyteWorkflows and of the workers of an MPIJob, whose pods the tests create as these systems do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.conftest import WITH_SYSTEMS, opted_in, with_operators
from tests.cluster.manifests import pod_template
from tests.cluster.namespace import DRY_RUN
from tests.cluster.objects import account, disruptions, ended, last, noted
from tests.cluster.test_ledger import explained
from webhook.systems import account_object as beside
from webhook.systems.flyte.spec import FLYTE_WORKFLOW

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = [with_operators, pytest.mark.skipif(WITH_SYSTEMS, reason="the tests play Flyte")]

ACCOUNTS = "accounts"
EVICTED = ("Disruption", "EvictionByEvictionAPI")


def pod(team: Namespace, name: str, *, env: dict[str, str] | None = None, **metadata: Any) -> Object:
    """Create a pod, and return it once it runs."""
    team.create(manifest(name, env=env, **metadata))
    return team.wait_for("pods", name, lambda found: found.get("status", {}).get("phase") == "Running")


def manifest(name: str, *, env: dict[str, str] | None = None, **metadata: Any) -> Object:
    template = pod_template()
    template["spec"]["containers"][0]["env"] = [{"name": key, "value": value} for key, value in (env or {}).items()]
    spec = {"restartPolicy": "Never", **template["spec"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def owned(owner: Object, kind: str) -> dict[str, Any]:
    reference = {"apiVersion": owner["apiVersion"], "kind": kind, "controller": True}
    return {"ownerReferences": [{**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]}


def flyte_workflow(team: Namespace, name: str = "f1") -> Object:
    """Create a FlyteWorkflow of one node, as flyteadmin does; return it once the webhook has seen it."""
    node = {"id": "n0", "kind": "task", "task": "train", "retry": {"minAttempts": 4}}
    made = team.create(
        {
            "apiVersion": FLYTE_WORKFLOW.api_version,
            "kind": FLYTE_WORKFLOW.kind,
            "metadata": {"name": name},
            "spec": {"id": "train", "nodes": {"n0": node}},
            "status": {"phase": 1},
        }
    )
    attempt = manifest("probe", **fields_of_flyte(made, 0))
    until(lambda: disruptions(team.create(attempt, *DRY_RUN)) is not None)
    return made


def of_flyte(team: Namespace, owner: Object, number: int) -> Object:
    """Create the pod of an attempt of the node, as propeller does."""
    return pod(team, f"{owner['metadata']['name']}-n0-{number}", **fields_of_flyte(owner, number))


def fields_of_flyte(owner: Object, number: int) -> dict[str, Any]:
    labels = {"node-id": "n0", "execution-id": owner["metadata"]["name"]}
    return {"env": {"FLYTE_ATTEMPT_NUMBER": str(number)}, "labels": labels, **owned(owner, "flyteworkflow")}


def counted(team: Namespace, name: str, number: int) -> Object:
    """Return the Account of a FlyteWorkflow once it has counted so many pods."""
    uid = team.get("flyteworkflows", name)["metadata"]["uid"]
    return team.wait_for(ACCOUNTS, beside.name_of(FLYTE_WORKFLOW, name, uid), lambda found: ended(found, number))


def test_the_attempts_of_a_flyte_workflow_are_in_an_account_beside_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "limited")
    owner = flyte_workflow(team)
    first = of_flyte(team, owner, 0)
    assert team.get(ACCOUNTS)["items"] == []
    team.evict(first["metadata"]["name"])
    found = counted(team, "f1", 1)
    assert last(found) == [(*EVICTED, "disruption")]
    second = of_flyte(team, owner, 1)
    assert (disruptions(first), noted(first)["placement"]) == ("0", "Spot")
    assert (disruptions(second), noted(second)["placement"]) == ("1", "OnDemand")
    assert team.get("flyteworkflows", "f1")["metadata"]["resourceVersion"] == owner["metadata"]["resourceVersion"]
    team.told("f1", text="n0: pod f1-n0-0")


def test_the_account_of_a_flyte_workflow_is_deleted_with_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    owner = flyte_workflow(team)
    team.ends(of_flyte(team, owner, 0), 137)
    counted(team, "f1", 1)
    team.delete("flyteworkflow/f1")
    until(lambda: team.get(ACCOUNTS)["items"] == [])


def test_more_disruptions_than_allowed_do_nothing_to_a_flyte_workflow(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "fail")
    owner = flyte_workflow(team)
    for number in range(3):
        team.evict(of_flyte(team, owner, number)["metadata"]["name"])
        counted(team, "f1", number + 1)
    found = team.get("flyteworkflows", "f1")["metadata"]
    assert found["resourceVersion"] == owner["metadata"]["resourceVersion"]


def test_explain_prints_the_attempts_of_a_flyte_workflow(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    owner = flyte_workflow(team)
    team.evict(of_flyte(team, owner, 0)["metadata"]["name"])
    counted(team, "f1", 1)
    of_flyte(team, owner, 1)
    found = explained(team, "flyteworkflow/f1")
    assert [(row["unit"], row["cost"]) for row in found["rows"]] == [("n0", "disruption"), ("n0", "")]
    assert explained(team, "f1") == found


def test_an_account_is_not_changed_by_users_nor_the_labels_by_which_its_pods_are_counted(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    name = of_flyte(team, flyte_workflow(team), 0)["metadata"]["name"]
    assert "metadata.labels[node-id]: " in team.patched(f"pod/{name}", {"metadata": {"labels": {"node-id": "7"}}})
    team.ends(team.get("pods", name), 1)
    own = counted(team, "f1", 1)["metadata"]["name"]
    patches: tuple[Object, ...] = ({"status": {"attempts": 0}}, {"status": None}, {"metadata": {"ownerReferences": []}})
    for patch in patches:
        refused = team.patched(f"{ACCOUNTS}/{own}", patch)
        assert ("is written by the ledger alone" in refused) is ("status" in patch)
    assert team.patched(f"{ACCOUNTS}/{own}", {"spec": {"name": "f2"}})


def test_the_workers_of_an_mpi_job_are_counted_on_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "limited")
    root = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "train"}}
    spec = {"runPolicy": {"backoffLimit": 3}, "mpiReplicaSpecs": {}}
    owner = team.create({**root, "spec": spec})
    labels = {f"training.kubeflow.org/{key}": one for key, one in (("job-role", "worker"), ("replica-index", "0"))}
    worker = partial(pod, team, "train-worker-0", labels=labels, **owned(owner, "MPIJob"))
    team.evict(worker()["metadata"]["name"])
    found = team.wait_for("mpijobs", "train", lambda found: ended(found, 1))
    assert last(found) == [(*EVICTED, "disruption")]
    assert account(found)["units"] == {"1": "worker/0"}
    team.wait_for_all("pods", lambda pods: not pods)
    again = worker()
    assert (disruptions(again), noted(again)["placement"]) == ("1", "OnDemand")
