"""Writes the ledger: one replica, the leader, writes accounts, and suspends or fails Jobs.

The next write always follows from what the watches have delivered, never from what the leader meant to write. A write
fails if the account has changed; the watch then delivers the change.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from itertools import islice, product
from typing import Final

import structlog

from webhook import metrics
from webhook.accounts import in_place, kueue, stored, words
from webhook.accounts.account import KEPT, KEPT_RESTARTED, Attempt
from webhook.accounts.cached import CachedJob
from webhook.accounts.counting import EVICTED_TOO_OFTEN, LIMIT_EXCEEDED, CountingPass
from webhook.accounts.kueue import KueueWorkload
from webhook.accounts.stored import encode, known_time
from webhook.accounts.tracked import delay
from webhook.accounts.tracker import DOUBT, TOGETHER, Key, place_of
from webhook.controller.brake import HELD_FOR, Authority, Brake, subject_of
from webhook.controller.crashes import Crashes
from webhook.controller.ends import REASONS, WorkloadEnds
from webhook.controller.eviction_limit import EvictionLimit
from webhook.controller.recorder import Recorder
from webhook.controller.store import AccountStore, mark_counted
from webhook.controller.waiting import WaitingPods
from webhook.controller.work_queue import WorkQueue
from webhook.kube import names
from webhook.kube.bulkhead import Bulkhead, repeat
from webhook.kube.client import CHANGED, UNREACHABLE, ApiError, wait_after
from webhook.kube.events import Events, Notice
from webhook.kube.lease import DURATION, Lease
from webhook.objects.problem import Json
from webhook.objects.times import between, seconds, written
from webhook.pods import outcomes
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.causes import CAUSES
from webhook.policy.model import BadNodes
from webhook.systems import retry_history
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job.account import raise_limit
from webhook.systems.kueue import is_queued
from webhook.systems.system import Write
from webhook.tracking.cluster import Cluster
from webhook.tracking.kueue_workloads import KueueWorkloads
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import UNSEEN_AFTER, Trackers
from webhook.tracking.train_jobs import TrainJobs
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, Verdict, WorkloadState, read, where

# Seconds.
GATHERING: Final = 0.2  # from the end of a pod to the write, so that pods which end together are in one write
FORGOTTEN: Final = 60.0  # after which vanished pods are forgotten, because another leader has counted them
RENEWED_BY_TIME: Final = '"retryWindowStart"'  # in the text of an account
UNLED: Final = 2 * DURATION  # seconds within which a replica leads again after a leader has died
MOST_UNTOLD: Final = 100
WRITERS: Final = 32  # requests at once: the API server may take 50 ms for each

log = structlog.get_logger()


class Ledger:
    """Writes the accounts of all workloads while this replica leads.

    - `trackers`: a `WorkloadState` for each workload, from the watches; this class records in it what was written.
    - `brake` and `authority`: what the leader asks before each action.
    - `queue`: the workloads to process; open while this replica leads.
    - `waiting`: the pods that have not started.
    - `later`: the workloads that are due later, whatever happens meanwhile, and when: with restarts in place that are
      not counted yet, or with retries that will count no more.
    - `accounts`: writes them.
    - `crashes`: the pods that may have failed by a bug. `ends`: what reads and ends workloads.
    - `kueue`: the Workloads of Kueue. `train_jobs`: what TrainJobs say of their training.
    - `untold`: what became known of nodes while another replica led, or none, and when.
    - `forbidden`: whether the API server denies this replica the Lease.
    - `clock`: monotonic, in seconds, the same as the event loop's. `record`: writes the line of a record about a
      namespace into history.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: PolicySource,
        events: Events,
        clock: Callable[[], float] = time.monotonic,
        *,
        record: Callable[[str, bytes], None] = lambda _uid, _line: None,
    ) -> None:
        self.api = cluster.api
        self.cluster = cluster
        self.policy = policy
        self.events = events
        self.clock = clock
        self.brake = Brake(policy, events, clock)
        self.authority = Authority(cluster, policy, self.brake)
        self.queue = WorkQueue()
        self.kueue = KueueWorkloads(cluster.api, cluster.scope)
        settings_of = self.authority.settings_of
        self.recorder = Recorder(cluster, policy, self.kueue, record, settings_of=settings_of, clock=clock)
        self.trackers = Trackers(
            cluster,
            changed=self.wake,
            crashed=self._see_crash,
            restarted=self._see_restarted,
            forgotten=self._forget,
            rejecting=self._see_rejecting,
            faulty=self._see_faulty,
            is_pending=self.is_pending,
            recorder=self.recorder,
            clock=clock,
            settings_of=self.authority.settings_of,
        )
        self.ends = WorkloadEnds(cluster.api, self.trackers, events, self.authority.allows, self.wake)
        self.eviction_limit = EvictionLimit(cluster.api, events, self.ends, self.authority.allows)
        self.kueue.changed = self.see_workload
        self.train_jobs = TrainJobs(cluster.api, cluster.scope, clock)
        self.waiting = WaitingPods(
            self.trackers,
            self.train_jobs,
            self.brake,
            self.ends,
            settings_of=self.authority.settings_of,
            may_act=self.authority.may_act,
        )
        self.accounts = AccountStore(cluster.api, self.trackers)
        self.crashes = Crashes(cluster.api, self.trackers, self.ends, self.authority, self.wake)
        self.later: dict[Key, float] = {}
        self.bulkhead = Bulkhead("accounts", clock)
        self.untold: deque[tuple[float, Notice]] = deque(maxlen=MOST_UNTOLD)
        self.forbidden = False
        metrics.LEDGER_LEADING.set_function(lambda: self.leading)
        metrics.LEDGER_FORBIDDEN.set_function(lambda: self.forbidden)
        report_zeros()
        policy.on_change(self.see_policy)
        self.see_policy()

    @property
    def leading(self) -> bool:
        """Whether this replica is the leader."""
        return self.queue.is_open

    async def run(self, lease: Lease) -> None:
        """Watch until cancelled, and write while this replica holds the Lease."""
        async with asyncio.TaskGroup() as group:
            for watched in (self.trackers, self.kueue.informer, self.train_jobs.informer):
                group.create_task(watched.run())
            group.create_task(repeat("settle", INTERVAL, self.settle))
            group.create_task(self.waiting.run(lambda: self.leading))
            group.create_task(lease.lead(self.work))

    def see_policy(self) -> None:
        """Look at those labels of nodes by which the policy in force chooses."""
        if self.policy.current is not None:
            self.cluster.see_policy(self.policy.current)
        for key in [key for key, state in self.trackers.states.items() if RENEWED_BY_TIME in (state.text or "")]:
            self.wake(key)

    def see_refused(self) -> None:
        """Record that the API server denies the Lease, because the ledger's Role is not installed; log it once."""
        if not self.forbidden:
            what = "no ledger: its Role is not installed; apply manifests/base/ledger-rbac.yaml"
            log.error(what, disruptions="have no limit", settle="acts as Retry")
        self.forbidden = True

    def see_allowed(self) -> None:
        """Record that the API server does not deny the Lease."""
        self.forbidden = False

    async def settle(self) -> None:
        """Look at crashes, and at workloads that are due."""
        now = self.clock()
        for key in [key for key, due in self.later.items() if due <= now]:
            del self.later[key]
            self.bulkhead.call(*place_of(key), self.wake, key)
        await self.crashes.look(is_leading=lambda: self.leading)

    def is_pending(self, key: Key) -> bool:
        """Return True if a crash in a workload is to be judged."""
        return self.crashes.is_pending(key)

    def _see_rejecting(self, pod: Pod, before: tuple[float, ...]) -> None:
        """Say of a node that it has rejected pods as often as the profile of the last one of them allows.

        Once, until that profile avoids it no more. `before`: as `Rejections.see` returns.
        """
        bad = self.policy.profile(self.recorder.profile_of(pod.namespace)).placement.bad_nodes
        if (
            bad is not None
            and len(before) >= bad.rejected
            and before[bad.rejected - 1] <= self.trackers.now() - bad.avoid_for
        ):
            why = f"{pod.reason}, the last one of {pod.namespace}/{pod.name}"
            self._tell_of_node(
                pod.node, "RejectsPods", f"has rejected pods {len(before)} times in ten minutes ({why})", bad, pod.uid
            )

    def _see_faulty(self, namespace: str, detail: Attempt, workloads: int) -> None:
        """Say of a node that its hardware has ended pods of as many workloads as the profile of the last one allows.

        A replica that has just started learns of all such ends in seven days, of which a leader has told.
        """
        profile = self.policy.profile(self.recorder.profile_of(namespace))
        bad, age = profile.placement.bad_nodes, self.trackers.now() - (seconds(detail.end) or 0.0)
        if not self.leading and age > profile.failure_policy.settle_within + UNLED:
            return
        if bad is not None and workloads == bad.faults:
            why = f"{detail.reason}, the last one of {namespace}/{detail.pod}"
            what = f"has ended pods of {workloads} workloads in seven days by faults of its hardware ({why})"
            self._tell_of_node(detail.node, "HardwareFaults", what, bad, detail.end)

    def _tell_of_node(self, node: str, reason: str, what: str, bad: BadNodes, occasion: str) -> None:
        does = f"pods under profiles with placement.badNodes prefer other nodes for {bad.avoid_for} s"
        message = f"{what}: {does}; drain and repair it"
        # A node's Events are found by its name as uid, as a kubelet writes them.
        notice = Notice("Node", "", node, reason, message, uid=node, occasion=occasion)
        if self.leading:
            self.events.tell(notice)
        else:
            self.untold.append((self.clock(), notice))

    def _tell_untold(self) -> None:
        """Tell of the nodes that became bad while no replica led; what the last leader told is the same Event."""
        while self.untold:
            seen, notice = self.untold.popleft()
            if seen > self.clock() - UNLED:
                self.events.tell(notice)

    def _see_crash(self, key: Key, pod: Pod, job: CachedJob) -> None:
        self.crashes.see(key, pod, job)

    def _see_restarted(self, key: Key) -> None:
        """Record that a container of a running pod has restarted in place: later if it does so again and again."""
        wait = delay(self.trackers.state_of(key).account)
        if not wait:
            self.wake(key)
        else:
            self._wake_later(key, wait)

    def _forget(self, key: Key) -> None:
        self.queue.discard(key)
        self.later.pop(key, None)

    def _wake_later(self, key: Key, seconds: float) -> None:
        due = self.clock() + seconds
        self.later[key] = min(due, self.later.get(key, due))

    def see_workload(self, workload: KueueWorkload) -> None:
        """Queue the object whose Workload was evicted, or has changed since."""
        if workload.evictions:
            for kind in SYSTEMS:
                self.wake(Key(workload.namespace, kind, workload.owner_name))

    async def work(self) -> None:
        """Write accounts until cancelled."""
        self.queue.open()
        try:
            await self.trackers.pods.synced.wait()
            await self.cluster.jobs.synced.wait()
            await self.cluster.namespaces.synced.wait()
            await self.recorder.lead()
            self._tell_untold()
            await self.bulkhead.each(list(self.trackers.states), self.wake, place_of)
            newest = [same[-1] for same in self.kueue.by_owner.values()]
            await self.bulkhead.each(newest, self.see_workload, lambda one: (one.namespace, one.name))
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self._write_what_is_queued())
        finally:
            self.recorder.rest()
            self.queue.close()
            for state in self.trackers.states.values():
                state.forget_failures()

    def wake(self, key: Key, delay: float = 0.0) -> None:
        """Queue a workload, due after `delay` seconds or a little later, if this replica tracks it."""
        state = self.trackers.states.get(key)
        if state is not None:
            self.queue.add(key, max(delay, GATHERING, state.written + INTERVAL - self.clock()))
        elif key.is_cached_whole and self.trackers.root_of(key) is not None:
            self.queue.add(key, max(delay, GATHERING))

    async def _write_what_is_queued(self) -> None:
        while True:
            key = await self.queue.get()
            pause = None
            try:
                await asyncio.sleep(0)  # let admissions run first: the next call may not suspend at all
                pause = await self.try_to_write(key)
            finally:
                self.queue.done(key, pause)

    async def try_to_write(self, key: Key) -> float | None:
        """Write an account; return None, or after a failure the seconds until the next try.

        If the API server is busy, wait here as long as it asks, so that this writer sends it nothing else meanwhile.
        The next try counts again from what the watches have delivered by then.
        """
        with self.bulkhead.around(*place_of(key)):
            if key not in self.trackers.states and (not key.is_cached_whole or self.trackers.root_of(key) is None):
                return None
            state = self.trackers.state_of(key)
            try:
                await self.write(key, state)
            except (ApiError, *UNREACHABLE) as error:
                wait = wait_after(error)
                pause = _pause_after(error, key, state, wait)
                if wait is not None:
                    await asyncio.sleep(wait)
                    pause = 0.0
                return pause if self.trackers.states.get(key) is state else None  # it may have been deleted meanwhile
            state.forget_failures()
            if self.trackers.root_of(key) is not None:  # else its watch may be late, and pods are still to count
                self.trackers.tidy(key)
            return None
        metrics.LEDGER_WRITES.labels("bad").inc()
        return LONGEST_PAUSE  # or earlier, if it changes

    async def write(self, key: Key, state: WorkloadState) -> None:
        """Count the uncounted pods of a workload, write its account, and fail or suspend it if a limit is exceeded.

        Raise what `Api` raises.
        """
        whole = await self.ends.read(key) if self._needs_whole(key, state) else None
        root = self.trackers.root_of(key)  # from here to the write nothing waits: the account must be the last one
        if root is None:
            return
        if self.cluster.namespaces.get("", key.namespace) is None:
            self.wake(key, LONGEST_PAUSE)  # not opted in, although a user wrote our label; or not cached yet
            return
        if await self._keep_for_successor(key, root):
            return
        if state.awaits_watch(self.clock()):
            self.wake(key, INTERVAL)
            return
        account = read(key, state.text)
        account.requested_at = known_time(retry_history.last_at(root))
        account.forget(KEPT, state.tracker.staying_ids(account.recent))
        in_place.forget(account, KEPT_RESTARTED, state.tracker.staying_restarted(account.restarted.items()))
        job_set, used_of = self.trackers.job_set_of(key), self.recorder.used
        workload, evicted_for = self.kueue.of(root), partial(self.kueue.reason_of, root)
        counting = CountingPass(
            key, root, job_set, state.tracker, account, self.authority.settings_of, used_of, evicted_for, whole=whole
        )
        counting.see_workload(workload)
        verdicts, further = state.verdicts, dict(state.further)  # others may be found during the write
        self._renew(counting, state, further)
        complete = self.count(counting, state, verdicts)
        await self._store_and_suspend(counting, state)
        state.forget_verdicts(verdicts)
        state.forget_further(further)
        if state.over_limit and (not self.authority.may_act(key) or await self.ends.end(counting)):
            state.see_within_limit()
        await self._limit_evictions(counting, workload)
        await mark_counted(self.api, self.trackers.cluster.state_key, account, state.tracker)
        await self._give_back(counting, state)
        if not complete:
            self.wake(key, INTERVAL)
        elif state.over_limit:  # the brake holds what has to be done
            self.wake(key, HELD_FOR)
        self._wake_for_renewal(counting)

    def _renew(self, counting: CountingPass, state: WorkloadState, further: Mapping[str, int]) -> None:
        """Let retries count no more that need not; `further`: as in `renew_retries`."""
        counting.see_raised()
        if counting.account.backoff_limit is None:
            state.see_raised(None)
        if self.authority.may_act(counting.key):
            counting.renew_retries(self.trackers.now(), further)
        counting.see_completed()  # also if nothing is renewed now: it may be later

    def _wake_for_renewal(self, counting: CountingPass) -> None:
        """Queue a Job for the time at which its retries count no more: its next failure could be one too many."""
        key = counting.key
        if key.kind is not batch.JOB or key.system.has_ended(counting.root) or not self.authority.may_act(key):
            return
        due = counting.account.renewal_at(counting.settings.profile.retries.per) if counting.renews_retries else None
        if due is not None:
            self._wake_later(key, max(INTERVAL, due - self.trackers.now()))

    def count(self, counting: CountingPass, state: WorkloadState, verdicts: Iterable[Verdict]) -> bool:
        """Count the uncounted pods, and what crashes were; return True if no pod is left to count."""
        tracker, account = state.tracker, counting.account
        doubtful = self.doubtful(counting.key, state) | self._maybe_evicted(counting)
        if not counting.key.is_cached_whole and counting.whole is None:
            doubtful |= {pod.uid for pod in tracker.open_pods() if outcomes.was_killed(pod)}
        new = [pod for pod in tracker.uncounted(account) if pod.uid not in doubtful]
        room = account.room
        complete = counting.count_restarts() and len(new) <= room and not doubtful
        counting.count(new[:room])
        if account.suspending and counting.root["spec"].get("suspend"):
            counting.suspend()
        if state.resets_limits or (account.suspended and not counting.root["spec"].get("suspend")):
            counting.reset_limits()
        for verdict in verdicts:
            if verdict.fault:
                counting.blame(verdict.pod, verdict.fault)
            else:
                counting.settle(verdict.pod)
        self.crashes.see_unwatched(counting.key, state, new[:room])
        if complete:
            self.count_unseen(counting, state, self.clock())
        return complete

    def _needs_whole(self, key: Key, state: WorkloadState) -> bool:
        """Return True if more than the metadata of a workload of another kind must be known to count its pods.

        Of any kind if a pod can be counted now that was deleted while it ran.
        """
        if key.is_cached_whole or not any(True for _ in state.tracker.open_pods()):
            return False
        if key.system.reads_spec:
            return True
        doubtful = self.doubtful(key, state)
        return any(pod.uid not in doubtful and outcomes.was_killed(pod) for pod in state.tracker.open_pods())

    def doubtful(self, key: Key, state: WorkloadState) -> set[str]:
        """Return the uids of the failed pods of which it is not known yet who deleted them."""
        return state.tracker.doubtful(self.clock(), current=self.trackers.is_current(key.kind))

    async def _limit_evictions(self, counting: CountingPass, workload: KueueWorkload | None) -> None:
        if self.authority.may_act(counting.key) and not await self.eviction_limit.enforce(counting, workload):
            self.wake(counting.key, HELD_FOR)  # the brake holds what has to be done

    def _maybe_evicted(self, counting: CountingPass) -> set[str]:
        kueue, root, tracker = self.kueue, counting.root, counting.tracker
        if kueue.informer.missing or (kueue.of(root) is None and not is_queued(root["metadata"])):
            return set()
        since = self.clock() - DOUBT
        new = (pod for pod in islice(tracker.open_of_jobs(), TOGETHER) if tracker.has_failed_since(pod.uid, since))
        return {
            pod.uid
            for pod in new
            if pod.deleting and not pod.tracked and pod.disruption is None and not kueue.reason_of(root, pod)
        }

    def suspends(self, counting: CountingPass, state: WorkloadState) -> bool:
        """Return True if the leader may now suspend a Job that exceeded its disruptions: the account says so first."""
        over = (counting.exceeded, counting.free_too_often, counting.beyond_retries, counting.job_wide, counting.stuck)
        if any(any(find(counting.details)) for find in over):
            state.see_over_limit()
        if not counting.system.has_jobs or counting.account.suspending:
            return False
        if not state.over_limit or not self.authority.may_act(counting.key) or not counting.suspends(counting.attempts):
            return False
        limit = counting.budgets_of(counting.root).disruptions
        return self.authority.allows(
            "suspend", batch.JOB, counting.root, f"suspend it: disruptions exceed the limit of {limit}"
        )

    async def _keep_for_successor(self, key: Key, root: Json) -> bool:
        """Return True if a Job is the placeholder of a retry; let the account of the failed Job live as long as it.

        Raise what `Api` raises.
        """
        metadata = root["metadata"]
        failed = (metadata.get("labels") or {}).get(names.RETRY_OF)
        if key.kind is not batch.JOB or failed is None or names.RETRY_OF in (metadata.get("annotations") or {}):
            return False
        found = self.trackers.stored.account_about(key.namespace, failed)
        if found is not None:
            await self.accounts.keep(found, root)
        return True

    async def _store_and_suspend(self, counting: CountingPass, state: WorkloadState) -> None:
        """Write the account if it has changed; then suspend the Job if the account says so. Raise what `Api` raises.

        A leader that dies in between leaves the intention in the account, and the next one carries it out.
        """
        if self.suspends(counting, state):
            counting.intend_suspension()
        is_stored = self.trackers.stored.holds(counting.key, counting.root, state.text)
        if counting.changed or not is_stored:
            is_stored = await self.store(counting, state)
            if is_stored:
                state.see_limits_reset()
        if counting.account.suspending and is_stored:
            await self.suspend(counting, state)

    async def store(self, counting: CountingPass, state: WorkloadState) -> bool:
        """Write the account; return False if its namespace has no room for it. Raise what `Api` raises."""
        account = counting.account
        account.conditions = stored.updated(account, written(time.time()))
        text = encode(account)
        if not await self.accounts.write(counting.key, counting.root, text):
            return False
        state.see_written(text, self.clock(), counting.vanished)
        metrics.LEDGER_WRITES.labels("good").inc()
        self.tell(counting)
        return True

    async def _give_back(self, counting: CountingPass, state: WorkloadState) -> None:
        """Raise the backoffLimit of a Job to what its account says, by retries that count no more; raise as `Api`."""
        key, root, limit = counting.key, counting.root, counting.account.backoff_limit
        if limit is None or key.kind is not batch.JOB or not self.authority.may_act(key):
            return
        write, raised = raise_limit(root, limit), (root["spec"].get("backoffLimit") or 0, limit)
        if write is None or raised == state.raised:
            return
        if self.authority.allows("raise", batch.JOB, root, f"raise backoffLimit to {limit}: retries count no more"):
            try:
                await self.api.patch(write.path, write.operations)
            except ApiError as error:
                is_judged = error.status != HTTPStatus.CONFLICT and error.status < HTTPStatus.INTERNAL_SERVER_ERROR
                if is_judged and wait_after(error) is None:
                    state.see_raised(raised)  # an admission policy of others may refuse it for ever
                raise
            state.see_raised(raised)
            message = f"backoffLimit raised from {raised[0]} to {limit}: retries count no more"
            about = subject_of(key.kind, root)._asdict()
            self.events.tell(Notice(**about, type="Normal", reason="BackoffLimitRaised", message=message))
        else:
            self.wake(key, HELD_FOR)

    async def suspend(self, counting: CountingPass, state: WorkloadState) -> None:
        """Suspend a Job, as its account says, unless it has changed since it was cached; raise what `Api` raises.

        The intention is withdrawn if the reason for it is gone.
        """
        key, root = counting.key, counting.root
        write = counting.system.suspend(root) if counting.should_suspend(counting.attempts) else None
        if not isinstance(write, Write):
            counting.withdraw_suspension()
            await self.store(counting, state)
            return
        if counting.runs or not self.authority.may_act(key) or self.authority.is_held(root):
            self.wake(key, HELD_FOR)
            return
        await self.api.patch(write.path, write.operations)
        state.see_within_limit()
        metrics.LEDGER_STOPPED.labels("Suspended", LIMIT_EXCEEDED).inc()
        message = words.suspended(counting.budgets_of(root).disruptions, key.namespace, key.name)
        about = subject_of(key.kind, root)._asdict()
        self.events.tell(Notice(**about, type="Warning", reason=LIMIT_EXCEEDED, message=message))

    def count_unseen(self, counting: CountingPass, state: WorkloadState, now: float) -> None:
        """Count failures that are only in the Job's status, once UNSEEN_AFTER seconds have passed without their pods.

        `now` is in seconds of `clock`.
        """
        if now - state.tracker.gap > FORGOTTEN:
            state.tracker.forget_vanished(list(state.tracker.vanished))  # another replica was leader and counted them
        short, vanished = counting.unseen()
        if not short and not vanished:
            state.see_none_missing()
        elif state.missing_since is None:
            state.see_missing(now)
            self.wake(counting.key, UNSEEN_AFTER)
        elif now - state.missing_since >= UNSEEN_AFTER:
            state.see_none_missing()
            counting.count_unseen(short, written(self.trackers.now()))
        else:
            self.wake(counting.key, state.missing_since + UNSEEN_AFTER - now)

    def tell(self, counting: CountingPass) -> None:
        """Write Events about what was counted on the workload, and count it in the metrics."""
        measure(counting)
        key = counting.key
        about = subject_of(key.kind, counting.root)._asdict()
        if counting.details:
            message = counting.sentence() + self.crashes.verdict_on(counting)
            self.events.tell(Notice(**about, type="Normal", reason="AttemptEnded", message=message))
        for detail, slack in islice(counting.turns(time.time()), 1):
            left = f"{words.lasting(slack.work)} of work is left until {written(slack.due)}"
            message = (
                f"after pod {detail.pod} the deadline allows no more disruption ({left}); pods start on-demand now"
            )
            self.events.tell(Notice(**about, type="Normal", reason="DeadlineTurn", message=message))
        for detail in counting.blamed:
            metrics.LEDGER_HARDWARE.inc()
            cost = words.cost(detail, words.terms_of(key.kind))
            why = f"a fault of node {detail.node} explains the crash of pod {detail.pod} ({detail.reason}); it {cost}"
            self.events.tell(Notice(**about, type="Warning", reason="HardwareFault", message=why))


