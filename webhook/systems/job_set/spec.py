"""jobset.x-k8s.io/v1alpha2: JobSets, which are sets of Jobs that start and fail together."""

from typing import Final, NamedTuple

from webhook.kube import terminal
from webhook.objects.patch import EVERY, at
from webhook.objects.problem import Json, Path
from webhook.objects.shape import Shape
from webhook.policy.settings import count
from webhook.systems.core import METADATA
from webhook.systems.job.spec import JOB_SPEC
from webhook.systems.kind_spec import KindSpec, RetryField, Traits
from webhook.systems.kueue import is_queued

CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"  # the default of managedBy
# Labels that its controller writes on the Jobs of a set and on their pods; the last counts restarts of the Job alone.
SET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
RESTART: Final = "jobset.sigs.k8s.io/restart-attempt"
JOB_RESTART: Final = "jobset.sigs.k8s.io/job-restart-attempt"
SPEC: Final[Path] = ("spec",)
JOBS_STATUS: Final[Path] = ("status", "replicatedJobsStatus")
JOB_RESTARTS: Final = "jobRestarts"
COSTLY_JOB_RESTARTS: Final = "jobRestartsCountTowardsMax"
FAIL_SET: Final = "FailJobSet"  # the actions of rules
RESTART_SET: Final = "RestartJobSet"
RESTART_JOB: Final = "RestartJob"
FREE: Final = "AndIgnoreMaxRestarts"  # the end of the name of an action that costs nothing
RUN: Final = "restart "  # before the number, in the name of a run
_RULE_SCHEMA: Final = (
    *("schema", "openAPIV3Schema"),
    *(step for field in (*SPEC, "failurePolicy", "rules") for step in ("properties", field)),
    *("items", "properties"),
)

FAILURE_RULE: Final[Shape] = {
    "name": str,
    "action": str,
    "onJobFailureReasons": [str],
    "onJobFailureMessagePatterns": [str],
    "targetReplicatedJobs": [str],
}
JOB_SET_SPEC: Final[Shape] = {
    "managedBy": str,
    "suspend": bool,
    "failurePolicy": {"maxRestarts": int, "restartStrategy": str, "rules": [FAILURE_RULE]},
    "replicatedJobs": [{"name": str, "replicas": int, "template": {"metadata": METADATA, "spec": JOB_SPEC}}],
}


def job_spec_of(spec: Path) -> Path:
    """Return the pattern of the JobSpecs in the JobSetSpec at a path."""
    return (*spec, "replicatedJobs", EVERY, "template", "spec")


def max_restarts_of(spec: Path) -> RetryField:
    """Return the retry field of the JobSetSpec at a path.

    Left out, it allows no retry: a JobSet without a failurePolicy fails with its first failed Job.
    """
    return RetryField(within=spec, name=("failurePolicy", "maxRestarts"))


def traits_of(spec: Json, metadata: Json) -> Traits:
    """Return the traits of a JobSetSpec; `metadata` is that of the JobSet.

    JobSet's webhook defaults restartPolicy to OnFailure, and completionMode to Indexed
    (pkg/webhooks/jobset_webhook.go). The restartStrategy InPlaceRestart requires backoffLimit 2147483647, and
    containers that restart.
    """
    pods = 0
    for replicated in spec.get("replicatedJobs") or ():
        replicas, job_spec = replicated.get("replicas"), (replicated.get("template") or {}).get("spec") or {}
        parallelism = job_spec.get("parallelism")
        pods += (1 if replicas is None else replicas) * (1 if parallelism is None else parallelism)
    foreign = (spec.get("managedBy") or CONTROLLER) != CONTROLLER
    return Traits(
        coupled=pods > 1,
        scalable=False,
        suspendable=bool(spec.get("suspend")) or is_queued(metadata) or foreign,
        restarts_in_place=(spec.get("failurePolicy") or {}).get("restartStrategy") == "InPlaceRestart",
        restart_policy="OnFailure",
        completion_mode="Indexed",
    )


def _traits(root: Json) -> Traits:
    return traits_of(root.get("spec") or {}, root.get("metadata") or {})


JOB_SET: Final = KindSpec(
    group="jobset.x-k8s.io",
    versions=("v1alpha2",),
    kind="JobSet",
    shape={"metadata": METADATA, "spec": JOB_SET_SPEC, "status": {"conditions": [{"type": str, "status": str}]}},
    immutable=True,
    labelled=True,
    may_begin_anew=lambda root: terminal.is_decided(root.get("status") or {}),
    counts=True,
    job_specs=(job_spec_of(SPEC),),
    retry_fields=(max_restarts_of(SPEC),),
    traits=_traits,
)
KINDS: Final = (JOB_SET,)


class JobRestarts(NamedTuple):
    """The restarts of one single Job of a JobSet: all of them, and those that count towards maxRestarts (`costly`)."""

    in_all: int = 0
    costly: int = 0


def job_restarts(job_set: Json, replicated_job: str, index: int) -> JobRestarts:
    """Return the restarts of one single Job of a JobSet from the JobSet's status; 0 if the status has none."""
    for one in at(job_set, JOBS_STATUS) or ():
        if at(one, ("name",)) == replicated_job:
            counts = (at(one, (field, index)) for field in (JOB_RESTARTS, COSTLY_JOB_RESTARTS))
            return JobRestarts(*(whole(count) for count in counts))
    return JobRestarts()


def counts_towards_max(action: str) -> bool:
    """Return True if JobSet's controller counts an action towards maxRestarts; it counts each such restart as one.

    Source: executeFailurePolicyAction in pkg/controllers/failure_policy.go of JobSet 0.12.
    """
    return action in {RESTART_SET, RESTART_JOB}


def costly_restarts(job_set: Json) -> int:
    """Return the restarts that count towards maxRestarts: of the whole set, and of single Jobs.

    Source: totalRestartsCountTowardsMax in pkg/controllers/failure_policy.go of JobSet 0.12.
    """
    of_jobs = (at(one, (COSTLY_JOB_RESTARTS,)) or () for one in at(job_set, JOBS_STATUS) or ())
    costly = at(job_set, ("status", "restartsCountTowardsMax"))
    return whole(costly) + sum(whole(count) for counts in of_jobs for count in counts)


def run_id(restarts: int) -> str:
    """Return the name of a run of a JobSet, given how often the set has been restarted before."""
    return f"{RUN}{restarts}"


def restarts_before_run(of: str) -> int | None:
    """Return how often a JobSet had been restarted before a run, given that run's name; None for any other text."""
    return count(of.removeprefix(RUN))


def whole(count: object) -> int:
    """Return a count from a status; 0 if it is left out or is not a positive integer."""
    return count if type(count) is int and count > 0 else 0


class JobSetFeatures(NamedTuple):
    """Which features the CRD of JobSets has for failurePolicy rules: message patterns, and the action RestartJob."""

    message_patterns: bool
    restart_job: bool


def features_of(crd: Json) -> JobSetFeatures:
    """Return the features in the CRD of JobSets: the API server drops fields that it lacks."""
    served = [version for version in crd["spec"]["versions"] if version["name"] in JOB_SET.versions]
    rules = [at(version, _RULE_SCHEMA) or {} for version in served]
    return JobSetFeatures(
        message_patterns=any("onJobFailureMessagePatterns" in rule for rule in rules),
        restart_job=any(RESTART_JOB in (at(rule, ("action", "enum")) or ()) for rule in rules),
    )
