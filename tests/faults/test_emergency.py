"""The policy's emergency on the real controllers: what it stops, at once, and what goes on after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.awaiting import until
from tests.cluster.installation import CONFIG_MAP, SYSTEM
from tests.cluster.manifests import job
from tests.cluster.namespace import Api, Namespace
from tests.cluster.objects import condition, ended
from tests.faults.stage import Stage, new_stage
from tests.stop_page import GO_ON, STOP, edited
from webhook.controller.brake import STOPPED
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

TEAM = "stopped-team"
NAME = CONFIG_MAP.partition("/")[2]


@pytest.fixture(scope="module")
def controlled() -> Iterator[Stage]:
    """A stage with controllers, on which the first disruption of a Job fails it."""
    with new_stage(whole=True) as stage:
        policy = yaml.safe_load(stage.policy["data"][KEY])
        policy["profiles"]["default"]["disruptions"] |= {"limit": 0, "onExceed": "Fail"}
        stage.policy = {**stage.policy, "data": {KEY: yaml.safe_dump(policy)}}
        stage.reset()
        stage.two_replicas()
        yield stage


@pytest.fixture
def team(controlled: Stage) -> Iterator[Namespace]:
    kubectl = controlled.kubectl
    kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    api = Api.connect(kubectl.kubeconfig)
    yield Namespace(kubectl.program, kubectl.kubeconfig, TEAM, api)
    api.close()


def edit(stage: Stage, command: str) -> None:
    """Edit the policy as docs/how-to/stop.md does: with `kubectl get`, a command and `kubectl replace`."""
    here = f"--namespace={SYSTEM}"
    text = stage.kubectl.run("get", here, "configmap", NAME, "--output=yaml").stdout
    done = stage.kubectl.run("replace", here, "--filename=-", stdin=edited(text, command))
    assert done.returncode == 0, done.stderr


def retries(team: Namespace) -> int:
    """Return the retries that a new Job gets whose author asks for five."""
    return int(team.create(job("asks", backoffLimit=5), "--dry-run=server")["spec"]["backoffLimit"])


def test_a_stop_holds_what_the_leader_would_do_and_the_retries_of_new_jobs(controlled: Stage, team: Namespace) -> None:
    assert controlled.kubectl.run("label", "namespace", TEAM, "retry-policy.dev/profile=default").returncode == 0
    until(lambda: retries(team) == 5)
    team.create(job("train", backoffLimit=3))
    (pod,) = team.running("train", 1)

    edit(controlled, STOP)
    edit(controlled, "sed 's/{actions: Stop}/{actions: Stop, retries: Stop}/'")
    until(lambda: retries(team) == 0)
    team.evict(pod["metadata"]["name"])
    team.wait_for("jobs", "train", lambda found: ended(found, 1))
    (message,) = team.told("train", "ActionNotTaken")
    assert message == (
        f"would fail it: pod {TEAM}/{pod['metadata']['name']}: disruption 1 exceeds the limit of 0; {STOPPED}"
    )
    (following,) = team.running("train", 1, but=pod)
    assert not condition(team.get("job", "train"), "FailureTarget")

    edit(controlled, "sed 's/{actions: Stop, retries: Stop}/{actions: Stop}/'")
    until(lambda: retries(team) == 5)
    edit(controlled, GO_ON)
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "DisruptionLimitExceeded"
    assert pod["metadata"]["name"] in condition(found, "Failed")["message"]
    assert following["metadata"]["name"] not in condition(found, "Failed")["message"]
