"""The MutatingAdmissionPolicy of pods: the placement that does not depend on the attempt.

A pod whose author says `interruptible: "false"` leaves spot nodes. The pods of a Job stay on spot nodes where the
profile says so for every attempt. The expressions mirror webhook/rules/pods/placement.py for pods that say nothing
about the provider's labels, and that nothing else binds to a node; others are left to the webhook.
"""

from typing import Final

from webhook import capacity
from webhook.capacity.provider import Provider
from webhook.capacity.set_aside import ANNOTATIONS, LABELS
from webhook.export.cel import field, plain_list, text
from webhook.export.profiles import MAY_SKIP, Profiles
from webhook.kinds import batch, core
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy, Profile
from webhook.rules.pods import groups, placement

SPEC: Final = "object.spec"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY: Final = "/spec/affinity/nodeAffinity"


def is_placed(profile: Profile) -> bool:
    """Return True if a profile names its provider; `auto` depends on the nodes."""
    return profile.placement.provider != "auto"


def is_always_on_spot(profile: Profile) -> bool:
    """Return True if a profile keeps every attempt on spot nodes: no attempt, disruption or requested retry leaves."""
    chosen = profile.placement
    leaves = profile.disruptions.action != "Count" or profile.requested_retry.placement == "OnDemand"
    return is_placed(profile) and chosen.interruptible_failure_threshold == 0 and chosen.spot != "Allow" and not leaves


def provider_of(profile: Profile) -> Provider | None:
    """Return the provider that a profile names."""
    return placement.provider_of(profile, None)


def spec(policy: Policy) -> Json:
    """Return the part of a MutatingAdmissionPolicy that places pods."""
    profiles = Profiles(policy, core.POD)
    listed = [
        *profiles.first,
        profiles.variable(MAY_SKIP, lambda profile: profile.allow_skip),
        profiles.variable("offSpot", lambda profile: off_spot(provider_of(profile))),
        profiles.variable("onDemand", lambda profile: on_demand(provider_of(profile))),
        profiles.variable("alwaysOnSpot", is_always_on_spot),
        profiles.variable("required", required),
        profiles.variable("preferred", preferred),
        profiles.variable("tolerations", tolerations),
        profiles.variable("labels", labels),
        {"name": "said", "expression": "object.metadata.?annotations.orValue({})"},
        {"name": "labelled", "expression": "object.metadata.?labels.orValue({})"},
        {"name": "terms", "expression": f"{SPEC}.?affinity.?nodeAffinity.?{REQUIRED}.?nodeSelectorTerms.orValue([])"},
        {"name": "leavesSpot", "expression": f"variables.said[?{text(names.INTERRUPTIBLE)}].orValue('') == 'false'"},
        {"name": "isBound", "expression": is_bound()},
        {"name": "staysOnSpot", "expression": f"variables.alwaysOnSpot && {of_job()} && !({is_grouped()})"},
        {"name": "isPlaced", "expression": is_edited(profiles)},
        {"name": "needed", "expression": "variables.leavesSpot ? variables.offSpot : variables.required"},
        {"name": "wished", "expression": "variables.leavesSpot ? variables.onDemand : variables.preferred"},
        {"name": "missing", "expression": missing_tolerations()},
    ]
    most = max(len(off_spot(provider_of(profile)) + required(profile)) for profile in policy.profiles.values())
    return {
        "matchConditions": [{"name": "may-be-placed", "expression": may_be_placed(profiles)}],
        "variables": listed,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patches(most)}}],
    }


def off_spot(provider: Provider | None) -> list[Json]:
    """Return the requirements that keep a pod off spot nodes."""
    return [] if provider is None else capacity.off_spot(provider)


def on_demand(provider: Provider | None) -> list[Json]:
    """Return the preferences of a pod that leaves spot nodes."""
    return [] if provider is None else capacity.on_demand_preferences(provider)


