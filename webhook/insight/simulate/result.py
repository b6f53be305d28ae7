"""What `simulate` prints: figures beside what was seen, the workloads that would fare worse, and what is assumed."""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

import msgspec

from webhook.history.record import Capacity
from webhook.insight.simulate.market import MarketPlace
from webhook.insight.simulate.past import Story
from webhook.insight.simulate.prediction import Outlook, Played, ReplayTally, Seen, Simulator
from webhook.objects.times import written
from webhook.policy import costs, criteria
from webhook.policy.model import Policy, Profile

API_VERSION: Final = "retry-policy.dev/v1alpha1"
LISTED: Final = 50  # workloads that fare worse
FAILS: Final = 0.2  # the probability to fail from which a workload fares worse that is complete
SLOWER: Final = 2.0  # how many times as long a workload takes that fares worse
CAPACITIES: Final[tuple[tuple[Capacity, str], ...]] = (("Spot", "spot"), ("OnDemand", "on-demand"))
FEW: Final = 10  # losses of nodes, of which little can be learnt


def _matches_by(criterion: str, profile: Profile) -> bool:
    return any(criterion in criteria.named_in(rule.match) for rule in profile.on_failure)


# What of a profile has no effect in a simulation, and whether a profile has it.
NOT_SIMULATED: Final[dict[str, Callable[[Profile], bool]]] = {
    "placement.wave": lambda profile: profile.placement.wave is not None,
    "placement.badNodes": lambda profile: profile.placement.bad_nodes is not None,
    "retries.per": lambda profile: profile.retries.per is not None,
    "retries.renewOnProgress": lambda profile: profile.retries.renew_on_progress,
    "stallTimeout": lambda profile: profile.stall_timeout is not None,
    "placement.roles": lambda profile: profile.placement.roles != "Alike",
    "avoid: Node": lambda profile: any(rule.next.avoid == "Node" for rule in costs.rules_of(profile)),
    **{
        f"match.{criteria.SPELT[name]}": partial(_matches_by, name)
        for name, criterion in criteria.CRITERIA.items()
        if not criterion.simulated
    },
    "jobSet.onDisruption RestartPod": lambda profile: profile.job_set.on_disruption == "RestartPod",
    "kueue.evictions.limit": lambda profile: profile.kueue.evictions.limit is not None,
}


class Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A namespace, or all (the empty name): what was seen, what the policy in force gives, what the other one gives."""

    name: str
    seen: Seen
    now: Outlook
    then: Outlook


class Worse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload that would fare worse under the other policy.

    - `fails`: the probability that it fails; it was complete. `slower`: its time if it does not fail, as a multiple
      of the time that it took.
    - `why`: the rule of the policy because of which it does.
    """

    namespace: str
    kind: str
    workload: str
    fails: float
    slower: float
    why: str


