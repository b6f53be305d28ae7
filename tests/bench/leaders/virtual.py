"""Plays a scenario in virtual time, and kills the leader before or after one of its writes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from tests.bench.leaders.replica import TICK, Replica
from tests.bench.leaders.verdict import has_ended, problems
from tests.bench.leaders.world import World
from tests.cluster.objects import ACCOUNT
from tests.virtual_time import now, run
from webhook.systems.account_object import path_of
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.leaders.scenarios import Scenario

LONGEST: Final = 900.0  # seconds of a run
AFTERWARDS: Final = 60.0  # in which nothing more may happen
RESTARTED: Final = 3.0  # seconds until a killed container runs again
APART: Final = 7.0  # seconds from one Job to the next

Moment = Literal["before", "after"]


class Kill(NamedTuple):
    """When a leader is killed: before or after its write of that number. `standby`: whether another replica watches."""

    write: int
    moment: Moment
    standby: bool

    def __str__(self) -> str:
        other = "with a standby" if self.standby else "alone"
        return f"killed {self.moment} write {self.write}, {other}"


@dataclass
class Run:
    """One run of a scenario: what came of it, and what the leaders wrote."""

    scenario: Scenario
    kill: Kill | None = None
    jobs: int = 1
    writes: list[str] = field(default_factory=list)
    killed: bool = False
    problems: list[str] = field(default_factory=list)

    def play(self) -> Run:
        run(self.main())
        return self

    async def main(self) -> None:
        scenario = self.scenario
        self.world = World(scenario.policy(), scenario.program, has_spot=scenario.has_spot)
        await self.world.start()
        try:
            leader = await self.start()
            leader.api.before, leader.api.after = self.before, self.after
            if self.kill is not None and self.kill.standby:
                await self.start()
            for number in range(self.jobs):
                await self.world.add_job(scenario.manifest(number))
                await asyncio.sleep(APART)
            while now() < LONGEST and not all(map(has_ended, self.world.jobs())):  # noqa: ASYNC110 - or the time
                await asyncio.sleep(TICK)
            await asyncio.sleep(AFTERWARDS)
            self.problems += self.found()
        finally:
            await self.world.stop()

    async def start(self) -> Replica:
        replica = self.world.replica()
        await replica.ready()
        return replica

    def before(self, method: str, path: str) -> None:
        self.writes.append(f"{method} {path}")
        self.kill_at("before")

    def after(self, _method: str, _path: str) -> None:
        self.kill_at("after")

    def kill_at(self, moment: Moment) -> None:
        """Kill the first leader if this is its moment: it does nothing more, not even with what it has begun."""
        if self.kill is None or self.killed or (len(self.writes), moment) != (self.kill.write, self.kill.moment):
            return
        self.killed = True
        leader = self.world.replicas[0]
        leader.api.dead = True
        self.world.tasks.append(asyncio.create_task(self.replace(leader)))

    async def replace(self, leader: Replica) -> None:
        await leader.kill()
        await asyncio.sleep(RESTARTED)
        await self.start()

    def found(self) -> Iterator[str]:
        """Yield what is stuck, done twice or otherwise wrong."""
        if self.kill is not None and not self.killed:
            yield f"there was no write {self.kill.write}"
        for job in self.world.jobs():
            stored = self.world.store.objects.get(path_of(batch.JOB, job))
            yield from problems(self.scenario, {**job, ACCOUNT: stored}, self.world.history)


def kills(scenario: Scenario, jobs: int) -> list[Kill]:
    """Return a kill before and after each write of an undisturbed run, alone and with a standby."""
    undisturbed = Run(scenario, jobs=jobs).play()
    assert not undisturbed.problems, undisturbed.problems
    return [
        Kill(number, moment, standby)
        for standby in (False, True)
        for number in range(1, len(undisturbed.writes) + 1)
        for moment in get_args(Moment)
    ]
