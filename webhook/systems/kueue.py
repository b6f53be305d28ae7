"""Kueue, which starts the workloads in its queues, and deletes their pods when it evicts them."""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.kind_spec import copied

QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
# The fields and keys that Kueue writes in a pod template.
_WRITTEN: Final = {"metadata": ("annotations", "labels"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
_KEYS: Final = (
    *("kueue.x-k8s.io/podset", "kueue.x-k8s.io/workload", "kueue.x-k8s.io/workload-slice-name"),
    *("kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name"),
)


def is_queued(metadata: Json) -> bool:
    """Return True if an object is in a Kueue queue.

    The queue is a label; in old manifests it is an annotation.
    """
    return QUEUE_NAME in (metadata.get("labels") or {}) or QUEUE_NAME in (metadata.get("annotations") or {})


def before_kueue(job: Json, workload: Json | None) -> Json:
    """Return a Job as it was before Kueue started it and wrote node selectors and labels into the pod template.

    `workload`: Kueue's Workload of the Job, which has the original template; None if it does not exist. Kueue does not
    start a Job whose template differs from the one that it would write (pkg/podset of Kueue 0.19).
    """
    template = copied(job["spec"]["template"])
    before = at(workload, ("spec", "podSets", 0, "template"))
    for part, fields in _WRITTEN.items():
        its_own = template.setdefault(part, {})
        for name in fields:
            value = at(before, (part, name)) if before is not None else its_own.get(name)
            its_own.pop(name, None)
            if value:
                its_own[name] = value
    for name in ("annotations", "labels"):
        entries = template["metadata"].get(name) or {}
        template["metadata"][name] = {key: value for key, value in entries.items() if key not in _KEYS}
    return {**job, "spec": {**job["spec"], "template": template}}
