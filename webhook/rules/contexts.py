"""What rules are applied to: a workload, one JobSpec in it, or a pod; with the values that several rules need."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Problem
from webhook.pods import on_failure
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.facts import Facts
from webhook.rules.pods import loss, memory, placement, roles
from webhook.systems import pods as attempts
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy, own_retries, restart_policy
from webhook.systems.job_set.rules import free_restarts, job_set
from webhook.systems.job_set.spec import FAIL_SET, JOB_SET, REPLICATED_JOB
from webhook.systems.kind_spec import Budget, EmbeddedJob, KindSpec, OwnerReference, controller_of
from webhook.systems.pod_source import Evidence


class UnplacedPod(NamedTuple):
    """A pod of a batch workload that is not placed: it has a node already, or is too large for the rules."""

    editor: Editor
    profile_name: str


class WorkloadContext:
    """One object that rules edit, other than a pod."""

    def __init__(self, kind: KindSpec, old: Json | None, facts: Facts, profile: NamedProfile, editor: Editor) -> None:
        self.kind = kind
        self.root = editor.root
        self.old = old  # the object before an update
        self.facts = facts
        self.profile = profile
        self.editor = editor
        self.settings: Settings = profile.settings(annotations.of(self.root))
        self.jobs = list(kind.jobs(self.root))
        self.settings_of_jobs = [self.settings_of(job) for job in self.jobs]
        every_job = bool(self.jobs) and all(settings.skip for settings in self.settings_of_jobs)
        self.is_skipped = self.settings.skip or every_job  # whether its author skips it, or every Job in it
        self.clamps: bool = profile.profile.retries.on_exceed != "Deny"
        self.denies_new = not self.clamps and old is None
        self.job_set = self.root if kind is JOB_SET else facts.owner  # the JobSet of the Jobs
        self.set_restarts = free_restarts.restarts(self.job_set)
        # Whether the warning about the meaning of the retries is given: once for a set, never if a controller made it.
        self.is_told = controller_of(self.root) is not None
        self.disruption_action: str = self.settings.disruption_action
        self.is_denied: bool = False  # whether it is a new set whose own rules restart it without a bound
        self.keeps_indexes = False
        if kind is JOB_SET:
            message_patterns = facts.message_patterns
            self.disruption_action = job_set.disruption_action(
                self.root, self.settings, message_patterns=message_patterns
            )
            self.is_denied = self.denies_new and bool(free_restarts.free_after_bugs(self.root, self.jobs))
            self.keeps_indexes = job_set.reads_indexes(self.root)

    def settings_of(self, job: EmbeddedJob) -> Settings:
        """Return the settings of one Job."""
        if job.metadata_path == ("metadata",):
            return self.settings
        return self.profile.settings(annotations.of_job(self.root, job))

    def context_of(self, job: EmbeddedJob, settings: Settings) -> "JobContext":
        """Return the context of one Job, before any rule has edited it."""
        if self.facts.defaulted:
            said = batch.says_backoff_limit(self.root, job, self.profile.profile.retries.limit)
        else:
            said = job.spec.get("backoffLimit") is not None  # the file shows what its author wrote
        budget = batch.budget_of(job, said=said)
        runs_once = own_retries.runs_once(job, settings, set_restarts=self.set_restarts)
        return JobContext(self, job, settings, self.editor, budget, runs_once)

    @cached_property
    def said_restart_policies(self) -> dict[str, bool]:
        """Whether the author of a set wrote the restartPolicy, by the keys of its replicated Jobs in managedFields."""
        return restart_policy.said_in(self.root)

    @cached_property
    def rules_for_bugs(self) -> tuple[list[job_set.FailurePolicyRule], str]:
        """The rules of the set that decide what follows a bug in one of its Jobs, and the action if none matches."""
        root = self.job_set or {}
        adds_rule = self.kind is JOB_SET and job_set.adds_bug_rule(root, self.settings)
        return job_set.rules_for_bugs(root), job_set.action_by_default(root, adds_rule=adds_rule)


class JobContext(msgspec.Struct, frozen=True):
    """One JobSpec that rules edit, in its workload."""

    workload: WorkloadContext
    job: EmbeddedJob
    settings: Settings
    editor: Editor
    budget: Budget | None  # None if the API requires that it has no bound
    runs_once: bool  # whether the author wants no second run, for whatever reason the first ended

    @property
    def is_counted(self) -> bool:
        """Whether the ledger counts the pods of the Job."""
        return free_restarts.is_counted(self.job, self.settings, ledger=self.workload.facts.ledger)

    @property
    def has_free_restarts(self) -> bool:
        """Whether rules of the Job's author make restarts free without any bound."""
        if not self.job.spec.get("podFailurePolicy"):
            return False  # the fast path: most Jobs have none
        return any(free_restarts.problems(self.job, counted=self.is_counted))

    @property
    def will_be_denied(self) -> bool:
        """Whether /validate will deny the new object for restarts without a bound."""
        workload = self.workload
        return workload.is_denied or (workload.denies_new and self.has_free_restarts)

    @property
    def fails_on_bugs(self) -> bool:
        """Whether a rule may fail the Job for a bug: False in a JobSet that would restart then."""
        workload = self.workload
        name = (self.job.metadata.get("labels") or {}).get(REPLICATED_JOB)
        if workload.kind is JOB_SET:
            name = job_set.replicated_job_name(workload.root, self.job)
        if workload.job_set is None or name is None:
            return True
        rules, by_default = workload.rules_for_bugs
        return (job_set.action_for(rules, name) or by_default) == FAIL_SET

    def warnings_about_retries(self, *, had_policy: bool) -> list[Problem]:
        """Warn, once for a workload, what the author's retries mean; `had_policy`: whether the author has rules."""
        job, settings, budget, workload = self.job, self.settings, self.budget, self.workload
        if budget is None or workload.is_told:
            return []
        if workload.old and at(workload.old, budget.path) == at(workload.root, budget.path):
            return []
        found: list[Problem] = []
        if self.runs_once:
            found = own_retries.once_warning(budget.path, job, settings)
        elif not budget.replaceable and not had_policy:
            found = own_retries.meaning_warning(budget, job, settings, ledger=workload.facts.ledger)
        workload.is_told = bool(found)
        return found

    def wanted(self) -> failure_policy.Wanted:
        """Return what the failure policy of the Job should do."""
        workload, said = self.workload, True
        if workload.kind is JOB_SET:
            name = job_set.replicated_job_name(workload.root, self.job)
            said = restart_policy.is_said(workload.said_restart_policies, name)
        action, counted = workload.disruption_action, bool(self.settings.on_failure) and self.is_counted
        return failure_policy.Wanted(action, self.fails_on_bugs, workload.keeps_indexes, said, counted)


