"""Accounts and records of history stay exact while the leader is killed in between."""

from __future__ import annotations

import asyncio

from tests.bench.disruptions import Run, with_policy
from tests.faults.stage import Stage, new_stage
from webhook.kube.client import Api

JOBS, DISRUPTIONS = 20, 50


def test_no_disruption_is_missing_or_counted_twice_after_a_change_of_leader() -> None:
    with new_stage(whole=True) as stage:
        with_policy(stage)
        stage.reset()
        stage.two_replicas()
        asyncio.run(compared(stage))


async def compared(stage: Stage) -> None:
    async with await Api.connect(str(stage.admin)) as api:
        run = Run(stage, api, JOBS, DISRUPTIONS)
        async with run.watched():
            await run.begin()
            await run.disrupt()
            assert await run.until_exact() == []
            wrong, _ = await run.wrong_usage()
            assert wrong == []
            missing, wrong, _ = run.wrong_records()
            assert (missing, wrong) == ([], [])
