"""What each workload needs, as far as its attempts show it: work, bugs, memory, and what its author wrote. Pure.

What history does not show is drawn anew in each replication, so that the range of the figures says how little is known:
whether an exit code comes again that was never retried, and how much memory is enough for a program that was killed.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from webhook.history.record import Capacity
from webhook.insight.simulate.decisions import Decider, ReplicatedJob, Shape, SpentBefore, actions_seen, is_coupled
from webhook.insight.simulate.market import MarketPlace
from webhook.insight.simulate.past import End, Past, PastAttempt, Story, containers_of
from webhook.pods import on_failure
from webhook.pods.outcomes import NEVER_STARTED
from webhook.policy import costs
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import NamedProfile
from webhook.systems.core import KILLED, TERMINATED

DEFAULT: Final = "default"
MOST_TASKS: Final = 2_000  # of a workload; the others are left out
SAME: Final = 0.1  # share by which the time to a deadline may differ from the policy's
GRACE: Final = 31.0  # seconds that a program may have after it: 30 by default
MORE: Final = 1.0  # seconds that work which never succeeded takes at least beyond what was seen of it
GROWN: Final = 1.01  # by which more memory was asked for than before
MOST_NEED: Final = 4.0  # times the memory with which a program was killed, if nobody has seen how much it needs
UNKNOWN_WORK: Final = 60.0  # seconds, if no attempt of anything says more


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A run of a program that ended by itself, after so many seconds and without success.

    `memory`: in bytes, that of its pod if it was killed for it; 0 otherwise. `enough`: with which it was not killed
    later; 0 if that is not known.
    """

    seconds: float
    end: End
    memory: float = 0.0
    enough: float = 0.0


class SeenPod(NamedTuple):
    """A pod as it was: created so many seconds after its workload; what its placement asked for; where and how it ran.

    `wait`: seconds from its creation to its start. `is_lost`: whether it was disrupted; `is_stopped`: by its workload.
    """

    created: float
    asked: str
    place: MarketPlace
    wait: float
    lasted: float
    is_lost: bool
    is_stopped: bool


@dataclass(slots=True)
class Task:
    """What one completion of a workload needs.

    - `work`: seconds of the attempt that succeeded; None if none did. `floor`: of the longest other attempt.
    - `runs`: the runs before that which ended by themselves, in order.
    - `deadline`: seconds that its author gives an attempt; None without. `at_deadline`: the exit code of its program
      after a deadline, which may be the policy's.
    - `fixed`: where it runs if something other than the policy decides: its capacity; empty otherwise.
    - `never_starts`: whether its containers could not start. `needed`: whether the workload waits for it to succeed.
    - `memory`, `resources`: what the pod asks for in its first attempt.
    - `pods`: those that it had, if they can be told from those of other tasks.
    """

    scope: str
    resources: dict[str, float]
    work: float | None = None
    floor: float = 0.0
    runs: list[ProgramRun] = field(default_factory=list)
    deadline: float | None = None
    at_deadline: int = TERMINATED
    fixed: Capacity = ""
    never_starts: bool = False
    needed: bool = True
    pods: tuple[SeenPod, ...] = ()

    @property
    def memory(self) -> float:
        """The memory of its pod, in bytes."""
        return self.resources.get("memory", 0.0)


@dataclass(slots=True)
class LearntWorkload:
    """A workload to replay; times are in seconds, `created` since 1970.

    - `shape`: as its author wrote it, under the profile of its namespace. `tasks`: one for each completion.
    - `lead`: from its creation to that of its first pod. `tail`: from its last pod's end to its own.
    - `per_node`: how many of its pods share a node. `echo`: how a pod crashes when another one is disrupted, None if
      it does not; `echoes`: the share of the pods that do.
    - `deadline`: seconds that its author gives all of it, as far as that has ended it; None else.
    """

    story: Story
    shape: Shape
    tasks: list[Task]
    lead: float
    tail: float
    per_node: int = 1
    echo: End | None = None
    echoes: float = 0.0
    deadline: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.story.record.namespace, self.story.record.workload


