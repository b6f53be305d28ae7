"""The pods of a RayJob: the scopes are `head` and `worker/GROUP`.

The attempt is the number of failed ones in the status of the RayJob that controls a RayCluster or a submitter's Job.

It is written before the RayCluster of the next attempt is created (ray-operator/controllers/ray of KubeRay 1.5).
"""

import re
from typing import Final

from webhook.objects.problem import Json
from webhook.systems.job.spec import JOB
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Evidence, Level, Place, PodSource, number_at
from webhook.systems.ray import spec as ray
from webhook.systems.ray.spec import HEAD

NAME: Final = "RayJob"
GROUP: Final = "ray.io/group"
LABELS: Final = (ray.NODE_TYPE, GROUP)
# What KubeRay adds to the name of a RayJob for that of a RayCluster, from 1.4 on.
OF_RAY_JOB: Final = re.compile(r"-[a-z0-9]{5}\Z")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the RayJob's failures."""
    ray_job = evidence.above
    if ray_job is None or ray_job.get("kind") != NAME:
        return []
    failed = number_at(ray_job, ("status", "failed")) or 0
    return [Level(NAME, failed, number_at(ray_job, ("spec", "backoffLimit")) or 0)]


def _place_of(metadata: Json, controller: OwnerReference) -> Place | None:
    """Return the place of a pod of a RayCluster that a RayJob created: the scopes are `head` and `worker/GROUP`.

    The pod says nothing of the RayJob but the name of its RayCluster. Other RayClusters have no batch pods.
    """
    name = OF_RAY_JOB.sub("", controller.name)
    labels = metadata.get("labels") or {}
    scope = HEAD if labels.get(ray.NODE_TYPE) == HEAD else f"worker/{labels.get(GROUP) or ''}"
    return None if name == controller.name else Place(ray.RAY_JOB, name, "", scope)


def _is_worker(evidence: Evidence) -> bool:
    """Return True for workers, which KubeRay 1.5 replaces."""
    return evidence.labels.get(ray.NODE_TYPE) == "worker"


PODS: Final = (
    PodSource(JOB, NAME, levels),
    PodSource(ray.RAY_CLUSTER, NAME, levels, _place_of, replaces=_is_worker, leaders=((ray.NODE_TYPE, HEAD),)),
)
