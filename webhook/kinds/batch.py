"""batch/v1: Jobs and CronJobs, and the JobSpec fields that rules read wherever a JobSpec is embedded."""

from typing import Any, Final

import msgspec

from webhook.kinds.core import CONTAINER, METADATA, NODE_CHOICE
from webhook.kinds.kind_spec import ALONE, Budget, EmbeddedJob, KindSpec, Traits, controller_of
from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape

# The API server's own default (pkg/apis/batch/v1/defaults.go).
DEFAULT_BACKOFF_LIMIT: Final = 6
UNLIMITED: Final = 2147483647
CONTROLLER: Final = "kubernetes.io/job-controller"  # what managedBy is where it is absent
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
# What the Job controller writes on each pod of a Job with backoffLimitPerIndex; the second is left out for 0.
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_NAME: Final = "batch.kubernetes.io/job-name"  # label of a Job's pods
JOB_SET: Final = ("jobset.x-k8s.io", "JobSet")
JOBS_OF_SET: Final = "jobset.sigs.k8s.io/global-replicas"  # label of a JobSet's Jobs: how many there are
# Controllers of Jobs that stand alone: such a controller starts what its author wrote, and runs nothing beside it.
# Any other operator's Job may be one part of what it runs, as the launcher of an MPIJob, the submitter of a RayJob or a
# FlinkCluster, the driver's Job of Stackable's SparkApplication, or the starter of a k6 TestRun.
STARTS_JOBS: Final = frozenset(
    {
        ("batch", "CronJob"),
        ("apps.kruise.io", "AdvancedCronJob"),
        ("argoproj.io", "AnalysisRun"),
        ("argoproj.io", "Workflow"),
        ("keda.sh", "ScaledJob"),
        ("kubeflow.org", "Trial"),
        ("sinks.knative.dev", "JobSink"),
        ("workload.codeflare.dev", "AppWrapper"),
    }
)

FAILURE_POLICY: Final[Shape] = {
    "rules": [
        {
            "action": str,
            "onExitCodes": {"containerName": str, "operator": str, "values": [int]},
            "onPodConditions": [{"type": str, "status": str}],
        }
    ]
}
JOB_SPEC: Final[Shape] = {
    "backoffLimit": int,
    "backoffLimitPerIndex": int,
    "completionMode": str,
    "completions": int,
    "managedBy": str,
    "manualSelector": bool,
    "maxFailedIndexes": int,
    "parallelism": int,
    "podFailurePolicy": FAILURE_POLICY,
    "podReplacementPolicy": str,
    "successPolicy": {},
    "suspend": bool,
    "template": {
        "metadata": {"annotations": {ANY_KEY: str}},
        "spec": {
            **NODE_CHOICE,
            "activeDeadlineSeconds": int,
            "containers": [CONTAINER],
            "initContainers": [CONTAINER],
            "restartPolicy": str,
        },
    },
}

OF_AN_OPERATOR: Final = Traits(depends_elsewhere=True)


def traits_of_job(root: Json) -> Traits:
    """Read a Job: one of a JobSet depends on the set's others, and was judged in the set.

    One of a set that restarts in place has what that strategy demands. One of an operator that may run other pods
    beside it depends on those.
    """
    controller = controller_of(root)
    if controller is None or (controller.group, controller.kind) in STARTS_JOBS:
        return ALONE
    if (controller.group, controller.kind) != JOB_SET:
        return OF_AN_OPERATOR
    return Traits(
        coupled=at(root, ("metadata", "labels", JOBS_OF_SET)) != "1",
        restarts_in_place=at(root, ("spec", "backoffLimit")) == UNLIMITED,
    )


JOB: Final = KindSpec(
    group="batch",
    versions=("v1",),
    kind="Job",
    resource="jobs",
    shape={"metadata": METADATA, "spec": JOB_SPEC},
    job_specs=(("spec",),),
    immutable=True,
    owns_pods=True,
    labelled=True,
    runs_again=True,
    traits=traits_of_job,
)

CRON_JOB: Final = KindSpec(
    group="batch",
    versions=("v1",),
    kind="CronJob",
    resource="cronjobs",
    shape={"metadata": METADATA, "spec": {"jobTemplate": {"metadata": METADATA, "spec": JOB_SPEC}}},
    job_specs=(("spec", "jobTemplate", "spec"),),
)


def is_queued(metadata: Json) -> bool:
    """Tell whether Kueue decides when this runs, and deletes its pods to make room; older users annotate the queue."""
    return any(QUEUE_NAME in (metadata.get(field) or {}) for field in ("labels", "annotations"))


def retry_field(spec: Json) -> str:
    """Name the field that bounds a JobSpec's retries.

    Where each index has its own budget, backoffLimit, by default 2147483647, only bounds their sum.
    """
    return "backoffLimitPerIndex" if has_index_budgets(spec) else "backoffLimit"


def has_index_budgets(spec: Json) -> bool:
    """Return True if the completion indexes of a JobSpec have retries of their own, by backoffLimitPerIndex.

    False where the Job ends before one of them has spent its own: backoffLimit, their sum, is not more than
    backoffLimitPerIndex, and the first index that fails is the end (maxFailedIndexes 0). Such a Job has the retries of
    one without backoffLimitPerIndex, and differs in its back-off alone: see the rule back_off.
    """
    per_index, in_all = spec.get("backoffLimitPerIndex"), spec.get("backoffLimit")
    if per_index is None:
        return False
    return spec.get("maxFailedIndexes") != 0 or in_all is None or in_all > per_index or fails_indexes(spec)