@dataclass(slots=True)
class Works:
    """Seconds of attempts that succeeded, sorted: of the workloads with the same owner, of a namespace, of all."""

    by_owner: dict[tuple[str, str], list[float]]
    by_namespace: dict[str, list[float]]
    all: list[float]

    def draw(self, workload: LearntWorkload, task: Task, random: Random) -> float:
        """Draw the seconds that a task needs which never succeeded: as much as similar ones, and more than was seen."""
        record = workload.story.record
        siblings = sorted(one.work for one in workload.tasks if one.work is not None)
        own = self.by_owner.get((record.namespace, record.owner), []) if record.owner else []
        for pool in (siblings, own, self.by_namespace.get(record.namespace, []), self.all):
            first = bisect_right(pool, task.floor)
            if first < len(pool):
                return pool[first + int(random.random() * (len(pool) - first))]
        return task.floor + MORE if task.floor else UNKNOWN_WORK


@dataclass(slots=True)
class Learnt:
    """What history says of the programs.

    - `workloads`: to replay. `works`: how long similar work took.
    - `retried`: by exit code, how many tasks failed so again after it, and how many then succeeded.
    - `growths`: by which factor memory was enough that had been too little.
    - `asked`: by the uid of a pod, what its placement asked for: Require, Prefer, Allow or OnDemand.
    - `pauses`: seconds between the end of a pod and the next one's creation, beside the back-off.
    - `waits`: seconds from creation to start, by capacity; `in_vain`: of pods that no spot node took.
    - `shortages`: after how many seconds a pod found a spot node, of those that preferred one and got another.
    - `unknown_profile`: workloads whose profile the policy in force lacks. `continued`: workloads with an interrupted
      attempt that was longer than the one that succeeded. `left_out`: tasks beyond MOST_TASKS.
    """

    workloads: list[LearntWorkload] = field(default_factory=list)
    works: Works = field(default_factory=lambda: Works({}, {}, []))
    retried: dict[int, tuple[int, int]] = field(default_factory=dict)
    growths: list[float] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    pauses: list[float] = field(default_factory=list)
    waits: dict[Capacity, list[float]] = field(default_factory=lambda: defaultdict(list))
    in_vain: list[float] = field(default_factory=list)
    shortages: list[float] = field(default_factory=list)
    unknown_profile: int = 0
    continued: int = 0
    left_out: int = 0


def learn(past: Past, policy: Policy) -> Learnt:
    """Learn from a history under the policy that was in force."""
    found, decider = Learnt(), Decider(policy)
    for story in past.stories:
        name = story.record.profile or DEFAULT
        profile = policy.profiles.get(name)
        if profile is None:
            found.unknown_profile += 1
            continue
        found.workloads.append(_workload_of(story, name, profile, decider, found))
    found.works = _works_of(found.workloads)
    found.shortages = _shortages_of(past.attempts, found.asked)
    again: Counter[int] = Counter()
    mended: Counter[int] = Counter()
    codes_seen: set[int] = set()
    for workload in found.workloads:
        for task in workload.tasks:
            codes = Counter(run.end.code for run in task.runs if run.end.cause == "ExitCode")
            codes_seen.update(codes)
            for code, times in codes.items():
                if task.work is not None:
                    mended[code] += 1
                elif times > 1:
                    again[code] += 1
            found.growths += [run.enough / run.memory for run in task.runs if run.enough]
    found.retried = {code: (again[code], mended[code]) for code in codes_seen}
    return found


def _shortages_of(attempts: Sequence[PastAttempt], asked: Mapping[str, str]) -> list[float]:
    """Return how long pods that preferred spot nodes and got others would have waited: until the next pod got one."""
    taken = sorted(one.start for one in attempts if one.start is not None and one.capacity == "Spot")
    found = []
    for one in attempts:
        if one.start is not None and one.capacity == "OnDemand" and asked.get(one.record.uid) == "Prefer":
            place = bisect_right(taken, one.start)
            if place < len(taken):
                found.append(taken[place] - one.start)
    return found


