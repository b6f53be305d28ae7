"""Chooses the nodes of a pod: spot or on-demand, and which nodes and zones it avoids.

The file of each part says what it reads and writes: placement, avoid, protect, loss and roles, beside this one.
"""

from typing import TYPE_CHECKING, Final

from webhook import capacity
from webhook.objects.problem import Problem
from webhook.pods.rejections import the_worst
from webhook.rules.pods import avoid, groups, placement, protect
from webhook.rules.rule import Rule, in_pods

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext


def _edit(context: "PodContext") -> list[Problem]:
    evidence, asked, plan = context.evidence, context.asked, context.plan
    chosen = evidence.settings.profile.placement
    placement.edit(plan, context.editor)
    if asked.avoid_nodes or asked.avoid_zones or chosen.wave is not None or chosen.bad_nodes is not None:
        _edit_avoid(context)
    if chosen.protect in {plan.placement, "Always"}:  # both have the value OnDemand
        protect.edit(evidence.annotations, context.editor)
    return []


def _edit_avoid(context: "PodContext") -> None:
    """Prefer other nodes and zones than those where attempts failed, that are bad, or that lose spot nodes."""
    evidence, editor, asked = context.evidence, context.editor, context.asked
    zones = dict.fromkeys((*asked.avoid_zones, *_zones_that_lose_spot(context)))
    nodes = (*dict.fromkeys((*asked.avoid_nodes, *_bad_nodes(context))),)
    if not (zones or nodes) or groups.is_grouped(evidence.pod):
        return
    if zones:
        provider = placement.provider_of(evidence.settings.profile, context.facts.recognised)
        on_spot = (
            capacity.spot_preferences(provider) if provider is not None and context.plan.placement == "Spot" else []
        )
        avoid.zones(editor, [*zones], on_spot)
    avoid.nodes(editor, nodes)


def _zones_that_lose_spot(context: "PodContext") -> tuple[str, ...]:
    """Return the zones that a pod on spot nodes avoids because they lose their spot pods."""
    wave, waves = context.evidence.settings.profile.placement.wave, context.facts.waves
    if wave is None or waves is None or context.plan.placement != "Spot":
        return ()
    return waves.avoided(wave.share, wave.avoid_for, context.facts.now)


def _bad_nodes(context: "PodContext") -> tuple[str, ...]:
    """Return the nodes that a pod avoids because they have rejected others, or broken; none if the profile reports."""
    facts, profile = context.facts, context.evidence.settings.profile
    bad, rejections, faulty = profile.placement.bad_nodes, facts.rejections, facts.faulty_nodes
    if bad is None or profile.actions == "Report":
        return ()
    found = [] if rejections is None else rejections.avoided(bad.rejected, bad.avoid_for, facts.now)
    if faulty is not None:
        found += faulty.avoided(bad.faults, bad.avoid_for, facts.now)
    return the_worst(found, facts.nodes)


RULE: Final[Rule["PodContext"]] = Rule(
    name="placement",
    applies_to="each pod",
    edit=_edit,
    writes=in_pods(*placement.WRITES, *avoid.WRITES, *protect.WRITES),
)
