"""Applies the rules to a workload: to each JobSpec in it, then to its other fields; and records what they injected.

An object that was admitted before has such a record: in the second round of an admission, or in an update of a CronJob.
What was injected then is removed first, so that the rules see what the author wrote.
"""

from typing import Final, NamedTuple

from webhook.admission.subject import Subject
from webhook.kube import names
from webhook.objects.patch import Edit, Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import NamedProfile
from webhook.rules import own_keys, registry, undo
from webhook.rules.contexts import WorkloadContext
from webhook.rules.facts import Facts
from webhook.rules.rule import Rule, apply
from webhook.systems.job_set.rules import job_set
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, copied


class Received(NamedTuple):
    """An object as it was received, and the record of an earlier admission."""

    subject: Subject
    editor: Editor
    record: undo.Record


class Ruled(NamedTuple):
    """An object to which the rules were applied, and the edits that they made."""

    context: WorkloadContext
    editor: Editor
    edits: list[Edit]


def edit(subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """Edit a new object, or one whose spec is mutable; return warnings."""
    kind, root = subject.kind, subject.root
    record = undo.read(root)
    if record is not None:
        trial = Editor(copied(root))
        undo.take_out(trial, kind, record)
        ruled, warnings = apply_rules(WorkloadContext(kind, subject.old, facts, profile, trial))
        if is_alike(kind, trial.root, root) and record.profile == profile.name:
            editor.warned += trial.warned
            return warnings + apply((NOTE,), ruled._replace(editor=editor), editor)
        apply((EARLIER_INJECTIONS,), Received(subject, editor, record), editor)
    ruled, warnings = apply_rules(WorkloadContext(kind, subject.old, facts, profile, editor))
    return warnings + apply((NOTE,), ruled, editor)


def apply_rules(context: WorkloadContext) -> tuple[Ruled, list[Problem]]:
    """Apply the rules to each JobSpec, then to the other fields; return the result, and each warning once."""
    editor = context.editor
    before = len(editor.edits)
    by_index = context.profile.profile.failure_policy.many_pods != "Job"
    warnings = []
    for job, settings in zip(context.jobs, context.settings_of_jobs, strict=True):
        job_rules = registry.job_rules(context.kind, by_index, settings.skip)
        warnings += apply(job_rules, context.context_of(job, settings), editor)
    warnings += apply(registry.workload_rules(context.kind, context.settings.skip), context, editor)
    if context.kind is JOB_SET:
        warnings = job_set.said_once(warnings)
    return Ruled(context, editor, editor.edits[before:]), list(dict.fromkeys(warnings)) if warnings else []


def is_alike(kind: KindSpec, one: Json, other: Json) -> bool:
    """Return True if two objects differ only in their metadata, and in no retry field there."""
    beside_metadata = {**one, "metadata": None} == {**other, "metadata": None}
    return beside_metadata and list(kind.budgets(one)) == list(kind.budgets(other))


def take_out(received: Received) -> list[Problem]:
    """Remove what an earlier admission injected."""
    undo.take_out(received.editor, received.subject.kind, received.record)
    return []


def note(ruled: Ruled) -> list[Problem]:
    """Record on an object what the rules injected, and under which profile; return warnings."""
    context, editor, edits = ruled
    kind, profile_name = context.kind, context.profile.name
    warnings: list[Problem] = []
    is_labelled = kind.labelled and not context.is_skipped
    if edits or is_labelled:
        warnings = undo.write(editor, kind, context.profile, edits)
    else:
        editor.remove(undo.ANNOTATION)
    if is_labelled:
        editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    elif kind.labelled:
        editor.remove(own_keys.LABEL)  # without the label the ledger does not count the skipped workload
    return warnings


EARLIER_INJECTIONS: Final[Rule[Received]] = Rule(
    name="reapply",
    applies_to="what was admitted before",
    edit=take_out,
    writes=undo.undone,
)
NOTE: Final[Rule[Ruled]] = Rule(
    name="annotations",
    applies_to="each workload",
    edit=note,
    writes=lambda _kind: (own_keys.LABEL, undo.ANNOTATION),
)
