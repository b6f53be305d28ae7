"""What this replica knows of the pods of Jobs: every replica watches them, and remembers the same.

It is what placement asks how often a workload was disrupted, and what the leader writes accounts from.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from webhook import metrics
from webhook.kinds import batch, core
from webhook.kinds.job_set import JOB_SET, SET_NAME
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names, terminal
from webhook.kube.informer import Informer
from webhook.kube.slices import in_slices
from webhook.kube.tasks import in_task
from webhook.ledger import settling
from webhook.ledger.model import limits, pods
from webhook.ledger.model.account import Account, decode
from webhook.ledger.model.cached import CachedJob, CachedJobSet
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.tracker import Key, Tracker, key_of
from webhook.ledger.model.workload_state import WorkloadState
from webhook.lookups.cluster import Cluster
from webhook.objects.problem import Json

SELECTOR: Final = f"{names.PROFILE},{batch.JOB_NAME}"
CATCHING_UP: Final = 0.5  # seconds that the admission of a pod waits for the end of the one before it to be seen
UNSEEN_AFTER: Final = 10.0  # seconds that a pod may yet be seen of which only its Job's status tells

Cached = TypeVar("Cached", CachedJob, CachedJobSet)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What is counted of a workload's pods, as placement asks for it.

    `disruptions`: those of a pod's completion index, else of the Job, divided by the pods that run at a time.
    `failures`: those that cost a retry of the Job; None where it is unknown, or the Job's own status tells.
    """

    disruptions: int
    failures: int | None = None


def ignore(*_: object) -> None:
    """Do nothing."""


class Trackers:
    """The state of every workload, by what the watches tell of its pods, Jobs and JobSet.

    It alone adds and removes workloads. `changed` is called with a workload whose account may have to be written, and
    in how many seconds; `crashed` with a pod that has failed by itself, and its Job. `clock` is monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        changed: Callable[[Key, float], None] = ignore,
        crashed: Callable[[Key, Pod, CachedJob], None] = ignore,
        forgotten: Callable[[Key], None] = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self.changed = changed
        self.crashed = crashed
        self.forgotten = forgotten
        self.clock = clock
        selector = {"labelSelector": SELECTOR}
        self.pods = Informer(cluster.api, core.POD.path(), pods.read, shape=pods.READ, query=selector, clock=clock)
        self.pods.observers.append(PodObserver(self))
        cluster.jobs.observers.append(WorkloadObserver(self, self.see_job, self.see_job_gone))
        cluster.job_sets.observers.append(WorkloadObserver(self, self.see_job_set, self.see_job_set_gone))
        self.states: dict[Key, WorkloadState] = {}
        self.at_last: set[Key] = set()  # workloads without a retry left
        self.watching_since = float("inf")
        self.waiting: dict[Key, list[asyncio.Event]] = {}  # for the next news of a workload's pods
        metrics.LEDGER_WORKLOADS.set_function(lambda: len(self.states))
        metrics.LEDGER_AT_LAST_ATTEMPT.set_function(lambda: len(self.at_last))

    @property
    def synced(self) -> bool:
        """Whether pods and Jobs have been listed once."""
        return self.pods.synced.is_set() and self.cluster.jobs.synced.is_set()

    def state_of(self, key: Key) -> WorkloadState:
        """Return a workload's state, a new one where there is none."""
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = WorkloadState()
        return state

    def see_pod(self, pod: Pod, *, news: bool = True) -> None:
        """Take in a pod as it is now."""
        if not pod.job:
            return
        key, now = key_of(pod), self.clock()
        state = self.state_of(key)
        if state.tracker.see(pod, now, news=news):
            self.see_failed(key, state, pod, news=news)
        for event in self.waiting.get(key, ()):
            event.set()

    def see_pod_gone(self, pod: Pod) -> None:
        """Take in that a pod is gone, as it was last."""
        if not pod.job:
            return
        key, now = key_of(pod), self.clock()
        state = self.state_of(key)
        if state.tracker.see_gone(pod, now):
            self.see_failed(key, state, pod)
        self.tidy(key)
        for event in self.waiting.get(key, ()):
            event.set()

    def see_failed(self, key: Key, state: WorkloadState, pod: Pod, *, news: bool = True) -> None:
        """Take in that a pod has failed."""
        job = state.tracker.jobs.get(pod.job_uid)
        if key.job_set and job is not None and pod.disruption is not None:
            state.cost_of(pod, self.job_set_of(key))  # now, rather than while a pod waits to be created
        if news and job is not None and settling.is_crash(pod):
            self.crashed(key, pod, job)
        self.changed(key, 0.0)

    async def see_pods(self, found: Iterable[Pod]) -> None:
        """Take in all pods that there are, after a time in which anything may have happened."""
        self.watching_since = now = self.clock()
        there = set()
        async for pod in in_slices(found):
            there.add(pod.uid)
            self.see_pod(pod, news=False)
        async for key, state in in_slices(list(self.states.items())):
            if state.tracker.see_only(there, now):
                self.changed(key, UNSEEN_AFTER)

    def see_job(self, job: CachedJob) -> None:
        """Take in a Job as it is now, with its account where no JobSet has it."""
        key = key_of_job(job)
        state = self.state_of(key)
        state.tracker.see_job(job, steady=self.pods.live, alone=not key.job_set)
        if not key.job_set:
            self.see_account(key, state, job)
            if terminal.is_decided(job["status"]):
                self.at_last.discard(key)

    def see_job_gone(self, job: CachedJob) -> None:
        """Take in that a Job is gone."""
        key = key_of_job(job)
        state = self.states.get(key)
        if state is not None:
            state.tracker.see_job_gone(job["metadata"]["uid"])
            self.tidy(key)

    def see_job_set(self, job_set: CachedJobSet) -> None:
        """Take in a JobSet as it is now, with its account."""
        key = key_of_job_set(job_set)
        self.see_account(key, self.state_of(key), job_set)

    def see_job_set_gone(self, job_set: CachedJobSet) -> None:
        """Take in that a JobSet is gone."""
        self.tidy(key_of_job_set(job_set))

    async def forget_gone(self) -> None:
        """Forget, after a gap in a watch, the Jobs that are gone, and workloads of which nothing is left."""
        async for key, state in in_slices(list(self.states.items())):
            there = self.cluster.jobs.items
            for uid, job in list(state.tracker.jobs.items()):
                current = there.get((key.namespace, job["metadata"]["name"]))
                if current is None or current["metadata"]["uid"] != uid:
                    state.tracker.see_job_gone(uid)
            self.tidy(key)

    def tidy(self, key: Key) -> None:
        """Forget a workload that is gone, once nothing of it is left to be counted."""
        state = self.states.get(key)
        if state is not None and self.root_of(key) is None and (state.tracker.is_empty or not key.job_set):
            self.states.pop(key)
            self.at_last.discard(key)
            self.forgotten(key)

    def see_account(self, key: Key, state: WorkloadState, root: CachedJob | CachedJobSet) -> None:
        """Take in an account as it is now."""
        text = (root["metadata"].get("annotations") or {}).get(names.LEDGER)
        if text != state.text:
            account = read(key, text)
            state.see_account(text, account)
            last = account.left is not None and account.left.retries == 0
            (self.at_last.add if last else self.at_last.discard)(key)
        if state.account.suspended or state.tracker.failed or batch.failed_in_status(root):
            self.changed(key, 0.0)

    async def counts(self, namespace: str, job: Json, pod: Json) -> Counts | None:
        """Return what is counted of the pods before one that is created now; None where nothing is known.

        Waits a moment where the pod shows that another has ended of which no watch has told yet.
        """
        metadata, labels = job["metadata"], pod["metadata"].get("labels") or {}
        job_set, index = labels.get(SET_NAME) or "", pods.index_of(pod["metadata"].get("annotations") or {})
        key = Key(namespace, job_set, "" if job_set else metadata["name"])
        state = self.states.get(key)
        if state is None or not self.pods.synced.is_set() or metadata["uid"] not in state.tracker.jobs:
            return None
        if state.tracker.is_behind(metadata["uid"], index):
            await in_task(self.catch_up(key, state.tracker, metadata["uid"], index))
        if state.text is None and not state.tracker.failed:
            return Counts(disruptions=0, failures=None if job_set else 0)
        scope = limits.scope_named(job_set, metadata["name"], index)
        disruptions = limits.share_of(state.disruptions_of(scope, job, self.job_set_of(key)), job["spec"])
        return Counts(disruptions=disruptions, failures=None if job_set else state.failures_of(job))

    async def catch_up(self, key: Key, tracker: Tracker, job_uid: str, index: str) -> None:
        """Wait until the watch has told of the pod that another one replaces, but not for long."""
        news = asyncio.Event()
        waiting = self.waiting.setdefault(key, [])
        waiting.append(news)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATCHING_UP):
                    while tracker.is_behind(job_uid, index):
                        await news.wait()
                        news.clear()
                    return
            metrics.LEDGER_BEHIND.inc()
        finally:
            waiting.remove(news)
            if not waiting:
                self.waiting.pop(key, None)

    def root_of(self, key: Key) -> CachedJob | CachedJobSet | None:
        """Return the object that an account is kept on."""
        return self.job_set_of(key) if key.job_set else self.cluster.jobs.items.get((key.namespace, key.name))

    def job_set_of(self, key: Key) -> CachedJobSet | None:
        """Return the JobSet of a key that is one."""
        return self.cluster.job_sets.items.get((key.namespace, key.name)) if key.job_set else None


