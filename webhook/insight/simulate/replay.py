"""Replays one workload under a policy: what its pods do, one event after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from math import ceil, inf
from random import Random
from typing import Final, NamedTuple

from webhook.accounts.counting import OUTLIVED
from webhook.accounts.tracker import LAST_ENDS
from webhook.history.record import Capacity
from webhook.insight.simulate.decisions import AdmittedWorkload, Decider, SimulatedEnd, SpentBefore
from webhook.insight.simulate.learning import MOST_NEED, Learnt, LearntWorkload, ProgramRun, SeenPod, Task
from webhook.insight.simulate.market import Hazard, Market, MarketPlace
from webhook.insight.simulate.past import End
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.times import seconds, written
from webhook.pods import on_failure
from webhook.pods.outcomes import NEVER_STARTED, SPOT_UNAVAILABLE
from webhook.policy import costs, quantities
from webhook.policy.applied import failed_for_job_wide
from webhook.policy.deadline import Deadline
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules.pods import on_time
from webhook.rules.pods.memory import growth_of
from webhook.systems.job_set.spec import FREE, RESTART_SET, counts_towards_max

FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 600.0  # seconds, of the Job controller
MOST_PODS: Final = 500  # of one task in one replay: then it never ends
MORE: Final = 1 + 1e-9  # what was not enough is not enough
ALIKE: Final = 2.0  # seconds by which a pod may end otherwise and count as having ended as in history
MOVED: Final = 1800.0  # seconds by which a pod may be created at another time
SPOT_FIRST: Final = frozenset({"Require", "Prefer"})  # a pod that finds a spot node runs there under either
TRIES: Final = 5  # to find a place that a rule does not ask to avoid
HOUR: Final = 3600.0
NOWHERE: Final = MarketPlace("", "", ())


class Said(NamedTuple):
    """What a user says of all workloads of a history, beside a policy.

    `checkpoint`: how many seconds of work a disruption costs at most; None for all. `late`: as which multiple of its
    work and a start a workload is late; None if nothing is.
    """

    checkpoint: int | None = None
    late: float | None = None


NOTHING_SAID: Final = Said()

Price = Callable[[dict[str, float], MarketPlace], float | None]  # money for an hour


@dataclass(slots=True)
class Luck:
    """What is drawn once for a whole replication.

    - `hazards`: by capacity and zone. `on_spot`: by what placement asks, the share of pods on spot nodes.
    - `comes_again`: by exit code, the probability that it comes each time. `growth`: of memory that was enough.
    """

    hazards: dict[tuple[Capacity, str], Hazard]
    on_spot: dict[str, float]
    comes_again: dict[int, float]


@dataclass(slots=True)
class ReplayResult:
    """How one replay of a workload went; `end`: in seconds since its creation, `why`: what failed it."""

    attempts: int = 0
    spot_seconds: float = 0.0
    on_demand_seconds: float = 0.0
    money: float = 0.0
    complete: bool = False
    late: bool = False
    end: float = 0.0
    why: str = ""
    disruptions: int = 0
    failures: int = 0


@dataclass(slots=True)
class ScopeState:
    """What a scope has spent, and what the ends of its pods ask of the next one."""

    failures: int = 0
    ignored: int = 0
    disruptions: int = 0
    free: int = 0
    after: on_failure.FailureState = on_failure.NONE
    lacked_spot: int = 0  # for how many more pods no spot node counts as having come


@dataclass(slots=True)
class Doing:
    """What a task is at.

    - `work`: seconds that it needs, `need`: bytes of memory; both drawn if history does not say them.
    - `run`: the number of runs that ended by themselves. `is_bug`: whether the last of them comes again each time.
    - `pod`: how many of its pods have ended. `start`: of the one that runs or waits; inf if no node takes it.
    - `saved`: seconds of its work that no pod need repeat. `turns_at`: until when its deadline lets its pod wait for a
      spot node; None without one.
    """

    task: Task
    scope: ScopeState
    work: float
    need: float
    is_bug: bool
    run: int = 0
    pod: int = 0
    start: float = inf
    place: MarketPlace = NOWHERE
    resources: dict[str, float] = field(default_factory=dict)
    is_running: bool = False
    is_done: bool = False
    saved: float = 0.0
    turns_at: float | None = None
    in_step: bool = True  # whether all has happened so far as it did in history


class Policed:
    """A policy, with what is the same in all replays under it.

    `anew`: whether everything is drawn; else all happens as in history until the policy decides otherwise.
    `unpriced`: the places where pods ran so far whose price is not known.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a replay is made of
        self,
        decider: Decider,
        learnt: Learnt,
        market: Market,
        price: Price,
        pause: float,
        said: Said = NOTHING_SAID,
        *,
        anew: bool,
    ) -> None:
        self.decider = decider
        self.said = said
        self.anew = anew
        self.learnt = learnt
        self.market = market
        self.price = price
        self.pause = pause
        self.prices: dict[tuple[int, MarketPlace, float], float] = {}
        self.unpriced: set[MarketPlace] = set()
        waits = learnt.waits
        anywhere = waits.get("Spot") or waits.get("OnDemand") or [0.0]
        self.waits: dict[Capacity, list[float]] = {one: waits.get(one) or anywhere for one in ("Spot", "OnDemand", "")}

    def hourly(self, task: Task, place: MarketPlace, resources: dict[str, float]) -> float:
        """Return what an hour of a pod costs; 0 if no price is known, and then note the place."""
        key = (id(task), place, resources.get("memory", 0.0))
        if key not in self.prices:
            price = self.price(resources, place)
            if price is None:
                self.unpriced.add(place)
            self.prices[key] = price or 0.0
        return self.prices[key]


