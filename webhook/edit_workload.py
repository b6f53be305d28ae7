"""Applies every rule to a workload: to each JobSpec in it, then to what stands beside them."""

from copy import deepcopy
from typing import Final

from webhook import names
from webhook.patch import Editor, at
from webhook.policy.settings import NamedProfile, Settings
from webhook.problem import Json, Path, Problem
from webhook.rules import annotations, failure_policy, job_set, reapply, retries, timeouts
from webhook.subject import Facts, Subject
from webhook.workloads import EmbeddedJob, batch
from webhook.workloads.job_set import JOB_SET

LEDGER: Final[Path] = ("metadata", "annotations", names.LEDGER)


def edit(subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """Edit a new object, or one that may be changed: what was injected before is worked out anew; return warnings."""
    root = subject.root
    if subject.old is None and at(root, LEDGER) is not None:
        editor.rule = "annotations"
        editor.remove(LEDGER)  # of the object that this one is a copy of
    record = reapply.read(root)
    if record is not None:
        trial = Editor(deepcopy(root))  # seldom: a second round of admission, or an update of a CronJob
        reapply.take_out(trial, subject.row, record)
        warnings = Rules(subject, facts, profile, trial).apply()
        if {**trial.root, "metadata": None} == {**root, "metadata": None} and record.profile == profile.name:
            return warnings
        editor.rule = "reapply"
        reapply.take_out(editor, subject.row, record)
    before = len(editor.edits)
    rules = Rules(subject, facts, profile, editor)
    warnings = rules.apply()
    edits = editor.edits[before:]
    marked = subject.row.labelled and not rules.skipped
    if edits or marked:
        reapply.write(editor, profile.name, edits)
    elif record is not None:
        editor.remove(reapply.ANNOTATION)
    if marked:
        editor.update(("metadata", "labels"), {names.PROFILE: profile.name})
    return warnings


class Rules:
    """The rules, on their way through one object."""

    def __init__(self, subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> None:
        self.row = subject.row
        self.root = editor.root
        self.facts = facts
        self.profile = profile
        self.editor = editor
        self.settings = profile.settings(annotations.of(self.root))
        self.jobs = list(self.row.jobs(self.root))
        self.skipped = self.settings.skip  # whether its author wants it left alone, or each of the Jobs in it
        self.disruption_action: str = profile.profile.disruptions.action
        if self.row is JOB_SET:
            self.disruption_action = job_set.disruption_action(
                self.root, self.settings, message_patterns=facts.message_patterns
            )

    def apply(self) -> list[Problem]:
        """Apply them all; return each warning once."""
        settings = [self.settings_of(job) for job in self.jobs]
        self.skipped |= bool(settings) and all(one.skip for one in settings)
        warnings = []
        for job, its_settings in zip(self.jobs, settings, strict=True):
            warnings += self.edit_job(job, its_settings)
        warnings += self.edit_beside()
        return list(dict.fromkeys(warnings)) if warnings else []

    def settings_of(self, job: EmbeddedJob) -> Settings:
        """Return what applies to one Job."""
        if job.metadata_path == ("metadata",):
            return self.settings
        return self.profile.settings(annotations.of_job(self.root, job))

    def edit_job(self, job: EmbeddedJob, settings: Settings) -> list[Problem]:
        """Apply the rules to one JobSpec."""
        editor = self.editor
        said = (
            job.spec.get("backoffLimit") is not None
        )  # what stands in a file; of what the API has defaulted, see there
        if self.facts.defaulted:
            said = batch.says_backoff_limit(self.root, job, self.profile.profile.retries.limit)
        budget = batch.budget_of(job, said=said)
        warnings: list[Problem] = []
        if self.row.failure_policy and not settings.skip:
            editor.rule = "failure_policy"
            warnings += failure_policy.edit(job, settings, editor, disruption_action=self.disruption_action)
        editor.rule = "retries"
        if budget is not None:
            warnings += retries.edit(budget, settings, editor)
            warnings += retries.edit_template((*job.path, "template", "spec"), job.pod_spec, settings, editor)
        if self.row.failure_policy and not settings.skip:
            editor.rule = "timeouts"
            timeouts.edit(job, settings, editor)
        editor.rule = "annotations"
        return warnings + annotations.edit_job(self.root, job, settings, editor)

    def edit_beside(self) -> list[Problem]:
        """Apply the rules to what stands beside the JobSpecs."""
        row, root, settings, editor = self.row, self.root, self.settings, self.editor
        warnings: list[Problem] = []
        if row is JOB_SET:
            editor.rule = "failure_policy"
            if not settings.skip:
                job_set.edit(root, self.jobs, settings, editor, disruption=self.disruption_action)
            editor.rule = "retries"
            warnings += job_set.clamp(root, settings, editor)
        editor.rule = "retries"
        for budget in list(row.budgets(root)):
            warnings += retries.edit(budget, settings, editor)
        for path, template in row.templates(root):
            warnings += retries.edit_template((*path, "spec"), template.get("spec") or {}, settings, editor)
        if not settings.skip:
            editor.rule = "timeouts"
            timeouts.edit_fields(row, root, settings, editor)
        editor.rule = "annotations"
        return warnings + annotations.edit(row, root, settings, editor)


def edit_immutable(subject: Subject, old: Json, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """On UPDATE of what may not be changed: hold a Job's backoffLimit, which may, to today's limit."""
    if subject.row is not batch.JOB:
        return []
    editor.rule = "retries"
    warnings: list[Problem] = []
    for job, old_job in zip(subject.row.jobs(subject.root), subject.row.jobs(old), strict=False):
        budget, old_budget = batch.budget_of(job, said=True), batch.budget_of(old_job, said=True)
        if budget is not None and old_budget is not None:
            settings = profile.settings(annotations.of(subject.root))
            old_settings = profile.settings(annotations.of(old))
            warnings += retries.edit_update(budget, settings, editor, old_budget, old_settings)
    return warnings
