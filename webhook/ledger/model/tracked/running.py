"""The pods of all workloads that have not ended: there may be 150,000, so each is one packed text."""

from collections.abc import Container, Iterator
from typing import Final

from webhook.kube import terminal
from webhook.ledger.model.pods import Pod, pack, unpack
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch

NONE_KNOWN: Final[dict[str, str]] = {}


class RunningPods:
    """The pods that have not ended. Each call costs the same time however many there are.

    - `packed`: the pods by uid.
    - `numbers`: how many there are of a Job's uid, and of a Job's uid and index. `deleting`: how many of these are
      being deleted. Both without zeros.
    - `scopes`: of a workload of another kind, by `workload_of`, the scopes of its pods by their uid.
    - `newest`: of a workload of another kind, the uid of the last pod that was seen of each scope.
    """

    def __init__(self) -> None:
        self.packed: dict[str, bytes] = {}
        self.numbers: dict[str, int] = {}
        self.deleting: dict[str, int] = {}
        self.scopes: dict[str, dict[str, str]] = {}
        self.newest: dict[str, str] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self.packed

    def get(self, uid: str) -> Pod | None:
        """Return a pod; None if there is none with that uid."""
        packed = self.packed.get(uid)
        return None if packed is None else unpack(packed)

    def put(self, pod: Pod, before: Pod | None) -> None:
        """Record the current state of a pod that has not ended; `before`: what `get` returned for it."""
        if before is not None:
            self.leave(before)
        self.packed[pod.uid] = pack(pod)
        if pod.kind:
            self.scopes.setdefault(workload_of(pod), {})[pod.uid] = pod.scope
            self.newest[slot_of(pod.job_uid, pod.scope)] = pod.uid
            return
        for place in places_of(pod):
            add(self.numbers, place, 1)
            if pod.deleting:
                add(self.deleting, place, 1)

    def pop(self, uid: str) -> Pod | None:
        """Remove a pod; return it, or None if there was none with that uid."""
        packed = self.packed.pop(uid, None)
        if packed is None:
            return None
        pod = unpack(packed)
        self.leave(pod)
        return pod

    def leave(self, pod: Pod) -> None:
        """Remove a pod from all but `packed`."""
        if not pod.kind:
            for place in places_of(pod):
                add(self.numbers, place, -1)
                if pod.deleting:
                    add(self.deleting, place, -1)
            return
        workload, slot = workload_of(pod), slot_of(pod.job_uid, pod.scope)
        known = self.scopes[workload]
        del known[pod.uid]
        if not known:
            del self.scopes[workload]
        if self.newest.get(slot) == pod.uid:
            del self.newest[slot]

    def missing(self, there: Container[str]) -> list[str]:
        """Return the uids of the pods that are not in `there`."""
        return [uid for uid in self.packed if uid not in there]

    def has_any(self, job_uid: str) -> bool:
        """Return True if a Job has any pod here."""
        return job_uid in self.numbers

    def of_workload(self, workload: str) -> Iterator[Pod]:
        """Yield the pods of a workload of another kind, by `workload_of`."""
        return (unpack(self.packed[uid]) for uid in list(self.scopes.get(workload, NONE_KNOWN)))

    def has_workload(self, workload: str) -> bool:
        """Return True if a workload of another kind, by `workload_of`, has any pod here."""
        return workload in self.scopes

    def has_others(self, workload: str, scope: str) -> bool:
        """Return True if a workload of another kind, by `workload_of`, has pods of another scope."""
        return any(one != scope for one in self.scopes.get(workload, NONE_KNOWN).values())

    def newest_of(self, job_uid: str, scope: str) -> Pod | None:
        """Return the last pod that was seen of a scope of a workload of another kind; None if there is none."""
        return self.get(self.newest.get(slot_of(job_uid, scope), ""))

    def is_behind(self, job: Json, index: str) -> bool:
        """Return True if the creation of a pod shows that another pod of its Job has ended, but the watch lags behind.

        `index`: the completion index of the new pod; empty if the Job is not Indexed.
        """
        uid = job["metadata"]["uid"]
        if uid not in self.numbers or terminal.is_decided(job.get("status") or {}):
            return False
        spec = job["spec"]
        place = slot_of(uid, index) if batch.is_indexed(spec) else uid
        number = self.numbers.get(place, 0)
        if spec.get("podReplacementPolicy") != "Failed":  # the Job controller does not wait until a pod has ended
            number -= self.deleting.get(place, 0)
        return number >= (1 if batch.is_indexed(spec) else batch.running_at_once(spec))

    def is_behind_scope(self, job_uid: str, scope: str) -> bool:
        """As `is_behind`, for a new pod of a workload of another kind whose scope has one pod at a time."""
        pod = self.newest_of(job_uid, scope)
        return pod is not None and not pod.deleting


def workload_of(pod: Pod) -> str:
    """Return the text that stands for the workload of another kind that a pod is counted for."""
    return workload_named(pod.namespace, pod.group, pod.kind, pod.job)


def workload_named(namespace: str, group: str, kind: str, name: str) -> str:
    """Return the text that stands for a workload of another kind."""
    return f"{namespace}/{group}/{kind}/{name}"


def slot_of(job_uid: str, index: str) -> str:
    """Return the text that stands for an index of a Job, or for a scope of a workload of another kind."""
    return f"{job_uid}/{index}"


def places_of(pod: Pod) -> tuple[str, ...]:
    """Return what a pod of a Job is counted in: the Job, and its index if it has one."""
    return (pod.job_uid, slot_of(pod.job_uid, pod.index)) if pod.index else (pod.job_uid,)


def add(numbers: dict[str, int], key: str, number: int) -> None:
    """Add to a number; remove it at 0."""
    now = numbers.get(key, 0) + number
    if now:
        numbers[key] = now
    else:
        numbers.pop(key, None)
