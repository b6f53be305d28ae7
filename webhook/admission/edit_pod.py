"""Applies the rules to a pod: places it by its attempt, and annotates it with the decision and the reason."""

from collections.abc import Sequence

from webhook.admission.modes import ENFORCED
from webhook.admission.subject import Subject
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.deadline import Slack
from webhook.policy.settings import NamedProfile
from webhook.rules import annotations, opt_in, registry
from webhook.rules.contexts import PodContext, UnplacedPod
from webhook.rules.facts import Facts
from webhook.rules.pods import memory, on_time, placement
from webhook.rules.rule import apply
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.pod_source import Evidence

# The warnings about a pod; its placement, empty if none was decided; how the memory of its containers has grown.
Edited = tuple[list[Problem], str, Sequence[memory.Growth]]


def edit(subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> Edited:
    """Edit a pod, and return what is known of it then."""
    root = subject.root
    said = annotations.of(root)
    settings = profile.settings(said if facts.owner is None else {**annotations.of(facts.owner), **said})
    if is_no_batch(subject.owner_kind, facts, said):
        return [], "", ()
    if settings.skip or not subject.takes_part:
        if subject.is_of_batch and not is_of_unchanged_job(subject.owner_kind, facts, said):
            return apply(registry.UNPLACED_POD_RULES, UnplacedPod(editor, profile.name), editor), "", ()
        return [], "", ()
    if facts.mode in ENFORCED and is_of_unchanged_job(subject.owner_kind, facts, said):
        return [], "", ()
    if subject.controller is None and profile.problems(said, annotations.OWN):
        return [], "", ()  # /validate denies the pod because of these problems
    settings = placement.settings_of_retry(settings, said, facts.owner, facts.above)
    if settings.deadline is not None:
        slack = _slack_of(subject.owner_kind, facts, profile)
        settings = placement.settings_by_deadline(settings, slack, facts.now)
    evidence = Evidence(
        pod=root,
        annotations=said,
        labels=(root.get("metadata") or {}).get("labels") or {},
        whole=subject.whole,
        controller=subject.owner,
        owner=facts.owner,
        above=facts.above,
        settings=placement.settings_without_spot(settings) if facts.spot_unavailable else settings,
        disruptions=facts.disruptions,
        failures=facts.failures,
    )
    belongs_to = subject.request.namespace, "" if subject.controller is None else subject.controller.uid
    context = PodContext(
        evidence, facts, profile, editor, is_of_job=subject.owner_kind is batch.JOB, belongs_to=belongs_to
    )
    wanted, asked = settings.profile, context.asked
    rules = registry.pod_rules(bool(asked.kills or asked.not_before), wanted.environment, wanted.diagnostics.last_words)
    warnings = apply(rules, context, editor)
    return warnings, context.plan.placement, context.growths


def _slack_of(kind: KindSpec | None, facts: Facts, profile: NamedProfile) -> Slack | None:
    """Return what is left of time and work by the annotations of the pod's Job, as the leader reads them.

    None if there is no deadline, or no leader, which replaces a pod that waits for a spot node in time.
    """
    job, above = facts.owner, facts.above
    if kind is not batch.JOB or job is None or not facts.ledger:
        return None
    job_set = above if above is not None and above.get("kind") == JOB_SET.kind else None
    settings = profile.settings(annotations.of(job))
    return on_time.slack_of(job, job_set, settings, facts.saved_work, facts.now)


def is_no_batch(kind: KindSpec | None, facts: Facts, said: Json) -> bool:
    """Return True if a pod's controller is batch work only under another object, and has none: a RayCluster alone."""
    if kind is None or not kind.counted_under or (facts.above or {}).get("kind") == kind.counted_under:
        return False
    return names.ATTEMPT not in said and names.INTERRUPTIBLE not in said


def is_of_unchanged_job(kind: KindSpec | None, facts: Facts, said: Json) -> bool:
    """Return True if a pod's Job was created without the policy: it has no rule that makes a disruption free.

    Such a Job lacks the label that admission gives each Job: it was created before the opt-in of its namespace, in mode
    Warn or Audit, or while the webhook did not answer. With the annotation attempt or interruptible, on the pod or its
    Job, the pod is placed all the same.
    """
    if kind is not batch.JOB or facts.owner is None:
        return False
    if names.PROFILE in opt_in.labels_of(facts.owner):
        return False
    asked = {*said, *annotations.of(facts.owner)}
    return names.ATTEMPT not in asked and names.INTERRUPTIBLE not in asked
