"""One replay: load, two leader changes, what a leader and a follower cost, and the comparison of all accounts."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

from tests.bench.asking import cpu_seconds, resident
from tests.bench.disruptions import leads, metrics
from tests.bench.replay.player import Player
from tests.faults.stage import controller_of
from webhook.accounts.stored import decode

if TYPE_CHECKING:
    from tests.bench.replay.plan import Plan
    from tests.bench.replay.stages import World
    from tests.faults.stage import Replica

REPLICAS: Final = 3
LONGEST: Final = 240.0  # seconds until every account must be exact
LONGEST_START: Final = 120.0  # seconds until a replica must have read all lists, or one must lead
STILL: Final = 20.0  # seconds without a change of any account after which they are compared for the last time
SHOWN: Final = 10  # problems
WRITES: Final = "retry_policy_ledger_writes_total"
DROPPED: Final = "retry_policy_events_dropped_total"
WATCHED: Final = tuple(f'retry_policy_cache_age_seconds{{list="{name}"}}' for name in ("jobs", "pods"))


class Run:
    """One replay in one world."""

    def __init__(self, world: World, plan: Plan, rate: float) -> None:
        self.world = world
        self.plan = plan
        self.rate = rate
        self.player = Player(world.api, plan.ends, world.pods)

    async def main(self) -> list[str]:
        """Replay the plan; return what is wrong about accounts."""
        jobs, pods = len(self.plan.workloads), len(self.plan.ends)
        print(f"{jobs} Jobs with {pods} pods, {self.rate:g} ends a second, {REPLICAS} replicas", flush=True)
        for replica in [await self.start() for _ in range(REPLICAS)]:
            await self.until_synced(replica)
        leader = await self.leader()
        print(f"memory before: {self.memory()}", flush=True)
        if self.world.stand_in is not None:
            self.world.stand_in.forget()
        before = self.cpu()
        begin = time.monotonic()
        playing = asyncio.create_task(self.player.play(self.rate))
        await self.until_done(pods // 3, playing)
        self.report(leader, before, time.monotonic() - begin)
        print(f"at {self.player.done}: the leader {leader.name} is terminated", flush=True)
        await self.replace(leader, kill=False)
        await self.until_done(2 * pods // 3, playing)
        leader = await self.leader()
        print(f"at {self.player.done}: the leader {leader.name} is killed", flush=True)
        await self.replace(leader, kill=True)
        await playing
        took = time.monotonic() - begin
        print(f"{pods} ends in {took:.0f} s, {pods / took:.0f} a second; the latest {self.player.late:.1f} s late")
        wrong = await self.until_exact()
        print(f"accounts: {jobs - len(wrong)} of {jobs} exact, {time.monotonic() - begin - took:.0f} s later")
        for problem in wrong[:SHOWN]:
            print(f"  {problem}")
        print(f"memory after: {self.memory()}")
        for replica in self.world.replicas.replicas:
            print(f"  {replica.name}: {await asyncio.to_thread(metrics, replica, WRITES, DROPPED)}")
        return wrong

    async def start(self) -> Replica:
        return await asyncio.to_thread(self.world.replicas.start)

    async def replace(self, replica: Replica, *, kill: bool) -> None:
        """End a replica, and start another one once it has ended."""
        replicas = self.world.replicas
        replicas.replicas.remove(replica)
        begin = time.monotonic()
        await asyncio.to_thread(replicas.kill if kill else replicas.terminate, replica)
        for process in (replica.process, replica.controller):
            await asyncio.to_thread(process.wait)
        started = await self.start()
        await self.leader()
        print(f"  another one leads after {time.monotonic() - begin:.0f} s; {started.name} is started", flush=True)

    async def until_synced(self, replica: Replica) -> None:
        """Wait until a replica watches Jobs and pods, so that it has read their lists."""
        deadline = time.monotonic() + LONGEST_START
        while any((await asyncio.to_thread(metrics, replica, *WATCHED)).values()):
            assert time.monotonic() < deadline, f"{replica.name} does not watch"
            await asyncio.sleep(0.2)

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
        ended = still = time.monotonic()
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
            if not wrong or now - still > STILL or now - ended > LONGEST:
                return wrong
            print(f"  {now - ended:.0f} s after the last end {len(wrong)} differences are left", flush=True)
            await asyncio.sleep(2)

    def pids(self) -> dict[str, int]:
        """Return the processes of the replicas, by name."""
        replicas = self.world.replicas.replicas
        webhooks = {one.name: one.process.pid for one in replicas}
        return webhooks | {controller_of(one.name): one.controller.pid for one in replicas}

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each process of the replicas, and of this program."""
        return {name: cpu_seconds(pid) for name, pid in {**self.pids(), "this program": os.getpid()}.items()}

    def memory(self) -> str:
        """Return the resident memory of each process of the replicas."""
        found = {name: resident(pid) for name, pid in self.pids().items()}
        return ", ".join(f"{name} {size:.0f} MiB" for name, size in found.items())

    def report(self, leader: Replica, before: dict[str, float], seconds: float) -> None:
        """Print what one disruption has cost, and the share of a core."""
        done = self.player.done
        print(f"{done} ends in {seconds:.0f} s, {done / seconds:.0f} a second, {self.player.late:.2f} s late at most")
        for name, after in self.cpu().items():
            used, role = after - before[name], " (leader)" if name == controller_of(leader.name) else ""
            print(f"  {name}{role}: {1e6 * used / done:.0f} us of CPU time per end, {used / seconds:.2f} cores")
        print(f"  calls of this program per end: {per(self.player.calls, done)}")
        if self.world.stand_in is not None:
            print(f"  calls of replicas per end: {per(self.world.stand_in.requests, done)}")
            print(f"  bytes to replicas per end: {per(self.world.stand_in.sent, done)}")
            print(f"  bytes from replicas per end: {per(self.world.stand_in.received, done)}", flush=True)


def per(counts: dict[str, int], done: int) -> str:
    """Return counts for each end, without those of a few requests alone."""
    least = done * (0.01 if max(counts.values(), default=0) < 10 * done else 10)
    return ", ".join(f"{name} {number / done:.3g}" for name, number in sorted(counts.items()) if number > least)
