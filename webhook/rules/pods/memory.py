"""Gives the containers that were killed for their memory more of it, as the rules of onFailure with `memory` say.

Reads:
    metadata.annotations[retry-policy.dev/{after-failure,memory}], and the keys of Kueue in its labels and annotations
    spec.resources, and the fields that webhook/rules/pods/memory_bounds.py reads
    of the Job and of the JobSet: the labels and annotations [kueue.x-k8s.io/queue-name]
Reads and writes:
    spec.{containers,initContainers}[*].resources.{limits,requests}.memory

A pod is created with the memory of its template, so its memory is computed from that at each attempt. Limit and request
grow in proportion. What the API server or the nodes would refuse is not asked for: the container gets what fits, at
least what its template says, and the annotation `memory` says why.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import msgspec

from webhook.kube import names
from webhook.objects.patch import Editor, Pattern, at
from webhook.objects.problem import Json, Path, Problem
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import Pod
from webhook.policy import quantities
from webhook.policy.model import FailureRule, MemoryGrowth
from webhook.policy.settings import Settings
from webhook.rules.facts import Facts
from webhook.rules.pods import containers
from webhook.rules.pods.memory_bounds import FIELDS, Bound, amount_of, bounds, largest_amount, room_of
from webhook.rules.rule import Rule, in_pods
from webhook.systems import kueue
from webhook.systems.pod_source import Evidence

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext

KUEUE: Final = kueue.QUEUE_NAME.partition("/")[0] + "/"
UNIT: Final = 1024**2  # bytes: memory grows by whole MiB
MOST_CONTAINERS: Final = 100  # of a pod: the time for each is in proportion to their number
WRITES: Final[tuple[Pattern, ...]] = tuple(("spec", field) for field in containers.FIELDS)


class Growth(msgspec.Struct, frozen=True):
    """How the memory of one container has grown, in bytes; `bound`: what has held it back, None if nothing has."""

    container: str
    before: int
    after: int
    kills: int
    bound: Bound | None

    @property
    def result(self) -> str:
        """What has held it back, for metrics; Grown if nothing has."""
        return "Grown" if self.bound is None else self.bound.kind

    def __str__(self) -> str:
        before, after = quantities.written(self.before), quantities.written(self.after)
        size = f"{after} instead of {before}" if self.after > self.before else f"stays at {before}"
        kills = f"killed {self.kills} time{'s' * (self.kills > 1)}"
        return f"{self.container}: {size} ({kills}{f', held by {self.bound.text}' if self.bound else ''})"


def may_grow(rules: Sequence[FailureRule], ended: Sequence[Pod]) -> bool:
    """Return True if the memory of a new pod may grow after the ended ones, so that its bounds must be looked up."""
    return any(map(was_killed, ended)) and any(rule.next.memory is not None for rule in rules)


def was_killed(pod: Pod) -> bool:
    """Return True if a container of an ended pod, or of one before it, was killed for its memory."""
    return any(one.reason == outcomes.OOM for one in pod.exits) or bool(pod.after and on_failure.read(pod.after).kills)


def is_done(said: Json, after: on_failure.State) -> bool:
    """Return True if an earlier round of the same admission did the edit; `said`: the pod's annotations.

    A pod template with the annotations of another pod has the state after another attempt.
    """
    return names.MEMORY in said and said.get(names.AFTER_FAILURE) == on_failure.written(after)


def edit(evidence: Evidence, after: on_failure.State, facts: Facts, editor: Editor) -> list[Growth]:
    """Raise the memory of the containers that were killed; return how each of them has grown."""
    pod = evidence.whole()  # perhaps another object than the editor's, whose pod lacks the fields that are read here
    pod_spec = pod.get("spec") or {}
    obstacle = obstacle_of(pod, evidence, facts)
    room = room_of(pod_spec, evidence.pod.get("spec") or {}, facts.pools, facts.restrictions)
    found = []
    for path, container in containers.of(pod):
        name = container.get("name") or ""
        rule = growth_of(evidence.settings.on_failure, name)
        if name not in after.kills or rule is None or not largest_amount(container):
            continue
        wish = Fraction(rule.factor) ** after.kills[name]
        if obstacle is None:
            held = [*bounds_of_policy(container, rule, evidence.settings)]
            held += bounds(pod_spec, container, room)
            bound = min((one for one in held if one.ratio < wish), key=lambda one: one.ratio, default=None)
        else:
            bound = obstacle
        before = largest_amount(container)
        raise_memory(container, path, wish if bound is None else bound.ratio, editor)
        found.append(Growth(name, before, largest_amount(container), after.kills[name], bound))
    return found


def obstacle_of(pod: Json, evidence: Evidence, facts: Facts) -> Bound | None:
    """Return why no container of a pod may grow; None if they may.

    Kueue admits a workload with the memory of its pod templates, and counts no more against the quota of its queue.
    """
    owners = [one.get("metadata") or {} for one in (evidence.owner, evidence.above) if one is not None]
    keys = [*evidence.labels, *evidence.annotations]
    if any(map(kueue.is_queued, owners)) or any(key.startswith(KUEUE) for key in keys):
        return Bound(Fraction(1), "Kueue", "the quota of its Kueue queue")
    if at(pod, ("spec", "resources")):
        return Bound(Fraction(1), "PodResources", "the resources of the whole pod")
    if sum(1 for _ in containers.of(pod)) > MOST_CONTAINERS:
        return Bound(Fraction(1), "Unknown", "a pod of too many containers")
    if not facts.restrictions.are_known:
        return Bound(Fraction(1), "Unknown", "LimitRanges or ResourceQuotas that cannot be read")
    return None


def growth_of(rules: Sequence[FailureRule], container: str) -> MemoryGrowth | None:
    """Return what the first rule about the memory of a container says; None if there is none."""
    for rule in rules:
        if rule.next.memory is not None and (not rule.match.containers or container in rule.match.containers):
            return rule.next.memory
    return None


def bounds_of_policy(container: Json, rule: MemoryGrowth, settings: Settings) -> Iterator[Bound]:
    """Yield the limits that the policy and the author set for one container."""
    own = largest_amount(container)
    yield Bound(Fraction(quantities.memory(rule.limit) or 0, own), "Limit", f"the limit {rule.limit} of the policy")
    if settings.memory_limit is not None:
        text = f"its author's limit {quantities.written(settings.memory_limit)}"
        yield Bound(Fraction(settings.memory_limit, own), "Limit", text)


def raise_memory(container: Json, path: Path, ratio: Fraction, editor: Editor) -> None:
    """Multiply limit and request of a container by a ratio, rounded down to whole MiB; less than 1 changes nothing.

    The request keeps its proportion to the limit, because a LimitRange may bound that.
    """
    before = largest_amount(container)
    after = int(before * ratio) // UNIT * UNIT
    if after <= before:
        return
    old = {field: amount_of(container, field) for field in FIELDS}
    for field, size in old.items():
        amounts = at(container, ("resources", field))
        if size and amounts and "memory" in amounts:
            grown = quantities.written(-(-size * after // before))
            editor.put(amounts, (*path, "resources", field, "memory"), grown)


def _edit(context: "PodContext") -> list[Problem]:
    """Raise the memory of containers that were killed for it, unless an earlier round of the same admission did."""
    said, asked = context.evidence.annotations, context.asked
    if is_done(said, asked):
        context.growth_note = said[names.MEMORY]
        return []
    context.growths = edit(context.evidence, asked, context.facts, context.editor)
    context.growth_note = "; ".join(map(str, context.growths))
    return []


# After the placement: the pod's memory is bounded by the largest node on which it may run.
RULE: Final[Rule["PodContext"]] = Rule(
    name="memory",
    applies_to="a pod that the ledger counts, after a container was killed for its memory",
    applies=lambda context: bool(context.asked.kills),
    edit=_edit,
    writes=in_pods(*WRITES),
)