class Replay:
    """One replay of one workload."""

    def __init__(
        self, policed: Policed, workload: LearntWorkload, luck: Luck, random: Random, allowed: float = inf
    ) -> None:
        """Begin; `allowed`: the seconds after which it is late."""
        self.policed = policed
        self.workload = workload
        self.luck = luck
        self.random = random
        self.profile: Profile = policed.decider.policy.profiles[workload.shape.profile]
        self.result = ReplayResult()
        self.events: list[tuple[float, int, int, int, End | None]] = []  # time, order, task, pod, how it ended
        self.order = 0
        self.retries = self.restarts = 0
        self.failed_in_a_row, self.not_before = 0, 0.0  # of a Job whose pods wait together
        self.nodes: list[list[float]] = []  # when a node is lost, and how many of its places are free
        self.window_start: float | None = None  # of the disruptions that count
        scopes = {task.scope: ScopeState() for task in workload.tasks}
        self.doing = [self.begun(task, scopes[task.scope]) for task in workload.tasks]
        self.done = 0
        self.settings = self._settings()
        self.shape = workload.shape._replace(is_timed=self.settings.deadline is not None)
        self.admitted: AdmittedWorkload = policed.decider.admit(self.shape)
        self.allowed = allowed
        self.waiting: list[int] = []
        self.lost_index = ""
        self.failed_indexes = 0

    def begun(self, task: Task, scope: ScopeState) -> Doing:
        """Return a task before its first pod, with what history does not say drawn."""
        work, random = _work_of(task, self.policed.said), self.random
        if work is None:
            work = self.policed.learnt.works.draw(self.workload, task, random)
        need, is_bug = 0.0, False
        for run in task.runs:
            if run.memory:
                need = max(need, self.need_of(run))
        if task.work is None and task.runs and not task.runs[-1].memory:
            last = task.runs[-1].end
            is_bug = last.cause != "ExitCode" or random.random() < self.luck.comes_again[last.code]
        return Doing(task, scope, work, need, is_bug)

    def need_of(self, run: ProgramRun) -> float:
        """Draw the memory that a program needs which was killed for its memory."""
        if run.enough:
            return run.memory * float((run.enough / run.memory) ** self.random.random())
        growths = self.policed.learnt.growths
        most = growths[int(self.random.random() * len(growths))] if growths else MOST_NEED
        return run.memory * float(most ** self.random.random()) * MORE

    def go(self) -> ReplayResult:
        """Replay it."""
        result, workload = self.result, self.workload
        if self.admitted.refusal:
            result.why = f"it is denied: {self.admitted.refusal}"
            return result
        now = workload.story.created + workload.lead
        at_once = len(self.doing) if self.shape.parts else max(1, self.shape.parallelism)
        self.waiting = list(range(len(self.doing) - 1, -1, -1))
        for _ in range(min(at_once, len(self.doing))):
            self.create(self.waiting.pop(), now)
        while self.events:
            now, _, index, number, end = heappop(self.events)
            if workload.deadline is not None and now - workload.story.created > workload.deadline:
                result.why = "its own activeDeadlineSeconds are over"
                return self.closed(workload.story.created + workload.deadline)
            one = self.doing[index]
            if number != one.pod:
                continue
            if not one.is_running:  # the back-off is over
                if now < self.not_before:
                    self.push(self.not_before, index, None)
                else:
                    self.create(index, now)
                continue
            self.finish(one, now)
            ended = self.succeeded(one, now) if end is None else self.failed(index, end, now)
            if ended:
                return self.closed(now)
        result.why = result.why or self.lost_index or "its pods wait for ever"
        result.end = now - workload.story.created
        return result

    def push(self, time: float, index: int, end: End | None) -> None:
        """Let something happen to a task at a time."""
        self.order += 1
        heappush(self.events, (time, self.order, index, self.doing[index].pod, end))

    def spent(self, scope: ScopeState) -> SpentBefore:
        """Return what a scope has spent."""
        return SpentBefore(
            self.retries,
            scope.failures,
            scope.ignored,
            scope.disruptions,
            scope.free,
            self.restarts,
            self.failed_indexes,
        )

    def is_proven(self, failed: Doing, now: float) -> bool:
        """Return True if a pod has finished, or outlived one that failed now, once so many indexes have failed."""
        most = failed_for_job_wide(self.profile.failure_policy)
        if most is None or self.failed_indexes + 1 < most:
            return True
        longest = OUTLIVED * (now - failed.start)
        return any(one.is_done or (one.is_running and now - one.start > longest) for one in self.doing)

    def create(self, index: int, now: float) -> None:
        """Create a pod of a task, and find out when and how it will end."""
        one, random = self.doing[index], self.random
        self.renew(now)
        one.is_running = True
        if one.pod > MOST_PODS:
            self.result.why = f"it had {MOST_PODS} pods without an end"
            one.start, one.is_running = inf, False
            return
        one.turns_at = None if self.settings.deadline is None else self.last_safe_moment(one, now)
        asks = self.asks(one, now)
        seen = self.as_seen(one, asks, now)
        place, wait = self.land(one, asks, now) if seen is None else (seen.place, seen.wait)
        one.place, one.resources = place, self.resources(one)
        after = one.scope.after
        if after.not_before:
            now = max(now, seconds(after.not_before) or now)
        wait_for_spot = self.longest_wait(one, now)
        short = self.shortage(one, seen) if asks == "Require" else 0.0
        if short > wait_for_spot:
            one.in_step = False
            one.start = inf
            self.push(now + wait_for_spot, index, End("Disruption", SPOT_UNAVAILABLE))
            return
        start = one.start = now + wait + (short if seen is None else 0.0)
        if one.task.never_starts:
            one.start = inf
            if self.profile.start_timeout is not None:
                self.push(start + self.profile.start_timeout, index, End(NEVER_STARTED, ""))
            return
        lasts, end = self.run(one)
        if seen is None:
            lost = self.lost(place, start)
        else:
            if end is None and (seen.is_lost or seen.is_stopped):  # it ran so long, whatever the next attempt took
                lasts = max(lasts, seen.lasted + ALIKE)
            one.in_step = seen.is_lost or seen.is_stopped or abs(lasts - seen.lasted) <= ALIKE
            lost = start + seen.lasted
            if not seen.is_lost:
                lost = self.lost(place, lost + ALIKE)
        if lost < start + lasts:
            reasons = self.policed.market.reasons.get(place.capacity) or ["DeletionByTaintManager"]
            lasts, end = lost - start, End("Disruption", reasons[int(random.random() * len(reasons))])
        self.push(start + lasts, index, end)

    def longest_wait(self, one: Doing, now: float) -> float:
        """Return how many seconds a pod may wait for a spot node; inf for ever."""
        if one.turns_at is not None:
            return max(0.0, one.turns_at - now)
        wait = self.profile.placement.spot_wait
        return inf if wait is None else float(wait)

    def as_seen(self, one: Doing, asks: str, now: float) -> SeenPod | None:
        """Return the pod of history, if all has happened as it did then, and the policy asks for the same place."""
        if self.policed.anew or not one.in_step or one.pod >= len(one.task.pods):
            return None
        seen = one.task.pods[one.pod]
        moved = abs(now - self.workload.story.created - seen.created)
        alike = asks == seen.asked or (seen.place.capacity == "Spot" and {asks, seen.asked} <= SPOT_FIRST)
        one.in_step = (one.task.fixed != "" or alike) and moved <= MOVED
        return seen if one.in_step else None

    def asks(self, one: Doing, now: float) -> str:
        """Return what the placement of a pod asks for; empty if something else than the policy places it."""
        scope = one.scope
        if one.task.fixed:
            return ""
        lacked = scope.lacked_spot > 0
        turned = one.turns_at is not None and now > one.turns_at
        leaves = self.policed.decider.leaves_spot(self.shape, self.spent(scope), lacked_spot=lacked, has_turned=turned)
        if leaves or scope.after.on_demand:
            return "OnDemand"
        return self.profile.placement.spot if one.turns_at is None else "Require"

    def last_safe_moment(self, one: Doing, now: float) -> float | None:
        """Return until when a pod may start on a spot node, or wait for one; None without a deadline."""
        created: Json = {"metadata": {"creationTimestamp": written(self.workload.story.created)}}
        succeeded = 0 if self.shape.parts else self.done  # in a JobSet all pods run at once
        status = {"failed": self.retries, "succeeded": succeeded}
        saved = on_time.SavedWork(int(one.saved), self.result.attempts)
        root = {**created, "spec": self.admitted.job["spec"], "status": status}
        slack = on_time.slack_of(root, created if self.shape.parts else None, self.settings, saved, now)
        return None if slack is None else slack.turns_at

    def land(self, one: Doing, asks: str, now: float) -> tuple[MarketPlace, float]:
        """Return where a pod runs, and how many seconds it waits for that."""
        market, random, scope = self.policed.market, self.random, one.scope
        capacity: Capacity = one.task.fixed
        if not capacity:
            capacity = "Spot" if random.random() < self.luck.on_spot.get(asks, 1.0) else "OnDemand"
        place = market.place(capacity, now, random.random())
        avoided = scope.after.avoid_zones
        for _ in range(TRIES):
            if not avoided or place.zone not in avoided:
                break
            place = market.place(capacity, now, random.random())
        waits = self.policed.waits[capacity]
        return place, waits[int(random.random() * len(waits))]

    def shortage(self, one: Doing, seen: SeenPod | None) -> float:
        """Draw how many seconds a pod that must run on spot waits because there is no spot node.

        `seen`: the pod as it was in history; it waited as long as then, which matters if it has a deadline now.
        """
        if seen is not None:
            return 0.0 if one.turns_at is None else seen.wait
        random, learnt, market = self.random, self.policed.learnt, self.policed.market
        if "Require" in market.landed or not learnt.shortages:
            in_vain = learnt.in_vain
            number = int(random.random() * (len(in_vain) + market.landed.get("Require", (1, 1))[1]))
            return in_vain[number] * (1 + random.expovariate(1.0)) if number < len(in_vain) else 0.0
        if random.random() < self.luck.on_spot["Prefer"]:
            return 0.0
        return learnt.shortages[int(random.random() * len(learnt.shortages))]

    def lost(self, place: MarketPlace, start: float) -> float:
        """Return when a pod loses its node."""
        random = self.random
        hazard = self.luck.hazards.get((place.capacity, place.zone)) or self.luck.hazards.get((place.capacity, ""))
        if hazard is None:
            return inf
        if self.workload.per_node == 1 or not self.policed.market.together.get(place.capacity):
            return hazard.loss(start, random.expovariate(1.0))
        node = next((node for node in self.nodes if node[0] > start and node[1] > 0), None)
        if node is None:
            node = [hazard.loss(start, random.expovariate(1.0)), float(self.workload.per_node)]
            self.nodes = [other for other in self.nodes if other[0] > start]
            self.nodes.append(node)
        node[1] -= 1
        return node[0]

    def run(self, one: Doing) -> tuple[float, End | None]:
        """Return how long a pod runs if nothing disrupts it, and how it ends then."""
        lasts, end = self.program(one)
        limit = one.task.deadline if one.task.deadline is not None else self.profile.attempt_timeout
        if limit is not None and lasts > limit:
            return float(limit), End("DeadlineExceeded", "DeadlineExceeded", one.task.at_deadline)
        return lasts, end

    def program(self, one: Doing) -> tuple[float, End | None]:
        """Return how long the program runs, and how it ends."""
        runs = one.task.runs
        for run in runs[one.run :]:
            if run.memory and one.resources.get("memory", 0.0) >= one.need:
                continue
            return max(0.0, run.seconds - one.saved), run.end
        if one.is_bug and runs:
            return max(0.0, runs[-1].seconds - one.saved), runs[-1].end
        if runs and runs[-1].memory and one.resources.get("memory", 0.0) < one.need and one.task.work is None:
            return max(0.0, runs[-1].seconds - one.saved), runs[-1].end
        return one.work - one.saved, None

    def resources(self, one: Doing) -> dict[str, float]:
        """Return what a pod asks for, with the memory that the rules of `onFailure` give it."""
        kills = one.scope.after.kills
        if not kills:
            return one.task.resources
        memory = one.task.memory
        for container, times in kills.items():
            rule = growth_of(self.profile.on_failure, container)
            if rule is not None:
                limit = float(quantities.memory(rule.limit) or 0)
                memory = max(memory, min(one.task.memory * rule.factor**times, max(limit, one.task.memory)))
        return {**one.task.resources, "memory": memory}

    def finish(self, one: Doing, now: float) -> None:
        """Count a pod that has ended; what else was to happen to it is void."""
        one.is_running = False
        one.pod += 1
        result = self.result
        result.attempts += 1
        lasted = max(0.0, now - one.start) if one.start < now else 0.0
        if one.place.capacity == "Spot":
            result.spot_seconds += lasted
        else:
            result.on_demand_seconds += lasted
        if lasted:
            result.money += self.policed.hourly(one.task, one.place, one.resources) * lasted / HOUR
        checkpoint = self.policed.said.checkpoint
        if checkpoint is not None and (self.shape.indexed or len(self.doing) == 1):
            one.saved += max(0.0, min(lasted, one.work - one.saved) - checkpoint)

    def succeeded(self, one: Doing, now: float) -> bool:
        """Go on after a success; return True if the workload is complete."""
        one.is_done = True
        self.done += 1
        self.failed_in_a_row = 0
        if all(other.is_done or not other.task.needed for other in self.doing):
            self.result.complete = not self.lost_index
            self.result.why = self.lost_index
            return True
        if self.waiting:
            self.create(self.waiting.pop(), now)
        return not self.events and not self.waiting and bool(self.lost_index)

    def failed(self, index: int, end: End, now: float) -> bool:
        """Go on after a failure; return True if the workload has failed."""
        one, workload = self.doing[index], self.workload
        scope, decider = one.scope, self.policed.decider
        if end.cause == NEVER_STARTED:
            self.result.why = "its containers do not start within startTimeout"
            return True
        if end.cause == "Disruption":
            self.result.disruptions += 1
        else:
            self.result.failures += 1
        self.renew(now)
        self.advance(one, end)
        node = f"{index}-{one.pod}"
        spent, before = self.spent(scope)._replace(proven=self.is_proven(one, now)), scope.after
        verdict = decider.decide(self.shape, end, spent, before, node)
        if costs.rules_of(self.profile):
            ended = datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")
            scope.after = decider.after(self.shape, end, spent, before, node, ended)
        scope.lacked_spot = LAST_ENDS if end.reason == SPOT_UNAVAILABLE else max(0, scope.lacked_spot - 1)
        explained = verdict.within > 0 and end is workload.echo
        if (verdict.ends in {"Job", "JobSet"} and not explained) or verdict.suspends:
            self.result.why = verdict.why
            self.result.end = verdict.within
            return True
        self.book(scope, verdict, now)
        if verdict.ends == "index" and not explained:
            self.lost_index = verdict.why
            self.failed_indexes += 1
            if self.waiting:
                self.create(self.waiting.pop(), now)
            return not self.events and not self.waiting
        if end.cause == "Disruption" and workload.echo is not None and end.reason != SPOT_UNAVAILABLE:
            self.echo(index, now)
        if verdict.set_action and self.shape.parts:
            self.restart(index, verdict, now)
        else:
            self.replace(index, spent, now)
        return False

    def advance(self, one: Doing, end: End) -> None:
        """Remember that a run of a program has ended as it did in history."""
        runs = one.task.runs
        for place in range(one.run, len(runs)):
            if runs[place].end is end:
                if not runs[place].memory or not runs[place].enough:
                    one.run = min(place + 1, len(runs))
                return

    def renew(self, now: float) -> None:
        """Forget the disruptions that count no more."""
        per = self.profile.disruptions.per
        if per is not None and self.window_start is not None and now - self.window_start >= per:
            self.window_start = None
            for one in self.doing:
                one.scope.disruptions = 0

    def book(self, scope: ScopeState, verdict: SimulatedEnd, now: float) -> None:
        """Count what an end has cost."""
        if verdict.cost == "disruption":
            scope.disruptions += 1
            self.window_start = now if self.window_start is None else self.window_start
        elif verdict.cost == "free":
            scope.free += 1
        elif not self.shape.parts:
            self.retries += 1
            scope.failures += 1
        elif not verdict.set_action:
            scope.failures += 1
        scope.ignored = verdict.ignored

    def echo(self, index: int, now: float) -> None:
        """Let other pods of the workload crash, because one was disrupted."""
        for other, one in enumerate(self.doing):
            if other != index and one.is_running and one.start < now and self.random.random() < self.workload.echoes:
                self.push(now + 1.0, other, self.workload.echo)

    def replace(self, index: int, spent: SpentBefore, now: float) -> None:
        """Have a pod replaced after the back-off of the Job controller."""
        self.failed_in_a_row += 1
        number = spent.failures + spent.ignored if self.admitted.per_index else self.failed_in_a_row - 1
        wait = min(LONGEST_BACK_OFF, FIRST_BACK_OFF * float(2 ** min(number, 10)))
        if not self.admitted.per_index:
            self.not_before = now + wait + self.policed.pause
        self.push(now + wait + self.policed.pause, index, None)

    def restart(self, index: int, verdict: SimulatedEnd, now: float) -> None:
        """Restart a JobSet, or the Job of one of its pods."""
        self.restarts += 1
        self.retries += counts_towards_max(verdict.set_action)
        whole = verdict.set_action.removesuffix(FREE) == RESTART_SET
        job = self.doing[index].task.scope.rpartition("/")[0]
        for other, one in enumerate(self.doing):
            if whole or one.task.scope.rpartition("/")[0] == job:
                if one.is_running and one.start < now:
                    self.finish(one, now)
                else:
                    one.pod += 1
                one.is_running = one.is_done = False
                one.scope.failures = one.scope.ignored = 0
                self.push(now + self.policed.pause, other, None)

    def closed(self, now: float) -> ReplayResult:
        """End everything that still runs."""
        result = self.result
        for one in self.doing:
            if one.is_running and one.start < now:
                self.finish(one, now)
        result.end += now + self.workload.tail - self.workload.story.created
        result.late = result.complete and result.end > self.allowed
        return result

    def _settings(self) -> Settings:
        """Return the settings of the workload, as if its author had said how long its longest pod works."""
        named = NamedProfile(self.workload.shape.profile, self.profile)
        if self.profile.deadline.factor is None:
            return named.settings({})
        work = max((one.work for one in self.doing if one.task.needed), default=0.0)
        annotations = {names.WORK: f"{max(1, ceil(work))}s"}
        if self.policed.said.checkpoint is not None:
            annotations[names.CHECKPOINT] = f"{self.policed.said.checkpoint}s"
        return named.settings(annotations)


