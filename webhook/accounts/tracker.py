"""Tracks the pods of one workload: those that run, and those that have failed and are not in the account yet."""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from webhook.accounts.account import Account, id_of
from webhook.accounts.cached import CachedJob
from webhook.accounts.limits import scope_of
from webhook.accounts.tracked import FailedPods, RestartedPods, RunningPods, workload_named, workload_of
from webhook.objects.problem import Json
from webhook.objects.times import between
from webhook.pods.outcomes import SPOT_UNAVAILABLE, UNSEEN, is_in_doubt
from webhook.pods.pods import Condition, Pod, unpack
from webhook.pods.restarts import following
from webhook.policy.model import LONGEST_SETTLING
from webhook.systems.accounts import SYSTEMS
from webhook.systems.core import DISRUPTED
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.system import System

LONG_AGO: Final = float("-inf")
# Seconds that the Job controller may take to write that a Job has failed, after it deleted the last of the Job's pods:
# if the Job has changed meanwhile, it tries again, after one second and after two.
DOUBT: Final = 5.0
LONGEST_DOUBT: Final = 60.0  # seconds for the deletions too: at its default rate it deletes 20 pods a second
TOGETHER: Final = 1000  # the most failed pods that are processed at once
LAST_ENDS: Final = 5  # failed pods of one scope that are remembered
MOST_ENDS: Final = 10_000  # scopes of a workload with remembered failed pods

Find = Callable[[KindSpec, str, str], CachedJob | None]


class Key(NamedTuple):
    """A workload that has an account: a JobSet, a Job that none owns, or one of another kind."""

    namespace: str
    kind: KindSpec
    name: str

    @property
    def kind_name(self) -> str:
        """Its kind; with the group if it is called Job, and is another system's."""
        return self.kind.kind_name

    @property
    def job_set(self) -> str:
        """Its name if it is a JobSet, else empty."""
        return self.name if self.kind is JOB_SET else ""

    @property
    def is_cached_whole(self) -> bool:
        """Whether the watch delivers its spec and status, as of a Job and a JobSet, and not its metadata alone."""
        return self.system.has_jobs

    @property
    def system(self) -> System:
        """Its System."""
        return SYSTEMS[self.kind]

    @property
    def workload(self) -> str:
        """The text that stands for it in RunningPods, if it is neither a Job nor a JobSet."""
        return workload_named(self.namespace, self.kind.group, self.kind.kind, self.name)

    @property
    def path(self) -> str:
        """The API path of the workload."""
        return self.kind.path(self.namespace, self.name)


def key_of(pod: Pod) -> Key:
    """Return the workload that a pod is counted for."""
    return Key(pod.namespace, JOB_SET, pod.job_set) if pod.job_set else Key(pod.namespace, pod.kind, pod.job)


def key_of_job(job: CachedJob) -> Key:
    """Return the workload for which a Job's pods are counted: its JobSet, or else the Job."""
    metadata = job["metadata"]
    controller = controller_of(job)
    if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
        return Key(metadata["namespace"], JOB_SET, controller.name)
    return Key(metadata["namespace"], batch.JOB, metadata["name"])


def place_of(key: Key) -> tuple[str, str]:
    """Return namespace and name of a workload, with its kind, as logs say it."""
    return key.namespace, f"{key.kind_name}/{key.name}"


def is_older(pod: Pod, root: Json) -> bool:
    """Return True if a pod was there before an object: it is of a former one with that name."""
    return bool(pod.created) and pod.created < (root["metadata"].get("creationTimestamp") or "")


