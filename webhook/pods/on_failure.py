"""Finds the rule of `onFailure` that decides after an ended attempt, and what it asks of the next pod. Pure.

The state goes from pod to pod: admission writes it to the new pod's annotation `after-failure`, and when that pod ends,
the next state is made of its annotation and of how it ended. So it needs no room in the account, survives a change of
the leader, and costs nothing where a profile has no rules.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.objects.times import shifted, time_of
from webhook.pods import outcomes
from webhook.pods.outcomes import Outcome
from webhook.pods.pods import LONGEST_AFTER, LONGEST_NAME, Exit, Pod
from webhook.policy import criteria
from webhook.policy.costs import REMEMBERED, Cost, cost_of
from webhook.policy.model import Delay, FailureRule, Match

OfContainer = Callable[[Match, Exit], bool]

MOST_NODES: Final = 5  # nodes and zones that are remembered
MOST_DECIDED: Final = 5  # ends whose rule is remembered
BY_NONE: Final = bounds.MOST_FAILURE_RULES * 2  # stands for no rule: greater than the index of any
MOST_CONTAINERS: Final = 20  # whose memory may grow
MOST_KILLS: Final = 100

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Names = Annotated[tuple[Text, ...], msgspec.Meta(max_length=MOST_NODES)]
Kills = Annotated[int, msgspec.Meta(ge=0, le=MOST_KILLS)]
Small = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class FailureState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the ended attempts of one scope ask of its next pod: the content of the annotation `after-failure`.

    - `rule`: the index of the rule that decided after the last attempt; None if none matched.
    - `cause`, `reason`: how that attempt ended, as in `Outcome`; empty in an attempt that a person or its Job ended.
    - `decided`: the rules that decided after the last attempts that failed by themselves, newest first; only where a
      rule asks how many there were.
    - `nodes`: the nodes of the last attempts that failed, newest first, each as often as an attempt failed there.
    - `avoid_nodes`, `avoid_zones`: what rules asked the next pod to avoid, newest first.
    - `kills`: how often each container was killed for its memory where a rule lets the memory grow.
    - `delays`: how often in a kind the rule has asked for a delay. `not_before`: the end of the delay, RFC 3339.
    - `on_demand`: whether the rule asks for on-demand nodes.
    """

    rule: Small | None = None
    cause: Text = ""
    reason: Text = ""
    decided: Annotated[tuple[Small, ...], msgspec.Meta(max_length=MOST_DECIDED)] = ()
    nodes: Names = ()
    avoid_nodes: Names = ()
    avoid_zones: Names = ()
    kills: Annotated[dict[Text, Kills], msgspec.Meta(max_length=MOST_CONTAINERS)] = {}
    delays: Small = 0
    not_before: Text = ""
    on_demand: bool = False


# The nodes of the last attempts, that of the ended one included, and the rules that decided before it.
Earlier = tuple[Sequence[str], Sequence[int]]
# A match, the ended pod, what was before it, and the index of the rule.
OfPod = Callable[[Match, Pod, Earlier, int], bool]

NONE: Final = FailureState()
decoder: Final = msgspec.json.Decoder(FailureState)
encoder: Final = msgspec.json.Encoder(order="deterministic")


def state_after(
    ended: Sequence[Pod], job: Json | None, job_set: Json | None, rules: tuple[FailureRule, ...]
) -> FailureState:
    """Return what the ended pods of a scope, the newest last, ask of its next pod.

    The pods of a Job without indexes have one scope: any of them gets the memory that another one needed.
    """
    if not ended:
        return NONE
    *earlier, last = ended
    state = after(last, outcomes.outcome_of(last, job, job_set), rules)
    if not earlier:
        return state
    kills = dict(state.kills)
    for pod in earlier:
        for container, times in _kills_after(pod, job, job_set, rules).items():
            kills[container] = max(times, kills.get(container, 0))
    return msgspec.structs.replace(state, kills=kills)


def _kills_after(pod: Pod, job: Json | None, job_set: Json | None, rules: tuple[FailureRule, ...]) -> dict[str, int]:
    if any(one.reason == outcomes.OOM for one in pod.exits):
        return after(pod, outcomes.outcome_of(pod, job, job_set), rules).kills
    return read(pod.after).kills


