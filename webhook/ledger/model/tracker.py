"""Tracks the pods of one workload: those that run, and those that have failed and are not in the account yet."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from webhook.kinds import KindSpec, batch
from webhook.kinds.job_set import JOB_SET
from webhook.kube import terminal
from webhook.ledger.model.account import Account, id_of
from webhook.ledger.model.cached import CachedJob
from webhook.ledger.model.in_place.reading import following
from webhook.ledger.model.in_place.tracking import RestartedPods
from webhook.ledger.model.limits import scope_of
from webhook.ledger.model.outcomes import SPOT_UNAVAILABLE, UNSEEN, is_in_doubt
from webhook.ledger.model.pods import DISRUPTED, Condition, Pod
from webhook.ledger.model.systems import System, system_of
from webhook.objects.problem import Json

LONG_AGO: Final = float("-inf")
UNKNOWN_TIME: Final = "0001-01-01T00:00:00Z"
# Seconds that the Job controller may take to write that a Job has failed, after it deleted the last of the Job's pods:
# if the Job has changed meanwhile, it tries again, after one second and after two.
DOUBT: Final = 5.0
LONGEST_DOUBT: Final = 60.0  # seconds for the deletions too: at its default rate it deletes 20 pods a second
TOGETHER: Final = 1000  # the most failed pods that are processed at once
LAST_ENDS: Final = 5  # failed pods of one scope that are remembered
MOST_ENDS: Final = 10_000  # scopes of a workload with remembered failed pods

Counted = TypeVar("Counted")


class Key(NamedTuple):
    """A workload that has an account: a JobSet, a Job that none owns, or one of another kind."""

    namespace: str
    row: KindSpec
    name: str

    @property
    def kind(self) -> str:
        """Its kind; with the group if it is called Job, and is another system's."""
        kind, is_job = self.row.kind, self.row is batch.JOB
        return f"{kind}.{self.row.group}" if kind == batch.JOB.kind and not is_job else kind

    @property
    def job_set(self) -> str:
        """Its name if it is a JobSet, else empty."""
        return self.name if self.row is JOB_SET else ""

    @property
    def system(self) -> System | None:
        """Its System; None if it is a Job or a JobSet."""
        return system_of(self.row)

    @property
    def path(self) -> str:
        """The API path of the object that has the account."""
        return self.row.path(self.namespace, self.name)


def key_of(pod: Pod) -> Key:
    """Return the workload that a pod is counted for."""
    return Key(pod.namespace, JOB_SET, pod.job_set) if pod.job_set else Key(pod.namespace, pod.row, pod.job)


def is_older(pod: Pod, root: Json) -> bool:
    """Return True if a pod was there before an object: it is of a former one with that name."""
    return bool(pod.created) and pod.created < (root["metadata"].get("creationTimestamp") or "")