class PodObserver:
    """Passes on what the watch of pods brings."""

    def __init__(self, trackers: Trackers) -> None:
        self.listed = trackers.see_pods
        self.seen = trackers.see_pod
        self.deleted = trackers.see_pod_gone


class WorkloadObserver(Generic[Cached]):
    """Passes on what the watch of Jobs brings, or that of JobSets."""

    def __init__(self, trackers: Trackers, seen: Callable[[Cached], None], deleted: Callable[[Cached], None]) -> None:
        self.trackers = trackers
        self.seen: Callable[[Cached], None] = seen
        self.deleted: Callable[[Cached], None] = deleted

    async def listed(self, items: Iterable[Cached]) -> None:
        """Take in all objects that there are, after a gap in the watch."""
        async for item in in_slices(items):
            self.seen(item)
        await self.trackers.forget_gone()


def key_of_job(job: CachedJob) -> Key:
    """Return the workload that a Job's pods are counted for."""
    metadata = job["metadata"]
    controller = controller_of(job)
    if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
        return Key(metadata["namespace"], controller.name, "")
    return Key(metadata["namespace"], "", metadata["name"])


def key_of_job_set(job_set: CachedJobSet) -> Key:
    """Return the workload that a JobSet is."""
    return Key(job_set["metadata"]["namespace"], job_set["metadata"]["name"], "")


def read(key: Key, text: str | None) -> Account:
    """Read an account; one that somebody has spoilt begins anew, with what the API still shows."""
    try:
        return decode(text)
    except ValueError as error:
        log.warning("account unreadable, begun anew", **where(key), error=str(error))
        return Account()


def where(key: Key) -> dict[str, str]:
    """Return what a log line says of a workload."""
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name}
