"""The fields of a pod that the ledger keeps: tens of thousands of pods, which the garbage collector does not visit."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

import msgspec

from webhook.history import amounts
from webhook.history.amounts import Amounts
from webhook.kube import names
from webhook.kube.state_key import StateKey
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.objects.times import between, shifted
from webhook.pods import hardware, restarts, waiting
from webhook.pods.restarts import Restarts, restarts_of
from webhook.pods.waiting import Waiting, waiting_of
from webhook.policy.settings import LARGEST_COUNT, count
from webhook.systems import pods as places
from webhook.systems.core import DISRUPTED, ENDED
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_RESTART, REPLICATED_JOB, RESTART, SET_NAME
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.kinds import KINDS
from webhook.systems.pods import Elsewhere
from webhook.systems.tekton import spec as tekton

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
# In the termination message of a step that Tekton ends, with 1, because a step before it has failed (pkg/entrypoint).
SKIPPED_STEP: Final = '"key":"Reason","value":"Skipped"'

ANNOTATIONS: Final = (
    *(INDEX, batch.INDEX_FAILURES, batch.INDEX_IGNORED_FAILURES),
    *(names.COUNTED, names.PROGRESS, names.PROOF, *names.PROVEN),
)
ENDING: Final = (DISRUPTED, names.STALLED)  # conditions by which a pod was ended
NOTHING_SAID: Final[dict[str, str]] = {}
TOLD: Final = f"{names.PROGRESS}="  # in a line of a termination message
LONGEST_TOLD: Final = 4096  # characters at the end of a message: the kubelet keeps no more
PART: Final = re.compile(r"0(\.[0-9]*)?|1(\.0*)?")
ZONE: Final = "topology.kubernetes.io/zone"  # label of nodes; since 1.35 the API server copies it to their pods

# The fields that are decoded: there may be tens of thousands of pods, of up to megabytes each.
STATUSES: Final[Shape] = [
    {
        "name": str,
        "state": {
            "terminated": restarts.TERMINATED_READ,
            **waiting.STATE_READ,
            "running": {"startedAt": str},
        },
        "lastState": {"terminated": restarts.TERMINATED_READ},
        **hardware.DEVICES_READ,
        **waiting.CONTAINER_READ,
    }
]
READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("namespace", "name", "uid", "resourceVersion"), str),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), str),
        "deletionGracePeriodSeconds": int,
        "labels": {
            **dict.fromkeys((SET_NAME, REPLICATED_JOB, RESTART, JOB_RESTART, ZONE), str),
            **places.READ["labels"],
        },
        "annotations": dict.fromkeys(ANNOTATIONS, str) | places.READ["annotations"],
        "finalizers": [str],
        "ownerReferences": [{**dict.fromkeys(("apiVersion", "kind", "name", "uid"), str), "controller": bool}],
    },
    "spec": {
        **dict.fromkeys(("nodeName", "restartPolicy"), str),
        "schedulingGates": waiting.GATES_READ,
        **amounts.SPEC_READ,
        "containers": [{**restarts.RULES_READ, "resources": amounts.REQUESTS_READ}],
        "initContainers": [{**restarts.RULES_READ, "restartPolicy": str, "resources": amounts.REQUESTS_READ}],
    },
    "status": {
        **dict.fromkeys(("phase", "reason", "startTime"), str),
        "conditions": [dict.fromkeys(("type", "status", "reason", "lastTransitionTime"), str)],
        "containerStatuses": STATUSES,
        "initContainerStatuses": STATUSES,
    },
}
# Bounds on what is kept, because users may write a pod's status.
MOST: Final = 20  # conditions, and containers that have failed
MOST_STATUSES: Final = 200  # containers of each list that are looked at for when the last one ended
LONGEST: Final = 128  # characters of a reason
LONGEST_NAME: Final = 317  # characters of a name, or of a type of condition
LOST: Final = "ContainerStatusUnknown"  # the reason of a container of which the runtime knows nothing (kubelet 1.36)
LONGEST_MESSAGE: Final = 1024  # bytes of the termination messages of a pod's containers together: the last ones
LONGEST_AFTER: Final = 1024  # characters of the annotation after-failure; admission writes no longer one


class Condition(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A condition of a pod; `time`: its last transition, RFC 3339."""

    type: str
    status: str
    reason: str
    time: str


