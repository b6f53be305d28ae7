"""Keeps how long the work of pods has taken, for new Jobs of the same name: from the watch of pods, in memory alone.

Jobs are of the same name if they differ only in what a CronJob, generateName or a person appends to number them.
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from webhook.kube import terminal
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.pods import Pod
from webhook.policy.reader import LONGEST
from webhook.systems.job_set.spec import REPLICATED_JOB, SET_NAME

LEAST: Final = 3  # Jobs that tell how long the work takes: as many as a CronJob keeps that have succeeded
MOST: Final = 20  # Jobs of one name: the one that took longest of so many is left out
MOST_NAMES: Final = 100  # in a namespace
# What numbers Jobs: minutes or a date; five characters of generateName (k8s.io/apiserver, pkg/storage/names); a hash.
GENERATED: Final = re.compile("[bcdfghjklmnpqrstvwxz2456789]{5}")
NUMBER: Final = re.compile(r"[0-9]+|(?=[a-f]*[0-9])[0-9a-f]{8,}")
LONGEST_PREFIX: Final = 58  # characters of generateName that the API server keeps (maxGeneratedNameLength, same place)

# Of a Job: its name without what numbers it, or that of its JobSet; and in a JobSet the name of the replicated Job.
Series = tuple[str, str]


class UsualWork(NamedTuple):
    """How long the work of a pod has taken in earlier Jobs, in seconds, and which these are, for people."""

    seconds: int
    source: str


class _Worked(NamedTuple):
    """When the last such pod of a Job ended, in Unix time, and the most seconds that one worked; `job`: its name."""

    job: str
    ended: float
    seconds: int


class WorkHistory:
    """How long pods have worked which nothing had disturbed, by namespace and name of their Jobs.

    Of the last Jobs of a name, by when they ended: a list has their pods in the order of their names. `job_at` returns
    the Job of a namespace and name; None if it does not exist.
    """

    def __init__(self, job_at: Callable[[str, str], Json | None] = lambda _namespace, _name: None) -> None:
        self.job_at = job_at
        self.worked: dict[str, dict[Series, dict[str, _Worked]]] = {}  # by the uid of the Job

    def begin_list(self) -> None:
        """Do nothing: pods that are gone have worked as long."""

    def listed(self, pod: Pod) -> None:
        """Take a pod of a list."""
        self.seen(pod)

    async def end_list(self) -> None:
        """Do nothing; as `begin_list`."""

    def deleted(self, _pod: Pod) -> None:
        """Do nothing; as `begin_list`."""

    def seen(self, pod: Pod) -> None:
        """Take a pod, if it has succeeded by itself, and is the first one of its index."""
        is_first = pod.attempt == 0 and not pod.disruptions and not pod.restart and pod.restarts is None
        was_told_to_end = pod.deleting or pod.disruption is not None
        if not pod.has_succeeded or was_told_to_end or not pod.worked or not pod.job or pod.kind_name or not is_first:
            return
        series = _series_of(pod.job_set or pod.job, pod.replicated_job if pod.job_set else "")
        known = self.worked.setdefault(pod.namespace, {})
        known[series] = jobs = known.pop(series, {})  # as the newest
        before, worked = jobs.get(pod.job_uid, _Worked("", 0.0, 0)), min(math.ceil(pod.worked), LONGEST)
        ended = max(before.ended, seconds(pod.finished) or 0.0)
        jobs[pod.job_uid] = _Worked(pod.job, ended, max(before.seconds, worked))
        if len(jobs) > MOST:
            del jobs[min(jobs, key=lambda uid: jobs[uid].ended)]
        if len(known) > MOST_NAMES:
            del known[next(iter(known))]

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the pods of namespaces that are not opted in any more."""
        for namespace in namespaces:
            self.worked.pop(namespace, None)

    def usual_of(self, metadata: Json) -> UsualWork | None:
        """Return how long the work of a new Job takes: as long as in 95 % of the last ones; None if too few tell.

        `metadata`: that of the Job.
        """
        labels = metadata.get("labels") or {}
        set_name = labels.get(SET_NAME)
        name = set_name or metadata.get("name") or metadata.get("generateName") or ""
        series = _series_of(name, labels.get(REPLICATED_JOB) or "" if set_name else "")
        namespace = metadata.get("namespace") or ""
        jobs = self.worked.get(namespace, {}).get(series, {})
        worked = sorted(job.seconds for uid, job in jobs.items() if self._may_have_succeeded(namespace, uid, job))
        if len(worked) < LEAST:
            return None
        source = f"95 % of the last {len(worked)} Jobs named {'/'.join(filter(None, series))}"
        return UsualWork(worked[math.ceil(len(worked) * 0.95) - 1], source)

    def _may_have_succeeded(self, namespace: str, uid: str, worked: _Worked) -> bool:
        """Return True if a Job has succeeded, or is gone; else pods may be missing that work longer."""
        job = self.job_at(namespace, worked.job)
        return job is None or job["metadata"]["uid"] != uid or bool(terminal.has_ended_well(job))


def _series_of(name: str, replicated_job: str) -> Series:
    if len(name) > LONGEST_PREFIX:
        prefix, end = name[:LONGEST_PREFIX], name[LONGEST_PREFIX:]
        name = prefix if name.endswith("-") or GENERATED.fullmatch(end) else name
    parts = name.rstrip("-").split("-")  # generateName ends with one, most often
    while len(parts) > 1 and (NUMBER.fullmatch(parts[-1]) or GENERATED.fullmatch(parts[-1])):
        parts.pop()
    return "-".join(parts), replicated_job
