"""Gives each completion index a back-off of its own, which depends only on the failures of that index.

Reads, in a JobSpec:
    completionMode, completions, parallelism, managedBy, podFailurePolicy.rules[*].action,
    template.spec.restartPolicy
Reads and writes:
    backoffLimit, backoffLimitPerIndex, maxFailedIndexes

and in a pod:
    metadata.annotations[batch.kubernetes.io/job-index-ignored-failure-count]

Without backoffLimitPerIndex, all missing pods of a Job wait together before they are replaced: 10 s, doubled for each
pod that failed since one succeeded, up to 10 minutes. Failures that an Ignore rule matched count too, and ten pods that
are evicted together are ten failures. With backoffLimitPerIndex, each index waits for its own failures
(pkg/controller/job/{job_controller,backoff_utils}.go of Kubernetes 1.36.3). Retries are bounded as before: the Job
controller first compares all failures with backoffLimit, and fails the Job with the same reason.

The wait of an index doubles with each failure that the failed pod's annotations count, also with those that cost no
retry. The ledger counts disruptions itself, so admission subtracts them from the new pod's annotation, as long as there
are no more than the limit of disruptions. Beyond the limit the wait doubles: a program that nodes evict for its memory
waits longer and longer. The count of an index never decreases from one pod to the next: the Job controller takes the
pod with the highest count for the last one.
"""

from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Path, Problem
from webhook.policy.settings import count
from webhook.rules.rule import Rule, in_pods, where_jobs_get_policies
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import EmbeddedJob
from webhook.systems.pod_source import Evidence

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext, PodContext

# The API's bounds on Jobs with backoffLimitPerIndex (pkg/apis/batch/validation/validation.go of Kubernetes 1.36.3).
MANY_COMPLETIONS: Final = 100_000
MOST_PODS_OF_MANY: Final = 10_000

# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("backoffLimit",), ("backoffLimitPerIndex",), ("maxFailedIndexes",))
IGNORED_FAILURES: Final[Path] = ("metadata", "annotations", batch.INDEX_IGNORED_FAILURES)  # in a pod


def _edit_job(context: "JobContext") -> list[Problem]:
    """Give a JobSpec a back-off for each completion index, and no more retries than it had.

    backoffLimitPerIndex is immutable, so it gets the highest value that backoffLimit may ever have: any if the leader
    raises that as retries count no more. backoffLimit is written too, because in a template the API's default for it
    beside backoffLimitPerIndex would be 2147483647.
    """
    job, limit = context.job, batch.retry_budget(context.job.spec)
    profile = context.settings.profile
    wanted = profile.back_off.per_index
    if wanted and limit <= bounds.MOST_RETRIES and is_indexed(job) and may_have_it(job):
        highest = batch.UNLIMITED if profile.retries.are_renewed else bounds.MOST_RETRIES
        fields = {"backoffLimit": limit, "backoffLimitPerIndex": highest, "maxFailedIndexes": 0}
        context.editor.update(job.path, fields)
    return []


def may_have_it(job: EmbeddedJob) -> bool:
    """Return True if a JobSpec, if it is Indexed, may have backoffLimitPerIndex without any effect on its retries."""
    spec = job.spec
    if spec.get("backoffLimitPerIndex") is not None or spec.get("maxFailedIndexes") is not None:
        return False
    if job.traits.restarts_in_place or not batch.is_of_job_controller(spec):
        return False
    if job.pod_spec.get("restartPolicy") != "Never" or batch.fails_indexes(spec):
        return False
    completions, parallelism = spec.get("completions") or 0, spec.get("parallelism") or 0
    return not (completions > MANY_COMPLETIONS and parallelism > MOST_PODS_OF_MANY)


def is_indexed(job: EmbeddedJob) -> bool:
    """Return True if the pods of a JobSpec have completion indexes; without completions the API refuses Indexed."""
    mode = job.spec.get("completionMode") or job.traits.completion_mode
    return mode == "Indexed" and (job.spec.get("completions") is not None or job.spec.get("parallelism") is None)


def edit_pod(evidence: Evidence, editor: Editor) -> None:
    """Subtract the replaced pod's disruption from the count from which the Job controller computes the back-off."""
    ignored = count(evidence.annotations.get(batch.INDEX_IGNORED_FAILURES))
    if ignored and ignored <= (evidence.disruptions or 0) and _costs_no_wait(evidence):
        editor.set(IGNORED_FAILURES, str(ignored - 1))


def _costs_no_wait(evidence: Evidence) -> bool:
    """Return True if the last disruption of a pod's index should not make the wait longer."""
    settings, disruptions = evidence.settings, evidence.disruptions or 0
    if settings.profile.back_off.disruptions != "Constant" or evidence.owner is None:
        return False
    spec = evidence.owner.get("spec") or {}
    return disruptions <= settings.job_disruption_budget and batch.ignores_disruptions_alone(spec)


def _waits_by_ledger(context: "PodContext") -> bool:
    """Return True if a pod is of a Job whose disruptions the ledger counts, and was not edited already.

    In a second round of the same admission the pod has ATTEMPT_SOURCE from the first, which did this edit.
    """
    said = context.evidence.annotations
    return context.facts.ledger and context.is_of_job and names.ATTEMPT_SOURCE not in said


def _edit_pod(context: "PodContext") -> list[Problem]:
    edit_pod(context.evidence, context.editor)
    return []


IN_JOB: Final[Rule["JobContext"]] = Rule(
    name="back_off",
    applies_to="each Indexed Job",
    applies=lambda context: not context.runs_once,
    edit=_edit_job,
    writes=where_jobs_get_policies(*WRITES),
)
# Before the placement: both read this annotation of the Job controller.
IN_POD: Final[Rule["PodContext"]] = Rule(
    name="back_off",
    applies_to="a pod of a Job",
    applies=_waits_by_ledger,
    edit=_edit_pod,
    writes=in_pods(IGNORED_FAILURES),
)