class ValidationContext:
    """One object that rules judge, after all edits."""

    def __init__(  # noqa: PLR0913, PLR0917 - rules need all of these
        self,
        kind: KindSpec,
        root: Json,
        old: Json | None,
        profile: NamedProfile,
        facts: Facts,
        owner: OwnerReference | None = None,
    ) -> None:
        self.kind = kind
        self.root = root
        self.old = old  # the object before an update
        self.profile = profile
        self.facts = facts
        self.owner = owner  # the controller that was looked up
        self.jobs = list(kind.jobs(root))


class PodContext:
    """One pod that rules edit."""

    # Set by the rule memory, of few pods: how the memory of each container that should get more has grown, and the
    # annotation about that.
    growths: Sequence[memory.Growth] = ()
    growth_note = ""

    def __init__(  # noqa: PLR0913 - rules need all of these
        self,
        evidence: Evidence,
        facts: Facts,
        profile: NamedProfile,
        editor: Editor,
        *,
        is_of_job: bool,
        belongs_to: tuple[str, str],
    ) -> None:
        self.evidence = evidence
        self.belongs_to = belongs_to  # its namespace, and the uid of its controller, empty without one
        self.is_of_job = is_of_job  # whether a Job controls it
        self.facts = facts
        self.profile = profile
        self.editor = editor
        # What the rules of onFailure ask of the pod.
        self.asked: on_failure.FailureState = self.after if evidence.settings.on_failure else on_failure.NONE

    @cached_property
    def after(self) -> on_failure.FailureState:
        """What the ended attempts of the pod's scope ask of it, by the rules of the profile."""
        evidence = self.evidence
        rules = evidence.settings.on_failure
        return on_failure.state_after(self.facts.ended, evidence.owner, self.job_set, rules)

    @cached_property
    def decision(self) -> placement.Decision:
        """Whether the pod leaves spot nodes, by its attempts and by what its role and rules of onFailure ask for."""
        evidence = self.evidence
        settings, levels = evidence.settings, attempts.levels(evidence)
        asked = self.asked.on_demand or (
            settings.profile.placement.roles != "Alike"
            and not settings.interruptible  # else its author has waived on-demand nodes
            and roles.leads(evidence.labels, evidence.annotations)
        )
        return placement.decide(levels, settings, lost=loss.is_lost_when_disrupted(evidence, levels), asked=asked)

    @cached_property
    def plan(self) -> placement.Plan:
        """On which nodes the pod is placed."""
        evidence = self.evidence
        return placement.plan(evidence.pod, self.decision, evidence.settings, self.facts.recognised)

    @cached_property
    def whole(self) -> Json:
        """The pod with all its fields, which takes longer to decode than those that most rules read."""
        return self.evidence.whole()

    def editor_of_whole(self) -> Editor:
        """Return an editor of `whole` that records its edits among those of `editor`."""
        found = Editor(self.whole)
        found.rule, found.edits = self.editor.rule, self.editor.edits
        return found

    @property
    def job_set(self) -> Json | None:
        """The JobSet of the pod's Job; None if it has none."""
        above = self.evidence.above
        return above if above is not None and above.get("kind") == JOB_SET.kind else None
