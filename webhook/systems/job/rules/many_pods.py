"""Gives each completion index of a Job whose pods do not depend on each other its own retries, if the profile says so.

Reads, in a JobSpec:
    completions, parallelism, managedBy, successPolicy, podFailurePolicy.rules, maxFailedIndexes, manualSelector
    template.spec.{restartPolicy,hostname,subdomain,schedulingGroup,workloadRef}
in its metadata and those of the object that contains it:
    name, generateName, ownerReferences, managedFields, annotations[kubectl.kubernetes.io/last-applied-configuration]
    annotations[retry-policy.dev/independent-pods]
Reads and writes:
    backoffLimit, backoffLimitPerIndex, completionMode

A bug then costs one index and not the Job: `failure_policy` writes FailIndex where indexes have retries of their own.
The ledger ends the Job early if all its pods seem to have the bug (webhook/accounts/counting.py). If the author wrote a
backoffLimit, it still bounds all failures together. Else each index has the default retries, and together they have
`retries.total` at most.
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.patch import Pattern
from webhook.objects.problem import Problem
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import back_off, single_pod
from webhook.systems.job.rules.failure_policy import tolerates_failures
from webhook.systems.kind_spec import Budget, EmbeddedJob

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext

# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("backoffLimit",), ("backoffLimitPerIndex",), ("completionMode",))
GANG: Final = ("schedulingGroup", "workloadRef")  # of a pod that is scheduled with others or not at all


def _edit(context: "JobContext") -> list[Problem]:
    """Give each index retries of its own, and make the Job Indexed if nothing can break by that."""
    job, budget, settings, editor = context.job, context.budget, context.settings, context.editor
    if budget is None or not _are_independent(job, settings) or not _may_be_changed(job, settings):
        return []
    if budget.retries is not None and _will_be_denied(budget.retries, settings, said=not budget.replaceable):
        return []
    if not back_off.is_indexed(job):
        unsaid = not batch.says_completion_mode(job, defaulted=context.workload.facts.defaulted)
        if not (unsaid and single_pod.may_be_indexed(editor.root, context.workload.kind, job)):
            return []
        editor.set((*job.path, "completionMode"), "Indexed")
    retries, in_all = _retries_of(budget, settings, job.spec["completions"])
    editor.update(job.path, {"backoffLimitPerIndex": retries, "backoffLimit": in_all})
    return []


def _are_independent(job: EmbeddedJob, settings: Settings) -> bool:
    """Return True if no pod of a Job depends on another: their author says so, or they cannot all run at once."""
    completions, parallelism = job.spec.get("completions"), job.spec.get("parallelism")
    if completions is None or completions <= 1 or settings.independent_pods is False:
        return False
    if settings.independent_pods or settings.profile.failure_policy.many_pods == "Index":
        return True
    if job.pod_spec.get("subdomain") or any(job.pod_spec.get(name) is not None for name in GANG):
        return False
    is_indexed = job.spec.get("completionMode") == "Indexed"
    return is_indexed and completions > (1 if parallelism is None else parallelism)


def _may_be_changed(job: EmbeddedJob, settings: Settings) -> bool:
    """Return True if rules may fail an index of a Job, and nothing speaks against retries of its own."""
    inject, own = settings.profile.failure_policy.inject, job.spec.get("podFailurePolicy")
    if inject == "Never" or (inject == "IfAbsent" and own is not None) or job.traits.coupled:
        return False
    return back_off.may_have_it(job) and not job.traits.depends_elsewhere and not tolerates_failures(job.spec)


def _will_be_denied(retries: int, settings: Settings, *, said: bool) -> bool:
    """Return True if the author of a Job asked for more retries than the profile allows: /validate says so."""
    limits = settings.profile.retries
    return said and settings.max_retries is None and limits.on_exceed == "Deny" and retries > limits.limit


def _retries_of(budget: Budget, settings: Settings, completions: int) -> tuple[int, int]:
    """Return the retries of each index, and the most failures of all of them together."""
    limits = settings.profile.retries
    if settings.max_retries is None and not budget.replaceable and budget.retries is not None:
        return min(budget.retries, limits.limit), budget.retries
    retries = settings.max_retries
    if retries is None:  # to confirm that a failure is a bug takes one
        confirms = settings.profile.failure_policy.unknown_exit == "Confirm"
        retries = min(1, limits.limit) if confirms else settings.default_retries
    return retries, min(retries * completions, limits.total)


# First of all rules for Jobs: what the others do depends on whether each index has retries of its own.
RULE: Final[Rule["JobContext"]] = Rule(
    name="many_pods",
    applies_to="a Job or CronJob of several completions whose pods do not depend on each other",
    applies=lambda context: not context.runs_once,
    edit=_edit,
    writes=single_pod.writes_in_jobs(WRITES),
)