def required(profile: Profile) -> list[Json]:
    """Return the requirements of a pod on spot nodes."""
    provider = provider_of(profile)
    return capacity.on_spot(provider) if provider is not None and profile.placement.spot == "Require" else []


def preferred(profile: Profile) -> list[Json]:
    """Return the preferences of a pod on spot nodes."""
    provider = provider_of(profile)
    return [] if provider is None or required(profile) else capacity.spot_preferences(provider)


def tolerations(profile: Profile) -> list[Json]:
    """Return the tolerations of a pod on spot nodes."""
    provider = provider_of(profile)
    return [] if provider is None else [dict(one) for one in provider.tolerations]


def labels(profile: Profile) -> list[str]:
    """Return the node labels that mean spot or on-demand, or beside which a provider allows no other."""
    provider = provider_of(profile)
    if provider is None:
        return []
    keys = {*provider.spot_labels, *provider.on_demand_labels, *provider.closed_by, *LABELS}
    return sorted(keys)


def may_be_placed(profiles: Profiles) -> str:
    """Return a condition that spares most pods the evaluation."""
    asked = f"object.metadata.?annotations[?{text(names.INTERRUPTIBLE)}].orValue('') == 'false'"
    of_jobs = f"{text(batch.JOB_NAME)} in object.metadata.?labels.orValue({{}})"
    return f"{asked} || {of_jobs}" if profiles.any(is_always_on_spot) else asked


def of_job() -> str:
    """Return a condition that a Job controls the pod."""
    owner = "r.?controller.orValue(false) && r.kind == 'Job' && r.apiVersion.startsWith('batch/')"
    return f"object.metadata.?ownerReferences.orValue([]).exists(r, {owner})"


def is_bound() -> str:
    """Return a condition that something else chooses the node of a pod, or what it may run on."""
    keys = plain_list([*sorted(placement.FOLLOWS), *ANNOTATIONS])
    gates = plain_list(sorted(placement.GATES))
    return (
        f"{keys}.exists(key, key in variables.said) || {SPEC}.?nodeName.orValue('') != '' ||\n"
        f"  {SPEC}.?schedulingGates.orValue([]).exists(g, g.?name.orValue('') in {gates}) ||\n"
        f"  {SPEC}.?resourceClaims.orValue([]).exists(c, c.?resourceClaimName.orValue('') != '')"
    )


def is_grouped() -> str:
    """Return a condition that a pod is scheduled together with others."""
    return (
        f"{plain_list(sorted(groups.LABELS))}.exists(key, key in variables.labelled) ||\n"
        f"  {plain_list(sorted(groups.ANNOTATIONS))}.exists(key, key in variables.said) ||\n"
        f"  {SPEC}.?schedulingGroup.hasValue() || {SPEC}.?workloadRef.hasValue()"
    )


def is_edited(profiles: Profiles) -> str:
    """Return a condition that a pod is placed here."""
    never = sorted(kind for _, kind in placement.NEVER_BATCH)
    served = (
        "object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false) &&\n"
        f"  r.apiVersion.startsWith('apps/') && r.kind in {plain_list(never)})"
    )
    mentions = (
        f"variables.labels.exists(key, key in {SPEC}.?nodeSelector.orValue({{}})) ||\n"
        "  variables.terms.exists(t, t.?matchExpressions.orValue([])"
        ".exists(e, e.?key.orValue('') in variables.labels)) ||\n"
        f"  {field(('affinity', 'nodeAffinity', PREFERRED), SPEC)}.orValue([]).exists(w,\n"
        "  w.?preference.?matchExpressions.orValue([]).exists(e, e.?key.orValue('') in variables.labels))"
    )
    skipped = f"(variables.allowSkip && variables.said[?{text(names.SKIP)}].orValue('') == 'true')"
    return (
        f"{profiles.is_known()} && variables.labels.size() > 0 &&\n"
        f"  (variables.leavesSpot || variables.staysOnSpot) && !{skipped} && !variables.isBound &&\n"
        f"  !({served}) && !({mentions}) &&\n"
        "  (variables.terms.size() == 0 || variables.terms.exists(t, t.?matchExpressions.orValue([]).size() > 0 ||\n"
        "  t.?matchFields.orValue([]).size() > 0))"
    )