def after(pod: Pod, outcome: Outcome, rules: tuple[FailureRule, ...]) -> FailureState:
    """Return the state after one ended pod: the one with which it was created, changed by the rule that matches."""
    before = read(pod.after)
    if outcome.reason == outcomes.STOPPED:
        return msgspec.structs.replace(before, rule=None, cause="", reason="", delays=0, not_before="", on_demand=False)
    nodes, cause = _newest(pod.node, before.nodes, repeated=True), cause_of(pod, outcome)
    of_cause, counts_failures = _of_cause(rules, cause)
    index = _first_match(of_cause, pod, outcome, (nodes, before.decided))
    found = FailureState(
        rule=index,
        cause=cause,
        reason=outcome.reason,
        nodes=nodes,
        avoid_nodes=before.avoid_nodes,
        avoid_zones=before.avoid_zones,
        kills=before.kills,
    )
    if counts_failures:
        found = msgspec.structs.replace(found, decided=_decided_with(before.decided, cause, index))
    if index is None:
        return found
    following = rules[index].next
    changes: dict[str, object] = {"on_demand": following.placement == "OnDemand"}
    if following.avoid == "Node":
        changes["avoid_nodes"] = _newest(pod.node, before.avoid_nodes)
    if following.avoid == "Zone":
        changes["avoid_zones"] = _newest(pod.zone, before.avoid_zones)
    if following.memory is not None:
        changes["kills"] = _more_kills(before.kills, rules[index].match, pod)
    if following.delay is not None:
        delays = before.delays + 1 if before.rule == index else 1
        changes |= {"delays": delays, "not_before": _end_of(following.delay, delays, pod.ended)}
    return msgspec.structs.replace(found, **changes)


def _decided_with(before: tuple[int, ...], cause: str, index: int | None) -> tuple[int, ...]:
    """Return the rules that decided, the newest first; a stalled program has not failed without a reason."""
    if cause in {"Disruption", outcomes.STALLED}:
        return before
    return (BY_NONE if index is None else index, *before)[:MOST_DECIDED]


@lru_cache(REMEMBERED)
def _of_cause(rules: tuple[FailureRule, ...], cause: str) -> tuple[list[tuple[int, Match]], bool]:
    """Return the matches that may be about a cause, each with the index of its rule; and if any counts failures."""
    found = [(index, rule.match) for index, rule in enumerate(rules) if rule.match.cause in {None, cause}]
    return found, any(rule.match.failures for rule in rules)


def decided(pod: Pod, outcome: Outcome, rules: tuple[FailureRule, ...]) -> int | None:
    """Return the index of the rule that decides after an ended pod; None if none does, or its Job had ended it."""
    if not rules or outcome.reason == outcomes.STOPPED or outcome.cause == "Succeeded":
        return None
    before = read(pod.after)
    nodes = _newest(pod.node, before.nodes, repeated=True)
    of_cause, _ = _of_cause(rules, cause_of(pod, outcome))
    return _first_match(of_cause, pod, outcome, (nodes, before.decided))


def cost_by(index: int | None, pod: Pod, rules: Sequence[FailureRule]) -> Cost | None:
    """Return what the rule of `index`, which decides after an ended pod, says about its cost; None if nothing.

    About the cost of a disruption only rules with that cause decide (webhook/policy/costs.py).
    """
    if index is None:
        return None
    rule = rules[index]
    if pod.disruption is None:
        return cost_of(rule)
    return rule.next.cost if rule.match.cause == "Disruption" else None


def _first_match(matches: Sequence[tuple[int, Match]], pod: Pod, outcome: Outcome, earlier: Earlier) -> int | None:
    """Return the index of the first rule that matches an ended pod; None if none does."""
    for index, match in matches:
        if _matches(match, pod, outcome, earlier, index):
            return index
    return None


def _matches(match: Match, pod: Pod, outcome: Outcome, earlier: Earlier, index: int) -> bool:
    of_pod, of_containers = _tests_of(match)
    for holds in of_pod:
        if not holds(match, pod, earlier, index):
            return False
    exits: Sequence[Exit] = pod.exits
    for is_of in of_containers:
        exits = [one for one in exits if is_of(match, one)]
        if not exits:
            return False
    return not match.reasons or not _reasons_of(pod, outcome, exits).isdisjoint(match.reasons)