@dataclass(slots=True)
class Tracker:
    """The pods of one workload, and what is remembered of them. Each event costs the same time however many there are.

    A workload of another kind stands here for its Job (`CachedRoot`).

    - `find`: returns a Job, or a workload of another kind, by kind, namespace and name; None if it does not exist.
    - `running`: the pods of all workloads that have not ended. `failed`: those of this one that have failed, until they
      are counted and deleted; None if there is none. `restarted`: those that have restarted in place, alike.
    - `vanished`: pods that ran before a gap in the watch and did not exist after it. `gap`: when they were found to be
      missing. `succeeded`: `status.succeeded` of their Job before the gap.
    - `root_uid`: the uid of the Job, or of the workload of another kind, that was seen last; empty in a JobSet.
    - `recent`: the ids in the last account. `counted_restarts`: the restarts in place that it says, None without any.
    - `disturbed`: when something last happened that makes other pods crash; as `gap` of a monotonic clock, in seconds.
    - `last_ends`: the last pods that have failed, packed, by their scope, the newest last, also when they are counted
      and deleted; until a pod of that index of a Job succeeds.
    - `spot_unavailable`: whether the leader has ended any pod because no spot node took it.
    - `eldest`: the uid of the pod of a Job that ran longest when that was asked last; empty if it was not.
    """

    find: Find = lambda _kind, _namespace, _name: None
    running: RunningPods = field(default_factory=RunningPods)
    failed: FailedPods | None = None
    restarted: RestartedPods | None = None
    vanished: dict[str, Pod] = field(default_factory=dict)
    gap: float = LONG_AGO
    succeeded: int = 0
    root_uid: str = ""
    recent: tuple[str, ...] = ()
    counted_restarts: dict[str, int] | None = None
    disturbed: float = LONG_AGO
    last_ends: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    spot_unavailable: bool = False
    eldest: str = ""

    def has_outlived(self, job_uid: str, now: str, seconds: float) -> bool:
        """Return True if a pod of a Job runs that began more than so many seconds before a time.

        To find the one that began first takes as many steps as there are pods, of all Jobs: only once it has ended.
        """
        pod = self.running.get(self.eldest)
        if pod is None or pod.job_uid != job_uid:
            started = (one for one in self.running.of_job(job_uid) if one.started)
            pod = min(started, key=lambda one: one.started, default=None)
            self.eldest = "" if pod is None else pod.uid
        return pod is not None and between(pod.started, now) > seconds

    @property
    def is_empty(self) -> bool:
        """Whether there is no pod that was not counted, and none that has failed and still exists."""
        return self.failed is None and self.restarted is None and not self.vanished

    def is_idle(self, now: float) -> bool:
        """Return True if nothing is remembered that a later event needs."""
        return (
            self.is_empty
            and not self.last_ends
            and not self.spot_unavailable
            and now - self.disturbed > LONGEST_SETTLING
        )

    def job_of(self, pod: Pod) -> CachedJob | None:
        """Return the Job of a pod as it was seen last; None if it is not known, or is forgotten."""
        held = None if self.failed is None else self.failed.jobs.get(pod.job_uid)
        if held is not None:
            return held
        found = self.find(pod.kind, pod.namespace, pod.job)
        return found if found is not None and found["metadata"]["uid"] == pod.job_uid else None

    def job_named(self, kind: KindSpec, namespace: str, name: str) -> CachedJob | None:
        """Return a Job by its name, also if it was deleted but has uncounted pods; None if it is not known."""
        held = () if self.failed is None else self.failed.jobs.values()
        return self.find(kind, namespace, name) or next((job for job in held if job["metadata"]["name"] == name), None)

    def see_job(self, job: CachedJob, *, alone: bool) -> None:
        """Record the current state of a Job; `alone`: whether it has no JobSet, and so is the workload."""
        uid = job["metadata"]["uid"]
        if alone and uid != self.root_uid:  # a new Job with the name of an old one
            self.forget_others(uid)
            self.root_uid = uid
        if self.failed is not None:
            self.failed.see_job(job)

    def forget_others(self, uid: str) -> None:
        """Forget the pods of other Jobs, and how they have ended."""
        self.vanished = {one: pod for one, pod in self.vanished.items() if pod.job_uid == uid}
        self.last_ends = {scope: ends for scope, ends in self.last_ends.items() if unpack(ends[-1]).job_uid == uid}
        for pod in [one.pod for one in self.failed.pods.values()] if self.failed is not None else ():
            if pod.job_uid != uid:
                self._forget_failed(pod)
        if self.restarted is not None:
            self.restarted.forget_others(uid)
            self.tidy()

    def adopt(self, root: Json, workload: str, now: float) -> None:
        """Record the uid of a workload of another kind in those of its pods that do not say it.

        `workload`: the text that `workload_of` returns for them.
        """
        uid = root["metadata"]["uid"]
        failed = [] if self.failed is None else [one.pod for one in self.failed.pods.values()]
        for pod in (*self.running.of_workload(workload), *failed):
            if not pod.job_uid and not is_older(pod, root):
                self.running.pop(pod.uid)
                if self.failed is not None and pod.uid in self.failed.pods:
                    self._forget_failed(pod)
                self.see(replace(pod, job_uid=uid), now, news=False)

    def see_job_gone(self, uid: str) -> None:
        """Record that a Job was deleted; it is remembered as long as it has uncounted pods."""
        if self.failed is not None:
            self.failed.see_job_gone(uid)
        if self.restarted is not None:
            self.restarted.forget_gone(uid)
            self.tidy()

    def jobs_in_use(self) -> dict[str, str]:
        """Return by uid the names of the Jobs that `see_job_gone` matters for."""
        held = {} if self.failed is None else {uid: job["metadata"]["name"] for uid, job in self.failed.jobs.items()}
        return held if self.restarted is None else held | self.restarted.jobs_of_gone()

    def see_vanished(self, pod: Pod, now: float, succeeded: int) -> None:
        """Record that a pod ran before a gap in the watch and does not exist after it.

        `succeeded`: `status.succeeded` of its Job before the gap.
        """
        self.vanished[pod.uid] = pod
        self.gap = now
        self.succeeded = succeeded

    def see_which_exist(self, there: Container[str]) -> None:
        """Record which pods exist after a gap in the watch, of those that have failed or restarted in place."""
        for uid in [] if self.failed is None else [uid for uid in self.failed.pods if uid not in there]:
            self.see_failed_gone(uid)
        if self.restarted is not None:
            for uid in [uid for uid in self.restarted.pods if uid not in there]:
                self.restarted.see_gone(uid)
            self.tidy()

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
        before = self.running.get(pod.uid)
        known = None if self.restarted is None else self.restarted.pods.get(pod.uid)
        if known is not None:
            pod = replace(pod, restarts=following(known.restarts, pod.restarts))
        if before is not None:
            pod = _with_first_disruption(pod, before)
        if not pod.has_ended and self._fails_by_deletion(pod):
            pod = as_failed(pod)
        self._see_restarts(pod)
        if news and is_going(pod) and self._is_disturbing(pod, before):
            self.disturbed = now
        if not pod.has_ended:
            self.running.put(pod, before)
            return False
        self.running.pop(pod.uid)
        if not pod.has_failed and pod.index and not pod.job_set:
            self.last_ends.pop(scope_of(pod), None)  # no pod of this index will follow
        if not pod.enters_account:
            return False
        known_as = None if self.failed is None else self.failed.get(pod.uid)
        if known_as is None and not news and pod.disruption is not None:
            pod = replace(pod, tracked=True)  # the Job controller has counted it and removed its finalizer since
        self.see_failed(pod if known_as is None else _merged(known_as, pod), now, is_new=known_as is None)
        return known_as is None

    def _see_restarts(self, pod: Pod) -> None:
        if self.restarted is None:
            if pod.restarts is None or pod.enters_account or pod.counted:
                return
            self.restarted = RestartedPods(counted=dict(self.counted_restarts or {}))
        self.restarted.see(pod)
        self.tidy()

    def has_open_restarts(self, uid: str) -> bool:
        """Return True if a pod has restarted in place, and an account lacks some of these restarts."""
        return self.restarted is not None and uid in self.restarted.open

    def _is_disturbing(self, pod: Pod, before: Pod | None) -> bool:
        """Return True if a pod that is going has just begun to, or has failed just now; `before`: as it last ran."""
        return not self._has_failed(pod) and (pod.enters_account or before is None or not is_going(before))

    def see_failed(self, pod: Pod, now: float, *, is_new: bool) -> None:
        """Record the current state of a failed pod."""
        if self.failed is None:
            self.failed = FailedPods()
        is_open = id_of(pod) not in self.recent if is_new else pod.uid in self.failed.open
        packed = self.failed.put(pod, now, self.job_of(pod), is_open=is_open and not pod.counted)
        if pod.has_failed:
            self._remember_end(pod, packed)

    def _remember_end(self, pod: Pod, packed: bytes) -> None:
        """Record how a pod of a scope has ended, for the next pod of the scope; forget the oldest beyond the bounds."""
        self.spot_unavailable = self.spot_unavailable or lacked_spot(pod)
        scope = scope_of(pod)
        known = [(one, text) for text in self.last_ends.pop(scope, ()) if (one := unpack(text)).uid != pod.uid]
        newest = sorted((*known, (pod, packed)), key=lambda one: one[0].ended)[-LAST_ENDS:]
        self.last_ends[scope] = tuple(text for _, text in newest)
        if len(self.last_ends) > MOST_ENDS:
            del self.last_ends[next(iter(self.last_ends))]

    def ends_of(self, scope: str) -> tuple[Pod, ...]:
        """Return the last pods of a scope that have failed, the newest last."""
        return tuple(map(unpack, self.last_ends.get(scope, ())))

    def failed_named(self, name: str) -> Pod | None:
        """Return the last failed pod of a name, which other kinds than Job give again; None if it is forgotten."""
        of_scopes = (unpack(text) for ends in self.last_ends.values() for text in ends)
        failed = () if self.failed is None else (one.pod for one in self.failed.pods.values())
        found = (pod for pod in chain(failed, of_scopes) if pod.name == name)
        return max(found, key=lambda pod: pod.ended, default=None)

    def _has_failed(self, pod: Pod) -> bool:
        return self.failed is not None and pod.uid in self.failed.pods

    def _fails_by_deletion(self, pod: Pod) -> bool:
        if pod.deleting and self._has_failed(pod):
            return True  # the Job controller has counted it, and removed its finalizer since
        if not pod.deleting or not pod.tracked:
            return False
        job = self.job_of(pod)
        return job is not None and job["spec"].get("podReplacementPolicy") != "Failed"

    def disturb(self, now: float) -> None:
        """Record that something has happened that may make other pods crash."""
        self.disturbed = now

    def forget_vanished(self, uids: Iterable[str]) -> None:
        """Forget vanished pods: they are counted, or another replica counts them."""
        for uid in uids:
            self.vanished.pop(uid, None)

    def see_gone(self, pod: Pod, now: float) -> bool:
        """Record that a pod was deleted; `pod` is its last state. Return True if its failure is new."""
        known = self.job_of(pod) is not None
        failed = known and self.see(pod if pod.has_ended else as_failed(pod), now)
        self.running.pop(pod.uid)
        if self.restarted is not None:
            self.restarted.see_gone(pod.uid)
            self.tidy()
        self.see_failed_gone(pod.uid)
        return failed

    def see_failed_gone(self, uid: str) -> None:
        """Record that a pod was deleted, if it is one that had failed."""
        pod = self.failed_pod(uid)
        if self.failed is not None and pod is not None:
            self.failed.see_gone(uid, is_countable=self.job_of(pod) is not None)
            self.tidy()

    def see_account(self, account: Account) -> None:
        """Record which pods an account has counted; the next account may lack the oldest of them."""
        self.recent = tuple(account.recent)
        self.counted_restarts = dict(account.restarted) or None
        if self.restarted is not None:
            self.restarted.see_account(account)
        if self.failed is not None:
            self.failed.see_counted(self.recent)
        self.tidy()

    def _forget_failed(self, pod: Pod) -> None:
        if self.failed is not None:
            self.failed.forget(pod)
            self.tidy()

    def tidy(self) -> None:
        """Forget where there is no pod any more."""
        if self.failed is not None and not self.failed.pods:
            self.failed = None
        if self.restarted is not None and not self.restarted.pods:
            self.restarted = None

    def uncounted(self, account: Account) -> list[Pod]:
        """Return failed pods of known Jobs that the account does not have, in the order in which they ended.

        At most TOGETHER; the others follow once these are counted.
        """
        if self.failed is None:
            return []
        return sorted(islice(self.of_jobs(self.failed.uncounted(account)), TOGETHER), key=lambda pod: pod.ended)

    def uncounted_in(self, scope: str, account: Account) -> Iterator[Pod]:
        """Yield the failed pods of a scope as `uncounted`, in any order: their number is all that a look-up costs."""
        if self.failed is None:
            return iter(())
        return islice(self.of_jobs(self.failed.uncounted_in(scope, account)), TOGETHER)

    def uncounted_restarts(self, account: Account) -> list[Pod]:
        """Return pods with restarts in place that an account lacks: as many as it has room for."""
        return [] if self.restarted is None else list(self.restarted.uncounted(account))

    def restarts_by_api(self, pod: Pod) -> int:
        """Return the restarts that the Job controller counts for a pod's Job: of it and of those that run beside it."""
        return (RestartedPods() if self.restarted is None else self.restarted).by_api(pod)

    def open_of_jobs(self) -> Iterator[Pod]:
        """Yield the failed pods of known Jobs that are in no account that was seen."""
        return self.of_jobs(self.open_pods())

    def of_jobs(self, found: Iterable[Pod]) -> Iterator[Pod]:
        """Yield those of the pods whose Jobs are known."""
        return (pod for pod in found if self.job_of(pod) is not None)

    def open_pods(self) -> Iterator[Pod]:
        """Yield the failed pods that are in no account that was seen."""
        return iter(()) if self.failed is None else self.failed.open_pods()

    def failed_pod(self, uid: str) -> Pod | None:
        """Return a pod that has failed; None if it has not, or is counted and deleted."""
        return None if self.failed is None else self.failed.get(uid)

    def failed_of_id(self, short: str) -> Pod | None:
        """Return a pod that has failed by its id in an account; as `failed_pod`."""
        return None if self.failed is None else self.failed.get(self.failed.by_id.get(short, ""))

    def is_open(self, uid: str) -> bool:
        """Return True if a pod has failed, and is in no account that was seen."""
        return self.failed is not None and uid in self.failed.open

    def has_failed_since(self, uid: str, time: float) -> bool:
        """Return True if a pod was seen to fail after a time."""
        return self.failed is not None and uid in self.failed.pods and self.failed.pods[uid].seen > time

    def doubtful(self, now: float, *, current: bool) -> set[str]:
        """Return the uids of the failed pods whose Job may still write into its status why they were deleted.

        Not of those that a workload of another kind has replaced: it goes on. `current`: whether the watch of Jobs has
        no gap.
        """
        doubt = LONGEST_DOUBT if not current or now - self.disturbed < DOUBT else DOUBT
        return {
            pod.uid
            for pod in islice(self.open_of_jobs(), TOGETHER)
            if self.has_failed_since(pod.uid, now - doubt) and self._is_in_doubt(pod) and not self.is_replaced(pod)
        }

    def _is_in_doubt(self, pod: Pod) -> bool:
        job = self.job_of(pod)
        return job is not None and is_in_doubt(pod, job)

    def is_replaced(self, pod: Pod) -> bool:
        """Return True if a pod of another kind was deleted, and another one of its scope was created later."""
        if pod.kind is batch.JOB or not pod.deleted:
            return False
        runs = self.running.newest_of(pod.job_uid, pod.scope) or pod
        of_scope = (runs, *self.ends_of(scope_of(pod)))
        return any(one.job_uid == pod.job_uid and one.created > pod.deleted for one in of_scope)

    def staying(self) -> Iterator[Pod]:
        """Yield the failed pods that are counted, still exist, and lack the annotation `counted`."""
        return iter(()) if self.failed is None else self.failed.staying(self.recent)

    def staying_ids(self, ids: Iterable[str]) -> set[str]:
        """Return the ids of an account that it must not forget, because their pods would be counted again."""
        return set() if self.failed is None else self.failed.staying_ids(ids)

    def unmarked(self, counted: Iterable[tuple[str, int]]) -> Iterator[tuple[Pod, int]]:
        """Yield the pods that restarted in place and whose mark says less than an account; as in RestartedPods."""
        return iter(()) if self.restarted is None else self.restarted.unmarked(counted)

    def staying_restarted(self, counted: Iterable[tuple[str, int]]) -> set[str]:
        """Return the ids of pods whose restarts in place an account must remember: it would count them again.

        `counted`: how many it has counted, by id. They are those of pods that exist without a mark, and of pods that
        have failed and are not counted yet.
        """
        found = list(counted)
        unmarked = {id_of(pod) for pod, _ in self.unmarked(found)}
        by_id = {} if self.failed is None else self.failed.by_id
        return unmarked | {one for one, _ in found if self.is_open(by_id.get(one, ""))}

    def has_others(self, pod: Pod) -> bool:
        """Return True if the workload of another kind that a pod is of has pods of another scope."""
        failed = () if self.failed is None else self.failed.pods.values()
        of_failed = any(one.pod.scope != pod.scope for one in failed)
        return of_failed or self.running.has_others(workload_of(pod), pod.scope)


def lacked_spot(pod: Pod) -> bool:
    """Return True if the leader has ended a pod because no spot node took it."""
    return pod.disruption is not None and pod.disruption.reason == SPOT_UNAVAILABLE


def is_going(pod: Pod) -> bool:
    """Return True if a pod is being deleted or disrupted."""
    return pod.deleting or pod.disruption is not None


def as_failed(pod: Pod) -> Pod:
    """Return a pod that was deleted before it ended, with the phase Failed, as the Job controller counts it."""
    return replace(pod, phase="Failed")


def _with_first_disruption(pod: Pod, before: Pod) -> Pod:
    """Return a pod with the reason of the disruption that was announced first; `before`: the pod as it was seen before.

    The garbage collector of pods writes over that of a pod whose node is deleted, and leaves the time
    (UpdatePodCondition in pkg/api/v1/pod/util.go of Kubernetes 1.36.3).
    """
    first, last = before.disruption, pod.disruption
    if first is None or last is None:
        return pod
    return replace(pod, conditions=tuple(first if one is last else one for one in pod.conditions))


def _merged(before: Pod, now: Pod) -> Pod:
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