def _work_of(task: Task, said: Said) -> float | None:
    """Return how many seconds the work of a task takes; None if that is not known.

    If it was interrupted for longer than its last attempt took, it has continued: then what that one lacked counts too.
    """
    if task.work is None or said.checkpoint is None or task.floor <= task.work:
        return task.work
    return task.work + sum(max(0.0, pod.lasted - said.checkpoint) for pod in task.pods if pod.is_lost)


def allowed_for(workload: LearntWorkload, start: int, said: Said) -> float:
    """Return after how many seconds a workload is late; inf if it never is, or if its work is not known.

    `start`: how many seconds one takes, as in a policy.
    """
    work = max((_work_of(task, said) or 0.0 for task in workload.tasks), default=0.0)
    if said.late is None or not work:
        return inf
    shape = workload.shape
    rounds = on_time.rounds_of({"completions": len(workload.tasks), "parallelism": shape.parallelism})
    deadline = Deadline(ceil(work), None, said.late, None, None, said.late, start)
    return deadline.due(0.0, 1 if shape.parts else rounds)


def _shares(market: Market, learnt: Learnt, random: Random) -> dict[str, float]:
    """Draw the share of pods that land on spot nodes, by what their placement asks for.

    If no pod preferred spot nodes, those that required one and waited in vain would have run on-demand.
    """
    counts = dict(market.landed)
    if "Prefer" not in counts and "Require" in counts:
        spot, total = counts["Require"]
        counts["Prefer"] = (spot, total + len(learnt.in_vain))
    drawn = {
        wish: random.betavariate(spot + 0.5, total - spot + 0.5) if 0 < spot < total else float(spot > 0)
        for wish, (spot, total) in sorted(counts.items())
    }
    by_default = drawn.get("Prefer", 1.0)
    return {"Require": 1.0, "Prefer": by_default, "Allow": by_default, "OnDemand": 0.0, **drawn}


def luck_of(market: Market, learnt: Learnt, random: Random) -> Luck:
    """Draw what is the same for all workloads of a replication."""
    again = {
        code: random.betavariate(again + 1, mended + 1) for code, (again, mended) in sorted(learnt.retried.items())
    }
    hazards = {key: rates.draw(random) for key, rates in market.rates.items()}
    return Luck(hazards, _shares(market, learnt, random), again)
