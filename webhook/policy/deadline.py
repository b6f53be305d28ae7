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
# What may pass between the creation of a workload and that of its first pod, which no author means by "twice as long".
ADMITTED_WITHIN: Final = 30
DURATION: Final = "must be a duration such as 12h or 1h30m"
REMEDY: Final = "must be a factor such as 2x, a duration such as 18h, or a time such as 2026-03-01T06:00:00Z"


class Deadline(NamedTuple):
    """What the author of a workload says.

    `work`: how long it takes undisturbed, without the start of its pods. `loss`: how much work one disruption costs at
    most; None for all of it. `within`: how long after its creation it is to be done, at most as the policy allows.
    `at`: when it is to be done; None if that follows from its creation alone. `start`: how long a pod may take until
    its program works, of the policy.
    """

    work: int
    loss: int | None
    within: float
    at: float | None
    start: int

    def due(self, created: float) -> float:
        """Return when a workload is to be done that was created at this time."""
        latest = created + self.within
        return latest if self.at is None else min(self.at, latest)


class Slack(NamedTuple):
    """What is left of the time and of the work when a pod is placed; `loss`: what one disruption of it costs at most.

    `start` is twice in the time that a spot node needs: for the pod, and for the one that follows a disruption.
    """

    due: float
    work: float
    loss: float
    start: int

    @property
    def turns_at(self) -> float:
        """The last safe moment: after it pods start on-demand."""
        return self.due - self.work - self.loss - 2 * self.start

    def left(self, now: float) -> float:
        """Return how much time on-demand nodes would leave over; less than 0 if it will be late even so."""
        return self.due - now - self.work - self.start


def read(annotations: Json, policy: Deadlines) -> Deadline | None:
    """Return what annotations say; None if there is no deadline. What has a problem counts as absent."""
    work, text = duration(annotations.get(names.WORK)), annotations.get(names.DEADLINE)
    if work is None:
        return None
    longest = policy.limit * (work + policy.start) + ADMITTED_WITHIN
    within, at = _deadline(text, work, policy)
    if text is None and policy.factor is not None:
        within = policy.factor * (work + policy.start) + ADMITTED_WITHIN
    if within is None and at is None:
        return None
    within = longest if within is None else min(within, longest)
    return Deadline(work, duration(annotations.get(names.CHECKPOINT)), within, at, policy.start)


def problems(annotations: Json, policy: Deadlines, path: Path) -> Iterator[Problem]:
    """Yield a problem for each malformed annotation about a deadline; `path`: that of the annotations."""
    work = duration(annotations.get(names.WORK))
    for key in (names.WORK, names.CHECKPOINT):
        text = annotations.get(key)
        if text is not None and duration(text) is None:
            yield Problem((*path, key), f"is {text[:LONGEST]!r}", DURATION)
    text = annotations.get(names.DEADLINE)
    if text is None:
        return
    within, at = _deadline(text, work or 0, policy)
    if within is None and at is None:
        yield Problem((*path, names.DEADLINE), f"is {text[:LONGEST]!r}", REMEDY)
    elif names.WORK not in annotations:
        remedy = f"say in {names.WORK} how long the work takes, such as 12h"
        yield Problem((*path, names.DEADLINE), "has no effect without it", remedy)
    elif work is not None and within is not None and within > policy.limit * (work + policy.start) + ADMITTED_WITHIN:
        what = f"{text[:LONGEST]} is more than {policy.limit:g} times the work and its start, the limit of the profile"
        yield Problem((*path, names.DEADLINE), what, f"set {policy.limit:g}x or less")


def _deadline(text: str | None, work: int, policy: Deadlines) -> tuple[float | None, float | None]:
    """Return after how long, or when, a text says that a workload is to be done; None twice if it says neither."""
    if text is None or len(text) > LONGEST:
        return None, None
    factor = FACTOR.fullmatch(text)
    if factor is not None and float(factor[1]) >= 1:
        return float(factor[1]) * (work + policy.start) + ADMITTED_WITHIN, None
    within = duration(text)
    return (None, seconds(text)) if within is None else (float(within), None)
