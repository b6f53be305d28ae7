"""Applies the rules to a pod: places it by its attempt, and notes on it what was decided and why."""

from msgspec.structs import replace

from webhook import attempts
from webhook.admission.modes import ENFORCED
from webhook.admission.subject import Subject
from webhook.kinds import KindSpec, batch
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import NamedProfile
from webhook.rules import annotations, opt_in, registry
from webhook.rules.contexts import PodContext
from webhook.rules.facts import Facts
from webhook.rules.rule import apply


def edit(subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> tuple[list[Problem], str]:
    """Edit a pod; return warnings, and what was decided, empty where nothing was."""
    root = subject.root
    said = annotations.of(root)
    settings = profile.settings(said if facts.owner is None else {**annotations.of(facts.owner), **said})
    if settings.skip or not subject.takes_part or is_no_batch(subject.owner_row, facts, said):
        return [], ""
    if facts.mode in ENFORCED and is_of_unchanged_job(subject.owner_row, facts, said):
        return [], ""
    if not subject.controlled and profile.problems(said, annotations.OWN):
        return [], ""  # it will be refused for them, as they stand
    if settings.profile.requested_retry.placement == "OnDemand" and is_asked_for(said, facts):
        settings = replace(settings, interruptible=False)
    evidence = attempts.Evidence(
        pod=root,
        annotations=said,
        labels=(root.get("metadata") or {}).get("labels") or {},
        whole=subject.whole,
        controller=subject.owner,
        owner=facts.owner,
        above=facts.above,
        settings=settings,
        disruptions=facts.disruptions,
        failures=facts.failures,
    )
    context = PodContext(evidence, facts, profile, editor, is_of_job=subject.owner_row is batch.JOB)
    warnings = apply(registry.POD_RULES, context, editor)
    return warnings, context.placed or ""


def is_asked_for(said: Json, facts: Facts) -> bool:
    """Tell whether a pod runs because a person has asked for it: so its object says, or with Tekton itself."""
    above = (annotations.of(one) for one in (facts.owner, facts.above) if one is not None)
    return any(names.RETRY_HISTORY in one for one in (said, *above))


def is_no_batch(row: KindSpec | None, facts: Facts, said: Json) -> bool:
    """Tell whether a pod's controller is batch only under another, which it has not got, as a RayCluster of nobody."""
    if row is None or not row.counted_under or (facts.above or {}).get("kind") == row.counted_under:
        return False
    return names.ATTEMPT not in said and names.INTERRUPTIBLE not in said


def is_of_unchanged_job(row: KindSpec | None, facts: Facts, said: Json) -> bool:
    """Return True if a pod's Job was created without the policy: without a rule, on spot, a disruption costs a retry.

    Such a Job lacks the label that admission gives each Job: it is older than the opt-in of its namespace, or was
    created in mode Warn or Audit, or while the webhook was away. The annotation attempt or interruptible, on the pod or
    its Job, places the pod all the same.
    """
    if row is not batch.JOB or facts.owner is None:
        return False
    if names.PROFILE in opt_in.labels_of(facts.owner):
        return False
    asked = {*said, *annotations.of(facts.owner)}
    return names.ATTEMPT not in asked and names.INTERRUPTIBLE not in asked