def fails_indexes(spec: Json) -> bool:
    """Return True if a rule of a JobSpec's failure policy ends an index at once."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return any((rule or {}).get("action") == "FailIndex" for rule in rules)


def retry_budget(spec: Json) -> int:
    """Return the retries that a JobSpec allows, the API's default included."""
    return retries_in(spec, retry_field(spec))


def retries_in(spec: Json, name: str) -> int:
    """Return the retries that a field of a JobSpec allows, the API's default included."""
    budget = spec.get(name)
    return DEFAULT_BACKOFF_LIMIT if budget is None else int(budget)


def is_indexed(spec: Json) -> bool:
    """Tell whether a JobSpec's pods have completion indexes."""
    return bool(spec.get("completionMode") == "Indexed")


def running_at_once(spec: Json) -> int:
    """Return how many pods of a JobSpec run at a time, at least 1."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    at_once = 1 if parallelism is None else parallelism
    return max(1, at_once if completions is None else min(at_once, completions))


def failed_in_status(job: Json) -> int:
    """Return the failures that a Job's status tells of, those included that the Job controller is about to count."""
    status = job.get("status") or {}
    return (status.get("failed") or 0) + len((status.get("uncountedTerminatedPods") or {}).get("failed") or ())


def retries_of_all_indexes(spec: Json) -> int | None:
    """Return the most retries of all completion indexes together; None where they have no budgets of their own.

    backoffLimit bounds the sum. Where every index fails for good, maxFailedIndexes ends the Job once so many have, and
    the pods that run beside the last one may have retried as often.
    """
    per_index = spec.get("backoffLimitPerIndex")
    if per_index is None or not has_index_budgets(spec):
        return None
    indexes, parallelism = spec.get("completions"), spec.get("parallelism")
    at_once = 1 if parallelism is None else parallelism
    sums = [per_index * (at_once if indexes is None else indexes)]
    if spec.get("maxFailedIndexes") is not None:
        sums.append(per_index * (spec["maxFailedIndexes"] + at_once))
    return int(min(*sums, sum_of_failures(spec)))


def sum_of_failures(spec: Json) -> int:
    """Return how many failures a JobSpec with backoffLimitPerIndex allows in all; left out, the API sets no bound."""
    limit = spec.get("backoffLimit")
    return UNLIMITED if limit is None else int(limit)


def restarts_in_place_uncounted(job: EmbeddedJob) -> bool:
    """Return True if containers restart in place, and no index's budget counts that (pastBackoffLimitOnFailure).

    Source: pkg/controller/job/job_controller.go of Kubernetes 1.36.3. Only backoffLimit, the sum, counts restarts.
    """
    restart_policy = job.pod_spec.get("restartPolicy") or job.traits.restart_policy
    return restart_policy == "OnFailure" and job.spec.get("backoffLimitPerIndex") is not None


def budget_of(job: EmbeddedJob, *, said: bool, old: EmbeddedJob | None = None) -> Budget | None:
    """Return what a JobSpec allows; None where the API demands that it be without bound.

    `said`: whether its backoffLimit is its author's word. `old`: the Job before an update, which may raise backoffLimit
    above backoffLimitPerIndex: the field that bounded the retries then is held to the limit.
    """
    if job.traits.restarts_in_place:
        return None
    name = retry_field(job.spec if old is None else old.spec)
    return Budget((*job.path, name), retries_in(job.spec, name), replaceable=name == "backoffLimit" and not said)


def says_backoff_limit(root: Json, job: EmbeddedJob, limit: int) -> bool:
    """Tell whether a backoffLimit of 6 is its author's word, or the API's default.

    The API server has already defaulted a Job when it calls a webhook, and its managedFields of operation Update name
    defaulted fields as the author's. kubectl's last-applied-configuration and an entry of operation Apply hold what was
    sent. A Job made by a controller has what its template says, and the template has been here before; unless 6 is more
    than today's limit: then it is from before opt-in, and nobody's word. Failing all three, 6 counts as nothing said. A
    template is not defaulted: what stands there was said.
    """
    if job.spec.get("backoffLimit") != DEFAULT_BACKOFF_LIMIT:
        return job.spec.get("backoffLimit") is not None
    if job.path != ("spec",):
        return True
    if controller_of(root) is not None:
        return limit >= DEFAULT_BACKOFF_LIMIT
    return was_applied(job.metadata, "backoffLimit")


def says_completion_mode(job: EmbeddedJob, *, defaulted: bool) -> bool:
    """Return True if a completionMode is its author's word, as far as can be told; see says_backoff_limit.

    `defaulted`: whether the API may have written it, as it does in a Job and in no template.
    """
    mode = job.spec.get("completionMode")
    if mode != "NonIndexed" or job.path != ("spec",) or not defaulted:
        return mode is not None
    return was_applied(job.metadata, "completionMode")


def was_applied(metadata: Json, name: str) -> bool:
    """Return True if it is known of a field of a Job's spec that it stood in what was applied."""
    applied = (metadata.get("annotations") or {}).get("kubectl.kubernetes.io/last-applied-configuration")
    if applied is not None:
        return at(decoded(applied), ("spec", name)) is not None
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if at(entry, ("operation",)) == "Apply" and at(entry, ("fieldsV1", "f:spec", f"f:{name}")) is not None:
            return True
    return False


def decoded(text: str) -> Any:
    """Decode another tool's JSON; None if it is none, or more than annotations can hold."""
    if len(text) > bounds.MAX_ANNOTATIONS:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