class Exit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A container that has terminated with a code other than 0; `time`: when it did, RFC 3339.

    `message`: the end of its termination message. `is_init`: whether it is an init container, or a sidecar.
    """

    container: str
    code: int
    reason: str
    time: str
    message: str = ""
    is_init: bool = False


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A pod of a workload, with the fields that its controller judges it by. Times are RFC 3339; empty if unknown.

    - `job`, `job_uid`: name and uid of the Job that controls it, or of the workload of another kind that it is counted
      for (webhook/systems/places.py). The name is empty if it is counted for none; the uid may be.
      `group`, `kind_name`: those of the workload of another kind; empty for a Job.
    - `scope`: its part of a workload of another kind; `controller`, `controller_uid`: what controls it there;
      `max_retries`: its annotation of that name, which admission writes. Empty, and None, for a pod of a Job.
    - `elsewhere`: what it belongs to if it is counted for no workload.
    - `index`: its completion index; empty if the Job is not Indexed.
    - `attempt`: its annotation of that name, which admission writes; None if it has none.
    - `index_failures`: the failures of its index before it; `index_ignored`: those that cost no retry. The Job
      controller writes them with backoffLimitPerIndex; else they are None.
    - `disruptions`: its annotation of that name, which admission writes: those of its index before it; else None.
    - `after`: its annotation after-failure, which admission writes; empty if it has none.
    - `zone`: that of its node; empty if its labels do not say it.
    - `restart`: how often its JobSet, and its Job alone, had been restarted before; None if it has no JobSet.
    - `tracked`: whether it has the finalizer of the Job controller, which has not counted it yet.
    - `deleting`: whether it has a deletionTimestamp; `deleted`: when the deletion was requested.
    - `created`: when it was created. `started`: when a kubelet took it. `ended`: when it ended; if a
      container failed, when that did. `last_end`: when its last container ended, if later.
    - `worked`: the seconds in which all of its regular containers ran, if it has ended. `progress`: how much of its
      work it says that it has saved, 0 to 1; None if it does not say so.
    - `annotated`: whether it has any annotation. `counted`: whether its annotation `counted` says that its end is.
    - `fault`: which of its devices is unhealthy, if it has failed; empty if none is.
    - `exits`: those of the regular containers, then those of the init containers, in the order of a failure policy.
    - `resources`: what it requests, as pairs of name and amount; shared by pods that request the same.
    - `waiting`: what it waits for before its containers have started; None if there is nothing.
    - `restarts`: those of its containers in place; None if there was none.
    """

    namespace: str
    name: str
    uid: str
    job: str
    job_uid: str
    group: str = ""
    kind_name: str = ""
    scope: str = ""
    controller: str = ""
    controller_uid: str = ""
    max_retries: int | None = None
    elsewhere: Elsewhere | None = None
    job_set: str = ""
    replicated_job: str = ""
    index: str = ""
    attempt: int | None = None
    index_failures: int | None = None
    index_ignored: int | None = None
    disruptions: int | None = None
    restart: int | None = None
    node: str = ""
    zone: str = ""
    after: str = ""
    placement: str = ""
    phase: str = ""
    reason: str = ""
    tracked: bool = False
    deleting: bool = False
    deleted: str = ""
    annotated: bool = True
    counted: bool = False
    created: str = ""
    started: str = ""
    ended: str = ""
    last_end: str = ""
    worked: float = 0.0
    progress: float | None = None
    fault: str = ""
    conditions: tuple[Condition, ...] = ()
    exits: tuple[Exit, ...] = ()
    resources: Amounts = ()
    waiting: Waiting | None = None
    restarts: Restarts | None = None

    @property
    def kind(self) -> KindSpec:
        """The kind of the workload that it is counted for."""
        return KINDS[self.group, self.kind_name] if self.kind_name else batch.JOB

    @property
    def has_ended(self) -> bool:
        """Whether its phase is Succeeded or Failed."""
        return self.phase in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether its phase is Failed."""
        return self.phase == "Failed"

    @property
    def has_succeeded(self) -> bool:
        """Whether its phase is Succeeded."""
        return self.phase == "Succeeded"

    @property
    def enters_account(self) -> bool:
        """Whether its end is counted: it failed, or it succeeded after the platform had told it to end."""
        return self.has_failed or (self.has_succeeded and self.disruption is not None)

    @property
    def finished(self) -> str:
        """When it ended with all its containers; if it was deleted while it ran, when the deletion was requested."""
        disrupted = self.disruption
        return self.last_end or self.ended or self.deleted or ("" if disrupted is None else disrupted.time)

    @property
    def disruption(self) -> Condition | None:
        """The condition DisruptionTarget, by which the platform says that it ended the pod; None if there is none."""
        for one in self.conditions:
            if one.type == DISRUPTED and one.status == "True":
                return one
        return None

    @property
    def stalled(self) -> bool:
        """Whether the leader ends it, or has ended it, because its program told no progress."""
        return any(one.type == names.STALLED and one.status == "True" for one in self.conditions)


def pack(pod: Pod) -> bytes:
    """Return a pod as one text, in a third of its memory: of the many that are kept, few are looked at again."""
    packer.encode_into(pod, buffer)
    return bytes(buffer)  # exactly as long as needed, which `encode` is not


def unpack(packed: bytes) -> Pod:
    """Return the pod that `pack` has packed."""
    return unpacker.decode(packed)


def read(pod: Json, key: StateKey | None = None) -> Pod:
    """Return a Pod of the API's JSON, decoded as READ; its `job` is empty if it is counted for no workload.

    `key`: what it does not prove of what admission and the ledger write on pods counts as absent. Without a key,
    where nothing is decided, all of that is read.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    controller = controller_of(pod)
    said, mark = annotations, annotations.get(names.COUNTED) or ""
    if key is None:
        counted = mark.rpartition(" ")[0]
    else:
        counted = key.counted(metadata["uid"], mark) if mark else ""
        if not key.proves_state(metadata.get("namespace") or "", controller.uid if controller else "", annotations):
            said = NOTHING_SAID
    of_job = controller is not None and (controller.group, controller.kind) == ("batch", "Job")
    place = None if of_job else places.place_of(metadata, controller)
    workload = controller if of_job else place
    phase = cut(status.get("phase"), LONGEST)
    conditions = _conditions_of(status.get("conditions") or (), all_of_them=phase in ENDED)
    of_tekton = place is not None and controller is not None and controller.group == tekton.GROUP
    exits = _exits_of(status, skipped=SKIPPED_STEP if of_tekton else None)
    deleted = metadata.get("deletionTimestamp") or ""
    ended = last_end = ""
    worked, progress = 0.0, _progress_of(annotations, status if phase in ENDED else {})
    if phase in ENDED:
        disrupted = next((one.time for one in conditions if one.type == DISRUPTED), "")
        last_end = _last_end_of(status)
        if phase == "Succeeded":  # it may be deleted long after
            ended = last_end
        ended = ended or max((one.time for one in exits), default="") or disrupted or deleted
        worked = _worked(status, ended)
        if phase == "Failed" and not ended:  # no container ran: its kubelet refused it
            ended = max((one.time for one in conditions), default="") or status.get("startTime") or ""
    return Pod(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        job=cut(workload.name, LONGEST_NAME) if workload else "",
        job_uid=cut(workload.uid, LONGEST_NAME) if workload else "",
        group=place.kind.group if place else "",
        kind_name=place.kind.kind if place else "",
        scope=place.scope if place else "",
        controller=cut(controller.name, LONGEST_NAME) if place and controller else "",
        controller_uid=cut(controller.uid, LONGEST_NAME) if place and controller else "",
        max_retries=count(said.get(names.MAX_RETRIES)) if place else None,
        elsewhere=None
        if workload
        else Elsewhere(*(cut(text, LONGEST_NAME) for text in places.elsewhere(metadata, controller))),
        job_set="" if place else labels.get(SET_NAME) or "",
        replicated_job=labels.get(REPLICATED_JOB) or "",
        index=index_of(annotations),
        attempt=count(said.get(names.ATTEMPT)),
        index_failures=count(annotations.get(batch.INDEX_FAILURES)),
        index_ignored=count(annotations.get(batch.INDEX_IGNORED_FAILURES)),
        disruptions=None if place else count(said.get(names.DISRUPTIONS)),
        restart=restart_of(labels),
        node=spec.get("nodeName") or "",
        zone=cut(labels.get(ZONE), LONGEST),
        after=cut(said.get(names.AFTER_FAILURE), LONGEST_AFTER + 1),
        placement=cut(said.get(names.PLACEMENT), LONGEST),
        phase=phase,
        reason=cut(status.get("reason"), LONGEST),
        tracked=TRACKING in (metadata.get("finalizers") or ()),
        deleting=bool(deleted),
        # deletionTimestamp is the time of the request plus the grace period.
        deleted=shifted(deleted, -(metadata.get("deletionGracePeriodSeconds") or 0)) or deleted,
        annotated=metadata.get("annotations") is not None,
        counted=bool(counted) and not counted.startswith(restarts.MARK),
        created=metadata.get("creationTimestamp") or "",  # shared: many pods are created at once
        started=status.get("startTime") or "",
        ended=ended,
        last_end=last_end if last_end > ended else "",
        worked=worked,
        progress=progress,
        fault=hardware.fault_of_devices(status.get("containerStatuses") or []) if phase == "Failed" else "",
        conditions=conditions,
        exits=exits,
        resources=amounts.requested(spec),
        waiting=waiting_of(pod),
        restarts=restarts_of(pod, counted),
    )


