"""Tracks the pods of Jobs, and of workloads of other kinds that have an account. Every replica keeps the same counts.

Placement asks AdmissionCounts how often a workload was disrupted; the leader writes accounts from what is kept here.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from sys import intern
from typing import Any, Final, Protocol

from msgspec.structs import replace

from webhook import metrics
from webhook.accounts import settling
from webhook.accounts.account import Account, Attempt
from webhook.accounts.cached import ROOT_READ, CachedJob, CachedJobSet, CachedRoot, pieces, trimmed_root
from webhook.accounts.cached_account import CachedAccount, key_of_account
from webhook.accounts.stored import shared
from webhook.accounts.tracked import RunningPods
from webhook.accounts.tracker import Find, Key, Tracker, is_going, is_older, key_of, key_of_job, place_of
from webhook.kube import names, terminal
from webhook.kube.bulkhead import Bulkhead, repeat
from webhook.kube.informer import Informer
from webhook.kube.packed import Packed
from webhook.kube.tasks import in_slices
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods import pods
from webhook.pods.faulty_nodes import FaultyNodes
from webhook.pods.hardware import is_of_machine
from webhook.pods.pods import Pod
from webhook.pods.rejections import Rejections
from webhook.pods.waves import Waves
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.systems import account_object as account
from webhook.systems import core, retry_history
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster
from webhook.tracking.finished_jobs import STAYS, FinishedJobs
from webhook.tracking.observers import PodObserver, WorkloadObserver
from webhook.tracking.stored_accounts import StoredAccounts
from webhook.tracking.workload_state import INTERVAL, Root, WorkloadState, read

LONG_OVER: Final = 600.0  # seconds after the end of a Job for which its state is remembered
BLAMES: Final = '"cause":"Hardware"'  # in the text of an account
UNSEEN_AFTER: Final = 10.0  # seconds after which a failure in a Job's status counts, although no pod of it was seen


class EndRecorder(Protocol):
    """Makes records of what the watches say has ended."""

    def see_succeeded(self, key: Key, pod: Pod, root: Json | None, *, just_now: bool) -> None:
        """Record that a pod succeeded; `just_now`: whether it ran before, as far as this replica knows."""

    def see_uncounted(self, pod: Pod) -> None:
        """Record that a pod without an account has ended, or was deleted."""

    def see_account(self, key: Key, state: WorkloadState, account: Account, root: Json, *, certain: bool) -> None:
        """Record the pods that an account has counted since the one in `state`, and those that it has judged since.

        `certain`: whether the account in `state` is the one before it.
        """

    def see_end(self, key: Key, root: CachedJob | CachedJobSet, *, just_now: bool) -> None:
        """Record that a workload has ended; `just_now`: whether it had not before, as far as this replica knows."""


class Trackers:
    """The state of every workload, from the watches of pods, Jobs and JobSets.

    Only its own methods add and remove workloads. It calls `changed` with a workload whose account may have to be
    written, and the seconds until then; `crashed` with a pod that was disrupted, or that nobody had deleted, and
    its Job; `restarted` with a workload in one of whose running pods a container has restarted in place; `forgotten`
    with a workload that it has removed; `rejecting` with a pod that its node has rejected, and what `Rejections.see`
    returns; `faulty` with a namespace, an attempt there that a fault of its node has ended, and of how many workloads
    it has ended some in seven days. `is_pending` returns True if a crash in a workload is still to be judged.
    `recorder` makes records of what ended. `clock` is monotonic, in seconds; `now` is Unix time.
    """

    def __init__(  # noqa: PLR0913 - it has as many listeners
        self,
        cluster: Cluster,
        *,
        changed: Callable[[Key, float], None] = lambda _key, _seconds: None,
        crashed: Callable[[Key, Pod, CachedJob], None] = lambda _key, _pod, _job: None,
        restarted: Callable[[Key], None] = lambda _: None,
        forgotten: Callable[[Key], None] = lambda _: None,
        rejecting: Callable[[Pod, tuple[float, ...]], None] = lambda _pod, _before: None,
        faulty: Callable[[str, Attempt, int], None] = lambda _namespace, _attempt, _workloads: None,
        is_pending: Callable[[Key], bool] = lambda _: False,
        recorder: EndRecorder | None = None,
        clock: Callable[[], float] = time.monotonic,
        settings_of: Callable[[Json], Settings] = lambda _: NamedProfile("", Profile()).settings({}),
    ) -> None:
        self.recorder = recorder
        self.settings_of = settings_of
        self.cluster = cluster
        self.changed = changed
        self.crashed = crashed
        self.restarted = restarted
        self.forgotten = forgotten
        self.rejecting = rejecting
        self.faulty = faulty
        self.is_pending = is_pending
        self.clock = clock
        self.now: Callable[[], float] = time.time
        self.bulkhead = Bulkhead("workloads", clock)
        self.waves = Waves()
        self.rejections = Rejections(cluster.known_nodes.since)
        metrics.NODES_REJECTING.set_function(lambda: self.rejections.number(self.now()))
        self.faulty_nodes = FaultyNodes(cluster.known_nodes.since)
        metrics.NODES_FAULTY.set_function(lambda: self.faulty_nodes.number(self.now()))
        self.zones_reported: set[str] = set()
        selector = {"labelSelector": names.PROFILE}
        self.read_pod = partial(pods.read, key=cluster.state_key)
        self.pods = Informer(
            cluster.api,
            core.POD.path(),
            self.read_pod,
            shape=pods.READ,
            query=selector,
            stored=False,
            scope=cluster.scope,
            clock=clock,
        )
        self.ended: dict[KindSpec, set[str]] = {}  # uids of the objects that are known to have ended
        self.pods.observers.append(PodObserver(self.see_pod, self.see_pod_gone, self.see_only, self.forget_namespaces))
        cluster.jobs.observers.append(self.observer(batch.JOB, self.see_job))
        cluster.job_sets.observers.append(self.observer(JOB_SET, self.see_job_set))
        self.stored = StoredAccounts(cluster, clock)
        self.accounts = self.stored.informer
        self.accounts.observers.append(self.observer(account.ACCOUNT, self.see_stored, self._see_stored_gone))
        self.others = {kind: self._informer_of(kind) for kind in WITHOUT_JOBS}
        self.roots: dict[KindSpec, Informer[Any]] = {batch.JOB: cluster.jobs, JOB_SET: cluster.job_sets, **self.others}
        self.running = RunningPods()
        self.finished = FinishedJobs(
            cluster.jobs, is_needed=self.needs, left=lambda job: self.tidy(key_of_job(job)), clock=clock
        )
        self.find: Find = self.job_at
        self.states: dict[Key, WorkloadState] = {}
        self.succeeded: dict[Key, int] = {}  # `status.succeeded` of Jobs before a gap in the watch of pods; no zeros
        self.at_last: set[Key] = set()  # workloads without a retry left
        self.watching_since = float("inf")
        self.waiting: dict[Key, list[asyncio.Event]] = {}  # set when the watch delivers a pod of the workload
        metrics.LEDGER_WORKLOADS.set_function(self._number_of_workloads)
        metrics.LEDGER_AT_LAST_ATTEMPT.set_function(lambda: len(self.at_last))

    def _informer_of(self, kind: KindSpec) -> Informer[CachedRoot]:
        """Return the informer of the workloads of another kind: of their metadata, in all namespaces."""
        found = Informer(
            self.cluster.api,
            kind.path(),
            trimmed_root,
            shape=ROOT_READ,
            query={},
            items=Packed[CachedRoot](pieces),
            metadata_only=True,
            name=kind.list_name,
            scope=self.cluster.scope,
            clock=self.clock,
        )
        found.observers.append(self.observer(kind, partial(self.see_root, kind)))
        return found

    def observer(
        self, kind: KindSpec, seen: Callable[..., None], deleted: Callable[[Any], None] | None = None
    ) -> WorkloadObserver[Any]:
        """Return what passes the events of the watch of a kind on."""
        ended = self.ended.setdefault(kind, set())
        return WorkloadObserver(seen, deleted or partial(self.see_gone, kind), self.forget_gone, ended)

    async def run(self) -> None:
        """Watch the pods, and the workloads of other kinds than Job and JobSet, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watch_pods())
            group.create_task(self.accounts.run())
            group.create_task(repeat("look at finished Jobs", INTERVAL, self.finished.look))
            for roots in self.others.values():
                group.create_task(roots.run())

    async def watch_pods(self) -> None:
        """Watch the pods until cancelled, once the key is read by which they prove what they say, and the Accounts.

        Pods that an Account has counted leave nothing in memory then.
        """
        if self.cluster.shared_key is not None:
            await self.cluster.shared_key.secrets.synced.wait()
        await self.accounts.known.wait()
        await self.pods.run()

    @property
    def synced(self) -> bool:
        """Whether pods and Jobs have been listed at least once."""
        return self.pods.synced.is_set() and self.cluster.jobs.synced.is_set()

    def _number_of_workloads(self) -> int:
        return len(self.cluster.jobs.items) + len(self.cluster.job_sets.items) + len(self.running.scopes)

    def job_at(self, kind: KindSpec, namespace: str, name: str) -> CachedJob | None:
        """Return a Job, or a workload of another kind, that exists; None if there is none."""
        root = self.roots[kind].get(namespace, name)
        return None if root is None else CachedJob(root)

    def job_of(self, pod: Pod) -> CachedJob | None:
        """Return the Job of a pod, or its workload of another kind, as it was seen last; None if it is not known."""
        state = self.states.get(key_of(pod))
        return (Tracker(self.find) if state is None else state.tracker).job_of(pod)

    def state_of(self, key: Key) -> WorkloadState:
        """Return the state of a workload; add a new one if there is none."""
        state = self.states.get(key)
        if state is None:
            key = key._replace(namespace=intern(key.namespace))
            state = self.states[key] = WorkloadState(Tracker(self.find, self.running))
            root = self.root_of(key)
            if root is not None and key.job_set:
                state.set_uid = root["metadata"]["uid"]
            elif root is not None and (not key.is_cached_whole or self.settled(key, root)):  # its state was forgotten
                self._take_root(key, state, root, news=False)
        return state

    def see_root(self, kind: KindSpec, root: CachedRoot, *, news: bool = True) -> None:
        """Record the current state of a workload of another kind, if it has pods; `news`: as in `see_pod`."""
        metadata = root["metadata"]
        key = Key(metadata["namespace"], kind, metadata["name"])
        state = self.states.get(key)
        if state is not None:
            self._take_root(key, state, root, news=news or metadata["uid"] == state.tracker.root_uid)

    def see_stored(self, found: CachedAccount, *, news: bool = True) -> None:
        """Record the current state of an Account, if its workload is known; `news`: as in `see_pod`."""
        key = key_of_account(found)
        if key is None:
            return
        self.stored.see(found)
        self._see_faults(found)
        root = self.root_of(key)
        if root is not None and (key in self.states or (key.is_cached_whole and not self.settled(key, root))):
            self._take_account(key, self.state_of(key), root, news=news)
            self._forget_settled(key)

    def _see_faults(self, found: CachedAccount) -> None:
        """Record the nodes whose hardware has ended attempts of an account: most accounts have none.

        That a node is gone or not ready explains a crash, but blames no node: of one without a fault it is so too.
        """
        if BLAMES not in found["text"]:
            return
        for detail in shared(found["text"]).last:
            time = seconds(detail.end)
            if detail.cause == "Hardware" and is_of_machine(detail.reason) and time is not None:
                uid, namespace = found["spec"].get("uid") or "", found["metadata"]["namespace"]
                if workloads := self.faulty_nodes.see(detail.node, uid, time, self.now()):
                    self.faulty(namespace, detail, workloads)

    def _see_stored_gone(self, found: CachedAccount) -> None:
        """Record that an Account was deleted: the account of its workload begins anew if that exists."""
        key = key_of_account(found)
        self.stored.forget(found)
        if key is not None:
            root = self.root_of(key)
            if root is not None and key in self.states:
                self._take_account(key, self.states[key], root, news=True)
            self.tidy(key)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the pods and workloads of namespaces that are not opted in any more: nothing of them is counted."""

        def forget_pod(uid: str) -> None:
            pod = self.running.get(uid)
            if pod is not None and pod.namespace in namespaces:
                self.running.pop(uid)

        def forget(key: Key) -> None:
            if key.namespace in namespaces and self.states.pop(key, None) is not None:
                self.at_last.discard(key)
                self.forgotten(key)

        await self.bulkhead.each(list(self.running.packed), forget_pod, _place_of_pod)
        await self.bulkhead.each(list(self.states), forget, place_of)
        async for key in in_slices(list(self.succeeded)):
            if key.namespace in namespaces:
                self.succeeded.pop(key, None)

    def needs(self, job: CachedJob) -> bool:
        """Return True if anything is left to count, or to do, for a Job that has ended; also of each Job of a JobSet.

        Also until the watch of pods has delivered something after the end: it delivers pods in order.
        """
        key, watched = key_of_job(job), self.pods
        is_behind = not watched.live or watched.last_event <= self.clock() - STAYS or not self.cluster.jobs.live
        if key.job_set or is_behind or self.running.has_any(job["metadata"]["uid"]) or self.is_pending(key):
            return True
        state = self.states.get(key)
        return state is not None and state.is_needed

    def _take_root(self, key: Key, state: WorkloadState, root: Root, *, news: bool) -> None:
        """Record the current state of a workload other than a JobSet, and its account; `news`: as in `see_pod`."""
        uid = root["metadata"]["uid"]
        if not key.is_cached_whole and uid != state.tracker.root_uid:
            state.tracker.adopt(root, key.workload, self.clock())
        state.tracker.see_job(CachedJob(root), alone=True)
        state.see_root()
        self._take_account(key, state, root, news=news)

    def see_gone(self, kind: KindSpec, root: Root) -> None:
        """Record that a Job or a workload of another kind was deleted."""
        metadata = root["metadata"]
        key = key_of_job(CachedJob(root)) if kind is batch.JOB else Key(metadata["namespace"], kind, metadata["name"])
        self.ended[kind].discard(metadata["uid"])
        self.succeeded.pop(key, None)
        state = self.states.get(key)
        if state is not None:
            state.tracker.see_job_gone(metadata["uid"])
            self.tidy(key)

    def see_pod(self, pod: Pod, *, news: bool = True) -> None:
        """Record the current state of a pod; `news`: whether it has just changed."""
        if not pod.job:
            self.see_uncounted(pod)
            return
        pod = self.identified(self.located(pod))
        self._see_where(pod, news=news)
        key, just_now = key_of(pod), pod.uid in self.running
        is_known = key in self.states or not key.is_cached_whole
        if not is_known and (not _is_remarkable(pod) or self._is_settled_in(key, pod)):
            if pod.has_ended:
                self.running.pop(pod.uid)
            else:
                self.running.put(pod, self.running.get(pod.uid))
        else:
            self._see_tracked(key, pod, news=news)
            self._forget_settled(key)
        self.see_succeeded(key, pod, just_now=just_now)
        for event in self.waiting.get(key, ()):
            event.set()

    def _see_tracked(self, key: Key, pod: Pod, *, news: bool) -> None:
        """Record the current state of a pod in the state of its workload; `news`: as in `see_pod`."""
        state = self.state_of(key)
        if state.tracker.see(pod, self.clock(), news=news):
            self.see_failed(key, state, pod, news=news)
        elif state.tracker.has_open_restarts(pod.uid):
            if pod.has_ended:
                self.changed(key, 0.0)
            else:
                self.restarted(key)
        elif pod.progress is not None and not pod.has_ended and self._may_renew(state, pod) and state.gets_further(pod):
            self.changed(key, 0.0)

    def _may_renew(self, state: WorkloadState, pod: Pod) -> bool:
        """Return True if the retries of a pod's workload may count no more if it gets further."""
        job = None if state.account.retries is None else state.tracker.job_of(pod)
        if job is None or not batch.pods_continue(job["spec"]):
            return False
        return self.settings_of(job).profile.retries.renew_on_progress

    def see_pod_gone(self, pod: Pod) -> None:
        """Record that a pod was deleted; `pod` is its last state."""
        if not pod.job:
            self.see_uncounted(pod, is_gone=True)
            return
        pod = self.identified(self.located(pod))
        self._see_where(pod, gone=True)
        key, just_now = key_of(pod), pod.uid in self.running
        state = self.states.get(key)
        if state is None and pod.has_ended and not pod.enters_account:
            self.running.pop(pod.uid)
        else:
            state = self.state_of(key)
            if state.tracker.see_gone(pod, self.clock()):
                self.see_failed(key, state, pod)
        self.see_succeeded(key, pod, just_now=just_now)
        self.tidy(key)
        for event in self.waiting.get(key, ()):
            event.set()

    def see_uncounted(self, pod: Pod, *, is_gone: bool = False) -> None:
        """Record in history the end of a pod without an account, if it has ended or is gone."""
        if self.recorder is not None and (pod.has_ended or is_gone):
            self.recorder.see_uncounted(self.located(pod))

    def located(self, pod: Pod) -> Pod:
        """Return a pod with the zone of its node, by which alone it is known before Kubernetes 1.35."""
        zone = self.cluster.known_nodes.zone_of(pod.node, pod.zone) if pod.node else ""
        return pod if zone == pod.zone else replace(pod, zone=zone)

    def identified(self, pod: Pod) -> Pod:
        """Return a pod with the uid of its workload, which not every pod says itself."""
        if pod.job_uid:
            return pod
        root = self.roots[pod.kind].get(pod.namespace, pod.job)
        return pod if root is None or is_older(pod, root) else replace(pod, job_uid=root["metadata"]["uid"])

    def _see_where(self, pod: Pod, *, gone: bool = False, news: bool = True) -> None:
        self.waves.see(pod, self.now(), gone=gone, news=news)
        if before := self.rejections.see(pod, self.now()):
            self.rejecting(pod, before)
        if pod.zone in self.waves.zones and pod.zone not in self.zones_reported:
            self.zones_reported.add(pod.zone)
            ratio = self.waves.zones[pod.zone].ratio
            metrics.SPOT_ZONE_LOST.labels(pod.zone).set_function(lambda: ratio(self.now()))

    def see_failed(self, key: Key, state: WorkloadState, pod: Pod, *, news: bool = True) -> None:
        """Record that a pod has failed; `news`: whether it has just done so."""
        job = state.tracker.job_of(pod)
        if key.job_set and job is not None and pod.disruption is not None:
            state.cost_of(pod, self.job_set_of(key))  # now, so that no admission has to wait for it
        if news and job is not None and (pod.disruption is not None or settling.is_crash(pod)):
            self.crashed(key, pod, job)
        self.changed(key, 0.0)

    def see_succeeded(self, key: Key, pod: Pod, *, just_now: bool) -> None:
        """Record that a pod succeeded, if it did; `just_now`: whether it ran before."""
        if self.recorder is not None and pod.has_ended and not pod.enters_account:
            self.recorder.see_succeeded(key, pod, self.root_of(key), just_now=just_now)

    async def see_only(self, there: set[str]) -> None:
        """Record which pods exist, by uid, after the first list or a gap in the watch."""
        self.watching_since = now = self.clock()
        self.waves.look(there, self.now())
        await self.bulkhead.each(self.running.missing(there), partial(self.see_vanished, now), _place_of_pod)
        await self.bulkhead.each(list(self.states), partial(self.see_which_exist, there), place_of)

    def see_vanished(self, now: float, uid: str) -> None:
        """Record that a pod ran before a gap in the watch and does not exist after it, which was found just now."""
        missing = self.running.pop(uid)
        if missing is not None and not missing.kind_name and not missing.job_set and self.job_of(missing) is not None:
            key = key_of(missing)
            self.state_of(key).tracker.see_vanished(missing, now, self.succeeded.get(key, 0))

    def see_which_exist(self, there: set[str], key: Key) -> None:
        """Record which pods of a workload exist, by uid, after a gap in the watch."""
        state = self.states.get(key)
        if state is None:
            return
        state.tracker.see_which_exist(there)
        if state.tracker.vanished:
            self.changed(key, UNSEEN_AFTER)
        self.tidy(key)

    def see_job(self, job: CachedJob, *, news: bool = True) -> None:
        """Record the current state of a Job, and its account if it has no JobSet; `news`: as in `see_pod`."""
        key = key_of_job(job)
        state = self.states.get(key)
        if key.job_set:
            if state is not None:
                state.tracker.see_job(job, alone=False)
            return
        self._see_successes(key, state, job)
        self.see_account(key, job, news=news)
        self.see_end(key, job, news=news)
        if names.RETRY_OF in (job["metadata"].get("labels") or {}):
            self.changed(key, 0.0)  # an account has to be kept, or continued
        if terminal.is_decided(job["status"]):
            self.at_last.discard(key)

    def _see_successes(self, key: Key, state: WorkloadState | None, job: CachedJob) -> None:
        if not self.pods.live or (state is not None and state.tracker.vanished):
            return
        number = job["status"].get("succeeded")
        if number and not terminal.is_decided(job["status"]):
            self.succeeded[key] = number
        else:
            self.succeeded.pop(key, None)

    def see_job_set(self, job_set: CachedJobSet, *, news: bool = True) -> None:
        """Record the current state of a JobSet and its account; `news`: as in `see_pod`."""
        key = Key(job_set["metadata"]["namespace"], JOB_SET, job_set["metadata"]["name"])
        self.see_account(key, job_set, news=news)
        self.see_end(key, job_set, news=news)

    async def forget_gone(self) -> None:
        """Forget, after a gap in a watch, the Jobs that were deleted, and the workloads without anything to count."""
        await self.bulkhead.each(list(self.states), self._forget_gone_of, place_of)
        async for key in in_slices(list(self.succeeded)):
            if (key.namespace, key.name) not in self.cluster.jobs.items:
                self.succeeded.pop(key, None)
        await self.stored.forget_gone()

    def _forget_gone_of(self, key: Key) -> None:
        state, kind = self.states.get(key), batch.JOB if key.job_set else key.kind
        if state is None:
            return
        for uid, name in state.tracker.jobs_in_use().items():
            current = self.job_at(kind, key.namespace, name)
            if current is None or current["metadata"]["uid"] != uid:
                state.tracker.see_job_gone(uid)
        self.tidy(key)

    def tidy(self, key: Key) -> None:
        """Forget a workload once nothing of it is left to count or to remember; a deleted one once it is counted."""
        state = self.states.get(key)
        if state is None:
            return
        if self.root_of(key) is not None:
            if key.is_cached_whole and state.is_idle(self.clock()):
                del self.states[key]
            else:
                self._forget_settled(key)
        # Until the first list of Jobs is read, a Job that is not cached may exist, with pods to count.
        elif self.is_over(key, state.tracker):
            del self.states[key]
            self.at_last.discard(key)
            self.forgotten(key)

    def is_over(self, key: Key, tracker: Tracker) -> bool:
        """Return True if nothing is left to count of a workload that is not cached."""
        if not self.knows_all(key.kind):
            return tracker.is_empty and not tracker.last_ends and not self.running.has_workload(key.workload)
        return tracker.is_empty or not key.job_set

    def is_current(self, kind: KindSpec) -> bool:
        """Return True if the watch of Jobs, or of the workloads of another kind, has no gap."""
        return self.roots[batch.JOB if kind is JOB_SET else kind].live

    def knows_all(self, kind: KindSpec) -> bool:
        """Return True if all Jobs, or all workloads of another kind, have been listed."""
        roots = self.roots[kind]
        return roots.synced.is_set() or (kind is not batch.JOB and roots.missing)

    def see_end(self, key: Key, root: CachedJob | CachedJobSet, *, news: bool) -> None:
        """Record that a workload has ended, if it has."""
        uid, ended = root["metadata"]["uid"], self.ended[key.kind]
        if terminal.condition_of(root) is not None and uid not in ended:
            ended.add(uid)
            if self.recorder is not None:
                self.recorder.see_end(key, root, just_now=news)

    def see_account(self, key: Key, root: Root, *, news: bool) -> None:
        """Record the current account of a Job or a JobSet; `news`: whether the state of it before is known."""
        if key not in self.states and self.settled(key, root):
            return
        text = self.stored.text_of(key, root)
        if key in self.states or text is not None or batch.failed_in_status(root):
            state, uid = self.state_of(key), root["metadata"]["uid"]
            if key.job_set:
                news = news or (state.knows_root and state.set_uid == uid)
                state.see_set(uid)
            else:
                was_over = uid in self.ended[batch.JOB]  # then it had left the cache, with an account that was known
                news = state.tracker.root_uid == uid or (news and not was_over)
                self._take_root(key, state, root, news=news)
                self._forget_settled(key)
                return
            state.see_root()
            self._take_account(key, state, root, news=news)

    def settled(self, key: Key, root: Root) -> str:
        """Return the text of the account of a Job without a JobSet that ended long ago; empty for any other.

        Nothing is added to such an account any more. Clusters keep many such Jobs: nothing else is remembered of them.
        """
        if key.kind is not batch.JOB or not terminal.is_decided(root["status"]):
            return ""
        ended = seconds(terminal.ended_at(root))
        if ended is None or self.now() - ended < LONG_OVER or retry_history.last_at(root) or _is_successor(root):
            return ""
        found = self.stored.account_of(key, root)
        return "" if found is None else str(found["text"])

    def _is_settled_in(self, key: Key, pod: Pod) -> bool:
        root = self.root_of(key)
        if not pod.enters_account or root is None or root["metadata"]["uid"] != pod.job_uid:
            return False
        text = self.settled(key, root)
        return bool(text) and (pod.counted or shared(text).has(pod))

    def _forget_settled(self, key: Key) -> None:
        state = self.states.get(key) if key.kind is batch.JOB else None
        if state is None or state.is_needed or state.awaited is not None or self.is_pending(key):
            return
        root = self.root_of(key)  # last, because it is decoded for each event
        if root is not None and self.settled(key, root):
            del self.states[key]
            self.at_last.discard(key)

    def _take_account(self, key: Key, state: WorkloadState, root: Root, *, news: bool) -> None:
        """Record the current account of a workload.

        `news`: whether the state of the workload before is known; False at the first list.
        """
        text = self.stored.text_of(key, root)
        if text != state.text:
            account = read(key, text, shared)
            if self.recorder is not None:
                self.recorder.see_account(key, state, account, root, certain=news)
            state.see_account(text, account)
            last = account.left is not None and account.left.retries == 0
            (self.at_last.add if last else self.at_last.discard)(key)
            if not self.stored.holds(key, root, text):
                self.changed(key, 0.0)
        stops = state.account.suspended or state.account.suspending
        if stops or state.tracker.failed is not None or batch.failed_in_status(root):
            self.changed(key, 0.0)

    def root_of(self, key: Key) -> Root | None:
        """Return the object that is a workload; None if it does not exist."""
        return self.roots[key.kind].get(key.namespace, key.name)

    def is_window_over(self, account: Account, root: Json) -> bool:
        """Return True if the disruptions of a workload's account count no more."""
        if not account.window_start:
            return False
        return account.is_window_over(self.now(), self.settings_of(root).profile.disruptions.per)

    def job_set_of(self, key: Key) -> CachedJobSet | None:
        """Return the JobSet of a key; None if the key is a Job's, or the JobSet does not exist."""
        return self.cluster.job_sets.get(key.namespace, key.name) if key.job_set else None


def _is_successor(root: Json) -> bool:
    metadata = root["metadata"]
    return any(names.RETRY_OF in (metadata.get(part) or {}) for part in ("annotations", "labels"))


def _place_of_pod(uid: str) -> tuple[str, str]:
    return "", uid


def _is_remarkable(pod: Pod) -> bool:
    return pod.enters_account or is_going(pod) or pod.restarts is not None
