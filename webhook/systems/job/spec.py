"""batch/v1: Jobs and CronJobs, and the JobSpec fields that rules read in every kind that contains a JobSpec."""

from typing import Final

from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import CONTAINER, DISRUPTED, METADATA, NODE_CHOICE
from webhook.systems.kind_spec import ALONE, Budget, EmbeddedJob, KindSpec, Traits, controller_of, decoded

# The API server's own default (pkg/apis/batch/v1/defaults.go).
DEFAULT_BACKOFF_LIMIT: Final = 6
UNLIMITED: Final = 2147483647
CONTROLLER: Final = "kubernetes.io/job-controller"  # the default of managedBy
# Annotations that the Job controller writes on each pod of a Job with backoffLimitPerIndex; the second one not for 0.
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_NAME: Final = "batch.kubernetes.io/job-name"  # label of a Job's pods
JOB_SET: Final = ("jobset.x-k8s.io", "JobSet")
JOBS_OF_SET: Final = "jobset.sigs.k8s.io/global-replicas"  # label of a JobSet's Jobs: the number of its Jobs
# Controllers whose Jobs depend on no other pods: such a controller creates the Job that a user wrote, and nothing else.
# A Job of any other operator may be only a part of its workload: the launcher of an MPIJob, the submitter of a RayJob
# or a FlinkCluster, the driver's Job of Stackable's SparkApplication, or the starter of a k6 TestRun.
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
            "schedulingGroup": {},
            "subdomain": str,
            "workloadRef": {},
        },
    },
}

OF_AN_OPERATOR: Final = Traits(depends_elsewhere=True)


def _traits_of_job(root: Json) -> Traits:
    """Return the traits of a Job, by its controller.

    A Job of a JobSet depends on the other Jobs of the set, and was validated as a part of the set. If the set restarts
    in place, the Job has the unlimited backoffLimit that this strategy requires. A Job of an operator that may run
    other pods depends on those.
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
    shape={"metadata": METADATA, "spec": JOB_SPEC},
    job_specs=(("spec",),),
    immutable=True,
    owns_pods=True,
    labelled=True,
    may_begin_anew=lambda root: at(root, ("metadata", "annotations", names.RETRY_OF)) is not None,
    traits=_traits_of_job,
)

CRON_JOB: Final = KindSpec(
    group="batch",
    versions=("v1",),
    kind="CronJob",
    shape={"metadata": METADATA, "spec": {"jobTemplate": {"metadata": METADATA, "spec": JOB_SPEC}}},
    job_specs=(("spec", "jobTemplate", "spec"),),
)

KINDS: Final = (JOB, CRON_JOB)


def job_of_cron_job(root: Json) -> Json:
    """Return a Job as the controller of a CronJob would create it, with the CronJob's own name."""
    template = at(root, ("spec", "jobTemplate")) or {}
    own = {key: root["metadata"][key] for key in ("name", "namespace") if key in root["metadata"]}
    metadata = {**(template.get("metadata") or {}), **own}
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": template.get("spec") or {}}


def retry_field(spec: Json) -> str:
    """Return the name of the field that limits a JobSpec's retries.

    If each index has its own budget, backoffLimit, by default 2147483647, limits only their sum.
    """
    return "backoffLimitPerIndex" if has_index_budgets(spec) else "backoffLimit"


def has_index_budgets(spec: Json) -> bool:
    """Return True if each completion index of a JobSpec has retries of its own, by backoffLimitPerIndex.

    False also if the Job fails before any index can use all its retries: backoffLimit, the limit of the sum, is not
    more than backoffLimitPerIndex, and the first failed index fails the Job (maxFailedIndexes 0). Such a Job has the
    same retries as without backoffLimitPerIndex, and only another back-off: see the rule back_off.
    """
    per_index, in_all = spec.get("backoffLimitPerIndex"), spec.get("backoffLimit")
    if per_index is None:
        return False
    return spec.get("maxFailedIndexes") != 0 or in_all is None or in_all > per_index or fails_indexes(spec)


def fails_indexes(spec: Json) -> bool:
    """Return True if a rule of the podFailurePolicy has the action FailIndex."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return any((rule or {}).get("action") == "FailIndex" for rule in rules)


def retry_budget(spec: Json) -> int:
    """Return the retries that a JobSpec allows: of each index, or of the Job; the API's default if it is left out."""
    return _retries_in(spec, retry_field(spec))


def _retries_in(spec: Json, name: str) -> int:
    budget = spec.get(name)
    return DEFAULT_BACKOFF_LIMIT if budget is None else int(budget)


def is_of_job_controller(spec: Json) -> bool:
    """Return True if Kubernetes' own Job controller manages a Job, and no other one by managedBy."""
    return bool((spec.get("managedBy") or CONTROLLER) == CONTROLLER)


def is_indexed(spec: Json) -> bool:
    """Return True if a JobSpec's pods have completion indexes."""
    return bool(spec.get("completionMode") == "Indexed")


