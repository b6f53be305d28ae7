"""The fields of Jobs and JobSets that are cached: there may be tens of thousands, of up to megabytes each."""

from functools import lru_cache
from typing import Final, NewType

import msgspec

from webhook.kube import names, terminal
from webhook.kube.packed import MOST_SHARED, shared
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.pods.matching import LONGEST_MESSAGE, LONGEST_PATTERN, MOST_RULES
from webhook.systems import kueue, retry_history
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import COSTLY_JOB_RESTARTS, JOB_RESTARTS, JOB_SET

# The fields that are decoded.
METADATA_READ: Final[Shape] = {
    **dict.fromkeys(("namespace", "name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"), str),
    "labels": dict.fromkeys((names.PROFILE, names.RETRY_OF, kueue.QUEUE_NAME, batch.JOBS_OF_SET), str),
    "annotations": dict.fromkeys((*names.SAID_BY_AUTHORS, names.RETRY_HISTORY, names.RETRY_OF, kueue.QUEUE_NAME), str),
    "ownerReferences": [{**dict.fromkeys(("apiVersion", "kind", "name", "uid"), str), "controller": bool}],
}
JOB_READ: Final[Shape] = {
    "metadata": METADATA_READ,
    "spec": {
        **dict.fromkeys(("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"), int),
        **dict.fromkeys(("completions", "parallelism"), int),
        **dict.fromkeys(("completionMode", "podReplacementPolicy"), str),
        "suspend": bool,
        "podFailurePolicy": batch.FAILURE_POLICY,
        "successPolicy": {},
    },
    "status": {
        **dict.fromkeys(("failed", "succeeded"), int),
        "startTime": str,
        "uncountedTerminatedPods": {"failed": [str]},
        "conditions": [dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), str)],
    },
}
JOB_SET_READ: Final[Shape] = {
    "metadata": METADATA_READ,
    "spec": {
        "failurePolicy": {
            "maxRestarts": int,
            "restartStrategy": str,
            "rules": [
                {
                    "action": str,
                    "onJobFailureReasons": [str],
                    "onJobFailureMessagePatterns": [str],
                    "targetReplicatedJobs": [str],
                }
            ],
        }
    },
    "status": {
        **dict.fromkeys(("restarts", "restartsCountTowardsMax"), int),
        "terminalState": str,
        "conditions": [dict.fromkeys(("type", "status", "reason", "lastTransitionTime"), str)],
        "replicatedJobsStatus": [{"name": str, JOB_RESTARTS: [int], COSTLY_JOB_RESTARTS: [int]}],
    },
}
# Bounds on the cached data, where the API has no bound, or a higher one than is needed.
LONGEST: Final = 64  # characters of an author's annotation; valid values are shorter
LONGEST_REFERENCE: Final = 512  # characters of a field of an ownerReference
MOST_LISTED: Final = 1000  # entries of a list in a rule of a JobSet, such as the names of its Jobs

