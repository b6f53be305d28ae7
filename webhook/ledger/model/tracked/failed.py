"""The pods of one workload that have failed, until they are counted and deleted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from webhook.ledger.model.account import Account, id_of
from webhook.ledger.model.cached import CachedJob
from webhook.ledger.model.limits import scope_of
from webhook.ledger.model.outcomes import Cost
from webhook.ledger.model.pods import Pod, pack, unpack
from webhook.ledger.model.tracked.running import add

UNKNOWN_TIME: Final = "0001-01-01T00:00:00Z"


@dataclass(slots=True)
class FailedPod:
    """A pod that has failed: `packed`, `seen` to fail at a time of a monotonic clock, and whether it was deleted."""

    packed: bytes
    seen: float
    is_gone: bool = False

    @property
    def pod(self) -> Pod:
        """The pod as it is now, with the fields by which its failure was judged."""
        return unpack(self.packed)


@dataclass(slots=True)
class FailedPods:
    """The failed pods of a workload by uid.

    - `open`: the scopes of those that are in no account that was seen, in that order. `open_in`: their uids by scope.
    - `by_id`: the uid of each by its id in an account.
    - `numbers`: how many are open, by the uid of their Job; without zeros.
    - `jobs`: the Jobs of those that are open, by uid, as they were seen last: a Job may be deleted before they are
      counted.
    - `costs`: by uid, what those cost that are open, where that is remembered.
    """

    pods: dict[str, FailedPod] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    open_in: dict[str, set[str]] = field(default_factory=dict)
    by_id: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, CachedJob] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=dict)

    def get(self, uid: str) -> Pod | None:
        """Return a pod; None if there is none with that uid."""
        found = self.pods.get(uid)
        return None if found is None else found.pod

    def of_id(self, short: str) -> Pod | None:
        """Return a pod by its id in an account."""
        return self.get(self.by_id.get(short, ""))

    def put(self, pod: Pod, now: float, job: CachedJob | None, *, is_open: bool) -> bytes:
        """Record the current state of a pod, and whether it is open; return the pod packed."""
        packed, known = pack(pod), self.pods.get(pod.uid)
        if known is None:
            self.pods[pod.uid] = FailedPod(packed, now)
            self.by_id[id_of(pod)] = pod.uid
        else:
            known.packed = packed
        if is_open and pod.uid not in self.open:
            scope = self.open[pod.uid] = scope_of(pod)
            self.open_in.setdefault(scope, set()).add(pod.uid)
            add(self.numbers, pod.job_uid, 1)
            if job is not None:
                self.jobs[pod.job_uid] = job
        elif not is_open:
            self.close(pod)
        return packed

    def close(self, pod: Pod) -> None:
        """Record that a pod is in an account, or cannot be counted; forget its Job if that has no open pod left."""
        scope = self.open.pop(pod.uid, None)
        if scope is None:
            return
        self.open_in[scope].discard(pod.uid)
        if not self.open_in[scope]:
            del self.open_in[scope]
        self.costs.pop(pod.uid, None)
        add(self.numbers, pod.job_uid, -1)
        if pod.job_uid not in self.numbers:
            self.jobs.pop(pod.job_uid, None)
        if not self.open:  # an emptied dict keeps the memory that it had
            self.open, self.open_in, self.numbers, self.jobs, self.costs = {}, {}, {}, {}, {}

    def see_job(self, job: CachedJob) -> None:
        """Record the current state of a Job, if it has open pods."""
        uid = job["metadata"]["uid"]
        if uid in self.numbers:
            self.jobs[uid] = job

    def see_job_gone(self, uid: str) -> None:
        """Record that a Job was deleted; its open pods are counted by its last state."""
        job = self.jobs.get(uid)
        if job is not None:
            metadata = {"deletionTimestamp": UNKNOWN_TIME, **job["metadata"]}
            self.jobs[uid] = CachedJob({**job, "metadata": metadata})

    def see_gone(self, uid: str, *, is_countable: bool) -> None:
        """Record that a pod was deleted; `is_countable`: whether its Job is known."""
        found = self.pods[uid]
        found.is_gone = True
        if not is_countable:
            self.close(found.pod)
        self.forget_done(uid)

    def see_counted(self, ids: Iterable[str]) -> None:
        """Record which pods an account has counted, by their ids."""
        for uid in [self.by_id[one] for one in ids if one in self.by_id]:
            if uid in self.open:
                self.close(self.pods[uid].pod)
            self.forget_done(uid)

    def forget_done(self, uid: str) -> None:
        """Forget a pod if it is counted and deleted: no watch will deliver it again."""
        if self.pods[uid].is_gone and uid not in self.open:
            self.forget(self.pods[uid].pod)

    def forget(self, pod: Pod) -> None:
        """Forget a pod."""
        self.close(pod)
        del self.pods[pod.uid]
        self.by_id.pop(id_of(pod), None)

    def open_pods(self) -> Iterator[Pod]:
        """Yield the pods that are in no account that was seen."""
        return (self.pods[uid].pod for uid in self.open)

    def uncounted(self, account: Account) -> Iterator[Pod]:
        """Yield the open pods that an account does not have."""
        return self.without(account, self.open)

    def uncounted_in(self, scope: str, account: Account) -> Iterator[Pod]:
        """Yield the open pods of a scope that an account does not have."""
        return self.without(account, self.open_in.get(scope, ()))

    def without(self, account: Account, uids: Iterable[str]) -> Iterator[Pod]:
        """Yield those of the pods that an account does not have."""
        recent = {self.by_id[one] for one in account.recent if one in self.by_id}
        return (self.pods[uid].pod for uid in uids if uid not in recent)

    def staying(self, ids: Iterable[str]) -> Iterator[Pod]:
        """Yield the pods that an account has counted, that still exist, and that lack the annotation `counted`."""
        for one in ids:
            found = self.pods.get(self.by_id.get(one, ""))
            if found is not None and not found.is_gone:
                pod = found.pod
                if not pod.counted and not pod.deleting:
                    yield pod

    def staying_ids(self, ids: Iterable[str]) -> set[str]:
        """Return the ids of an account that it must not forget, because their pods would be counted again."""
        known = ((one, self.pods[self.by_id[one]]) for one in ids if one in self.by_id)
        return {one for one, found in known if not found.is_gone and not found.pod.counted}