def restart_of(labels: Json) -> int | None:
    """Return how often the Job of a JobSet was restarted, with the set or alone; None if the pod has no JobSet."""
    of_set = count(labels.get(RESTART))
    return None if of_set is None else min(of_set + (count(labels.get(JOB_RESTART)) or 0), LARGEST_COUNT)


def index_of(annotations: Json) -> str:
    """Return a pod's completion index; empty if its annotation is absent or no number."""
    index = count(annotations.get(INDEX))
    return "" if index is None else str(index)


def failures_of_index(annotations: Json) -> tuple[int | None, int | None]:
    """Return the failures of a pod's index before it, and those that cost no retry; None where it does not say so."""
    return count(annotations.get(batch.INDEX_FAILURES)), count(annotations.get(batch.INDEX_IGNORED_FAILURES))


def _conditions_of(conditions: Iterable[Json], *, all_of_them: bool) -> tuple[Condition, ...]:
    """Return a pod's conditions, at most MOST, or those alone by which it was ended; these are never left out."""
    kept = [one for one in conditions if all_of_them or one.get("type") in ENDING]
    if len(kept) > MOST:
        kept.sort(key=lambda one: one.get("type") not in ENDING)
    return tuple(
        Condition(
            cut(one.get("type"), LONGEST_NAME),
            cut(one.get("status"), LONGEST),
            cut(one.get("reason"), LONGEST),
            one.get("lastTransitionTime") or "",
        )
        for one in kept[:MOST]
    )


