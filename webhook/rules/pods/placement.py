"""Places a pod on spot or on-demand nodes by its attempt: Flyte's rule for interruptible tasks, at each level of a pod.

Reads:
    metadata.annotations[retry-policy.dev/{attempt,interruptible,retry-history}], metadata.ownerReferences
    metadata.annotations of systems that choose a node by other pods, or that ask for reserved capacity
    the fields that webhook/rules/pods/groups.py reads
    spec.nodeName, spec.nodeSelector, spec.schedulingGates[*].name
Reads and writes:
    spec.affinity.nodeAffinity, spec.tolerations
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import msgspec

from webhook import capacity
from webhook.kube import names
from webhook.objects.patch import Editor, Pattern, at
from webhook.objects.problem import Json, Path
from webhook.policy.deadline import Slack
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.rules import annotations
from webhook.rules.pods import groups
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Level

Placement = Literal["Spot", "OnDemand", "None"]

UNKNOWN: Final = "Unknown"
ATTEMPT: Final = attrgetter("attempt")
NEVER_BATCH: Final = {("apps", "DaemonSet"), ("apps", "ReplicaSet")}  # a Deployment's pods are its ReplicaSet's
# Kueue chooses nodes by the template, which lacks our terms: by its topology, or by a flavor's nodeSelector later. A
# pod of an elastic Job gets the nodeSelector of its admission checks when the gate is removed.
GATES: Final = {"kueue.x-k8s.io/topology", "kueue.x-k8s.io/admission", "kueue.x-k8s.io/elastic-job"}
# Tekton and JobSet send a pod to the node of another pod, of whatever kind it is.
FOLLOWS: Final = {"pipeline.tekton.dev/affinity-assistant", "alpha.jobset.sigs.k8s.io/exclusive-topology"}
NODE_AFFINITY: Final[Path] = ("spec", "affinity", "nodeAffinity")
REQUIRED: Final[Path] = (*NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution")
PREFERRED: Final[Path] = (*NODE_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")
TERMS: Final[Path] = (*REQUIRED, "nodeSelectorTerms")
TERMS_OF_SPEC: Final = TERMS[1:]
TOLERATIONS: Final[Path] = ("spec", "tolerations")
HIGHEST_WEIGHT: Final = 100
WRITES: Final[tuple[Pattern, ...]] = (NODE_AFFINITY[:-1], TOLERATIONS)


class Decision(msgspec.Struct, frozen=True):
    """Whether a pod leaves spot nodes, and because of which levels.

    `level`: the level because of which it leaves, or else the one with the highest attempt. `retries`: the same among
    the levels that count retries. `disruptions`: the same among those that count disruptions; None if there is none.
    `alone`: whether something else asks for on-demand nodes, which it may not ask of the other pods of its group.
    """

    off_spot: bool
    level: Level
    retries: Level
    disruptions: Level | None = None
    alone: bool = False


class Plan(NamedTuple):
    """On which nodes a pod is placed, "None" if nothing is added, and by what: node affinity and tolerations.

    `terms`: those of the pod's own node affinity, to each of which the requirements are added; None without any.
    """

    placement: Placement = "None"
    requirements: Sequence[Json] = ()
    terms: Sequence[Json] | None = None
    preferences: Sequence[Json] = ()
    tolerations: Sequence[Json] = ()


NOWHERE: Final = Plan()


def takes_part(pod: Json, controller: OwnerReference | None, *, batch: bool) -> bool:
    """Return True if the webhook places a pod at all; `batch`: whether it belongs to a known batch system."""
    if (pod.get("spec") or {}).get("nodeName"):
        return False
    if controller is not None and (controller.group, controller.kind) in NEVER_BATCH:
        return False
    said = (pod.get("metadata") or {}).get("annotations") or {}
    return batch or names.ATTEMPT in said or names.INTERRUPTIBLE in said


def settings_of_retry(settings: Settings, said: Json, *owners: Json | None) -> Settings:
    """Return the settings of a pod; if it belongs to a requested retry and the profile says so, with on-demand nodes.

    `said`: the pod's annotations; `owners`: its controller, and the controller of that. The retry is recorded in the
    annotation RETRY_HISTORY of one of them; Tekton copies that of a PipelineRun to its pods.
    """
    if settings.profile.requested_retry.placement != "OnDemand":
        return settings
    if names.RETRY_HISTORY in said or any(names.RETRY_HISTORY in annotations.of(one) for one in owners if one):
        return msgspec.structs.replace(settings, interruptible=False)
    return settings


def settings_without_spot(settings: Settings) -> Settings:
    """Return the settings of a pod in place of one that no spot node took: with on-demand nodes, if there is a wait."""
    if settings.profile.placement.spot_wait is None and settings.deadline is None:
        return settings
    return msgspec.structs.replace(settings, interruptible=False)


def settings_by_deadline(settings: Settings, slack: Slack | None, now: float) -> Settings:
    """Return the settings of a pod whose Job may have a deadline: whether that allows a spot node.

    `slack`: what is left; None if nobody keeps the deadline, which then counts as absent.
    """
    if slack is None:
        return settings if settings.deadline is None else msgspec.structs.replace(settings, deadline=None)
    return msgspec.structs.replace(settings, has_turned=now > slack.turns_at)


def decide(levels: list[Level], settings: Settings, *, lost: bool = False, asked: bool = False) -> Decision:
    """Return the decision from all levels; without a level a pod is a first attempt.

    `asked`: whether a rule of onFailure, or the pod's role, asks for on-demand nodes.

    `lost`: whether a disruption ends its work. Then its first attempt is its last one, and so leaves spot nodes, unless
    the threshold is 0. This must be a requirement: an autoscaler ignores a preference, and a scheduler that finds only
    spot nodes would use them.
    """
    threshold = settings.profile.placement.interruptible_failure_threshold
    if settings.deadline is not None and settings.max_disruptions is None:
        levels = [level for level in levels if not level.of_disruptions]  # the deadline decides after disruptions
    leaving = highest([level for level in levels if leaves_spot(level, threshold)])
    must_leave = settings.interruptible is False or settings.has_turned or bool(lost and threshold and leaving is None)
    alone = asked and not must_leave and leaving is None
    level = retries = (None if must_leave else leaving) or highest(levels) or unknown(settings)
    if level.of_disruptions:
        retries = highest([one for one in levels if not one.of_disruptions]) or unknown(settings)
    return Decision(
        off_spot=must_leave or asked or leaving is not None,
        level=level,
        retries=retries,
        disruptions=highest([one for one in levels if one.of_disruptions]),
        alone=alone,
    )


def unknown(settings: Settings) -> Level:
    """Return the level of a first attempt, by the settings alone."""
    return Level(UNKNOWN, 0, settings.default_retries)


def highest(levels: Iterable[Level]) -> Level | None:
    """Return the first level with the highest attempt; None if there is no level."""
    return max(levels, key=ATTEMPT, default=None)


def leaves_spot(level: Level, threshold: int) -> bool:
    """Apply Flyte's rule (its RFC's unified budget) to one level.

    A positive threshold is the number of failures on spot nodes, a negative one the number of attempts on on-demand
    nodes; with 0 no attempt leaves. The first attempt always stays. So with a negative threshold larger than the budget
    every attempt from 1 on leaves; in Flyte the subtraction underflows, and none leaves. If there were as many
    disruptions as allowed, a pod leaves with any threshold.
    """
    attempt = level.attempt
    if attempt == 0:
        return False
    if level.of_disruptions and attempt >= level.budget:
        return True
    if threshold == 0:
        return False
    return attempt >= threshold if threshold > 0 else attempt >= level.budget + 1 + threshold


def plan(pod: Json, decision: Decision, settings: Settings, recognised: capacity.Provider | None) -> Plan:
    """Return on which nodes a pod is placed; NOWHERE if nothing can or should be added to it."""
    provider = provider_of(settings.profile, recognised)
    if provider is None:
        return NOWHERE
    pod_spec = pod.get("spec") or {}
    if capacity.set_aside(pod_spec, (pod.get("metadata") or {}).get("annotations") or {}):
        return NOWHERE
    bound = is_bound_elsewhere(pod) or would_stand_alone(pod, decision, settings)
    if decision.off_spot:
        return _off_spot(pod_spec, provider, bound)
    spot = settings.profile.placement.spot
    waits = settings.deadline is not None and _may_wait(pod, settings)
    if spot == "Allow" and not waits:
        return NOWHERE
    return _on_spot(pod_spec, provider, (waits or spot == "Require") and not bound)


def _may_wait(pod: Json, settings: Settings) -> bool:
    """Return True if a leader ends a pod with a deadline that waits for a spot node, at its last safe moment."""
    return settings.profile.actions == "Act" and settings.max_disruptions is None and not groups.is_grouped(pod)


def edit(found: Plan, editor: Editor) -> None:
    """Add the node affinity and the tolerations of a plan to its pod."""
    if found.requirements:
        require(editor, found.terms, found.requirements)
    for preference in found.preferences:
        prefer(editor, preference)
    for toleration in found.tolerations:
        editor.append(TOLERATIONS, toleration)


def is_bound_elsewhere(pod: Json) -> bool:
    """Return True if something else chooses the pod's node, so that a requirement of ours could exclude every node."""
    said = (pod.get("metadata") or {}).get("annotations") or {}
    pod_spec = pod.get("spec") or {}
    gates = pod_spec.get("schedulingGates") or ()
    if not FOLLOWS.isdisjoint(said) or groups.has_named_claim(pod_spec):
        return True
    return bool(gates and any(gate.get("name") in GATES for gate in gates))