def _works_of(workloads: Iterable[LearntWorkload]) -> Works:
    works = Works(defaultdict(list), defaultdict(list), [])
    for workload in workloads:
        record = workload.story.record
        for task in workload.tasks:
            if task.work is not None:
                works.by_owner[record.namespace, record.owner].append(task.work)
                works.by_namespace[record.namespace].append(task.work)
                works.all.append(task.work)
    for pool in (*works.by_owner.values(), *works.by_namespace.values(), works.all):
        pool.sort()
    return works


def _workload_of(story: Story, name: str, profile: Profile, decider: Decider, found: Learnt) -> LearntWorkload:
    """Return a workload of its story, and add to `found` what it says of others."""
    shape = _shape_of(story, name, profile)
    echoes = _echoes_of(story, shape, profile)
    scopes = story.scopes()
    shape = shape._replace(
        max_disruptions=_max_disruptions_of(scopes.values(), shape, profile),
        codes=_codes_of(scopes.values(), shape, decider, echoes),
    )
    _note_placements(scopes.values(), shape, profile, found)
    starts_on_demand = decider.leaves_spot(shape, SpentBefore(), lacked_spot=False)
    tasks: list[Task] = []
    for scope in _names_of_scopes(story, shape):
        tasks += _tasks_of(
            scope, scopes.get(scope, []), story, shape, profile, echoes, starts_on_demand=starts_on_demand
        )
    resources = next((one.resources for one in tasks if one.resources), {})
    if len({task.scope for task in tasks}) == len(tasks):
        for task in tasks:
            task.pods = tuple(_pods_of(story, scopes.get(task.scope, []), found.asked))
    for task in tasks:
        task.resources = task.resources or resources
    found.left_out += max(0, len(tasks) - MOST_TASKS)
    found.continued += any(one.work is not None and one.floor > one.work for one in tasks)
    first = min(one.created for one in story.attempts)
    last = max(one.end for one in story.attempts)
    disturbed = [one for one in story.attempts if one.is_disrupted]
    crashes = [one.end_of for one in story.attempts if one.record.uid in echoes]
    return LearntWorkload(
        story,
        shape,
        tasks[:MOST_TASKS],
        lead=max(0.0, first - story.created),
        tail=max(0.0, story.end - last),
        per_node=_per_node_of(story),
        echo=crashes[0] if crashes else None,
        echoes=len(crashes) / max(1, len(crashes) + _beside(story, disturbed, echoes)),
        deadline=story.end - story.created if story.record.reason == "DeadlineExceeded" else None,
    )


def _shape_of(story: Story, name: str, profile: Profile) -> Shape:
    """Return what the author of a workload wrote; retries as many as the default are taken for none."""
    record = story.record
    default = NamedProfile(name, profile).settings({}).default_retries
    retries = record.retries if record.per_index or record.retries != default else None
    containers = containers_of(story.attempts)
    if record.kind == "JobSet":
        return Shape(name, containers, indexed=True, retries=retries, parts=_parts_of(story.scopes()))
    completions = record.completions or None
    if completions is None and record.parallelism <= 1:
        completions = 1
    return Shape(
        name,
        containers,
        indexed=record.indexed,
        completions=completions,
        parallelism=record.parallelism or 1,
        retries=retries,
        per_index=record.per_index,
    )


