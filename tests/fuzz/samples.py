"""One object of every kind that the programs read, as users write it: what is mutated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests import hostile, objects
from webhook.kube import names
from webhook.systems import core
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.objects.problem import Json


@dataclass(frozen=True, slots=True)
class Sample:
    """An object, and how it is stored.

    `path`: of its list in the API, with {} for the namespace. `status`: what its status subresource gets, None if it
    gets nothing. `hosted`: whether it is a pod that belongs to a Job which exists. `weight`: how often it is drawn.
    """

    name: str
    path: str
    root: Json
    status: Json | None = None
    hosted: bool = False
    weight: float = 1.0


def path_of(group: str, version: str, resource: str, *, namespaced: bool = True) -> str:
    within = "namespaces/{}/" if namespaced else ""
    return f"{f'apis/{group}' if group else 'api'}/{version}/{within}{resource}"


def pod(name: str, weight: float, *, hosted: bool = True, placed: bool = True, **spec: Any) -> Sample:
    """Return a pod; `placed`: with spec.nodeName, which no scheduler wrote."""
    container = {"name": "main", "image": "example.test/main", "resources": {"limits": {"memory": "64Mi"}}}
    fields: Json = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    if placed:
        fields["nodeName"] = "nowhere"
    metadata = {"generateName": "pod-", "labels": {names.PROFILE: "default"}, "annotations": {"team": "ml"}}
    root = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": fields}
    ended = {"phase": "Pending" if "schedulingGates" in spec else "Failed"}
    return Sample(name, path_of("", "v1", "pods"), root, ended, hosted=hosted, weight=weight)


def jobs() -> Iterator[Sample]:
    kept: dict[str, Any] = {"suspend": True, "backoffLimit": 3}
    manifests = {
        "Job": objects.job(objects.job_spec(**kept)),
        "Indexed Job": objects.job(
            objects.job_spec(**kept, completionMode="Indexed", completions=3, backoffLimitPerIndex=1)
        ),
        "Job of another controller": objects.job(objects.job_spec(**kept, managedBy="example.test/other")),
    }
    for name, root in manifests.items():
        root["metadata"] |= {"labels": {"team": "ml"}, "annotations": {"team": "ml"}}
        # The Job controller writes the status of the others itself.
        own = {"failed": 3, "ready": 0, "startTime": "2026-11-24T00:00:00Z"} if "other" in name else None
        yield Sample(name, path_of("batch", "v1", "jobs"), root, own, weight=5)
    root = objects.cron_job(objects.job_spec(backoffLimit=3))
    root["spec"]["suspend"] = True
    yield Sample("CronJob", path_of("batch", "v1", "cronjobs"), root, weight=3)


def others() -> Iterator[Sample]:
    """Yield a complete object of every other kind, with all fields that rules read."""
    for row in KINDS.values():
        if row.group != "batch" and row is not core.POD:
            yield of_kind(row)


def of_kind(kind: KindSpec) -> Sample:
    root: Json = hostile.complete(kind.shape)
    metadata = root.setdefault("metadata", {})
    metadata.clear()
    metadata |= {"name": "sample", "annotations": {"team": "ml"}}
    root |= {"apiVersion": f"{kind.group}/{kind.versions[0]}", "kind": kind.kind}
    path = path_of(kind.group, kind.versions[0], kind.resource, namespaced=kind.namespaced)
    return Sample(kind.kind, path, root, {"phase": "Failed", "startTime": "2026-11-24T00:00:00Z", "podName": "a"})


def of_ours() -> Iterator[Sample]:
    """Yield what only the controllers write, as a user with the right to write it could."""
    account: Json = {"apiVersion": "retry-policy.dev/v1alpha1", "kind": "Account", "metadata": {"name": "job.train"}}
    account["spec"] = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "forged"}
    yield Sample("Account", path_of("retry-policy.dev", "v1alpha1", "accounts"), account, {"attempts": 1}, weight=4)
    workload: Json = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "job-train"}}
    container = {"name": "main", "image": "x"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    workload["spec"] = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]}
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "lastTransitionTime": "2026-11-24T00:00:00Z"}
    status = {
        "conditions": [evicted | {"message": ""}],
        "schedulingStats": {"evictions": [{"reason": "a", "underlyingCause": "", "count": 1}]},
    }
    yield Sample("Workload", path_of("kueue.x-k8s.io", "v1beta2", "workloads"), workload, status, weight=2)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "z"}},
    }
    node["spec"] = {
        "providerID": "gce://p/z/n",
        "taints": [{"key": "a", "effect": "NoSchedule"}],
        "unschedulable": True,
    }
    yield Sample("Node", path_of("", "v1", "nodes", namespaced=False), node, weight=1)


ALL: Final = (
    pod("pod of a Job, placed by its author", 25),
    pod("pod of a Job", 8, placed=False),
    pod("pod that waits at a gate", 6, placed=False, schedulingGates=[{"name": names.DELAY}]),
    pod("pod of nobody", 8, hosted=False),
    pod("pod that restarts in place", 4, restartPolicy="OnFailure"),
    *jobs(),
    *others(),
    *of_ours(),
)
