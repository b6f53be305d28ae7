"""Disruptions replayed at a constant rate, with two leader changes: is every account exact, and what does a leader cost?

`python -m tests.bench.replay [DISRUPTIONS RATE]`: on a real API server, by default 10000 at 100 a second. Nobody but
this program creates, ends or counts pods: it plays scheduler, kubelet and Job controller (player.py). Three replicas
run; after a third of the disruptions the leader is terminated, after two thirds the next one is killed, and each is
started again.

`--stand-in`: beside a stand-in for the API server (stand_in.py), by default 100000 at 500 a second: two cores cannot
serve as much with a real one. This shows what the replicas do and cost at that rate.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import uvloop

from tests.bench.asking import cpu_seconds, resident
from tests.bench.disruptions import leads, metrics
from tests.bench.replay.plan import Plan
from tests.bench.replay.player import Player
from tests.bench.replay.stages import RealWorld, local_world
from tests.faults.stage import Stage, new_stage
from webhook.kube.client import Api
from webhook.ledger.model.account import decode

if TYPE_CHECKING:
    from tests.bench.replay.stages import World
    from tests.faults.stage import Replica

REPLICAS: Final = 3
LONGEST: Final = 120.0  # seconds until every account must be exact
LONGEST_START: Final = 120.0  # seconds until a replica must have read all lists, or one must lead
STILL: Final = 20.0  # seconds without a change of any account after which they are compared for the last time
SHOWN: Final = 10  # problems
TRACKED: Final = "retry_policy_ledger_workloads"
WRITES: Final = "retry_policy_ledger_writes_total"


class Run:
    """One replay in one world."""

    def __init__(self, world: World, plan: Plan, rate: float) -> None:
        self.world = world
        self.plan = plan
        self.rate = rate
        self.player = Player(world.api, plan.ends, world.pods)

    async def main(self) -> int:
        """Replay the plan; return how many accounts are wrong."""
        jobs, pods = len(self.plan.workloads), len(self.plan.ends)
        print(f"{jobs} Jobs with {pods} pods, {self.rate:g} ends a second, {REPLICAS} replicas", flush=True)
        for replica in [await self.start() for _ in range(REPLICAS)]:
            await self.until_synced(replica)
        leader = await self.leader()
        await asyncio.sleep(2)  # after the start
        print(f"memory before: {self.memory()}", flush=True)
        before = self.cpu()
        begin = time.monotonic()
        playing = asyncio.create_task(self.player.play(self.rate))
        await self.until_done(pods // 3, playing)
        self.report(leader, before, time.monotonic() - begin)
        print(f"at {self.player.done}: the leader {leader.name} is terminated", flush=True)
        await self.replace(leader, playing, kill=False)
        await self.until_done(2 * pods // 3, playing)
        leader = await self.leader()
        print(f"at {self.player.done}: the leader {leader.name} is killed", flush=True)
        await self.replace(leader, playing, kill=True)
        await playing
        took = time.monotonic() - begin
        print(f"{pods} ends in {took:.0f} s, {pods / took:.0f} a second; the latest {self.player.late:.1f} s late")
        wrong = await self.until_exact()
        print(f"accounts: {jobs - len(wrong)} of {jobs} exact, {time.monotonic() - begin - took:.0f} s later")
        for problem in wrong[:SHOWN]:
            print(f"  {problem}")
        print(f"memory after: {self.memory()}")
        for replica in self.world.replicas.replicas:
            print(f"  {replica.name}: {await asyncio.to_thread(metrics, replica, WRITES)}")
        return len(wrong)

    async def start(self) -> Replica:
        return await asyncio.to_thread(self.world.replicas.start)

    async def replace(self, replica: Replica, playing: asyncio.Task[None], *, kill: bool) -> None:
        """End a replica, and start another one once it has ended."""
        del playing
        replicas = self.world.replicas
        replicas.replicas.remove(replica)
        begin = time.monotonic()
        await asyncio.to_thread(replicas.kill if kill else replicas.terminate, replica)
        await asyncio.to_thread(replica.process.wait)
        started = await self.start()
        await self.leader()
        print(f"  another one leads after {time.monotonic() - begin:.0f} s; {started.name} is started", flush=True)

    async def until_synced(self, replica: Replica) -> None:
        """Wait until a replica tracks all Jobs."""
        deadline = time.monotonic() + LONGEST_START
        while (await asyncio.to_thread(metrics, replica, TRACKED)).get(TRACKED) != len(self.plan.workloads):
            assert time.monotonic() < deadline, f"{replica.name} does not track all Jobs"
            await asyncio.sleep(0.5)

    async def leader(self) -> Replica:
        """Wait until a replica leads, and return it."""
        deadline = time.monotonic() + LONGEST_START
        while True:
            for replica in self.world.replicas.replicas:
                if await asyncio.to_thread(leads, replica):
                    return replica
            assert time.monotonic() < deadline, "no replica leads"
            await asyncio.sleep(0.2)

    async def until_done(self, number: int, playing: asyncio.Task[None]) -> None:
        """Wait until so many pods have ended."""
        while self.player.done < number and not playing.done():  # noqa: ASYNC110 - in another task
            await asyncio.sleep(0.05)

    async def until_exact(self) -> list[str]:
        """Wait until every account is exact, or none has changed for long; return what is wrong."""
        deadline = still = time.monotonic()
        last: object = None
        while True:
            found = await self.world.accounts()
            wrong = [
                problem
                for one in self.plan.workloads
                for problem in one.problems(decode(found[one.namespace, one.name]))
            ]
            now = time.monotonic()
            if found != last:
                last, still = found, now
            if not wrong or now - still > STILL or now - deadline > LONGEST:
                return wrong
            await asyncio.sleep(2)

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each replica, and of this program."""
        found = {one.name: cpu_seconds(one.process.pid) for one in self.world.replicas.replicas}
        return {**found, "this program": cpu_seconds(os.getpid())}

    def memory(self) -> str:
        """Return the resident memory of each replica."""
        found = {one.name: resident(one.process.pid) for one in self.world.replicas.replicas}
        return ", ".join(f"{name} {size:.0f} MiB" for name, size in found.items())

    def report(self, leader: Replica, before: dict[str, float], seconds: float) -> None:
        """Print what one disruption has cost, and the share of a core."""
        done = self.player.done
        print(f"{done} ends in {seconds:.0f} s, {done / seconds:.0f} a second, {self.player.late:.2f} s late at most")
        for name, after in self.cpu().items():
            used, role = after - before[name], " (leader)" if name == leader.name else ""
            print(f"  {name}{role}: {1e6 * used / done:.0f} us of CPU time per end, {used / seconds:.2f} cores")
        print(f"  calls of this program per end: {per(self.player.calls, done)}")
        if self.world.stand_in is not None:
            print(f"  calls of replicas per end: {per(self.world.stand_in.requests, done)}")
            print(f"  bytes to replicas per end: {per(self.world.stand_in.sent, done)}")
            print(f"  bytes from replicas per end: {per(self.world.stand_in.received, done)}", flush=True)


def per(counts: dict[str, int], done: int) -> str:
    """Return counts for each end."""
    return ", ".join(f"{name} {number / done:.3g}" for name, number in sorted(counts.items()) if number / done > 0.01)


async def beside_stand_in(disruptions: int, rate: float) -> int:
    plan = Plan(disruptions)
    async with local_world(plan) as world:
        for counter in (world.stand_in.requests, world.stand_in.sent, world.stand_in.received) if world.stand_in else ():
            counter.clear()
        return await Run(world, plan, rate).main()


async def on_api_server(stage: Stage, disruptions: int, rate: float) -> int:
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
        return uvloop.run(beside_stand_in(options.disruptions or 100_000, options.rate or 500))
    with new_stage() as stage:
        stage.reset()
        stage.delete_configurations()  # so that the API server calls no webhook for this program's writes
        return uvloop.run(on_api_server(stage, options.disruptions or 10_000, options.rate or 100))


if __name__ == "__main__":
    sys.exit(bool(main()))
