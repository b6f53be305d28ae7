"""What one replica knows of a workload's pods, between what it sees and what is written in the account."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from webhook.kinds import batch
from webhook.kube import terminal
from webhook.ledger.model.account import Account, id_of
from webhook.ledger.model.cached import CachedJob
from webhook.ledger.model.outcomes import UNSEEN, is_in_doubt
from webhook.ledger.model.pods import DISRUPTED, Condition, Pod
from webhook.objects.problem import Json

LONG_AGO: Final = float("-inf")
UNKNOWN_TIME: Final = "0001-01-01T00:00:00Z"
# Seconds for the Job controller to say that a Job has failed, after it deleted the last of its pods: where the Job has
# changed meanwhile it tries again, after one second and after two. And how long that may take in all: at its default
# rate it deletes 20 pods a second.
DOUBT: Final = 5.0
LONGEST_DOUBT: Final = 60.0
TOGETHER: Final = 1000  # pods that are looked at together, of as many as have failed

Counted = TypeVar("Counted")


class Key(NamedTuple):
    """A workload that has an account: a JobSet, or a Job that none owns."""

    namespace: str
    job_set: str
    job: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.job_set or self.job

    @property
    def kind(self) -> str:
        """Its kind."""
        return "JobSet" if self.job_set else "Job"


def key_of(pod: Pod) -> Key:
    """Return the workload that a pod is counted for."""
    return Key(pod.namespace, pod.job_set, "" if pod.job_set else pod.job)


@dataclass(slots=True)
class Tracker:
    """The pods of a workload by uid, and its Jobs; what is seen of one pod costs the same however many there are.

    `jobs`: those that there are, and those that are gone while pods of theirs are to be counted (`jobs_gone`). `live`:
    pods that have not ended; `failed`: those that have, until they are counted and gone; `vanished`: those that were
    live before a gap in the watch, and gone after it. `open`: those in `failed` that no account was seen to have;
    `gone`: those that the API no longer has. `by_index`: the live pod of a Job's uid and index; `running`: the live
    pods of a Job's uid, by whether they are being deleted; `failures`: the pods in `failed` of a Job's uid. `by_id`:
    the uid of a pod in `failed` by its id in an account, `recent`: the ids in the account that was seen last.
    `disturbed`: when something was last seen that makes other pods crash; `gap`: when pods had vanished; by a monotonic
    clock. `succeeded`: what the status of a Job that stands alone said before the gap; `failed_at`: when the pods in
    `failed` were seen to fail.
    """

    jobs: dict[str, CachedJob] = field(default_factory=dict)
    jobs_gone: set[str] = field(default_factory=set)
    live: dict[str, Pod] = field(default_factory=dict)
    failed: dict[str, Pod] = field(default_factory=dict)
    vanished: dict[str, Pod] = field(default_factory=dict)
    open: dict[str, Pod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    by_index: dict[tuple[str, str], str] = field(default_factory=dict)
    running: Counter[tuple[str, bool]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    by_id: dict[str, str] = field(default_factory=dict)
    recent: frozenset[str] = frozenset()
    disturbed: float = LONG_AGO
    gap: float = LONG_AGO
    succeeded: int = 0
    failed_at: dict[str, float] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it knows nothing."""
        return not (self.jobs or self.live or self.failed)

    def see_job(self, job: CachedJob, *, steady: bool, alone: bool) -> None:
        """Take in a Job as it is now.

        `steady`: whether no pod can have gone unseen; `alone`: whether it has the account, and no other Job is in it.
        """
        uid = job["metadata"]["uid"]
        if alone and uid not in self.jobs:  # made anew under its name
            self.jobs.clear()
            self.vanished.clear()
            for other in [key for key, pod in self.live.items() if pod.job_uid != uid]:
                self.forget_live(other)
            for other in [key for key, pod in self.failed.items() if pod.job_uid != uid]:
                self.forget_failed(other)
        self.jobs[uid] = job
        if steady and alone and not self.vanished:
            self.succeeded = job["status"].get("succeeded") or 0

    def see_job_gone(self, uid: str) -> None:
        """Take in that a Job is gone; what it said is remembered for as long as pods of it are to be counted."""
        if uid in self.jobs:
            self.jobs[uid]["metadata"].setdefault("deletionTimestamp", UNKNOWN_TIME)
            self.jobs_gone.add(uid)
            self.forget_job(uid)

    def see_only(self, there: Container[str], now: float) -> bool:
        """Take in, after a gap in the watch, which pods there are; return True if live ones have vanished."""
        for uid in [uid for uid in self.live if uid not in there]:
            pod = self.forget_live(uid)
            if pod is not None and not pod.job_set:
                self.vanished[uid] = pod
                self.gap = now
        for uid in [uid for uid in self.failed if uid not in there]:
            self.see_failed_gone(uid)
        return bool(self.vanished)

    def forget_live(self, uid: str) -> Pod | None:
        """Forget that a pod runs; return it as it was."""
        pod = self.live.pop(uid, None)
        if pod is None:
            return None
        if self.by_index.get((pod.job_uid, pod.index)) == uid:
            del self.by_index[pod.job_uid, pod.index]
        take_one(self.running, (pod.job_uid, pod.deleting))
        return pod

    def disrupted_unseen(self, job: Json, failures: int, account: Account) -> list[Pod]:
        """Return the vanished pods that must have been disrupted: as many as neither succeeded nor failed meanwhile."""
        succeeded = max(0, (job["status"].get("succeeded") or 0) - self.succeeded)
        vanished = [pod for pod in self.vanished.values() if not account.has(pod)][failures + succeeded :]
        conditions = (Condition(DISRUPTED, "True", UNSEEN, ""),)
        return [replace(pod, phase="Failed", tracked=True, conditions=conditions) for pod in vanished]

    def see(self, pod: Pod, now: float, *, news: bool = True) -> bool:
        """Take in a pod as it is now; return True if it has failed just now. `news`: it has just become so."""
        before = self.live.get(pod.uid)
        if not pod.has_ended and self.fails_by_deletion(pod):
            pod = as_failed(pod)
        if news and is_going(pod) and not (before is not None and is_going(before)):
            self.disturbed = now
        self.forget_live(pod.uid)
        if not pod.has_ended:
            self.live[pod.uid] = pod
            self.by_index[pod.job_uid, pod.index] = pod.uid
            self.running[pod.job_uid, pod.deleting] += 1
            return False
        if not pod.has_failed:
            return False
        is_new = pod.uid not in self.failed
        if is_new and not news and pod.disruption is not None:
            pod = replace(pod, tracked=True)  # the Job controller has let go of it since, and had counted it before
        self.see_failed(pod if is_new else merged(self.failed[pod.uid], pod), now)
        return is_new

    def see_failed(self, pod: Pod, now: float) -> None:
        """Take in a pod that has failed, as it is now."""
        uid, is_open = pod.uid, pod.uid in self.open
        if uid not in self.failed:
            self.failed_at[uid] = now
            self.failures[pod.job_uid] += 1
            self.by_id[id_of(pod)] = uid
            is_open = id_of(pod) not in self.recent
        self.failed[uid] = pod
        if is_open and not pod.counted:
            self.open[uid] = pod
        else:
            self.open.pop(uid, None)

    def fails_by_deletion(self, pod: Pod) -> bool:
        """Return True if the Job controller counts a pod as failed as soon as it is to be deleted."""
        job = self.jobs.get(pod.job_uid)
        return pod.deleting and pod.tracked and job is not None and job["spec"].get("podReplacementPolicy") != "Failed"

    def disturb(self, now: float) -> None:
        """Take in that something has happened by which other pods may crash."""
        self.disturbed = now

    def forget_vanished(self, uids: Iterable[str]) -> None:
        """Forget pods that vanished: they are counted, or another replica's to count."""
        for uid in uids:
            self.vanished.pop(uid, None)

    def see_gone(self, pod: Pod, now: float) -> bool:
        """Take in that a pod is gone, as it was last; return True if it has failed just now."""
        known = pod.job_uid in self.jobs
        failed = known and self.see(pod if pod.has_ended else as_failed(pod), now)
        self.forget_live(pod.uid)
        self.see_failed_gone(pod.uid)
        return failed

    def see_failed_gone(self, uid: str) -> None:
        """Take in that a pod is gone, which may have failed."""
        if uid not in self.failed:
            return
        self.gone.add(uid)
        if self.failed[uid].job_uid not in self.jobs:
            self.open.pop(uid, None)  # it cannot be counted any more
        self.forget_done(uid)

    def see_account(self, account: Account) -> None:
        """Remember which pods are counted: the account forgets the oldest."""
        self.recent = frozenset(account.recent)
        for uid in [self.by_id[one] for one in self.recent if one in self.by_id]:
            self.open.pop(uid, None)
            self.forget_done(uid)

    def forget_done(self, uid: str) -> None:
        """Forget a failed pod if it is counted and gone: it cannot come again."""
        if uid in self.gone and uid not in self.open:
            self.forget_failed(uid)

    def forget_failed(self, uid: str) -> None:
        """Forget a pod that has failed, and its Job if that is gone and had no other."""
        pod = self.failed.pop(uid)
        del self.failed_at[uid]
        self.open.pop(uid, None)
        self.gone.discard(uid)
        self.by_id.pop(id_of(pod), None)
        take_one(self.failures, pod.job_uid)
        self.forget_job(pod.job_uid)

    def forget_job(self, uid: str) -> None:
        """Forget a Job that is gone, if no pod of it is to be counted."""
        if uid in self.jobs_gone and uid not in self.failures:
            self.jobs.pop(uid, None)
            self.jobs_gone.discard(uid)

    def uncounted(self, account: Account) -> list[Pod]:
        """Return failed pods of known Jobs that the account does not have, in the order in which they ended.

        As many as are looked at together: the others' turn comes once these are counted.
        """
        found = (pod for pod in self.open_of_jobs() if not account.has(pod))
        return sorted(islice(found, TOGETHER), key=lambda pod: pod.ended)

    def open_of_jobs(self) -> Iterator[Pod]:
        """Yield the failed pods of known Jobs that no account was seen to have."""
        return (pod for pod in self.open.values() if pod.job_uid in self.jobs)

    def doubtful(self, now: float, *, current: bool) -> set[str]:
        """Return the uids of the failed pods of which their Job's status may yet tell why they were deleted.

        `current`: whether the Jobs are as the API has them.
        """
        doubt = LONGEST_DOUBT if not current or now - self.disturbed < DOUBT else DOUBT
        return {
            pod.uid
            for pod in islice(self.open_of_jobs(), TOGETHER)
            if now - self.failed_at[pod.uid] < doubt and is_in_doubt(pod, self.jobs[pod.job_uid])
        }

    def staying(self) -> Iterator[Pod]:
        """Yield the failed pods that are counted, stay in the API, and bear no mark."""
        for one in self.recent & self.by_id.keys():
            pod = self.failed[self.by_id[one]]
            if pod.uid not in self.gone and not pod.counted and not pod.deleting:
                yield pod

    def staying_ids(self, ids: Iterable[str]) -> set[str]:
        """Return those of an account's ids that it must not forget: the pods would be counted again."""
        known = ((one, self.by_id[one]) for one in ids if one in self.by_id)
        return {one for one, uid in known if uid not in self.gone and not self.failed[uid].counted}

    def has_counted(self, uid: str) -> bool:
        """Return True if a failed pod is known to be counted."""
        return uid in self.failed and uid not in self.open

    def is_behind(self, job_uid: str, index: str) -> bool:
        """Return True if the creation of a pod shows that another one of its Job has ended whose end was not seen."""
        job = self.jobs.get(job_uid)
        if not self.live or job is None or terminal.is_decided(job.get("status") or {}):
            return False
        spec = job["spec"]
        waits = spec.get("podReplacementPolicy") == "Failed"
        if batch.is_indexed(spec):
            pod = self.live.get(self.by_index.get((job_uid, index), ""))
            return pod is not None and bool(waits or not pod.deleting)
        going = self.running[job_uid, True] if waits else 0
        return self.running[job_uid, False] + going >= batch.running_at_once(spec)


def take_one(counter: Counter[Counted], key: Counted) -> None:
    """Count one less; what is counted no more leaves nothing behind."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def is_going(pod: Pod) -> bool:
    """Return True if a pod is being deleted or disrupted."""
    return pod.deleting or pod.disruption is not None


def as_failed(pod: Pod) -> Pod:
    """Return a pod that went without having ended as the Job controller counts it."""
    return replace(pod, phase="Failed")


def merged(before: Pod, now: Pod) -> Pod:
    """Return a failed pod as it is now, but for what the Job controller judged when it failed."""
    return replace(
        now,
        tracked=before.tracked or now.tracked,
        deleted=before.deleted,
        conditions=before.conditions or now.conditions,
        exits=before.exits or now.exits,
    )
