"""Applies every rule to a workload: to each JobSpec in it, then to what stands beside them."""

from functools import cached_property

import msgspec

from webhook.admission.subject import Subject
from webhook.kinds import Budget, EmbeddedJob, KindSpec, batch
from webhook.kinds.job_set import JOB_SET
from webhook.kinds.kind_spec import controller_of
from webhook.kinds.trainer import TRAIN_JOB
from webhook.kube import names
from webhook.ledger.model.pods import REPLICATED_JOB
from webhook.objects.patch import Edit, Editor, at
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations, own_keys, retries, undo
from webhook.rules.facts import Facts
from webhook.rules.job_sets import free_restarts, job_set, train_job
from webhook.rules.jobs import back_off, failure_policy, own_retries, restart_policy, single_pod, timeouts


def edit(subject: Subject, facts: Facts, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """Edit a new object, or one that may be changed: what was injected before is worked out anew; return warnings."""
    root = subject.root
    if subject.old is None and at(root, own_keys.LEDGER) is not None:
        editor.rule = "own_keys"
        editor.remove(own_keys.LEDGER)  # of the object that this one is a copy of
    record = undo.read(root)
    if record is not None:
        trial = Editor(copied(root))  # seldom: a second round of admission, or an update of a CronJob
        undo.take_out(trial, subject.row, record)
        before = len(trial.edits)
        rules = Rules(subject, facts, profile, trial)
        warnings = rules.apply()
        if is_alike(subject.row, trial.root, root) and record.profile == profile.name:
            return [*warnings, *note(editor, rules, trial.edits[before:])]
        editor.rule = "reapply"
        undo.take_out(editor, subject.row, record)
    before = len(editor.edits)
    rules = Rules(subject, facts, profile, editor)
    warnings = rules.apply()
    return [*warnings, *note(editor, rules, editor.edits[before:])]


def is_alike(row: KindSpec, one: Json, other: Json) -> bool:
    """Return True if objects differ in metadata alone, and not in a retry field there."""
    beside_metadata = {**one, "metadata": None} == {**other, "metadata": None}
    return beside_metadata and list(row.budgets(one)) == list(row.budgets(other))


def note(editor: Editor, rules: "Rules", edits: list[Edit]) -> list[Problem]:
    """Note on an object what the rules have injected, and by which profile; return warnings."""
    warnings: list[Problem] = []
    marked = rules.row.labelled and not rules.skipped
    if edits or marked:
        warnings = undo.write(editor, rules.profile.name, edits)
    else:
        editor.remove(undo.ANNOTATION)
    if marked:
        editor.update(("metadata", "labels"), {names.PROFILE: rules.profile.name})
    elif rules.row.labelled:
        editor.remove(own_keys.LABEL)  # nothing of a workload that is left alone is counted
    return warnings


def copied(root: Json) -> Json:
    """Return a copy, as deep as an object may be: it came as JSON."""
    found: Json = msgspec.json.decode(msgspec.json.encode(root))
    return found


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
        self.old = subject.old
        self.is_new = subject.old is None
        self.job_set = self.root if self.row is JOB_SET else facts.owner  # that the Jobs belong to
        self.set_restarts = own_retries.restarts(self.job_set)
        self.told = controller_of(self.root) is not None  # whether the author knows what the retries mean
        self.denies = profile.profile.retries.on_exceed == "Deny"
        self.skipped = self.settings.skip  # whether its author wants it left alone, or each of the Jobs in it
        self.disruption_action: str = profile.profile.disruptions.action
        self.is_denied = False  # a set whose own rules restart it without a bound
        if self.row is JOB_SET:
            self.disruption_action = job_set.disruption_action(
                self.root, self.settings, message_patterns=facts.message_patterns
            )
            self.is_denied = self.is_new and self.denies and bool(free_restarts.free_after_bugs(self.root, self.jobs))
        self.keeps_indexes = self.row is JOB_SET and job_set.reads_indexes(self.root)

    def apply(self) -> list[Problem]:
        """Apply them all; return each warning once."""
        settings = [self.settings_of(job) for job in self.jobs]
        self.skipped |= bool(settings) and all(one.skip for one in settings)
        warnings = []
        for job, its_settings in zip(self.jobs, settings, strict=True):
            warnings += self.edit_job(job, its_settings)
        warnings += self.edit_beside()
        if self.row is JOB_SET:
            warnings = job_set.said_once(warnings)
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
        once = own_retries.runs_once(job, settings, set_restarts=self.set_restarts)
        warnings: list[Problem] = []
        # A new object that is to be denied keeps its author's rules, and the numbers by which its problems name them.
        denied = self.is_denied or (self.is_new and self.denies and self.has_free_restarts(job, settings))
        if self.row.failure_policy and not settings.skip and not denied:
            editor.rule = "failure_policy"
            warnings += self.edit_failure_policy(job, settings, budget, once=once)
        editor.rule = "retries"
        if not self.denies and self.has_free_restarts(job, settings):
            warnings += free_restarts.clamp_job(job, settings, editor, counted=self.is_counted(job, settings))
        if budget is not None:
            warnings += retries.edit(budget, settings, editor)
            warnings += retries.edit_template((*job.path, "template", "spec"), job.pod_spec, settings, editor)
            warnings += retries.clamp_sum(job, settings, editor)
        if self.row.failure_policy and not settings.skip:
            if not once:
                editor.rule = "back_off"
                single_pod.edit(self.row, job, settings, editor, defaulted=self.facts.defaulted)
                back_off.edit(job, settings, editor)
            editor.rule = "timeouts"
            timeouts.edit(job, settings, editor)
        editor.rule = "annotations"
        return warnings + annotations.edit_job(self.root, job, settings, editor)

    def edit_failure_policy(
        self, job: EmbeddedJob, settings: Settings, budget: Budget | None, *, once: bool
    ) -> list[Problem]:
        """Inject a failure policy, but not into a Job that runs once; tell the author once what the retries mean."""
        had_policy = job.spec.get("podFailurePolicy") is not None
        warnings: list[Problem] = []
        if not once:
            warnings = failure_policy.edit(job, settings, self.editor, self.wanted(job))
        if budget is None or self.told or (self.old and at(self.old, budget.path) == at(self.root, budget.path)):
            return warnings
        found: list[Problem] = []
        if once:
            found = own_retries.once_warning(budget.path, job, settings)
        elif not budget.replaceable and not had_policy:
            found = own_retries.meaning_warning(budget, job, settings, ledger=self.facts.ledger)
        self.told = bool(found)
        return warnings + found

    def has_free_restarts(self, job: EmbeddedJob, settings: Settings) -> bool:
        """Return True if rules of a Job's author make restarts free that nothing bounds."""
        if not job.spec.get("podFailurePolicy"):
            return False  # as of most Jobs
        return any(free_restarts.problems(job, counted=self.is_counted(job, settings)))

    def is_counted(self, job: EmbeddedJob, settings: Settings) -> bool:
        """Return True if the ledger counts the pods of a Job."""
        return free_restarts.is_counted(job, settings, ledger=self.facts.ledger)

    def wanted(self, job: EmbeddedJob) -> failure_policy.Wanted:
        """Return what the failure policy of a Job is to do."""
        said = self.row is not JOB_SET or restart_policy.is_said(self.said, job_set.name_of(self.root, job))
        return failure_policy.Wanted(self.disruption_action, self.fails_bugs(job), self.keeps_indexes, said)

    def fails_bugs(self, job: EmbeddedJob) -> bool:
        """Return False for a Job of a JobSet that starts again when a failure policy has failed the Job."""
        name = (job.metadata.get("labels") or {}).get(REPLICATED_JOB)
        if self.row is JOB_SET:
            name = job_set.name_of(self.root, job)
        if self.job_set is None or name is None:
            return True
        rules, by_default = self.for_bugs
        return (job_set.action_for(rules, name) or by_default) == job_set.FAILING

    @cached_property
    def said(self) -> dict[str, bool]:
        """Whether the author of a set wrote the restartPolicy of its Jobs."""
        return restart_policy.said_in(self.root)

    @cached_property
    def for_bugs(self) -> tuple[list[job_set.Rule], str]:
        """The rules of the set that decide what a bug in a Job of it brings, and what it brings where none matches."""
        root = self.job_set or {}
        adds_rule = self.row is JOB_SET and job_set.adds_bug_rule(root, self.settings)
        return job_set.rules_for_bugs(root), job_set.action_by_default(root, adds_rule=adds_rule)

    def edit_beside(self) -> list[Problem]:
        """Apply the rules to what stands beside the JobSpecs."""
        row, root, settings, editor = self.row, self.root, self.settings, self.editor
        warnings: list[Problem] = []
        if row is JOB_SET:
            editor.rule = "failure_policy"
            if not settings.skip and not self.is_denied:
                disruption, restart_job = self.disruption_action, self.facts.restart_job
                warnings += job_set.edit(root, settings, editor, disruption=disruption, restart_job=restart_job)
            editor.rule = "retries"
            warnings += free_restarts.clamp(root, self.jobs, settings, editor)
        editor.rule = "retries"
        for budget in list(row.budgets(root)):
            warnings += retries.edit(budget, settings, editor)
        for path, template in row.templates(root):
            warnings += retries.edit_template((*path, "spec"), template.get("spec") or {}, settings, editor)
        if not settings.skip:
            editor.rule = "timeouts"
            timeouts.edit_fields(row, root, settings, editor)
        editor.rule = "annotations"
        if row is TRAIN_JOB:
            warnings += train_job.edit(root, settings, editor, self.old, runtime_patches=self.facts.runtime_patches)
        return warnings + annotations.edit(row, root, settings, editor)


def edit_immutable(subject: Subject, old: Json, profile: NamedProfile, editor: Editor) -> list[Problem]:
    """On UPDATE of what may not be changed: hold a Job's backoffLimit, which may, to today's limit."""
    if subject.row is not batch.JOB:
        return []
    editor.rule = "retries"
    warnings: list[Problem] = []
    for job, old_job in zip(subject.row.jobs(subject.root), subject.row.jobs(old), strict=False):
        budget, old_budget = batch.budget_of(job, said=True, old=old_job), batch.budget_of(old_job, said=True)
        if budget is not None and old_budget is not None:
            settings = profile.settings(annotations.of(subject.root))
            old_settings = profile.settings(annotations.of(old))
            warnings += retries.edit_update(budget, settings, editor, old_budget, old_settings)
            warnings += retries.clamp_sum(job, settings, editor, old_job)
    return warnings