def missing_tolerations() -> str:
    """Return the tolerations that a pod on spot nodes lacks: capacity.missing_tolerations."""
    return (
        "variables.leavesSpot ? [] : variables.tolerations.filter(w,\n"
        f"  !{SPEC}.?tolerations.orValue([]).exists(t,\n"
        "  (t.?effect.orValue('') == '' || t.?effect.orValue('') == w.?effect.orValue('')) &&\n"
        "  (!t.?tolerationSeconds.hasValue() || t.?tolerationSeconds == w.?tolerationSeconds) &&\n"
        "  (t.?key.orValue('') == '' ? t.?operator.orValue('') == 'Exists' : t.key == w.?key.orValue('') &&\n"
        "  (t.?operator.orValue('') == 'Exists' ||\n"
        "  (t.?operator.orValue('Equal') == w.?operator.orValue('Equal') &&\n"
        "  t.?value.orValue('') == w.?value.orValue(''))))))"
    )


def patches(most: int) -> str:
    """Return the expression for the JSON Patch of a pod; `most`: the most requirements of a profile.

    No value contains a part of the pod: from Kubernetes 1.37 on that has a type which is not written to a patch.
    """
    terms = f"{AFFINITY}/{REQUIRED}/nodeSelectorTerms/' + string(i) + '/matchExpressions"
    filled = "t.?matchExpressions.orValue([]).size() > 0"
    appended = [
        f"variables.terms.transformList(i, t, ({filled} || t.?matchFields.orValue([]).size() > 0) &&\n"
        f"  variables.needed.size() > {index},\n"
        f"  JSONPatch{{op: 'add', path: '{terms}/-', value: variables.needed[{index}]}})"
        for index in range(most)
    ]
    create_node_affinity = f"[JSONPatch{{op: 'add', path: '{AFFINITY}', value: {{}}}}]"
    terms_of_ours = "{'nodeSelectorTerms': [{'matchExpressions': variables.needed}]}"
    create_terms = f"[JSONPatch{{op: 'add', path: '{AFFINITY}/{REQUIRED}', value: {terms_of_ours}}}]"
    lacking = f"!({filled}) && t.?matchFields.orValue([]).size() > 0"
    parts = [
        f"(has({SPEC}.affinity) ? [] : [JSONPatch{{op: 'add', path: '/spec/affinity', value: {{}}}}])",
        f"({SPEC}.?affinity.?nodeAffinity.hasValue() ? [] :\n  {create_node_affinity})",
        f"(variables.needed.size() == 0 || variables.terms.size() > 0 ? [] :\n  {create_terms})",
        f"variables.terms.transformList(i, t, {lacking},\n  JSONPatch{{op: 'add', path: '{terms}', value: []}})",
        *appended,
        *added("variables.wished", ("affinity", "nodeAffinity", PREFERRED)),
        *added("variables.missing", ("tolerations",)),
    ]
    return "!variables.isPlaced ? [] :\n" + " +\n".join(parts)


def added(values: str, path: tuple[str, ...]) -> list[str]:
    """Return expressions for patches that append values to a list of the pod's spec, or create it."""
    pointer = "/".join(("/spec", *path))
    there = f"{field(path, SPEC)}.orValue([]).size() > 0"
    return [
        f"({there} || {values}.size() == 0 ? [] : [JSONPatch{{op: 'add', path: '{pointer}', value: {values}}}])",
        f"{values}.filter(w, {there}).map(w, JSONPatch{{op: 'add', path: '{pointer}/-', value: w}})",
    ]


def is_of_a_profile(policy: Policy) -> bool:
    """Return True if a profile of the policy places pods here."""
    return any(map(is_placed, policy.profiles.values()))