# A Job as it is cached. Functions that read a Job of the API can read it too, as long as they need only these fields.
# `metadata`: namespace, name, uid, resourceVersion, labels; of ownerReferences the controller; creationTimestamp,
# deletionTimestamp and annotations, if it has them. `spec`: the fields of JOB_READ that have a value. `status`:
# `failed`, including the pods that the Job controller is about to count, and `succeeded`, if they are not 0; the
# conditions that decide its end; `startTime`, if it has activeDeadlineSeconds.
CachedJob = NewType("CachedJob", Json)
# A JobSet as it is cached. `kind`; `metadata` as in a CachedJob; `spec`: failurePolicy alone, with texts and lists cut;
# `status`: the fields of JOB_SET_READ that have a value; of the conditions the final one, of replicatedJobsStatus the
# entries with Jobs that were restarted alone.
CachedJobSet = NewType("CachedJobSet", Json)
# A workload of another kind as it is cached: `metadata` as in a CachedJob; `spec` and `status` are empty, because the
# API server sends the metadata alone.
CachedRoot = NewType("CachedRoot", Json)
ROOT_READ: Final[Shape] = {"metadata": METADATA_READ}
# The fields of metadata that differ in every object.
OWN: Final = ("name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
OWN_WITH_OURS: Final = (*OWN, "annotations")
OURS: Final = frozenset({names.RETRY_HISTORY, names.RETRY_OF})  # annotations whose values differ in every object
NOTHING: Final[Json] = {}  # one for all: thousands are cached


def trimmed_job(job: Json) -> CachedJob:
    """Return the fields of a Job, decoded as JOB_READ, that placement and the ledger read: thousands are cached."""
    spec, status = job["spec"], job.get("status") or {}
    kept = {key: value for key, value in spec.items() if value is not None}
    if "podFailurePolicy" in kept:
        kept["podFailurePolicy"] = _shared_if_small(kept["podFailurePolicy"])
    counts = {"failed": batch.failed_in_status(job), "succeeded": status.get("succeeded")}
    if "activeDeadlineSeconds" in kept:
        counts["startTime"] = status.get("startTime")
    return CachedJob(
        {
            "metadata": _trimmed_metadata(job["metadata"]),
            "spec": kept,
            "status": {key: count for key, count in counts.items() if count} | _conditions_of(status),
        }
    )


def pieces(root: CachedJob | CachedJobSet | CachedRoot) -> tuple[bytes, ...]:
    """Return the JSON of a cached object in pieces, of which all but the first are equal in many objects."""
    rest = {**root}
    metadata = rest.pop("metadata")
    is_own = OWN if OURS.isdisjoint(metadata.get("annotations") or ()) else OWN_WITH_OURS
    own = {key: metadata[key] for key in is_own if key in metadata}
    others = {key: value for key, value in metadata.items() if key not in is_own}
    return (
        b'{"metadata":%b,' % msgspec.json.encode(own)[:-1],
        shared(b"%b," % msgspec.json.encode(others)[1:]),
        shared(msgspec.json.encode(rest)[1:]),
    )


def trimmed_root(root: Json) -> CachedRoot:
    """Return a workload of another kind, decoded as ROOT_READ."""
    return CachedRoot({"metadata": _trimmed_metadata(root["metadata"]), "spec": NOTHING, "status": NOTHING})


def _trimmed_metadata(metadata: Json) -> Json:
    kept = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "labels": metadata.get("labels") or {},
        "ownerReferences": _controllers_of(metadata),
    }
    for time in ("creationTimestamp", "deletionTimestamp"):
        if metadata.get(time):
            kept[time] = metadata[time]
    if metadata.get("annotations") is not None:
        kept["annotations"] = {
            key: retry_history.shortened(value) if key == names.RETRY_HISTORY else value[:LONGEST]
            for key, value in metadata["annotations"].items()
            if value is not None
        }
    return kept


def _controllers_of(metadata: Json) -> list[Json]:
    controllers = [one for one in metadata.get("ownerReferences") or () if one.get("controller")][:1]
    return [
        {key: value[:LONGEST_REFERENCE] if isinstance(value, str) else value for key, value in one.items()}
        for one in controllers
    ]


def _conditions_of(status: Json) -> Json:
    found = {one["type"]: one for one in reversed(status.get("conditions") or ()) if terminal.decides(one)}
    ends = [{key: (value or "")[:LONGEST_MESSAGE] for key, value in one.items()} for one in reversed(found.values())]
    return {"conditions": ends} if ends else {}


def _shared_if_small(policy: Json) -> Json:
    """Return a Job's podFailurePolicy; equal policies up to MOST_SHARED bytes are the same object, to save memory."""
    encoded = msgspec.json.encode(policy)
    return _decoded(encoded) if len(encoded) <= MOST_SHARED else policy


@lru_cache(maxsize=1000)
def _decoded(encoded: bytes) -> Json:
    """Decode JSON; the same text gives the same object."""
    found: Json = msgspec.json.decode(encoded)
    return found


def trimmed_job_set(job_set: Json) -> CachedJobSet:
    """Return the fields of a JobSet, decoded as JOB_SET_READ, that placement and the ledger read."""
    status, policy = job_set.get("status") or {}, at(job_set, ("spec", "failurePolicy")) or {}
    if policy.get("rules"):
        policy["rules"] = [_trimmed_rule(rule) for rule in policy["rules"][:MOST_RULES]]
    if status.get("conditions"):
        ended = terminal.condition_of({"status": status})
        status["conditions"] = ended and [{key: (value or "")[:LONGEST_MESSAGE] for key, value in ended.items()}]
    if status.get("replicatedJobsStatus"):
        status["replicatedJobsStatus"] = [one for one in status["replicatedJobsStatus"] if one.get(JOB_RESTARTS)]
    return CachedJobSet(
        {
            "kind": JOB_SET.kind,
            "metadata": _trimmed_metadata(job_set["metadata"]),
            "spec": {"failurePolicy": policy},
            "status": {key: count for key, count in status.items() if count is not None},
        }
    )


def _trimmed_rule(rule: Json) -> Json:
    """Return a rule of a JobSet's failurePolicy with long texts and lists cut: a cut text matches nothing."""
    return {
        key: value[:LONGEST] if isinstance(value, str) else [one[: LONGEST_PATTERN + 1] for one in value[:MOST_LISTED]]
        for key, value in rule.items()
        if value is not None
    }