def would_stand_alone(pod: Json, decision: Decision, settings: Settings) -> bool:
    """Return True if a requirement could separate a pod from its group, and the author does not ask for one."""
    if settings.interruptible is False or not groups.is_grouped(pod):
        return False
    return decision.alone or not groups.moves_as_one(pod, decision.level.source)


def _off_spot(pod_spec: Json, provider: capacity.Provider, bound: bool) -> Plan:  # noqa: FBT001 - called once
    """Keep a pod off spot nodes unless it asks for them itself; `bound`: by a preference alone."""
    if capacity.refuses_on_demand(pod_spec, provider):
        return NOWHERE
    off_spot, preferences = capacity.off_spot(provider), capacity.on_demand_preferences(provider)
    if bound:
        preferences = [{"weight": HIGHEST_WEIGHT, "preference": {"matchExpressions": off_spot}}, *preferences]
        return Plan("OnDemand", preferences=preferences)
    terms = at(pod_spec, TERMS_OF_SPEC)
    return Plan("OnDemand", off_spot, terms, preferences) if may_require(terms) else NOWHERE


def _on_spot(pod_spec: Json, provider: capacity.Provider, required: bool) -> Plan:  # noqa: FBT001 - called once
    """Send a pod to spot nodes unless it asks for others itself; `required`: by a requirement."""
    if capacity.refuses_spot(pod_spec, provider):
        return NOWHERE
    tolerations = capacity.missing_tolerations(pod_spec.get("tolerations"), provider)
    if capacity.refuses_on_demand(pod_spec, provider):  # it asks for spot itself, maybe by another provider's label
        return Plan("Spot", tolerations=tolerations)
    requirement = capacity.on_spot(provider) if required else []
    if requirement:
        terms = at(pod_spec, TERMS_OF_SPEC)
        return Plan("Spot", requirement, terms, (), tolerations) if may_require(terms) else NOWHERE
    return Plan("Spot", preferences=capacity.spot_preferences(provider), tolerations=tolerations)