def _has_message(match: Match, one: Exit) -> bool:
    return criteria.is_like(one.message, match.message or "") if one.message else match.message == "*"


# What a match may name, besides causes and reasons: of a pod, and of one of its containers.
OF_PODS: Final[dict[str, OfPod]] = {
    "same_node": lambda match, pod, earlier, _index: earlier[0][:MOST_NODES].count(pod.node) >= (match.same_node or 0),
    # So many attempts, with this one, failed by themselves that no rule before this one explained.
    "failures": lambda match, _pod, earlier, index: (
        1 + sum(decided >= index for decided in earlier[1]) >= (match.failures or 0)
    ),
}
OF_CONTAINERS: Final[dict[str, OfContainer]] = {
    "containers": lambda match, one: one.container in match.containers,
    "exit_codes": lambda match, one: one.code in match.exit_codes,
    "message": _has_message,
}
criteria.need_all({"cause", "reasons", *OF_PODS, *OF_CONTAINERS}, __name__)


@lru_cache(REMEMBERED)
def _tests_of(match: Match) -> tuple[list[OfPod], list[OfContainer]]:
    """Return the tests of what a match names: of a pod, and of one of its containers."""
    named = {*criteria.named_in(match)}
    of_containers = [OF_CONTAINERS[name] for name in OF_CONTAINERS if name in named]
    if match.cause == outcomes.OOM:
        of_containers.append(lambda _match, one: one.reason == outcomes.OOM)
    return [OF_PODS[name] for name in OF_PODS if name in named], of_containers


def cause_of(pod: Pod, outcome: Outcome) -> str:
    """Return the cause by which rules match: that of the ledger, but OOMKilled if any container was killed for it."""
    if outcome.cause == "ExitCode" and any(one.reason == outcomes.OOM for one in pod.exits):
        return "OOMKilled"
    return outcome.cause


def _reasons_of(pod: Pod, outcome: Outcome, exits: Sequence[Exit]) -> set[str]:
    """Return the reasons of a pod's end: of its disruption, of the pod, and of the containers that a match is about."""
    return {outcome.reason, pod.reason, *(one.reason for one in exits)} - {""}


def _more_kills(kills: dict[str, int], match: Match, pod: Pod) -> dict[str, int]:
    found = dict(kills)
    for one in pod.exits:
        is_about = all(is_of(match, one) for is_of in _tests_of(match)[1])
        if is_about and (one.container in found or len(found) < MOST_CONTAINERS):
            found[one.container] = min(found.get(one.container, 0) + 1, MOST_KILLS)
    return found


def _newest(name: str, before: tuple[str, ...], *, repeated: bool = False) -> tuple[str, ...]:
    if not name:
        return before[:MOST_NODES]
    older = before if repeated else [one for one in before if one != name]
    return (name, *older)[:MOST_NODES]


def _end_of(delay: Delay, times: int, ended: str) -> str:
    seconds = min(delay.initial * delay.factor ** min(times - 1, MOST_KILLS), max(delay.initial, delay.limit))
    return shifted(ended, round(seconds))


def read(text: str) -> FailureState:
    """Return the state in an annotation; an empty one if it is absent, malformed or too long."""
    if not text or len(text) > LONGEST_AFTER:
        return NONE
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):  # ValidationError is one; fields that no State has may be nested
        return NONE
    return found if not found.not_before or time_of(found.not_before) else msgspec.structs.replace(found, not_before="")


def written(state: FailureState) -> str:
    """Return the content of the annotation; the oldest nodes and zones are left out until it is short enough."""
    while len(encoded := encoder.encode(state)) > LONGEST_AFTER:
        if state.nodes:
            state = msgspec.structs.replace(state, nodes=state.nodes[:-1])
        elif state.avoid_nodes:
            state = msgspec.structs.replace(state, avoid_nodes=state.avoid_nodes[:-1])
        elif state.avoid_zones:
            state = msgspec.structs.replace(state, avoid_zones=state.avoid_zones[:-1])
        else:
            state = msgspec.structs.replace(state, reason="", kills=dict(list(state.kills.items())[:-1]))
    return encoded.decode()
