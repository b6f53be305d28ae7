"""What the ledger keeps of a pod: tens of thousands are held, and the garbage collector need not visit them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain, islice
from sys import intern
from typing import Final

import msgspec

from webhook.kinds import batch
from webhook.kinds.job_set import JOB_RESTART, REPLICATED_JOB, RESTART, SET_NAME
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.policy.settings import LARGEST_COUNT, count

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
DISRUPTED: Final = "DisruptionTarget"
ENDED: Final = ("Succeeded", "Failed")

ANNOTATIONS: Final = (
    *(INDEX, batch.INDEX_FAILURES, batch.INDEX_IGNORED_FAILURES),
    *(names.ATTEMPT, names.PLACEMENT, names.COUNTED),
)

# What is decoded of a pod: tens of thousands are, each of up to megabytes.
STATUSES: Final[Shape] = [
    {"name": str, "state": {"terminated": {"exitCode": int, **dict.fromkeys(("reason", "finishedAt"), str)}}}
]
READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("namespace", "name", "uid", "resourceVersion", "deletionTimestamp"), str),
        "deletionGracePeriodSeconds": int,
        "labels": dict.fromkeys((SET_NAME, REPLICATED_JOB, RESTART, JOB_RESTART), str),
        "annotations": dict.fromkeys(ANNOTATIONS, str),
        "finalizers": [str],
        "ownerReferences": [{**dict.fromkeys(("apiVersion", "kind", "name", "uid"), str), "controller": bool}],
    },
    "spec": {"nodeName": str},
    "status": {
        **dict.fromkeys(("phase", "reason", "startTime"), str),
        "conditions": [dict.fromkeys(("type", "status", "reason", "lastTransitionTime"), str)],
        "containerStatuses": STATUSES,
        "initContainerStatuses": STATUSES,
    },
}
# Bounds on what is kept, for users may write a pod's status.
MOST: Final = 20  # conditions, and containers that have failed
LONGEST: Final = 128  # characters of a reason
LONGEST_NAME: Final = 317  # characters of a name, or of a type of condition


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a pod; `time` is when it became so, RFC 3339."""

    type: str
    status: str
    reason: str
    time: str


