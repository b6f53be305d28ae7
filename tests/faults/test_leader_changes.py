"""Leaders that end while pods of many Jobs end: the accounts of the next ones."""

import asyncio

from tests.bench.replay.plan import Plan
from tests.bench.replay.run import Run
from tests.bench.replay.stages import RealWorld
from tests.faults.stage import Stage
from webhook.kube.client import Api

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