def _exits_of(status: Json, skipped: str | None) -> tuple[Exit, ...]:
    """Return the first MOST containers that have terminated with a code other than 0.

    Their messages have LONGEST_MESSAGE bytes together. `skipped`: a text in the message of those that are left out.
    """
    of_regular = ((one, ended, False) for one, ended in _failed_in(status.get("containerStatuses") or (), skipped))
    of_init = ((one, ended, True) for one, ended in _failed_in(status.get("initContainerStatuses") or (), skipped))
    found = islice(chain(of_regular, of_init), MOST)
    exits = [(cut(one["name"], LONGEST_NAME), ended, _message_of(ended), is_init) for one, ended, is_init in found]
    share = LONGEST_MESSAGE // max(1, sum(bool(message) for _, _, message, _ in exits))
    return tuple(
        Exit(
            container=name,
            code=ended["exitCode"],
            reason=cut(ended.get("reason"), LONGEST),
            time=ended.get("finishedAt") or "",
            message=restarts.tail(message, share),
            is_init=is_init,
        )
        for name, ended, message, is_init in exits
    )


def _message_of(ended: Json) -> str:
    return "" if ended.get("reason") == LOST else ended.get("message") or ""


def _failed_in(statuses: Iterable[Json], skipped: str | None) -> Iterator[tuple[Json, Json]]:
    for status in statuses:
        ended = (status.get("state") or {}).get("terminated")
        if ended and ended["exitCode"] and (skipped is None or skipped not in (ended.get("message") or "")):
            yield status, ended


def _last_end_of(status: Json) -> str:
    lists = (islice(status.get(name) or (), MOST_STATUSES) for name in ("containerStatuses", "initContainerStatuses"))
    states = (((one.get("state") or {}).get("terminated") or {}) for one in chain.from_iterable(lists))
    return max((one.get("finishedAt") or "" for one in states), default="")


def _worked(status: Json, ended: str) -> float:
    """Return the seconds from the last start of a regular container to the first end of one, or else to `ended`."""
    states = [one.get("state") or {} for one in islice(status.get("containerStatuses") or (), MOST_STATUSES)]
    over = [one.get("terminated") or {} for one in states]
    starts = (one.get("startedAt") or "" for one in (*over, *(one.get("running") or {} for one in states)))
    return between(
        max(starts, default=""), min((one["finishedAt"] for one in over if one.get("finishedAt")), default=ended)
    )


def _progress_of(annotations: Json, status: Json) -> float | None:
    """Return how much of its work a pod says that it has saved, 0 to 1, in its annotation or a termination message."""
    texts = [annotations.get(names.PROGRESS) or ""]
    for one in islice(status.get("containerStatuses") or (), MOST_STATUSES):
        message = ((one.get("state") or {}).get("terminated") or {}).get("message") or ""
        _, told, rest = message[-LONGEST_TOLD:].rpartition(TOLD)
        texts.append(rest.partition("\n")[0].strip() if told else "")
    parts = [float(text) for text in texts if len(text) <= LONGEST and PART.fullmatch(text)]
    return max(parts, default=None)


def cut(text: str | None, longest: int) -> str:
    """Return at most `longest` characters of a text of the API; empty for None."""
    return (text or "")[:longest]


packer: Final = msgspec.msgpack.Encoder()
buffer: Final = bytearray()
unpacker: Final = msgspec.msgpack.Decoder(Pod)