def _pause_after(error: Exception, key: Key, state: WorkloadState, wait: float | None) -> float:
    """Return the seconds to wait after a write that failed; count the error, and log it unless it is a conflict.

    `wait`: the seconds for which the API server wants to get nothing; None if it is not busy.
    """
    pause, outcome = state.back_off(), "bad"
    if wait is not None:
        pause = wait
        log.warning("account not written", **where(key), error=str(error), retry_in=round(pause, 1))
    elif isinstance(error, ApiError) and error.status in {HTTPStatus.NOT_FOUND, *CHANGED}:
        outcome = "conflict"
    elif isinstance(error, ApiError):
        pause = LONGEST_PAUSE
        log.warning("account not written", **where(key), error=str(error), retry_in=pause)
    else:
        pause = INTERVAL
        log.warning("account not written", **where(key), error=repr(error), retry_in=pause)
    metrics.LEDGER_WRITES.labels(outcome).inc()
    return pause


def report_zeros() -> None:
    """Report counters of the ledger as 0: Prometheus sees no increase of a series that begins with 1."""
    for cause, cost in product(CAUSES, ATTEMPT_COSTS):
        metrics.LEDGER_ATTEMPTS.labels(cause, cost)
    for work in ("kept", "lost"):
        metrics.LEDGER_LOST_WORK.labels(work)
    for reason in (*outcomes.DISRUPTIONS, "Other"):
        metrics.LEDGER_DISRUPTIONS.labels(reason)
    for reason in (*kueue.REASONS, kueue.OTHER):
        metrics.LEDGER_EVICTIONS.labels(reason)
    metrics.LEDGER_STOPPED.labels("Suspended", LIMIT_EXCEEDED)
    metrics.LEDGER_STOPPED.labels("Deactivated", EVICTED_TOO_OFTEN)
    for reason in REASONS:
        metrics.LEDGER_STOPPED.labels("Failed", reason)


