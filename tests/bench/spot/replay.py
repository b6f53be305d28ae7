"""One Job of one pod on a recorded spot market, placed by the functions that place pods in a cluster.

Times are seconds from the beginning of the Job. A spot node can be had, and is kept, while the trace of its zone says
so; of several zones a pod takes the first that has one. A trace that ends begins anew. A disrupted pod is followed
after the Job controller's back-off. What is not recorded is assumed: how long a start takes (START, of a node, an image
and a program), and that an on-demand node can always be had.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.unit.accounts.pods import disrupted
from webhook.kube import names
from webhook.objects.times import written
from webhook.policy.model import Disruptions, Duration, Placement, Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules.pods import on_time, placement
from webhook.systems.job import spec as batch
from webhook.systems.pod_source import Level
from webhook.systems.pods import LEDGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.objects.problem import Json

START: Final = 300.0  # seconds from the creation of a pod until its program works
PRICE: Final = 0.3  # of a spot node, in on-demand ones
GIVEN_UP: Final = 60  # times the work
CREATED: Final = 1_800_000_000  # Unix time of each Job


@dataclass(frozen=True)
class Trace:
    """When a spot node could be had: the times at which it began and ended to be, over a whole trace of `length`."""

    name: str
    spans: tuple[tuple[float, float], ...]
    length: float

    @property
    def place(self) -> tuple[str, str]:
        """The recording and the region, and the sort of node: what one node pool with nodes in several zones has."""
        zone, _, sort = self.name.partition("_")
        return zone[:-1], sort

    @cached_property
    def ends(self) -> list[float]:
        return [last for _, last in self.spans]

    def span_after(self, time: float) -> tuple[float, float]:
        """Return from when to when a spot node can be had next, from a time on."""
        lap = time - time % self.length
        place = bisect_right(self.ends, time - lap)
        if place == len(self.ends):
            lap, place = lap + self.length, 0
        first, last = self.spans[place]
        return max(time, lap + first), lap + last


def _soonest(zones: Sequence[Trace], time: float) -> tuple[float, float]:
    """Return from when to when a spot node can be had next in any zone; if that is in several, in the first of them."""
    return min([zone.span_after(time) for zone in zones], key=itemgetter(0))


def trace_of(root: Json) -> Trace:
    """Return a trace of the file spot_traces.json.gz."""
    ends = [*accumulate(ticks for _, ticks in root["runs"])]
    spans: list[tuple[float, float]] = []
    for (up, ticks), end in zip(root["runs"], ends, strict=True):
        first, last = (end - ticks) * root["gap_seconds"], end * root["gap_seconds"]
        if up and spans and spans[-1][1] == first:
            spans[-1] = (spans[-1][0], last)
        elif up:
            spans.append((first, last))
    return Trace(root["name"], tuple(spans), ends[-1] * root["gap_seconds"])


@dataclass(frozen=True)
class Case:
    """A Job: seconds of work, and after how many of them it writes a checkpoint (None for never).

    `factor`: its deadline; None for none. `tells`: whether its pods say how far their checkpoints are.
    """

    work: int
    checkpoint: int | None
    factor: float | None = None
    tells: bool = False

    @property
    def said(self) -> dict[str, str]:
        """The annotations that its author writes."""
        if self.factor is None:
            return {}
        said = {names.WORK: f"{self.work}s", names.DEADLINE: f"{self.factor:g}x"}
        return said if self.checkpoint is None else {**said, names.CHECKPOINT: f"{self.checkpoint}s"}

    @cached_property
    def job(self) -> Json:
        """The Job as the API has it."""
        return {"metadata": {"creationTimestamp": written(CREATED), "annotations": self.said}, "spec": {}, "status": {}}

    def saved(self, saved: float, ran: float) -> float:
        """Return the work that is saved after an attempt that worked for so long."""
        return saved + (0.0 if self.checkpoint is None else ran // self.checkpoint * self.checkpoint)


class Result(NamedTuple):
    """When a Job was done, after its beginning, and what it cost, in seconds of an on-demand node."""

    finished: float
    cost: float


def settings_of(profile: Profile, case: Case) -> Settings:
    """Return the settings of a Job."""
    return NamedProfile("default", profile).settings(case.said)


def replay(
    case: Case, settings: Settings, zones: Sequence[Trace], begin: float, *, start: float = START, faster: float = 1.0
) -> Result:
    """Return what becomes of a Job that begins at a time of the traces; `inf` if it is not done in GIVEN_UP.

    `faster`: how much shorter the Job controller's back-off is.
    """
    time, done, cost, disruptions, believed = begin, 0.0, 0.0, 0, 0  # `time`: of the traces
    while (now := time - begin) < GIVEN_UP * case.work:
        first, last = _soonest(zones, time)
        until = _waits_until(case, settings, disruptions, believed, now)
        rest = start + case.work - done
        if first - begin > until:
            waited = until > now  # until the leader ends the pod, after which the Job controller waits
            begins = until + batch.back_off(disruptions + 1) / faster if waited else now
            return Result(begins + rest, cost + rest)
        if first + rest <= last:
            return Result(first - begin + rest, cost + PRICE * rest)
        cost += PRICE * (last - first)
        ran = max(0.0, last - first - start)
        done = case.saved(done, ran)
        believed = _believed(case, settings, believed, done, ran)
        disruptions += 1
        time = last + batch.back_off(disruptions) / faster
    return Result(inf, cost)


def _waits_until(case: Case, settings: Settings, disruptions: int, saved: int, now: float) -> float:
    """Return until when a new pod may wait for a spot node; before any time if it runs on-demand at once."""
    slack = None
    if settings.deadline is not None:
        slack = on_time.slack_of(case.job, None, settings, on_time.SavedWork(saved, disruptions), CREATED + now)
        settings = placement.settings_by_deadline(settings, slack, CREATED + now)
    levels = [Level("JobStatus", 0, 3), Level(LEDGER, disruptions, settings.disruption_budget, of_disruptions=True)]
    if placement.decide(levels, settings).off_spot:
        return -1.0
    if slack is not None:
        return slack.turns_at - CREATED
    spot = settings.profile.placement
    return now if spot.spot != "Require" else inf if spot.spot_wait is None else now + spot.spot_wait


def _believed(case: Case, settings: Settings, saved: int, done: float, worked: float) -> int:
    """Return the seconds of work that the ledger takes for saved after an attempt."""
    if settings.deadline is None:
        return 0
    lost = disrupted(worked=worked, progress=done / case.work if case.tells else None)
    return on_time.saved_with(saved, lost, case.job, settings.deadline)


def at_best(case: Case, due: float, zones: Sequence[Trace], begin: float) -> float:
    """Return a cost below which nobody could have run a Job in time, who had known the traces and moved it for nothing.

    It takes those spans of spot nodes in which a start costs least, as many as there is time for starts until `due`, in
    any order, and goes back to them from on-demand nodes. Between zones it moves for nothing. The work is a multiple of
    what is between checkpoints.
    """
    spans = []
    first, last = _soonest(zones, begin)
    while first < begin + due:
        following = _soonest(zones, last)
        if following[0] <= last < begin + due:  # in another zone
            last = following[1]
            continue
        works = min(last, begin + due) - first - START
        if works >= case.work:
            return PRICE * (START + case.work)
        spans.append(case.saved(0.0, works) if works > 0 else 0.0)
        first, last = following
    rest, paid = float(case.work), 0.0
    lowest = rest + START
    for saved in sorted(spans, reverse=True)[: int((due - case.work) // START)]:
        works = min(saved, rest)
        rest, paid = rest - works, paid + PRICE * (works + START)
        lowest = min(lowest, paid + (rest + START if rest > 0 else 0.0))
    return lowest


def at_best_unmoved(case: Case, due: float, zones: Sequence[Trace], begin: float) -> float:
    """Return the lowest cost in time for anybody who had known the traces, and moved no pod that runs.

    A pod on a spot node ends when its work is done or its node is lost, one on an on-demand node when its work is done.
    Each start is paid. A pod waits for as long as it likes, so that it loses nothing; no back-off delays the next one.
    """
    end, lowest = begin + due, inf
    begun = _spans_within(zones, begin, end)
    waiting: dict[float, float] = {}  # the lowest cost of each amount of saved work, of pods that wait
    later: dict[float, dict[float, float]] = {begin: {0.0: 0.0}}  # the same, of those that begin to wait, by when
    later.update({time: {} for first, ends in begun.items() for time in (first, *ends) if time > begin})
    up: list[float] = []
    for time in sorted(later):
        new = {saved: cost for saved, cost in later[time].items() if cost < waiting.get(saved, inf)}
        waiting.update(new)
        up = [last for last in up if last > time]
        for last, states in [*((last, new) for last in up), *((last, waiting) for last in begun[time])]:
            for saved, cost in states.items():
                rest, works = START + case.work - saved, case.saved(0.0, last - time - START)
                if time + rest <= min(last, end):
                    lowest = min(lowest, cost + PRICE * rest)
                elif works > 0:
                    after, total = later[last], cost + PRICE * (START + works)
                    after[saved + works] = min(total, after.get(saved + works, inf))
        up += begun[time]
        on_demand = [(cost, START + case.work - saved) for saved, cost in new.items()]
        lowest = min([lowest, *(cost + rest for cost, rest in on_demand if time + rest <= end)])
    return lowest


def _spans_within(zones: Sequence[Trace], begin: float, end: float) -> dict[float, list[float]]:
    """Return until when spot nodes can be had, by when that begins, between two times."""
    found: dict[float, list[float]] = defaultdict(list)
    for zone in zones:
        first, last = zone.span_after(begin)
        while first < end:
            found[first].append(last)
            first, last = zone.span_after(last)
    return found


def profiles() -> dict[str, Profile]:
    """Return the profiles that are compared, by name, for Jobs without a deadline."""
    forever = Disruptions(limit=2**31 - 1)
    waits = Placement(spot="Require", spot_wait=Duration(3600))
    return {
        "spot only": Profile(placement=Placement(spot="Require"), disruptions=forever),
        **{f"`disruptions.limit: {limit}`": Profile(disruptions=Disruptions(limit=limit)) for limit in (1, 3)},
        "no limit, `spotWait: 1h`": Profile(placement=waits, disruptions=forever),
    }
