"""What chance decides, by a seed: when each Job is created, how long it runs, and what is wrong with it.

All times are minutes of simulated time. Each Job is the same under every policy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

JOBS = 200
HOUR = 60
ARRIVING = 35  # minutes in which the Jobs are created
SHORTEST, LONGEST = 4, 10  # of an attempt that succeeds
KILLED_FROM, KILLED_TO = 0.3, 0.9  # of its time, in which a program that is short of memory is killed
CRASHES_AFTER = 1  # minutes on a bad node

Kind = Literal["good", "short of memory", "on bad nodes"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHARES: dict[Kind, float] = {"good": 0.7, "short of memory": 0.2, "on bad nodes": 0.1}


@dataclass(frozen=True)
class DrawnJob:
    """A Job of one pod.

    `created`: when. `minutes`: how long an attempt takes that succeeds. `killed`: after how many minutes an attempt
    without enough memory is killed.
    """

    name: str
    kind: Kind
    created: float
    minutes: float
    killed: float


def jobs(seed: int, number: int = JOBS) -> list[DrawnJob]:
    """Return the Jobs of an hour in the order of their creation, the kinds in their shares and mixed."""
    kinds = [kind for kind in KINDS for _ in range(round(SHARES[kind] * number))]
    random.Random(f"{seed} kinds").shuffle(kinds)  # noqa: S311 - no secret
    return [drawn(seed, place, kind, ARRIVING * place / len(kinds)) for place, kind in enumerate(kinds)]


def drawn(seed: int, place: int, kind: Kind, created: float) -> DrawnJob:
    chance = random.Random(f"{seed} job {place}")  # noqa: S311 - no secret
    minutes = chance.uniform(SHORTEST, LONGEST)
    return DrawnJob(f"job-{place}", kind, created, minutes, minutes * chance.uniform(KILLED_FROM, KILLED_TO))