def provider_of(profile: Profile, recognised: capacity.Provider | None) -> capacity.Provider | None:
    """Return the provider that a profile names; for `auto` the one that was recognised, None if none was."""
    placement = profile.placement
    if placement.provider == "auto":
        return recognised
    if placement.custom is not None:
        return capacity.custom(placement.custom.spot_labels, placement.custom.tolerations)
    return capacity.provider_named(placement.provider, recognised)


def require(editor: Editor, terms: Sequence[Json] | None, requirements: Sequence[Json]) -> None:
    """Add requirements to every term, because terms are ORed.

    An empty term matches no node. It stays empty, because with a requirement it would match some.
    """
    if terms is None:
        editor.set(TERMS, [{"matchExpressions": [*requirements]}])
        return
    for index, term in enumerate(terms):
        if _matches_any(term):
            for requirement in requirements:
                if requirement not in (term.get("matchExpressions") or ()):
                    editor.append((*TERMS, index, "matchExpressions"), own(requirement))


def may_require(terms: Sequence[Json] | None) -> bool:
    """Return False if there are terms, of which none can get a requirement."""
    return terms is None or any(map(_matches_any, terms))


def _matches_any(term: Json) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def own(requirement: Json) -> Json:
    """Return a copy of a nodeSelectorRequirement, so that each term has its own."""
    return {key: [*value] if isinstance(value, list) else value for key, value in requirement.items()}


def prefer(editor: Editor, term: Json) -> None:
    """Add a preferredSchedulingTerm unless it is there already."""
    if term not in (at(editor.root, PREFERRED) or ()):
        editor.append(PREFERRED, term)
