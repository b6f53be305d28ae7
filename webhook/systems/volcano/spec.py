"""batch.volcano.sh/v1alpha1 and flow.volcano.sh/v1alpha1: Volcano's Jobs, CronJobs and JobTemplates.

Source: pkg/controllers and pkg/webhooks of Volcano 1.13.0. spec.maxRetry counts runs, and is 3 by default. The maxRetry
of a task limits the restarts of its containers, after which an event is sent; -1 is unlimited. Most fields of a Job are
immutable. A JobFlow creates a Job from each JobTemplate that it names, with its spec, but none of its annotations.
"""

from typing import Final

from webhook.objects.patch import EVERY, Pattern, at, find
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import Field, KindSpec, RetryField

GROUP: Final = "batch.volcano.sh"
VERSIONS: Final = ("v1alpha1",)
TASK: Final = "volcano.sh/task-spec"  # labels of pods
TASK_INDEX: Final = "volcano.sh/task-index"
POLICIES: Final[Shape] = [{"event": str, "events": [str], "exitCode": int, "action": str, "timeout": str}]
JOB_SPEC: Final[Shape] = {
    **dict.fromkeys(("maxRetry", "minAvailable", "minSuccess"), int),
    "policies": POLICIES,
    "plugins": {ANY_KEY: [str]},
    "tasks": [{"maxRetry": int, "replicas": int, "policies": POLICIES, "template": POD_TEMPLATE}],
}
SPEC: Final[Path] = ("spec",)
TASKS: Final[Path] = (*SPEC, "tasks")
# Events and actions of policies.
FAILED: Final = "PodFailed"
EVICTED: Final = "PodEvicted"
ANY: Final = "*"
RESTARTS: Final = frozenset({"RestartPod", "RestartPartition", "RestartTask", "RestartJob"})
ENDS: Final = "TerminateJob"
SUSPENDS: Final = "AbortJob"
# Phases in which a Job has ended without success, or is suspended.
UNSUCCESSFUL: Final = frozenset({"Failed", "Terminated", "Aborted"})
SCHEDULED: Final[Path] = ("spec", "jobTemplate", "spec")


def _pod_templates(spec: Path) -> tuple[Pattern, ...]:
    return ((*spec, "tasks", EVERY, "template"),)


def _retry_fields(spec: Path) -> tuple[RetryField, ...]:
    of_tasks = (*spec, "tasks", EVERY)
    return (
        RetryField(within=spec, name=("maxRetry",), absent=2, single=1),
        RetryField(within=of_tasks, name=("maxRetry",), absent=3, may_be_added=False, negative_is_unlimited=True),
    )


JOB: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="Job",
    shape={"metadata": METADATA, "spec": JOB_SPEC},
    immutable=True,
    owns_pods=True,
    pod_templates=_pod_templates(SPEC),
    retry_fields=_retry_fields(SPEC),
    may_begin_anew=lambda root: phase_of(root) in UNSUCCESSFUL,
)

CRON_JOB: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="CronJob",
    shape={
        "metadata": METADATA,
        "spec": {"jobTemplate": {"metadata": {"annotations": {ANY_KEY: str}}, "spec": JOB_SPEC}},
    },
    pod_templates=_pod_templates(SCHEDULED),
    retry_fields=_retry_fields(SCHEDULED),
    made_annotations=(Field(within=("spec", "jobTemplate"), name=("metadata", "annotations")),),
)

JOB_TEMPLATE: Final = KindSpec(
    group="flow.volcano.sh",
    versions=VERSIONS,
    kind="JobTemplate",
    shape={"metadata": METADATA, "spec": JOB_SPEC},
    pod_templates=_pod_templates(SPEC),
    retry_fields=_retry_fields(SPEC),
)

KINDS: Final = (JOB, CRON_JOB, JOB_TEMPLATE)


def events_of(policy: Json) -> list[str]:
    """Return the events that a policy names."""
    return [*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else ())]


def phase_of(root: Json) -> str:
    """Return the phase of a Job; empty if its controller has not seen it."""
    return at(root, ("status", "state", "phase")) or ""


def tolerates_failures(root: Json) -> bool:
    """Return True if a Job may succeed although one of its pods has failed."""
    least = at(root, ("spec", "minAvailable"))
    return at(root, ("spec", "minSuccess")) is not None or (bool(least) and least < pods_of(root))


def pods_of(root: Json) -> int:
    """Return the number of pods of a Job."""
    return sum(task.get("replicas") or 0 for _, task in find(root, (*TASKS, EVERY)))
