"""The MutatingAdmissionPolicy of a kind: sets retry fields, and the podFailurePolicy of a Job, at creation."""

from typing import Final

import msgspec

from webhook.export import budgets, failure_policy, retries
from webhook.export.cel import Variable, text
from webhook.export.profiles import MAY_SKIP, Profiles, clamps
from webhook.kinds import KindSpec, batch
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Policy, Profile

RECORD: Final = "/metadata/annotations/" + names.POLICY.replace("/", "~1")
LABEL: Final = "/metadata/labels/" + names.PROFILE.replace("/", "~1")


def edits_something(row: KindSpec) -> bool:
    """Return True if a kind has fields that are set at creation."""
    return bool(row.retry_fields or row.job_specs)


def spec(row: KindSpec, policy: Policy) -> Json:
    """Return the part of a MutatingAdmissionPolicy that edits new objects of a kind."""
    profiles = Profiles(policy, row)
    listed: list[Variable] = [
        *profiles.first,
        profiles.variable("limit", lambda profile: profile.retries.limit),
        profiles.variable("default", lambda profile: min(profile.retries.default, profile.retries.limit)),
        profiles.variable("clamps", clamps),
        profiles.variable(MAY_SKIP, lambda profile: profile.allow_skip),
    ]
    variables = retries.begin(row, profiles)
    found: list[str] = []
    if row is batch.JOB:
        listed += [*failure_policy.of_profiles(profiles), profiles.variable("applied", rest_of_record)]
        found += failure_policy.edits(variables)
    if row.job_specs:
        found += retries.job_edits(variables, row, profiles)
    for field in row.retry_fields:
        found += retries.field_edits(variables, row, profiles, field)
    edits = variables.add("edits", " +\n".join(found))
    texts = f"{edits}.map(e, string(e.text)).join(',')"
    rest = "variables.applied" if row is batch.JOB else "'}'"
    variables.add("record", f"'{{\"profile\":\"' + variables.profile + '\",\"injected\":[' + {texts} + ']' + {rest}")
    untouched = f"{edits}.size() == 0"
    if row is batch.JOB:  # which gets the label and the record in any case, unless its author skips it
        untouched = f"variables.objects.size() == 0 || (variables.skips && {untouched})"
    patches = [
        "(has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}])",
        f"{edits}.map(e, JSONPatch{{op: string(e.op), path: string(e.path), value: e.value}})",
        f"[JSONPatch{{op: 'add', path: {text(RECORD)}, value: variables.record}}]",
    ]
    if row is batch.JOB:
        patches.append(
            "(variables.skips ? [] : (has(object.metadata.labels) ? [] :\n"
            "  [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}]) +\n"
            f"  [JSONPatch{{op: 'add', path: {text(LABEL)}, value: variables.profile}}])"
        )
    expression = f"{untouched} ? [] :\n" + " +\n".join(patches)
    conditions = {} if always_applies(row, profiles) else {"matchConditions": [asks_for_retries()]}
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    return {**conditions, "variables": [*listed, *variables.list], "mutations": [mutation]}


def always_applies(row: KindSpec, profiles: Profiles) -> bool:
    """Return True if an object may be edited without an annotation of its author."""
    unlimited = any(map(budgets.may_be_unlimited_if_absent, row.retry_fields))
    return bool(row.job_specs) or unlimited or profiles.any(clamps)


def asks_for_retries() -> Json:
    """Return the condition on objects of a kind that are edited only because of the annotation max-retries."""
    said = f"{text(names.MAX_RETRIES)} in object.metadata.?annotations.orValue({{}})"
    return {"name": "asks-for-retries", "expression": said}


def rest_of_record(profile: Profile) -> str:
    """Return the end of a Job's annotation `policy`: the fields of the profile that `explain` and the ledger read."""
    codes = list(profile.failure_policy.retriable_exit_codes)
    fields = {"applied": applied(profile), **({"retriableExitCodes": codes} if codes else {})}
    return "," + msgspec.json.encode(fields).decode()[1:]