def _parts_of(scopes: Iterable[str]) -> tuple[ReplicatedJob, ...]:
    """Return the replicated Jobs of a JobSet, by its scopes such as workers-0/3."""
    jobs: dict[str, set[str]] = defaultdict(set)
    pods: Counter[str] = Counter()
    for scope in scopes:
        job = scope.rpartition("/")[0]
        name = job.rpartition("-")[0]
        jobs[name].add(job)
        pods[name] += 1
    return tuple(ReplicatedJob(name, len(some), max(1, pods[name] // len(some))) for name, some in sorted(jobs.items()))


def _names_of_scopes(story: Story, shape: Shape) -> list[str]:
    """Return all scopes of a workload, also those without attempts."""
    seen = story.scopes()
    if shape.parts or not shape.indexed:
        return list(seen)
    indexes = {str(index) for index in range(min(shape.completions or 0, MOST_TASKS))}
    return sorted(indexes | seen.keys(), key=lambda one: (len(one), one))


def _tasks_of(  # noqa: PLR0913, PLR0917 - what decides what an attempt says
    scope: str,
    attempts: Sequence[PastAttempt],
    story: Story,
    shape: Shape,
    profile: Profile,
    echoes: set[str],
    *,
    starts_on_demand: bool,
) -> list[Task]:
    """Return the tasks of a scope: one for an index, one for each completion of a Job without indexes."""
    succeeded = [one for one in attempts if one.end_of is None]
    number = 1
    if not shape.indexed and not shape.parts:
        number = min(MOST_TASKS, shape.completions or max(1, len(succeeded)))
    resources = dict(min(attempts, key=lambda one: one.created).record.resources) if attempts else {}
    tasks = [Task(scope, dict(resources)) for _ in range(number)]
    for task, one in zip(reversed(tasks), succeeded, strict=False):  # the first ones have failed, if any has
        task.work = one.seconds
    others = [one for one in attempts if one.end_of is not None]
    for place, one in enumerate(others):
        _note_failure(tasks[place % max(1, number - len(succeeded))], one, profile, echoes)
    for task in tasks:
        task.needed = task.work is not None or not story.is_complete
    first = next(iter(sorted(attempts, key=lambda one: one.created)), None)
    memories = [one.record.resources.get("memory", 0.0) for one in succeeded]
    enough = max(memories, default=0.0)
    for task in tasks:
        task.fixed = _fixed_of(first, profile, starts_on_demand=starts_on_demand)
        task.runs = [
            ProgramRun(run.seconds, run.end, run.memory, enough if enough > run.memory * GROWN else 0.0)
            if run.memory
            else run
            for run in task.runs
        ]
    return tasks


def _note_failure(task: Task, attempt: PastAttempt, profile: Profile, echoes: set[str]) -> None:
    end = attempt.end_of
    if attempt.record.cause == NEVER_STARTED:
        task.never_starts = task.work is None
        return
    task.floor = max(task.floor, attempt.seconds)
    if end is None or attempt.start is None or end.cause == "Disruption" or attempt.was_stopped:
        return
    if attempt.record.uid in echoes:
        return
    if end.cause == "DeadlineExceeded":
        timeout = profile.attempt_timeout
        if timeout is None or not timeout * (1 - SAME) <= attempt.seconds <= timeout * (1 + SAME) + GRACE:
            task.deadline = attempt.seconds
        task.at_deadline = KILLED if attempt.record.cost == "fatal" else TERMINATED
        return
    memory = attempt.record.resources.get("memory", 0.0) if end.cause == "OOMKilled" else 0.0
    task.runs.append(ProgramRun(attempt.seconds, end, memory))


def _fixed_of(first: PastAttempt | None, profile: Profile, *, starts_on_demand: bool) -> Capacity:
    """Return the capacity of a task that something other than the policy places; empty if the policy does.

    `starts_on_demand`: whether the policy sends first attempts to on-demand nodes; else the author did, or a deadline.
    """
    if first is None or first.start is None:
        return ""
    by_author = not starts_on_demand and profile.deadline.factor is None
    if first.record.placement == "OnDemand" and not first.record.attempt and by_author:
        return "OnDemand"
    if first.record.placement != "None":
        return ""
    return "" if profile.placement.spot == "Allow" else first.capacity


def _pods_of(story: Story, attempts: Sequence[PastAttempt], asked: Mapping[str, str]) -> Iterator[SeenPod]:
    """Yield the pods of a task in order, up to the first one of which not all is known."""
    for one in sorted(attempts, key=lambda one: one.created):
        if one.start is None or one.record.uid not in asked:
            return
        yield SeenPod(
            one.created - story.created,
            asked[one.record.uid],
            MarketPlace(one.capacity, one.record.zone, tuple(sorted(one.record.labels.items()))),
            max(0.0, one.start - one.created),
            one.seconds,
            one.is_disrupted,
            one.was_stopped,
        )


def _max_disruptions_of(scopes: Iterable[Sequence[PastAttempt]], shape: Shape, profile: Profile) -> int | None:
    """Return the limit of disruptions that an author has set; None if it is the profile's."""
    shares = 1 if shape.indexed else max(1, min(shape.parallelism, shape.completions or shape.parallelism))
    for attempts in scopes:
        costs = [one.record for one in attempts if one.record.cost == "disruption"]
        for spent, record in enumerate(costs, start=1):
            left = record.disruptions_left
            if left is not None and (left or spent == 1):
                limit = (left + spent) // shares
                if limit < profile.disruptions.limit and left:
                    return limit
    return None


def _codes_of(
    scopes: Iterable[Sequence[PastAttempt]], shape: Shape, decider: Decider, echoes: set[str]
) -> tuple[tuple[str, int], ...]:
    """Return the exit codes about which an author's own failure policy decides: where the costs seen say so."""
    seen = []
    if decider.admit(shape).refusal or shape.parts:
        return ()
    for attempts in scopes:
        for one in attempts:
            end, record = one.end_of, one.record
            if end is None or end.cause != "ExitCode" or record.uid in echoes or one.was_stopped:
                continue
            if record.cost == "fatal" and record.retries_left == 0:
                continue  # its last retry: the code itself may be worth one
            verdict = decider.decide(shape, end, SpentBefore(), on_failure.NONE, one.record.node)
            seen.append((end, "fatal" if record.settled else record.cost, verdict))
    return actions_seen(seen)


def _echoes_of(story: Story, shape: Shape, profile: Profile) -> set[str]:
    """Return the uids of pods that crashed because another pod of the workload was disrupted."""
    disrupted = [one.end for one in story.attempts if one.is_disrupted]
    if not disrupted or not is_coupled(shape):
        return set()
    within = profile.failure_policy.settle_within
    return {
        one.record.uid
        for one in story.attempts
        if one.end_of is not None
        and one.end_of.cause == "ExitCode"
        and not one.record.settled
        and any(abs(one.end - end) <= within for end in disrupted)
    }


def _beside(story: Story, disturbed: Sequence[PastAttempt], echoes: set[str]) -> int:
    """Return how many pods ran on beside one that was disrupted."""
    found = 0
    for lost in disturbed[:20]:
        found += sum(
            one.start is not None and one.start < lost.end < one.end and one.record.uid not in echoes
            for one in story.attempts[:MOST_TASKS]
        )
    return found


def _per_node_of(story: Story) -> int:
    first = sorted((one for one in story.attempts if one.start is not None), key=lambda one: one.created)
    first = [one for one in first[: max(1, len(story.scopes()), story.record.parallelism)] if one.record.node]
    nodes = {one.record.node for one in first}
    return max(1, round(len(first) / len(nodes))) if nodes else 1


def _note_placements(scopes: Iterable[Sequence[PastAttempt]], shape: Shape, profile: Profile, found: Learnt) -> None:
    """Add to `found` what the placement of each pod asked for, how long it waited, and the pauses between pods."""
    rules = costs.rules_of(profile)
    for attempts in scopes:
        delayed, before = False, None
        for number, one in enumerate(attempts):
            record = one.record
            if record.placement == "Spot":
                found.asked[record.uid] = profile.placement.spot
            elif record.placement == "OnDemand":
                found.asked[record.uid] = "OnDemand"
            elif record.placement == "None" and profile.placement.spot == "Allow":
                found.asked[record.uid] = "Allow"
            if record.created and not delayed:
                if one.start is not None and one.capacity:
                    found.waits[one.capacity].append(max(0.0, one.start - one.created))
                elif one.waited_in_vain and one.start is None:
                    found.in_vain.append(one.end - one.created)
            if before is not None and record.created and (shape.indexed or shape.parallelism == 1) and number == 1:
                found.pauses.append(max(0.0, one.created - before.end - 10))
            index = record.on_failure
            delayed = index is not None and index < len(rules) and rules[index].next.delay is not None
            before = one if not one.was_stopped else None
