"""Applies the rules to an update of an object whose spec is immutable, such as a Job; keeps retry histories."""

from typing import Final, NamedTuple

from webhook.admission import review
from webhook.admission.subject import Subject
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import NamedProfile
from webhook.rules import annotations, own_keys, retries, undo
from webhook.rules.rule import Rule, apply
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch


class Update(NamedTuple):
    """An update of an object; `old`: the object before the update."""

    subject: Subject
    old: Json
    editor: Editor


class UpdateUnderProfile(NamedTuple):
    """An update of an object in a namespace with a profile; `old`: the object before the update."""

    subject: Subject
    old: Json
    editor: Editor
    profile: NamedProfile


def put_back(subject: Subject, editor: Editor) -> bytes:
    """Put back what was injected into an object at its creation, and our own keys; return the patch.

    This is done under any profile and in any mode: it enforces nothing, but without it the API server would refuse the
    update.
    """
    if subject.malformed or subject.old is None:
        return b""
    if subject.kind.immutable:
        apply(UPDATE_RULES, Update(subject, subject.old, editor), editor)
    elif subject.kind in SYSTEMS:
        apply(HISTORY_RULES, Update(subject, subject.old, editor), editor)
    return editor.patch() if editor.edits else b""


def edit(subject: Subject, old: Json, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """Apply the current limit to the backoffLimit of a Job, which is mutable; return warnings."""
    return apply(PROFILE_RULES, UpdateUnderProfile(subject, old, editor, profile), editor)


def put_back_own_keys(update: Update) -> list[Problem]:
    """Undo the changes that an update makes to our keys."""
    own_keys.put_back(update.editor, update.subject.kind, update.old)
    return []


def put_back_history(update: Update) -> list[Problem]:
    """Undo a change of the retry history that is not due to a requested retry."""
    if not own_keys.may_begin_anew(update.subject.kind, update.old):
        own_keys.put_back_key(update.editor, own_keys.HISTORY, update.old)
    return []


def put_back_injections(update: Update) -> list[Problem]:
    """Put back the injected values that the update removed only because its manifest lacks them."""
    request = update.subject.request
    undo.put_back(update.editor, update.subject.kind, update.old, lambda: review.decode_value(request.old_object))
    return []


def hold_to_limit(update: UpdateUnderProfile) -> list[Problem]:
    """Apply the limit to the backoffLimit of a Job; return warnings."""
    subject, old, editor, profile = update
    warnings: list[Problem] = []
    for job, old_job in zip(subject.kind.jobs(subject.root), subject.kind.jobs(old), strict=False):
        budget, old_budget = batch.budget_of(job, said=True, old=old_job), batch.budget_of(old_job, said=True)
        if budget is not None and old_budget is not None:
            settings = profile.settings(annotations.of(subject.root))
            old_settings = profile.settings(annotations.of(old))
            warnings += retries.edit_update(budget, settings, editor, old_budget, old_settings)
            warnings += retries.clamp_sum(job, settings, editor, old_job)
    return warnings


UPDATE_RULES: Final[tuple[Rule[Update], ...]] = (
    Rule(
        name="own_keys",
        applies_to="an update of a Job or JobSet",
        edit=put_back_own_keys,
        writes=lambda _kind: (
            *(own_keys.LABEL, own_keys.HISTORY, undo.ANNOTATION),
            *(own_keys.WORK, own_keys.WORK_SOURCE),
        ),
    ),
    Rule(
        name="reapply",
        applies_to="an update of a Job or JobSet",
        edit=put_back_injections,
        writes=undo.undone,
    ),
)
HISTORY_RULES: Final[tuple[Rule[Update], ...]] = (
    Rule(
        name="own_keys",
        applies_to="an update of a workload of another kind that has an account",
        edit=put_back_history,
        writes=lambda _kind: (own_keys.HISTORY,),
    ),
)
PROFILE_RULES: Final[tuple[Rule[UpdateUnderProfile], ...]] = (
    Rule(
        name="retries",
        applies_to="an update of a Job",
        applies=lambda update: update.subject.kind is batch.JOB,
        edit=hold_to_limit,
        writes=lambda kind: (("spec", "backoffLimit"),) if kind is batch.JOB else (),
    ),
)