def active_pods(spec: Json) -> int:
    """Return the number of pods of a JobSpec that run at a time: parallelism, by default 1, at most completions."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    pods = 1 if parallelism is None else int(parallelism)
    return pods if completions is None else min(pods, int(completions))


def back_off(failures: int) -> int:
    """Return the seconds that the Job controller waits before it replaces a pod, after so many failures, 1 or more.

    As Kubernetes 1.36.3 does it (pkg/controller/job/{job_controller,backoff_utils}.go).
    """
    return min(10 << min(failures - 1, 6), 600)


def running_at_once(spec: Json) -> int:
    """Return the number of pods of a JobSpec that run at a time, but at least 1: parallelism 0 only pauses a Job."""
    return max(1, active_pods(spec))


def pods_continue(spec: Json) -> bool:
    """Return True if a pod does the rest of the work of the failed one before it in its scope.

    Where pods without an index have several completions, the next pod may do another one's work.
    """
    return is_indexed(spec) or max(spec.get("completions") or 1, running_at_once(spec)) == 1


def completed_part(job: Json) -> float | None:
    """Return which part of several completions a Job has, 0 to 1; None if it has one, or does not say how many."""
    completions = job["spec"].get("completions") or 1
    return None if completions == 1 else min(1.0, (job["status"].get("succeeded") or 0) / completions)


def failed_in_status(job: Json) -> int:
    """Return the number of failures in a Job's status, including those that the Job controller has not counted yet."""
    status = job.get("status") or {}
    return (status.get("failed") or 0) + len((status.get("uncountedTerminatedPods") or {}).get("failed") or ())


def retries_of_all_indexes(spec: Json) -> int | None:
    """Return the most retries that all completion indexes can have together; None if they have no own budgets.

    backoffLimit limits the sum. maxFailedIndexes does too: if every index fails, the Job fails after that many, and
    the indexes whose pods run at that moment may have used as many retries as each of those.
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
    """Return the failures that a JobSpec allows all its pods; with backoffLimitPerIndex by default UNLIMITED."""
    if spec.get("backoffLimit") is None and spec.get("backoffLimitPerIndex") is not None:
        return UNLIMITED
    return _retries_in(spec, "backoffLimit")


def restarts_in_place_uncounted(job: EmbeddedJob) -> bool:
    """Return True if containers restart in place in a Job with backoffLimitPerIndex, which does not count restarts.

    Only backoffLimit, the limit of the sum, counts them (pastBackoffLimitOnFailure in
    pkg/controller/job/job_controller.go of Kubernetes 1.36.3).
    """
    restart_policy = job.pod_spec.get("restartPolicy") or job.traits.restart_policy
    return restart_policy == "OnFailure" and job.spec.get("backoffLimitPerIndex") is not None


def budget_of(job: EmbeddedJob, *, said: bool, old: EmbeddedJob | None = None) -> Budget | None:
    """Return the retry budget of a JobSpec; None if the API requires that it is unlimited.

    `said`: whether the author set backoffLimit. `old`: the Job before an update. The update may raise backoffLimit
    above backoffLimitPerIndex; the budget is then that of the field that limited the retries of `old`.
    """
    if job.traits.restarts_in_place:
        return None
    name = retry_field(job.spec if old is None else old.spec)
    return Budget((*job.path, name), _retries_in(job.spec, name), replaceable=name == "backoffLimit" and not said)


def says_backoff_limit(root: Json, job: EmbeddedJob, limit: int) -> bool:
    """Return True if the author of a JobSpec set its backoffLimit, as far as can be known; 6 is also the API's default.

    The API server has set the defaults of a Job before it calls a webhook, and managedFields entries of operation
    Update contain defaulted fields too. A 6 counts as the author's in these cases:
    - kubectl's last-applied-configuration, or a managedFields entry of operation Apply, contains the field.
    - A controller created the Job from a template, which the webhook has admitted before. If 6 is more than `limit`,
      the template is older than the opt-in of its namespace, and 6 does not count.
    - The JobSpec is in a template, in which the API sets no default.
    """
    if job.spec.get("backoffLimit") != DEFAULT_BACKOFF_LIMIT:
        return job.spec.get("backoffLimit") is not None
    if job.path != ("spec",):
        return True
    if controller_of(root) is not None:
        return limit >= DEFAULT_BACKOFF_LIMIT
    return _was_applied(job.metadata, "backoffLimit")


def says_completion_mode(job: EmbeddedJob, *, defaulted: bool) -> bool:
    """Return True if the author of a JobSpec set its completionMode, as far as can be known; see says_backoff_limit.

    `defaulted`: whether the API has set the defaults of the object.
    """
    mode = job.spec.get("completionMode")
    if mode != "NonIndexed" or job.path != ("spec",) or not defaulted:
        return mode is not None
    return _was_applied(job.metadata, "completionMode")


def _was_applied(metadata: Json, name: str) -> bool:
    """Return True if the metadata prove that an applied manifest contained a field of a Job's spec."""
    applied = (metadata.get("annotations") or {}).get("kubectl.kubernetes.io/last-applied-configuration")
    if applied is not None:
        return at(decoded(applied), ("spec", name)) is not None
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if at(entry, ("operation",)) == "Apply" and at(entry, ("fieldsV1", "f:spec", f"f:{name}")) is not None:
            return True
    return False


def is_of_disruptions(rule: Json) -> bool:
    """Return True if a rule of a failure policy matches disruptions and nothing else."""
    return [one.get("type") for one in rule.get("onPodConditions") or ()] == [DISRUPTED]


def ignores_disruptions_alone(spec: Json) -> bool:
    """Return True if the rules of a Job's failure policy ignore no failures other than disruptions."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return all(is_of_disruptions(rule) for rule in rules if rule.get("action") == "Ignore")
