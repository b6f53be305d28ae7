"""Disruptions replayed at a constant rate, with two leader changes: are accounts exact, and what does a leader cost?

`python -m tests.bench.replay [DISRUPTIONS RATE]`: on a real API server, by default 10000 at 100 a second. Nobody but
this program creates, ends or counts pods: it plays scheduler, kubelet and Job controller (player.py). Three replicas
run; after a third of the disruptions the leader is terminated, after two thirds the next one is killed, and each time
another replica is started.

`--stand-in`: beside a stand-in for the API server (stand_in.py), by default 100000 at 500 a second: two cores cannot
serve as much with a real one. This shows what the replicas do and cost at that rate.
"""

from __future__ import annotations

import argparse
import sys
import time

import uvloop

from tests.bench.replay.plan import Plan
from tests.bench.replay.run import Run
from tests.bench.replay.stages import RealWorld, local_world
from tests.faults.stage import Stage, new_stage
from webhook.kube.client import Api


async def beside_stand_in(disruptions: int, rate: float) -> list[str]:
    plan = Plan(disruptions)
    async with local_world(plan) as world:
        return await Run(world, plan, rate).main()


async def on_api_server(stage: Stage, disruptions: int, rate: float) -> list[str]:
    plan = Plan(disruptions)
    async with await Api.connect(str(stage.admin)) as api:
        world = RealWorld(stage, api)
        begin = time.monotonic()
        await world.fill(plan)
        print(f"created in {time.monotonic() - begin:.0f} s", flush=True)
        return await Run(world, plan, rate).main()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.replay", description=__doc__)
    parser.add_argument("disruptions", type=int, nargs="?")
    parser.add_argument("rate", type=float, nargs="?")
    parser.add_argument("--stand-in", action="store_true")
    options = parser.parse_args()
    if options.stand_in:
        return len(uvloop.run(beside_stand_in(options.disruptions or 100_000, options.rate or 500)))
    with new_stage() as stage:
        stage.reset()
        stage.delete_configurations()  # so that the API server calls no webhook for this program's writes
        return len(uvloop.run(on_api_server(stage, options.disruptions or 10_000, options.rate or 100)))


if __name__ == "__main__":
    sys.exit(bool(main()))
