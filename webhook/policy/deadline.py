"""When a workload is to be done, by its author; and until when it may wait for spot nodes, or start on them. Pure.

The safe rule: a pod may start on a spot node, or wait for one, as long as its node could be lost at the worst moment,
and the rest of the work still be done on-demand in time. It needs no forecast of the market, and moves no pod that runs
("Can't Be Late", Wu et al., NSDI 2024, proves it safe where on-demand nodes are always to be had).

Durations are seconds, times seconds since 1970.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from webhook.kube import names
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.times import seconds
from webhook.policy.model import Deadlines
from webhook.policy.reader import duration

FACTOR: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)x")
LONGEST: Final = 40  # characters
# Seconds that may pass between the creation of a workload and that of its first pod, and until another one follows it,
# which no author means by "twice as long".
CONTROLLERS: Final = 90
DURATION: Final = "must be a duration such as 12h or 1h30m"
REMEDY: Final = "must be a factor such as 2x, a duration such as 18h, or a time such as 2026-03-01T06:00:00Z"


class Deadline(NamedTuple):
    """What the author of a workload says, and the policy.

    `work`: how long the work of one pod takes undisturbed. `loss`: how much of it one disruption costs at most; None
    for all. When the workload is to be done: `factor` times as long as undisturbed, `within` seconds after its
    creation, or `at` a time; one of them is not None. `limit`: the highest factor, which bounds the others too.
    `start`: how long a pod may take until its program works.
    """

    work: int
    loss: int | None
    factor: float | None
    within: int | None
    at: float | None
    limit: float
    start: int

    def due(self, created: float, rounds: int) -> float:
        """Return when a workload is to be done; `rounds`: how many pods run one after another in it."""
        alone = rounds * (self.work + self.start)
        latest = created + min(self.factor or self.limit, self.limit) * alone + CONTROLLERS
        if self.within is not None:
            latest = min(latest, created + self.within)
        return latest if self.at is None else min(latest, self.at)


class Slack(NamedTuple):
    """What is left of the time and of the work when a pod is placed.

    `loss`: how much work one disruption of it costs at most. `replaced`: after how many seconds another pod follows a
    disrupted one. A spot node needs the time for two starts: of the pod, and of the one after it.
    """

    due: float
    work: float
    loss: float
    start: int
    replaced: int

    @property
    def turns_at(self) -> float:
        """The last safe moment: after it pods start on-demand."""
        return self.due - self.work - self.loss - 2 * self.start - self.replaced

    def left(self, now: float) -> float:
        """Return how much time on-demand nodes would leave over; less than 0 if it will be late even so."""
        return self.due - now - self.work - self.start


def read(annotations: Json, policy: Deadlines) -> Deadline | None:
    """Return what annotations say; None if there is no deadline. What has a problem counts as absent."""
    work = duration(annotations.get(names.WORK))
    if work is None:
        return None
    said = _deadline(annotations.get(names.DEADLINE)) or (policy.factor, None, None)
    loss = duration(annotations.get(names.CHECKPOINT))
    return None if said == (None, None, None) else Deadline(work, loss, *said, policy.limit, policy.start)


def problems(annotations: Json, policy: Deadlines, path: Path) -> Iterator[Problem]:
    """Yield a problem for each malformed annotation about a deadline; `path`: that of the annotations."""
    work = duration(annotations.get(names.WORK))
    for key in (names.WORK, names.CHECKPOINT):
        text = annotations.get(key)
        if text is not None and duration(text) is None:
            yield Problem((*path, key), f"is {text[:LONGEST]!r}", DURATION)
    if names.CHECKPOINT in annotations and names.WORK not in annotations and names.DEADLINE not in annotations:
        remedy = f"say in {names.WORK} how long the work takes, such as 12h"
        yield Problem((*path, names.CHECKPOINT), f"has no effect without {names.WORK}", remedy)
    text = annotations.get(names.DEADLINE)
    if text is None:
        return
    said = _deadline(text)
    if said is None:
        yield Problem((*path, names.DEADLINE), f"is {text[:LONGEST]!r}", REMEDY)
        return
    factor, within, _ = said
    if factor is not None and factor > policy.limit:
        what = f"{text} is more than {policy.limit:g}x, the limit of the profile"
        yield Problem((*path, names.DEADLINE), what, f"set {policy.limit:g}x or less")
    if within is not None and work is not None and within < work:
        yield Problem((*path, names.DEADLINE), f"{text} is less than the work itself", "set as much or more")


def seconds_within(text: str) -> int | None:
    """Return how many seconds after the creation a deadline is; None if its text names a factor or a time."""
    said = _deadline(text)
    return None if said is None else said[1]


def _deadline(text: str | None) -> tuple[float | None, int | None, float | None] | None:
    """Return the factor, the duration or the time in a text; None if it is none of them."""
    if text is None or len(text) > LONGEST:
        return None
    factor = FACTOR.fullmatch(text)
    if factor is not None and float(factor[1]) >= 1:
        return float(factor[1]), None, None
    within, at = duration(text), seconds(text)
    return None if within is None and at is None else (None, within, at)