def measure(counting: CountingPass) -> None:
    """Add the attempts that a pass has counted to the metrics."""
    for detail in counting.details:
        metrics.LEDGER_ATTEMPTS.labels(detail.cause, detail.cost).inc()
        if detail.restart:
            continue
        if detail.cause == "Disruption":
            reason = detail.reason if detail.reason in outcomes.DISRUPTIONS else "Other"
            metrics.LEDGER_DISRUPTIONS.labels(reason).inc()
        if detail.placement == "Spot":
            metrics.LEDGER_SPOT_LOST.inc()
        ran = between(detail.start, detail.end)
        metrics.LEDGER_LOST_WORK.labels("kept").inc(min(detail.saved, ran))
        metrics.LEDGER_LOST_WORK.labels("lost").inc(max(0.0, ran - detail.saved))
        stopped = detail.reason == outcomes.STOPPED or detail.cause == outcomes.EVICTED
        if counting.settings.on_failure and not stopped:
            metrics.LEDGER_DECISIONS.labels(counting.settings.profile_name, str(detail.on_failure)).inc()
    for reason, number in counting.evictions.items():
        metrics.LEDGER_EVICTIONS.labels(reason if reason in kueue.REASONS else kueue.OTHER).inc(number)
    metrics.LEDGER_SAVED.inc(counting.saved)