@dataclass(slots=True)
class Tracker:
    """The pods of a workload by uid, and its Jobs by uid. Each event costs the same time however many pods there are.

    A workload of another kind stands here for its Job (`CachedRoot`).

    - `jobs`: those that exist, and those that were deleted but have uncounted pods (`jobs_gone`).
    - `live`: pods that have not ended. `failed`: pods that have failed, until they are counted and deleted. `vanished`:
      pods that were live before a gap in the watch and did not exist after it.
    - `open`: those in `failed` that are in no account that was seen. `gone`: those in `failed` that were deleted.
    - `by_index`: the uid of the live pod of a Job's uid and index, or scope.
    - `running`: how many pods are live, by their Job's uid and by whether they are being deleted. `failures`: how many
      pods are in `failed`, by their Job's uid.
    - `by_id`: the uid of a pod in `failed` by its id in an account. `recent`: the ids in the last account.
    - `disturbed`: when something last happened that makes other pods crash. `gap`: when pods were found to have
      vanished. `failed_at`: when each pod in `failed` was seen to fail. All three in seconds of a monotonic clock.
    - `ends`: the last pods that have failed, by their scope, the newest last, also when they are counted and deleted.
    - `spot_unavailable`: whether the leader has ended any pod because no spot node took it.
    - `restarted`: the pods that have restarted in place.
    - `succeeded`: `status.succeeded` of a Job without a JobSet before the gap.
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
    ends: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    spot_unavailable: bool = False
    restarted: RestartedPods = field(default_factory=RestartedPods)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a Job nor a pod."""
        return not (self.jobs or self.live or self.failed)

    def see_job(self, job: CachedJob, *, steady: bool, alone: bool) -> None:
        """Record the current state of a Job.

        `steady`: whether the watch of pods has no gap. `alone`: whether the Job has no JobSet, and so is the workload.
        """
        uid = job["metadata"]["uid"]
        if alone and uid not in self.jobs:  # a new Job with the name of an old one
            self.jobs.clear()
            self.vanished.clear()
            self.ends = {scope: pods for scope, pods in self.ends.items() if pods[-1].job_uid == uid}
            for other in [key for key, pod in self.live.items() if pod.job_uid != uid]:
                self.forget_live(other)
            for other in [key for key, pod in self.failed.items() if pod.job_uid != uid]:
                self.forget_failed(other)
            self.restarted.forget_others(uid)
        self.jobs[uid] = job
        if steady and alone and not self.vanished:
            self.succeeded = job["status"].get("succeeded") or 0

    def adopt(self, root: Json, now: float) -> None:
        """Record the uid of a workload of another kind in those of its pods that do not say it."""
        uid, known = root["metadata"]["uid"], chain(self.live.values(), self.failed.values())
        for pod in [one for one in known if not one.job_uid and not is_older(one, root)]:
            self.forget_live(pod.uid)
            if pod.uid in self.failed:
                self.forget_failed(pod.uid)
            self.see(replace(pod, job_uid=uid), now, news=False)

    def see_job_gone(self, uid: str) -> None:
        """Record that a Job was deleted; it is remembered as long as it has uncounted pods."""
        if uid in self.jobs:
            self.jobs[uid]["metadata"].setdefault("deletionTimestamp", UNKNOWN_TIME)
            self.jobs_gone.add(uid)
            self.forget_job(uid)
            self.restarted.forget_gone(uid)

    def see_only(self, there: Container[str], now: float) -> bool:
        """Record which pods exist after a gap in the watch; return True if live ones have vanished."""
        for uid in [uid for uid in self.live if uid not in there]:
            pod = self.forget_live(uid)
            if pod is not None and pod.row is batch.JOB and not pod.job_set:
                self.vanished[uid] = pod
                self.gap = now
        for uid in [uid for uid in self.failed if uid not in there]:
            self.see_failed_gone(uid)
        for uid in [uid for uid in self.restarted.pods if uid not in there]:
            self.restarted.see_gone(uid)
        return bool(self.vanished)

    def forget_live(self, uid: str) -> Pod | None:
        """Remove a pod from those that run; return it, or None if it was not among them."""
        pod = self.live.pop(uid, None)
        if pod is None:
            return None
        index = pod.scope or pod.index
        if self.by_index.get((pod.job_uid, index)) == uid:
            del self.by_index[pod.job_uid, index]
        take_one(self.running, (pod.job_uid, pod.deleting))
        return pod

    def disrupted_unseen(self, job: Json, failures: int, account: Account) -> list[Pod]:
        """Return as many vanished pods, as disrupted ones, as neither succeeded nor failed by the Job's status."""
        succeeded = max(0, (job["status"].get("succeeded") or 0) - self.succeeded)
        vanished = [pod for pod in self.vanished.values() if not account.has(pod)][failures + succeeded :]
        conditions = (Condition(DISRUPTED, "True", UNSEEN, ""),)
        return [replace(pod, phase="Failed", tracked=True, conditions=conditions) for pod in vanished]

    def see(self, pod: Pod, now: float, *, news: bool = True) -> bool:
        """Record the current state of a pod; return True if its failure is new.

        `news`: whether it has just changed; False for a pod of a list after a gap in the watch.
        """
        before = self.live.get(pod.uid)
        known = self.restarted.pods.get(pod.uid)
        if known is not None:
            pod = replace(pod, restarts=following(known.restarts, pod.restarts))
        if not pod.has_ended and self.fails_by_deletion(pod):
            pod = as_failed(pod)
        self.restarted.see(pod)
        if news and is_going(pod) and self.is_disturbing(pod, before):
            self.disturbed = now
        self.forget_live(pod.uid)
        if not pod.has_ended:
            self.live[pod.uid] = pod
            self.by_index[pod.job_uid, pod.scope or pod.index] = pod.uid
            self.running[pod.job_uid, pod.deleting] += 1
            return False
        if not pod.has_failed:
            return False
        is_new = pod.uid not in self.failed
        if is_new and not news and pod.disruption is not None:
            pod = replace(pod, tracked=True)  # the Job controller has counted it and removed its finalizer since
        self.see_failed(pod if is_new else merged(self.failed[pod.uid], pod), now)
        return is_new

    def is_disturbing(self, pod: Pod, before: Pod | None) -> bool:
        """Return True if a pod that is going has just begun to, or has failed just now; `before`: as it last ran."""
        return pod.uid not in self.failed and (pod.has_failed or before is None or not is_going(before))

    def see_failed(self, pod: Pod, now: float) -> None:
        """Record the current state of a failed pod."""
        uid, is_open = pod.uid, pod.uid in self.open
        if uid not in self.failed:
            self.failed_at[uid] = now
            self.failures[pod.job_uid] += 1
            self.by_id[id_of(pod)] = uid
            is_open = id_of(pod) not in self.recent
        self.failed[uid] = pod
        self.remember_end(pod)
        if is_open and not pod.counted:
            self.open[uid] = pod
        else:
            self.open.pop(uid, None)

    def remember_end(self, pod: Pod) -> None:
        """Record how a pod of a scope has ended, for the next pod of the scope; forget the oldest beyond the bounds."""
        self.spot_unavailable = self.spot_unavailable or lacked_spot(pod)
        scope = scope_of(pod)
        known = [one for one in self.ends.pop(scope, ()) if one.uid != pod.uid]
        self.ends[scope] = tuple(sorted((*known, pod), key=lambda one: one.ended)[-LAST_ENDS:])
        if len(self.ends) > MOST_ENDS:
            del self.ends[next(iter(self.ends))]

    def failed_named(self, name: str) -> Pod | None:
        """Return the last failed pod of a name, which other kinds than Job give again; None if it is forgotten."""
        of_scopes = (pod for ends in self.ends.values() for pod in ends)
        found = (pod for pod in chain(self.failed.values(), of_scopes) if pod.name == name)
        return max(found, key=lambda pod: pod.ended, default=None)

    def fails_by_deletion(self, pod: Pod) -> bool:
        """Return True if the Job controller counts a pod as failed as soon as it has a deletionTimestamp."""
        job = self.jobs.get(pod.job_uid)
        return pod.deleting and pod.tracked and job is not None and job["spec"].get("podReplacementPolicy") != "Failed"

    def disturb(self, now: float) -> None:
        """Record that something has happened that may make other pods crash."""
        self.disturbed = now

    def forget_vanished(self, uids: Iterable[str]) -> None:
        """Forget vanished pods: they are counted, or another replica counts them."""
        for uid in uids:
            self.vanished.pop(uid, None)

    def see_gone(self, pod: Pod, now: float) -> bool:
        """Record that a pod was deleted; `pod` is its last state. Return True if its failure is new."""
        known = pod.job_uid in self.jobs
        failed = known and self.see(pod if pod.has_ended else as_failed(pod), now)
        self.forget_live(pod.uid)
        self.restarted.see_gone(pod.uid)
        self.see_failed_gone(pod.uid)
        return failed

    def see_failed_gone(self, uid: str) -> None:
        """Record that a pod was deleted, if it is one that had failed."""
        if uid not in self.failed:
            return
        self.gone.add(uid)
        if self.failed[uid].job_uid not in self.jobs:
            self.open.pop(uid, None)  # without its Job it cannot be counted
        self.forget_done(uid)

    def see_account(self, account: Account) -> None:
        """Record which pods an account has counted; the next account may lack the oldest of them."""
        self.recent = frozenset(account.recent)
        self.restarted.see_account(account)
        for uid in [self.by_id[one] for one in self.recent if one in self.by_id]:
            self.open.pop(uid, None)
            self.forget_done(uid)

    def forget_done(self, uid: str) -> None:
        """Forget a failed pod if it is counted and deleted: no watch will deliver it again."""
        if uid in self.gone and uid not in self.open:
            self.forget_failed(uid)

    def forget_failed(self, uid: str) -> None:
        """Forget a failed pod, and its Job if that was deleted and has no other failed pod."""
        pod = self.failed.pop(uid)
        del self.failed_at[uid]
        self.open.pop(uid, None)
        self.gone.discard(uid)
        self.by_id.pop(id_of(pod), None)
        take_one(self.failures, pod.job_uid)
        self.forget_job(pod.job_uid)

    def forget_job(self, uid: str) -> None:
        """Forget a deleted Job if it has no failed pod left."""
        if uid in self.jobs_gone and uid not in self.failures:
            self.jobs.pop(uid, None)
            self.jobs_gone.discard(uid)

    def uncounted(self, account: Account) -> list[Pod]:
        """Return failed pods of known Jobs that the account does not have, in the order in which they ended.

        At most TOGETHER; the others follow once these are counted.
        """
        found = (pod for pod in self.open_of_jobs() if not account.has(pod))
        return sorted(islice(found, TOGETHER), key=lambda pod: pod.ended)

    def open_of_jobs(self) -> Iterator[Pod]:
        """Yield the failed pods of known Jobs that are in no account that was seen."""
        return (pod for pod in self.open.values() if pod.job_uid in self.jobs)

    def doubtful(self, now: float, *, current: bool) -> set[str]:
        """Return the uids of the failed pods whose Job may still write into its status why they were deleted.

        Not of those that a workload of another kind has replaced: it goes on. `current`: whether the watch of Jobs has
        no gap.
        """
        doubt = LONGEST_DOUBT if not current or now - self.disturbed < DOUBT else DOUBT
        return {
            pod.uid
            for pod in islice(self.open_of_jobs(), TOGETHER)
            if now - self.failed_at[pod.uid] < doubt
            and is_in_doubt(pod, self.jobs[pod.job_uid])
            and not self.is_replaced(pod)
        }

    def is_replaced(self, pod: Pod) -> bool:
        """Return True if a pod of another kind was deleted, and another one of its scope was created later."""
        if pod.row is batch.JOB or not pod.deleted:
            return False
        runs = self.live.get(self.by_index.get((pod.job_uid, pod.scope or pod.index), ""), pod)
        of_scope = (runs, *self.ends.get(scope_of(pod), ()))
        return any(one.job_uid == pod.job_uid and one.created > pod.deleted for one in of_scope)

    def staying(self) -> Iterator[Pod]:
        """Yield the failed pods that are counted, still exist, and lack the annotation `counted`."""
        for one in self.recent & self.by_id.keys():
            pod = self.failed[self.by_id[one]]
            if pod.uid not in self.gone and not pod.counted and not pod.deleting:
                yield pod

    def staying_ids(self, ids: Iterable[str]) -> set[str]:
        """Return the ids of an account that it must not forget, because their pods would be counted again."""
        known = ((one, self.by_id[one]) for one in ids if one in self.by_id)
        return {one for one, uid in known if uid not in self.gone and not self.failed[uid].counted}

    def staying_restarted(self, counted: Iterable[tuple[str, int]]) -> set[str]:
        """Return the ids of pods whose restarts in place an account must remember: it would count them again.

        `counted`: how many it has counted, by id. They are those of pods that exist without a mark, and of pods that
        have failed and are not counted yet.
        """
        found = list(counted)
        unmarked = {id_of(pod) for pod, _ in self.restarted.unmarked(found)}
        return unmarked | {one for one, _ in found if self.by_id.get(one, "") in self.open}

    def has_counted(self, uid: str) -> bool:
        """Return True if a failed pod is known to be counted."""
        return uid in self.failed and uid not in self.open

    def has_others(self, scope: str) -> bool:
        """Return True if a workload of another kind has pods of another scope."""
        return any(pod.scope != scope for pod in chain(self.live.values(), self.failed.values()))

    def is_behind_scope(self, uid: str, scope: str) -> bool:
        """As `is_behind`, for a new pod of a workload of another kind whose scope has one pod at a time."""
        pod = self.live.get(self.by_index.get((uid, scope), ""))
        return pod is not None and not pod.deleting

    def is_behind(self, job_uid: str, index: str) -> bool:
        """Return True if the creation of a pod shows that another pod of its Job has ended, but the watch lags behind.

        `index`: the completion index of the new pod; empty if the Job is not Indexed.
        """
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
    """Subtract one from a count; remove the key at 0."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def lacked_spot(pod: Pod) -> bool:
    """Return True if the leader has ended a pod because no spot node took it."""
    return pod.disruption is not None and pod.disruption.reason == SPOT_UNAVAILABLE


def is_going(pod: Pod) -> bool:
    """Return True if a pod is being deleted or disrupted."""
    return pod.deleting or pod.disruption is not None


def as_failed(pod: Pod) -> Pod:
    """Return a pod that was deleted before it ended, with the phase Failed, as the Job controller counts it."""
    return replace(pod, phase="Failed")


def merged(before: Pod, now: Pod) -> Pod:
    """Return the current state of a failed pod, but with the fields by which the Job controller judged its failure."""
    return replace(
        now,
        tracked=before.tracked or now.tracked,
        deleted=before.deleted,
        conditions=before.conditions or now.conditions,
        exits=before.exits or now.exits,
        started=before.started or now.started,
        ended=before.ended or now.ended,
        last_end=before.last_end or now.last_end,
        restarts=before.restarts or now.restarts,
    )
