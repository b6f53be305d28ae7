"""The status of the RayJob that controls a RayCluster or a submitter's Job: the number of failed attempts.

It is written before the RayCluster of the next attempt is created (ray-operator/controllers/ray of KubeRay 1.5).
"""

from typing import Final

from webhook.systems.level import Evidence, Level, number_at

NAME: Final = "RayJob"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the RayJob's failures."""
    ray_job = evidence.above
    if ray_job is None or ray_job.get("kind") != NAME:
        return []
    failed = number_at(ray_job, ("status", "failed")) or 0
    return [Level(NAME, failed, number_at(ray_job, ("spec", "backoffLimit")) or 0)]
