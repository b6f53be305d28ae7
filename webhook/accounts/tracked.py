"""The pods that are known, by what became of them: those that run, have failed, or have restarted in place. Pure.

An account has counted as many restarts of a pod as it says itself, or as the pod's mark says, or all of them once it
has counted the pod's end.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from webhook.accounts.account import MOST_RESTARTED, Account, id_of
from webhook.accounts.cached import CachedJob
from webhook.accounts.limits import scope_of
from webhook.kube import terminal
from webhook.objects.problem import Json
from webhook.pods.pods import Pod, pack, unpack
from webhook.policy.attempt_costs import AttemptCost
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
        if pod.kind_name:
            self.scopes.setdefault(workload_of(pod), {})[pod.uid] = pod.scope
            self.newest[_slot_of(pod.job_uid, pod.scope)] = pod.uid
            return
        for place in _places_of(pod):
            _add(self.numbers, place, 1)
            if pod.deleting:
                _add(self.deleting, place, 1)

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
        if not pod.kind_name:
            for place in _places_of(pod):
                _add(self.numbers, place, -1)
                if pod.deleting:
                    _add(self.deleting, place, -1)
            return
        workload, slot = workload_of(pod), _slot_of(pod.job_uid, pod.scope)
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

    def of_job(self, job_uid: str) -> Iterator[Pod]:
        """Yield the pods of a Job: as many steps as there are pods, of all Jobs, for what is rarely asked."""
        if job_uid not in self.numbers:
            return
        for packed in [*self.packed.values()]:
            if job_uid.encode() in packed and (pod := unpack(packed)).job_uid == job_uid:
                yield pod

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
        return self.get(self.newest.get(_slot_of(job_uid, scope), ""))

    def is_behind(self, job: Json, index: str) -> bool:
        """Return True if the creation of a pod shows that another pod of its Job has ended, but the watch lags behind.

        `index`: the completion index of the new pod; empty if the Job is not Indexed.
        """
        uid = job["metadata"]["uid"]
        if uid not in self.numbers or terminal.is_decided(job.get("status") or {}):
            return False
        spec = job["spec"]
        place = _slot_of(uid, index) if batch.is_indexed(spec) else uid
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
    return workload_named(pod.namespace, pod.group, pod.kind_name, pod.job)


def workload_named(namespace: str, group: str, kind: str, name: str) -> str:
    """Return the text that stands for a workload of another kind."""
    return f"{namespace}/{group}/{kind}/{name}"


def _slot_of(job_uid: str, index: str) -> str:
    return f"{job_uid}/{index}"


def _places_of(pod: Pod) -> tuple[str, ...]:
    """Return what a pod of a Job is counted in: the Job, and its index if it has one."""
    return (pod.job_uid, _slot_of(pod.job_uid, pod.index)) if pod.index else (pod.job_uid,)


def _add(numbers: dict[str, int], key: str, number: int) -> None:
    now = numbers.get(key, 0) + number
    if now:
        numbers[key] = now
    else:
        numbers.pop(key, None)


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
    costs: dict[str, AttemptCost] = field(default_factory=dict)

    def get(self, uid: str) -> Pod | None:
        """Return a pod; None if there is none with that uid."""
        found = self.pods.get(uid)
        return None if found is None else found.pod

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
            _add(self.numbers, pod.job_uid, 1)
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
        _add(self.numbers, pod.job_uid, -1)
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
        self._forget_done(uid)

    def see_counted(self, ids: Iterable[str]) -> None:
        """Record which pods an account has counted, by their ids."""
        for uid in [self.by_id[one] for one in ids if one in self.by_id]:
            if uid in self.open:
                self.close(self.pods[uid].pod)
            self._forget_done(uid)

    def _forget_done(self, uid: str) -> None:
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


SOON: Final = 10  # restarts in place that are counted as soon as they are seen
LONGEST_DELAY: Final = 60.0  # seconds until the next ones are counted: a pod may restart for weeks


@dataclass(slots=True)
class RestartedPods:
    """The pods that have restarted in place, by uid, until they have failed, or are deleted and counted.

    - `gone`: those that were deleted. `open`: those with restarts that the last account lacks; in that order.
    - `by_id`: the uid of each by its id in an account. `counted`: what the last account says, by id.
    - `sums`: the restarts of those that exist and have not ended, added up as the Job controller does, by Job's uid.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    open: dict[str, None] = field(default_factory=dict)
    by_id: dict[str, str] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    sums: Counter[str] = field(default_factory=Counter)

    def see(self, pod: Pod) -> None:
        """Record the current state of a pod; one that enters the account is counted with its end."""
        if pod.enters_account or pod.counted or pod.restarts is None:
            self.forget(pod.uid)
            return
        self._add_up(pod.uid, -1)
        self.pods[pod.uid] = pod
        self._add_up(pod.uid, 1)
        self.by_id[id_of(pod)] = pod.uid
        self.look(pod)

    def see_gone(self, uid: str) -> None:
        """Record that a pod was deleted that had not failed."""
        if uid in self.pods:
            self._add_up(uid, -1)
            self.gone.add(uid)
            self.look(self.pods[uid])

    def see_account(self, account: Account) -> None:
        """Record what an account has counted."""
        before, self.counted = self.counted, dict(account.restarted)
        for one in before.keys() | self.counted.keys():
            if before.get(one) != self.counted.get(one) and one in self.by_id:
                self.look(self.pods[self.by_id[one]])

    def look(self, pod: Pod) -> None:
        """Decide whether restarts of a pod are uncounted; forget a deleted pod if none are."""
        if uncounted(pod, self.counted) > 0:
            self.open.setdefault(pod.uid)
        else:
            self.open.pop(pod.uid, None)
            if pod.uid in self.gone:
                self.forget(pod.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self._add_up(uid, -1)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.gone.discard(uid)
            self.open.pop(uid, None)
            del self.by_id[id_of(pod)]

    def forget_others(self, job_uid: str) -> None:
        """Forget the pods of other Jobs."""
        for uid in [uid for uid, pod in self.pods.items() if pod.job_uid != job_uid]:
            self.forget(uid)

    def forget_gone(self, job_uid: str) -> None:
        """Forget the deleted pods of a Job that was deleted too: there is nothing to count them for."""
        for uid in [uid for uid in self.gone if self.pods[uid].job_uid == job_uid]:
            self.forget(uid)

    def jobs_of_gone(self) -> dict[str, str]:
        """Return by uid the names of the Jobs whose pods were deleted."""
        return {self.pods[uid].job_uid: self.pods[uid].job for uid in self.gone}

    def uncounted(self, account: Account) -> Iterator[Pod]:
        """Yield pods with restarts that an account lacks: as many as it has room for."""
        found = (self.pods[uid] for uid in self.open)
        return islice((pod for pod in found if uncounted(pod, account.restarted) > 0), MOST_RESTARTED)

    def unmarked(self, counted: Iterable[tuple[str, int]]) -> Iterator[tuple[Pod, int]]:
        """Yield the pods that exist and whose mark says less than an account; `counted`: what that says, by id."""
        for one, number in counted:
            pod = self.pods.get(self.by_id.get(one, ""))
            is_there = pod is not None and pod.uid not in self.gone
            if pod is not None and is_there and pod.restarts is not None and pod.restarts.counted < number:
                yield pod, number

    def by_api(self, pod: Pod) -> int:
        """Return the restarts that the Job controller counts for a pod's Job: of it and of those that run beside it."""
        own = 0 if pod.restarts is None else pod.restarts.by_api
        return own + self.sums.get(pod.job_uid, 0) - self.share_of(pod.uid)

    def _add_up(self, uid: str, sign: int) -> None:
        share = sign * self.share_of(uid)
        if share:
            job_uid = self.pods[uid].job_uid
            self.sums[job_uid] += share
            if not self.sums[job_uid]:
                del self.sums[job_uid]

    def share_of(self, uid: str) -> int:
        """Return what a pod adds to `sums`."""
        pod = self.pods.get(uid)
        if pod is None or uid in self.gone or pod.has_ended or pod.restarts is None:
            return 0
        return pod.restarts.by_api


def uncounted(pod: Pod, counted: dict[str, int]) -> int:
    """Return how many restarts of a pod are not counted; `counted`: what an account says, by id."""
    if pod.restarts is None or pod.counted:
        return 0
    return pod.restarts.number - max(pod.restarts.counted, counted.get(id_of(pod), 0))


def delay(account: Account) -> float:
    """Return the seconds until the next restarts are counted: the more there were, the longer."""
    number = sum(account.in_place.values())
    return 0.0 if number <= SOON else min(LONGEST_DELAY, float(number))
