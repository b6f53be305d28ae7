"""An API server that answers 429 to the replicas while pods are disrupted: nothing is lost or counted twice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from tests.awaiting import until
from tests.cluster.flow_control import jam
from tests.cluster.manifests import job, pod
from tests.cluster.namespace import Api, Namespace
from tests.cluster.objects import account, ended, last
from tests.faults.stage import Replica, Stage, new_stage
from webhook.systems.job.spec import JOB_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Object

TEAM = "disrupted-team"
OLD = [f"old-{number}" for number in range(6)]  # Jobs with a disruption before the API server is busy
NEW = [f"new-{number}" for number in range(6)]
EVICTED = ("Disruption", "EvictionByEvictionAPI", "disruption")
BUSY = "the API server is busy"
NOT_WRITTEN = "account not written"
STEPPED_DOWN = "no longer leading"
BEFORE_LOOKUPS = 300  # the precedence of a FlowSchema: after that of the Leases, and before the others of the manifests
BEFORE_ALL = 100
# Requests of a replica that do not wait for each other: its lists, writers of accounts, Lease, Events, nodes.
LOOPS = 40


@pytest.fixture(scope="module")
def controlled() -> Iterator[Stage]:
    with new_stage(whole=True) as stage:
        stage.reset()
        yield stage


@pytest.fixture
def team(controlled: Stage) -> Iterator[Namespace]:
    kubectl = controlled.kubectl
    name = f"{TEAM}-{controlled.started}"
    labels = {"retry-policy.dev/profile": "default"}
    kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    api = Api.connect(kubectl.kubeconfig)
    yield Namespace(kubectl.program, kubectl.kubeconfig, name, api)
    api.close()


def is_ready(replica: Replica) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{replica.health_port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def evict_all(team: Namespace, jobs: list[str]) -> None:
    """Evict the pods of Jobs with one pod each."""
    for name in jobs:
        (pod,) = team.running(name, 1)
        team.evict(pod["metadata"]["name"])


def pod_of_unknown_job() -> Object:
    """Return a pod for whose admission a replica has to ask the API server."""
    found = pod("asks")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "unknown", "uid": "unknown", "controller": True}
    found["metadata"] |= {"ownerReferences": [owner], "labels": {JOB_NAME: "unknown"}}
    return found


def until_exact(team: Namespace, jobs: list[str], disruptions: int) -> None:
    """Wait until each account has counted these disruptions, and nothing else."""
    for name in jobs:
        found = team.wait_for("jobs", name, partial(ended, number=disruptions))
        assert (account(found)["ended"], account(found)["cost"]) == (disruptions, {"disruption": disruptions})
        assert set(last(found)) == {EVICTED}


@pytest.mark.parametrize("precedence", [BEFORE_LOOKUPS, BEFORE_ALL], ids=["all but Leases", "all requests"])
def test_while_the_api_server_refuses_requests_pods_are_admitted_and_afterwards_every_account_is_exact(
    controlled: Stage, team: Namespace, precedence: int
) -> None:
    stage = controlled
    stage.reset()
    replicas = stage.two_replicas()
    for name in (*OLD, *NEW):
        team.create(job(name))
    evict_all(team, OLD)
    until_exact(team, OLD, 1)
    for name in (*OLD, *NEW):
        team.running(name, 1)
    with jam(stage.kubectl, precedence=precedence) as refusing:
        late = stage.start(in_balancer=False)
        evict_all(team, [*OLD, *NEW])
        for name in NEW:
            team.running(name, 1)  # the admission of the next pod needs the replicas
        until(lambda: stage.lines(replicas, BUSY))
        answer = team.run("create", "--dry-run=server", "--filename=-", stdin=pod_of_unknown_job())
        assert "failed calling webhook" in answer.stderr
        assert any("429 Too many requests" in line["reason"] for line in stage.lines(replicas, "not answered"))
        if precedence == BEFORE_ALL:
            until(lambda: stage.lines(replicas, STEPPED_DOWN))
        else:
            until(lambda: stage.lines(replicas, NOT_WRITTEN))
            assert not stage.lines(replicas, STEPPED_DOWN)
        assert not is_ready(late)
        assert {name: account(team.get("job", name)).get("ended", 0) for name in NEW} == dict.fromkeys(NEW, 0)
        refused, seconds = refusing.refused(), refusing.seconds
        assert 0 < refused <= len([*replicas, late]) * LOOPS * (seconds + 1)
    until_exact(team, OLD, 2)
    until_exact(team, NEW, 1)
    until(lambda: is_ready(late))
    evict_all(team, NEW)
    until_exact(team, NEW, 2)
    print(f"refused {refused} requests in {seconds:.0f} s")  # noqa: T201 - for `pytest -s`