class Simulation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What another policy would have done.

    - `since`, `until`: the time of the history, RFC 3339. `workloads`: how many are replayed. `currency`: of money.
    - `worse`: the first LISTED; `worse_in_all`: how many there are. `assumptions`: sentences.
    """

    api_version: Literal["retry-policy.dev/v1alpha1"] = API_VERSION
    kind: Literal["Simulation"] = "Simulation"
    since: str
    until: str
    workloads: int
    replications: int
    seed: int
    currency: str
    total: Group
    namespaces: list[Group]
    worse: list[Worse]
    worse_in_all: int
    assumptions: list[str]


def simulation(simulator: Simulator, policy: Policy, now: Played, then: Played) -> Simulation:
    """Return what the replays under the policy in force and under another one say."""
    seen = simulator.seen()
    is_now, is_then = now.prediction(), then.prediction()
    worse = [*_those_worse(simulator, policy, then)]
    return Simulation(
        since=written(simulator.history.begin),
        until=written(simulator.history.end),
        workloads=len(simulator.workloads),
        replications=then.replications,
        seed=simulator.seed,
        currency=simulator.currency,
        total=Group(name="", seen=seen[""], now=plain(is_now), then=plain(is_then)),
        namespaces=[
            Group(name=name, seen=seen[name], now=is_now.namespaces[name], then=is_then.namespaces[name])
            for name in is_then.namespaces
            if name in is_now.namespaces
        ],
        worse=worse[:LISTED],
        worse_in_all=len(worse),
        assumptions=assumptions(simulator, policy, now, then),
    )


def plain(whole: Outlook) -> Outlook:
    """Return the figures without their namespaces."""
    return Outlook(**{name: getattr(whole, name) for name in Outlook.__struct_fields__})


def _those_worse(simulator: Simulator, policy: Policy, then: Played) -> list[Worse]:
    """Return the workloads that fare worse under a policy than they did, those first that fail most surely.

    A profile that stays as it is does no harm: if replays under it differ from history, the simulation is wrong.
    """
    found = []
    changed = {name for name, one in policy.profiles.items() if one != simulator.policy.profiles.get(name)}
    for workload, after in zip(simulator.workloads, then.tallies, strict=True):
        story = workload.story
        if not story.is_complete or workload.shape.profile not in changed:
            continue
        fails, took = 1 - after.complete / then.replications, story.end - story.created
        slower = after.time / after.complete / took if after.complete and took else 1.0  # 1 if it is never complete
        if fails > FAILS or slower >= SLOWER:
            found.append(
                Worse(
                    namespace=story.record.namespace,
                    kind=story.record.kind,
                    workload=story.record.workload,
                    fails=round(fails, 3),
                    slower=round(slower, 2),
                    why=_why_worse(fails, story, after, then.replications),
                )
            )
    return sorted(found, key=lambda one: (-one.fails, -one.slower, one.namespace, one.workload))


def _why_worse(fails: float, story: Story, after: ReplayTally, times: int) -> str:
    """Return why a workload fares worse; `times`: how often it was replayed."""
    if fails > FAILS and after.why:
        return max(after.why, key=lambda one: (after.why[one], one))
    ends = [one.end_of.cause for one in story.attempts if one.end_of is not None and not one.was_stopped]
    disruptions = ends.count("Disruption")
    for what, seen, all_times in (
        ("disrupted", disruptions, after.disruptions),
        ("run again after failures", len(ends) - disruptions, after.failures),
    ):
        if all_times / times > seen * 1.2 + 0.1:
            return f"it is {what} {all_times / times:.1f} times instead of {seen}"
    return "it waits longer: for spot nodes, for delays of onFailure, or for the back-off"


def assumptions(simulator: Simulator, policy: Policy, *played: Played) -> list[str]:
    """Return what the figures rest on, in sentences; `played`: all replays that have figures."""
    return [
        *_of_machines(simulator),
        *_of_programs(simulator),
        *_of_authors(simulator, policy),
        *_of_policy(simulator, policy),
        *_of_history(simulator, played[-1]),
        *_of_prices(simulator, *played),
    ]


def _of_machines(simulator: Simulator) -> list[str]:
    market, found = simulator.market, []
    for capacity, name in CAPACITIES:
        losses, hours = market.losses[capacity], market.exposed[capacity] / 3600
        if not hours:
            found.append(f"no attempt ran on {name} nodes: they are taken never to be lost, and to cost what others do")
            continue
        every = f"one in {hours / losses:,.1f} hours" if losses else "none"
        line = f"{name} nodes are lost as often as in this history, whatever the policy: {losses:,} losses, {every}"
        if any(len(rates.losses) > 1 for (one, _), rates in market.rates.items() if one == capacity):
            line += "; more often in some hours and zones, at the same times as then"
        found.append(line + (f"; fewer than {FEW}, so that little is known" if losses < FEW else ""))
    return found


def _of_programs(simulator: Simulator) -> list[str]:
    learnt = simulator.learnt
    checkpoint = simulator.said.checkpoint
    again = "begins anew" if checkpoint is None else f"continues: an end costs it {checkpoint} s of its work at most"
    found = [f"a program that runs again {again}, and takes as long as its attempt that succeeded"]
    if learnt.continued and checkpoint is None:
        found[0] += (
            f"; {_numbered(learnt.continued, 'workload')} had an interrupted attempt that took longer, so perhaps they "
            "continue where they stopped, and the figures are too high"
        )
    tasks = [task for one in simulator.workloads for task in one.tasks]
    guessed = sum(task.work is None and task.needed for task in tasks)
    if guessed:
        found.append(
            f"{guessed:,} of {len(tasks):,} pods never succeeded: how long they would take is drawn from similar ones"
        )
    untried = sorted(code for code, counts in learnt.retried.items() if not any(counts))
    if untried:
        codes = ", ".join(map(str, untried[:10]))
        found.append(
            f"nothing was retried after exit code {codes}: whether it comes again each time is not known, and drawn"
        )
    kills = sum(any(run.memory and not run.enough for run in task.runs) for task in tasks)
    if kills:
        by = "as in other workloads" if learnt.growths else "up to four times as much"
        found.append(f"{_numbered(kills, 'pod')} killed for memory: how much is enough is not known, and drawn ({by})")
    return found


def _of_authors(simulator: Simulator, policy: Policy) -> list[str]:
    found = []
    if any(one.shape.retries is None for one in simulator.workloads):
        found.append("as many retries as the default of the policy in force are taken for none that an author named")
    timed = any(
        one.deadline.factor is not None for one in (*policy.profiles.values(), *simulator.policy.profiles.values())
    )
    if timed:
        found.append(
            "each author counts as having said how long the work takes, as its longest pod did, and no deadline: "
            "deadline.factor names it"
        )
    if simulator.said.late is not None:
        found.append(
            "late is what takes longer than --late times the work of its longest pod and a start, once for each pod "
            "that runs after another one; nothing whose work is not known"
        )
    missing = sorted({one.shape.profile for one in simulator.workloads} - policy.profiles.keys())
    if missing:
        found.append(
            f"the workloads of profile {', '.join(missing[:5])} are left out: the other policy has none of that name"
        )
    return found


def _of_policy(simulator: Simulator, policy: Policy) -> list[str]:
    used = {one.shape.profile for one in simulator.workloads}
    profiles = [(name, profile) for name, profile in policy.profiles.items() if name in used]
    found = []
    for name, profile in profiles:
        ignored = [what for what, is_used in NOT_SIMULATED.items() if is_used(profile)]
        if ignored:
            found.append(f"profile {name}: {', '.join(ignored)} {'are' if len(ignored) > 1 else 'is'} not simulated")
        asked, landed = profile.placement.spot, simulator.market.landed
        if asked not in landed and landed and not (asked == "Require" and "Prefer" in landed):
            found.append(f"profile {name}: nobody has seen where pods run with placement.spot {asked}; that is a guess")
    return found


def _of_history(simulator: Simulator, played: Played) -> list[str]:
    history, learnt, found = simulator.history, simulator.learnt, []
    for number, what in (
        (history.unfinished, "had not ended, or its end is not in the history: left out"),
        (learnt.unknown_profile, "of a profile that the policy in force lacks: left out"),
    ):
        if number:
            found.append(f"{_numbered(number, 'workload')} {what}")
    if history.unread:
        found.append(f"{_numbered(history.unread, 'record')} without usable times: left out")
    if history.guessed_capacity:
        found.append(
            f"{_numbered(history.guessed_capacity, 'attempt')} on nodes of unknown capacity: the placement counts"
        )
    if history.cut or learnt.left_out:
        found.append("the history is larger than what is simulated: the rest is left out")
    if played.replications < played.asked:
        found.append(f"{played.replications} replications instead of {played.asked}, because the history is large")
    return found


def _of_prices(simulator: Simulator, *played: Played) -> list[str]:
    pricing, found = simulator.pricing, []
    if pricing.others:
        found.append(
            f"{_numbered(pricing.others, 'attempt')} priced in another currency than {pricing.currency}: these prices "
            "are ignored"
        )
    return [*found, *why_no_money(simulator, *played)]


def why_no_money(simulator: Simulator, *played: Played) -> list[str]:
    """Return which prices are missing, so that there is no money; empty if there is."""
    if simulator.pricing.price is None:
        return ["there are no prices, neither in the policies nor in the history: no money"]
    found = []
    if simulator.unpriced:
        found.append(f"{_numbered(simulator.unpriced, 'attempt')} without a known price: no money")
    places = len(frozenset[MarketPlace]().union(*(one.unpriced for one in played)))
    if places:
        found.append(
            f"{_numbered(places, 'place')} (capacity, zone and node labels) without a known price: no money for a "
            "policy under which pods run there"
        )
    return found


def _numbered(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