class Exit(msgspec.Struct, frozen=True, gc=False):
    """A container that has terminated with another code than 0; `time` is when, RFC 3339."""

    container: str
    code: int
    reason: str
    time: str


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod of a Job, as the Job controller looks at it.

    `index`: its completion index, empty where the Job is not Indexed. `attempt`: what its annotation says, which
    admission writes, None where there is none. `index_failures`: the failures of its index before it, where the Job
    controller notes them, `index_ignored` those that cost no retry; `restart`: the restart of its JobSet that it
    belongs to, with those of its Job alone; else None. `tracked`: whether the Job controller has yet to count it.
    `deleted`: when its deletion was asked for. `annotated`: whether it has any annotation; `counted`: whether it bears
    the ledger's mark. `exits` are those of the regular containers, then those of the init containers, as a failure
    policy looks at them. Times are RFC 3339, empty where there are none.
    """

    namespace: str
    name: str
    uid: str
    job: str
    job_uid: str
    job_set: str = ""
    replicated_job: str = ""
    index: str = ""
    attempt: int | None = None
    index_failures: int | None = None
    index_ignored: int | None = None
    restart: int | None = None
    node: str = ""
    placement: str = ""
    phase: str = ""
    reason: str = ""
    tracked: bool = False
    deleting: bool = False
    deleted: str = ""
    annotated: bool = True
    counted: bool = False
    started: str = ""
    ended: str = ""
    conditions: tuple[Condition, ...] = ()
    exits: tuple[Exit, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether it has Succeeded or Failed."""
        return self.phase in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether it has Failed."""
        return self.phase == "Failed"

    @property
    def disruption(self) -> Condition | None:
        """The condition that says that the platform ended it; None where it was not so."""
        return next((one for one in self.conditions if one.type == DISRUPTED and one.status == "True"), None)


def read(pod: Json) -> Pod:
    """Read a pod of the API; `job` is empty where no Job controls it."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    controller = controller_of(pod)
    if controller is not None and (controller.group, controller.kind) != ("batch", "Job"):
        controller = None
    phase = cut(status.get("phase"), LONGEST)
    conditions = conditions_of(status.get("conditions") or (), all_of_them=phase in ENDED)
    statuses = chain(status.get("containerStatuses") or (), status.get("initContainerStatuses") or ())
    exits = tuple(islice(exits_of(statuses), MOST))
    deleted = metadata.get("deletionTimestamp") or ""
    ended = ""
    if phase in ENDED:
        disrupted = next((one.time for one in conditions if one.type == DISRUPTED), "")
        ended = max((one.time for one in exits), default="") or disrupted or deleted
    return Pod(
        namespace=intern(metadata.get("namespace") or ""),
        name=metadata["name"],
        uid=metadata["uid"],
        job=intern(cut(controller.name, LONGEST_NAME) if controller else ""),
        job_uid=intern(cut(controller.uid, LONGEST_NAME) if controller else ""),
        job_set=intern(labels.get(SET_NAME) or ""),
        replicated_job=intern(labels.get(REPLICATED_JOB) or ""),
        index=index_of(annotations),
        attempt=count(annotations.get(names.ATTEMPT)),
        index_failures=count(annotations.get(batch.INDEX_FAILURES)),
        index_ignored=count(annotations.get(batch.INDEX_IGNORED_FAILURES)),
        restart=restart_of(labels),
        node=intern(spec.get("nodeName") or ""),
        placement=intern(cut(annotations.get(names.PLACEMENT), LONGEST)),
        phase=intern(phase),
        reason=intern(cut(status.get("reason"), LONGEST)),
        tracked=TRACKING in (metadata.get("finalizers") or ()),
        deleting=bool(deleted),
        # The API's time is when the deletion is to be done.
        deleted=earlier(deleted, metadata.get("deletionGracePeriodSeconds") or 0) if deleted else "",
        annotated=metadata.get("annotations") is not None,
        counted=names.COUNTED in annotations,
        started=status.get("startTime") or "",
        ended=ended,
        conditions=conditions,
        exits=exits,
    )


def restart_of(labels: Json) -> int | None:
    """Return how often the Job of a JobSet was started again, with the set or alone; None where there is no set."""
    of_set = count(labels.get(RESTART))
    return None if of_set is None else min(of_set + (count(labels.get(JOB_RESTART)) or 0), LARGEST_COUNT)


def earlier(time: str, seconds: int) -> str:
    """Return an earlier time than one of the API; what is no time stays."""
    try:
        parsed = datetime.fromisoformat(time) - timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return time
    return parsed.isoformat().replace("+00:00", "Z")


def index_of(annotations: Json) -> str:
    """Return a pod's completion index, empty where there is none: a template may say what it likes."""
    index = count(annotations.get(INDEX))
    return "" if index is None else intern(str(index))


def conditions_of(conditions: Iterable[Json], *, all_of_them: bool) -> tuple[Condition, ...]:
    """Return a pod's conditions, or of them DISRUPTED alone, which a pod keeps however many others it has."""
    kept = [one for one in conditions if all_of_them or one["type"] == DISRUPTED]
    if len(kept) > MOST:
        kept.sort(key=lambda one: one["type"] != DISRUPTED)
    return tuple(
        Condition(
            intern(cut(one["type"], LONGEST_NAME)),
            intern(cut(one["status"], LONGEST)),
            intern(cut(one.get("reason"), LONGEST)),
            one.get("lastTransitionTime") or "",
        )
        for one in kept[:MOST]
    )


def exits_of(statuses: Iterable[Json]) -> Iterator[Exit]:
    """Yield the containers that have terminated with another code than 0."""
    for status in statuses:
        terminated = (status.get("state") or {}).get("terminated")
        if terminated and terminated["exitCode"]:
            yield Exit(
                intern(cut(status["name"], LONGEST_NAME)),
                terminated["exitCode"],
                intern(cut(terminated.get("reason"), LONGEST)),
                terminated.get("finishedAt") or "",
            )


def cut(text: str | None, longest: int) -> str:
    """Return a text of the API, empty where there is none, as far as it is kept."""
    return (text or "")[:longest]
