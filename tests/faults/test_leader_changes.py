"""Leaders that end while pods of many Jobs end: the accounts and verdicts of the next ones."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.bench.disruptions import leads
from tests.bench.replay.plan import Plan
from tests.bench.replay.run import Run
from tests.bench.replay.stages import RealWorld
from tests.cluster.disruptions import own_nodes
from tests.cluster.installation import policy_of_tests
from tests.cluster.namespace import Api as ApiOfTests
from tests.cluster.namespace import Namespace
from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.conftest import Scene, Turn, program
from tests.cluster.scenarios.test_bad_nodes import expect_avoided, reject
from tests.cluster.scenarios.test_hardware import blamed, breaks
from tests.cluster.scenarios.test_jobs import failed_for, is_complete
from tests.faults.stage import Stage, new_stage
from webhook.kube.client import Api
from webhook.kube.names import PROFILE
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENDS = 500
RATE = 20  # a second: the second leader is killed, so the third one takes over while pods go on ending


def test_every_account_is_exact_although_two_leaders_end_while_pods_are_disrupted(stage: Stage) -> None:
    stage.delete_configurations()  # nobody but this test creates pods, as the webhook would admit them

    async def replay() -> list[str]:
        plan = Plan(ENDS)
        async with await Api.connect(str(stage.admin)) as api:
            world = RealWorld(stage, api)
            await world.fill(plan)
            return await Run(world, plan, RATE).main()

    assert asyncio.run(replay()) == []


@pytest.fixture
def whole() -> Iterator[Stage]:
    with new_stage(whole=True) as stage:
        stage.policy = {**stage.policy, "data": {KEY: policy_of_tests()}}
        stage.reset()
        yield stage


@pytest.fixture
def scene_of(whole: Stage) -> Iterator[Callable[[str], Scene]]:
    """Return a function that creates the scene of a profile, with one spot node."""
    with ExitStack() as stack:
        api = ApiOfTests.connect(whole.admin)
        stack.callback(api.close)

        def create(profile: str) -> Scene:
            name, labels = f"of-{profile}", {PROFILE: profile}
            metadata = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            whole.kubectl.create(metadata)
            team = Namespace(whole.kubectl.program, whole.kubectl.kubeconfig, name, api)
            return Scene(whole.kubectl, team, stack.enter_context(own_nodes(whole.kubectl, spot=1)))

        yield create


@pytest.fixture
def turn(tmp_path: Path) -> Iterator[Turn]:
    with (tmp_path / "times").open("a+") as file:
        yield Turn(file)


def test_a_verdict_that_takes_several_steps_is_the_same_if_the_leader_is_killed_between_them(
    whole: Stage, scene_of: Callable[[str], Scene], turn: Turn
) -> None:
    whole.two_replicas()
    confirm, many, faulty, bad, renewed = map(scene_of, ("confirm", "many-pods", "hardware", "bad-nodes", "renewed"))

    confirm.create("one-small-pod.yaml", program(1, None))
    many.create("shards.yaml")
    shards = many.team.running("shards", 4)
    many.team.all_end(shards[:2], 1)
    faulty.create("one-small-pod.yaml", program(None, 0))
    (crashed,) = faulty.team.running("report", 1)
    for name in ("one", "two", "three"):
        bad.create("one-small-pod.yaml", program(), name=name)
    rejected = [bad.team.running(name, 1)[0] for name in ("one", "two", "three")]
    for pod in rejected[:2]:
        reject(bad, pod, turn.time())
    renewed.create("one-small-pod.yaml", program(143, 143, None))
    confirm.team.wait_for("jobs", "report", partial(ended, number=1))
    many.team.wait_for("jobs", "shards", partial(ended, number=2))
    renewed.team.wait_for("jobs", "report", partial(ended, number=1))
    faulty.team.ends(crashed, 1)
    faulty.team.wait_for("jobs", "report", partial(ended, number=1))

    (leader,) = filter(leads, whole.replicas)
    whole.remove(leader)

    breaks(faulty.team.api, crashed["spec"]["nodeName"])
    (second,) = confirm.team.running("report", 1)
    confirm.team.ends(second, 1)
    many.team.all_end(shards[2:], 1)
    reject(bad, rejected[2], turn.time())

    failed = confirm.team.wait_for("jobs", "report", failed_for)
    message = condition(failed, "Failed")["message"]
    assert "the second failure that nothing explains; the one before it: main 1" in message
    assert failed_for(many.team.wait_for("jobs", "shards", failed_for)) == "JobWideFailure"
    assert account(faulty.team.wait_for("jobs", "report", blamed))["cost"] == {"disruption": 1}
    faulty.team.wait_for("jobs", "report", is_complete)
    renewed.team.wait_for("jobs", "report", lambda found: found["spec"]["backoffLimit"] > 2)
    renewed.team.running("report", 1)
    expect_avoided(bad, rejected[0]["spec"]["nodeName"], "RejectsPods", "has rejected pods 3 times in ten minutes")
