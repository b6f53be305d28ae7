"""Writes the ledger: one replica, the leader, writes accounts, and suspends or fails Jobs.

The next write always follows from what the watches have delivered, never from what the leader meant to write. A write
fails if the account has changed; the watch then delivers the change.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import structlog

from webhook import metrics
from webhook.admission import modes
from webhook.kinds import KindSpec, batch, core
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names, terminal
from webhook.kube.client import CHANGED, UNREACHABLE, ApiError
from webhook.kube.events import Events, Notice
from webhook.kube.lease import Lease
from webhook.kube.slices import in_slices
from webhook.ledger import job_failer, measures, settling
from webhook.ledger.brake import HELD_FOR, Action, Brake, subject_of
from webhook.ledger.eviction_limit import EvictionLimit
from webhook.ledger.model import outcomes, words
from webhook.ledger.model.account import KEPT, KEPT_RESTARTED, LARGEST, MENDED, Account, encode
from webhook.ledger.model.cached import CachedJob
from webhook.ledger.model.counting import LIMIT_EXCEEDED, CountingPass
from webhook.ledger.model.in_place import counting as in_place
from webhook.ledger.model.in_place.reading import MARK
from webhook.ledger.model.in_place.tracking import delay
from webhook.ledger.model.kueue.workload import Workload
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.systems import SYSTEMS, System
from webhook.ledger.model.systems.system import Create, Write
from webhook.ledger.model.tracker import DOUBT, TOGETHER, Key, Tracker
from webhook.ledger.model.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY, WorkloadState
from webhook.ledger.recorder import Recorder
from webhook.ledger.trackers import UNSEEN_AFTER, Trackers, ignore, read, where
from webhook.ledger.waiting import WaitingPods
from webhook.ledger.work_queue import WorkQueue
from webhook.lookups.cluster import Cluster
from webhook.lookups.policy_source import PolicySource
from webhook.objects.patch import pointer
from webhook.objects.problem import Json, Path
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.jobs import failure_policy

# Seconds.
GATHERING: Final = 0.2  # from the end of a pod to the write, so that pods which end together are in one write
UNTIL_STEADY: Final = 5.0  # from a read of a workload that bears no write now to the next one
REMEMBERED: Final = 600.0  # after which a crash that could not be settled is forgotten
FORGOTTEN: Final = 60.0  # after which vanished pods are forgotten, because another leader has counted them
WRITERS: Final = 8

ANNOTATIONS: Final[Path] = ("metadata", "annotations")

log = structlog.get_logger()


@dataclass(slots=True)
class Crash:
    """The end of a pod that may end its Job: when it was `seen`, when to look `next`; seconds of a monotonic clock."""

    pod: Pod
    seen: float
    next: float = 0.0


class Ledger:
    """Writes the accounts of all workloads while this replica leads.

    - `trackers`: a `WorkloadState` for each workload, from the watches; this class records in it what was written.
    - `brake`: what the leader asks before each action.
    - `queue`: the workloads to process; open while this replica leads.
    - `waiting`: the pods that have not started.
    - `restarted`: the workloads with restarts in place that are not counted yet, and when they are due.
    - `crashes`: by workload and uid, the pods that may have failed by a bug.
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
        record: Callable[[str, bytes], None] = ignore,
    ) -> None:
        self.api = cluster.api
        self.cluster = cluster
        self.policy = policy
        self.events = events
        self.clock = clock
        self.brake = Brake(policy, events, clock)
        self.queue = WorkQueue()
        self.recorder = Recorder(cluster, policy, record, settings_of=self.settings_of, clock=clock)
        self.trackers = Trackers(
            cluster,
            changed=self.wake,
            crashed=self.see_crash,
            restarted=self.see_restarted,
            forgotten=self.queue.discard,
            recorder=self.recorder,
            clock=clock,
            settings_of=self.settings_of,
        )
        self.eviction_limit = EvictionLimit(cluster.api, events, self.allows)
        cluster.kueue.changed = self.see_workload
        self.waiting = WaitingPods(self.trackers, self.brake, settings_of=self.settings_of, may_act=self.may_act)
        self.crashes: dict[tuple[Key, str], Crash] = {}
        self.restarted: dict[Key, float] = {}
        self.forbidden = False
        metrics.LEDGER_LEADING.set_function(lambda: self.leading)
        metrics.LEDGER_FORBIDDEN.set_function(lambda: self.forbidden)
        measures.report_zeros()
        policy.on_change(self.see_policy)
        self.see_policy()

    @property
    def leading(self) -> bool:
        """Whether this replica is the leader."""
        return self.queue.is_open

    async def run(self, lease: Lease) -> None:
        """Watch until cancelled, and write while this replica holds the Lease."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.trackers.run())
            group.create_task(self.settle())
            group.create_task(self.waiting.run(lambda: self.leading))
            group.create_task(lease.lead(self.work))

    def see_policy(self) -> None:
        """Look at those labels of nodes by which the policy in force chooses."""
        if self.policy.current is not None:
            self.cluster.see_policy(self.policy.current)

    def see_refused(self) -> None:
        """Record that the API server denies the Lease, because the ledger's Role is not installed; log it once."""
        if not self.forbidden:
            what = "no ledger: its Role is not installed; apply manifests/base/ledger-rbac.yaml"
            log.error(what, disruptions="have no limit", settle="acts as Retry")
        self.forbidden = True

    def see_allowed(self) -> None:
        """Record that the API server does not deny the Lease."""
        self.forbidden = False

    def see_crash(self, key: Key, pod: Pod, job: CachedJob) -> None:
        """Record that a pod has failed that was disrupted, or that nobody had deleted."""
        settings = self.settings_of(job)
        if key.system is not None:
            if settling.bug_elsewhere(pod, key.system, settings) is not None:
                self.crashes[key, pod.uid] = Crash(pod, self.clock())
            return
        if settling.is_suspect(job, settings, pod, self.trackers.job_set_of(key)):
            self.crashes[key, pod.uid] = Crash(pod, self.clock())
        elif settling.is_crash(pod) and settling.may_settle(job, settings):
            self.trackers.state_of(key).tracker.disturb(self.clock())  # its end may make other pods crash

    def see_restarted(self, key: Key) -> None:
        """Record that a container of a running pod has restarted in place: later if it does so again and again."""
        wait = delay(self.trackers.state_of(key).account)
        if not wait:
            self.wake(key)
        else:
            self.restarted.setdefault(key, self.clock() + wait)

    def see_workload(self, workload: Workload) -> None:
        """Queue the object whose Workload was evicted, or has changed since."""
        if workload.evictions:
            for row in (batch.JOB, JOB_SET, *SYSTEMS):
                self.wake(Key(workload.namespace, row, workload.owner_name))

    def see_unwatched(self, key: Key, state: WorkloadState, counted: list[Pod]) -> None:
        """Record those of the pods just counted that had failed before the watch began, by the rules of onFailure.

        Not where a disruption may explain a crash: it may have happened before the watch began, too. And not those of
        other kinds, which may have started again since.
        """
        if key.system is not None:
            return
        for pod in counted:
            job = state.tracker.jobs[pod.job_uid]
            if (key, pod.uid) not in self.crashes and not settling.may_settle(job, self.settings_of(job)):
                self.see_crash(key, pod, job)

    async def work(self) -> None:
        """Write accounts until cancelled."""
        self.queue.open()
        try:
            await self.trackers.pods.synced.wait()
            await self.cluster.jobs.synced.wait()
            await self.cluster.namespaces.synced.wait()
            await self.recorder.lead()
            async for key in in_slices(list(self.trackers.states)):
                self.wake(key)
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self.write_what_is_queued())
        finally:
            self.recorder.rest()
            self.queue.close()

    def wake(self, key: Key, delay: float = 0.0) -> None:
        """Queue a workload, due after `delay` seconds or a little later, if this replica tracks it."""
        state = self.trackers.states.get(key)
        if state is not None:
            self.queue.add(key, max(delay, GATHERING, state.written + INTERVAL - self.clock()))

    async def write_what_is_queued(self) -> None:
        """Process the workloads of the queue, one after the other, until cancelled."""
        while True:
            key = await self.queue.get()
            pause = None
            try:
                await asyncio.sleep(0)  # let admissions run first: the next call may not suspend at all
                pause = await self.try_to_write(key)
            finally:
                self.queue.done(key, pause)

    async def try_to_write(self, key: Key) -> float | None:
        """Write an account; return None, or after a failure the seconds until the next try."""
        state = self.trackers.states.get(key)
        if state is None:
            return None
        try:
            await self.write(key, state)
        except Exception as error:  # noqa: BLE001 - an error with one workload must not stop all others
            pause = pause_after(error, key, state)
            return pause if self.trackers.states.get(key) is state else None  # it may have been deleted meanwhile
        state.see_success()
        return None

    async def write(self, key: Key, state: WorkloadState) -> None:
        """Count the uncounted pods of a workload, write its account, and fail or suspend it if a limit is exceeded.

        Raise what `Api` raises.
        """
        whole, tests = await self.read_before(key, state)
        root = self.trackers.root_of(key)  # from here to the write nothing waits: the account must be the last one
        if root is None:
            return
        if ("", key.namespace) not in self.cluster.namespaces.items:
            self.wake(key, LONGEST_PAUSE)  # not opted in, although a user wrote our label; or not cached yet
            return
        if tests is None or state.awaits_watch(self.clock()):
            self.wake(key, UNTIL_STEADY if tests is None else INTERVAL)
            return
        account = read(key, state.text)
        account.forget(KEPT, state.tracker.staying_ids(account.recent))
        in_place.forget(account, KEPT_RESTARTED, state.tracker.staying_restarted(account.restarted.items()))
        job_set, used_of = self.trackers.job_set_of(key), self.recorder.used
        workload, evicted_for = self.cluster.kueue.of(root), partial(self.cluster.kueue.reason_of, root)
        counting = CountingPass(
            key, root, job_set, state.tracker, account, self.settings_of, used_of, evicted_for, whole=whole
        )
        counting.see_workload(workload)
        bugs = list(state.bugs)  # a copy: another bug may be found during the write
        complete = self.count(counting, state, bugs)
        suspends = self.suspends(counting, state)
        if counting.changed or suspends:
            await self.store(counting, state, tests, suspends=suspends)
            state.see_limits_reset()
        state.forget_bugs(bugs)
        if state.over_limit and (not self.may_act(key) or await self.end(counting)):
            state.see_within_limit()
        await self.limit_evictions(counting, workload)
        await self.mark_counted(account, state.tracker)
        if not complete:
            self.wake(key, INTERVAL)
        elif state.over_limit:  # the brake holds what has to be done
            self.wake(key, HELD_FOR)

    def count(self, counting: CountingPass, state: WorkloadState, bugs: list[str]) -> bool:
        """Count the uncounted pods, and those named in `bugs` as bugs; return True if no pod is left to count."""
        tracker, account = state.tracker, counting.account
        doubtful = self.doubtful(counting.key, state) | self.maybe_evicted(counting)
        if counting.system is not None and counting.whole is None:
            doubtful |= {pod.uid for pod in tracker.open.values() if outcomes.was_killed(pod)}
        new = [pod for pod in tracker.uncounted(account) if pod.uid not in doubtful]
        complete = counting.count_restarts() and len(new) <= account.room and not doubtful
        counting.count(new[: account.room])
        if state.resets_limits or (account.suspended and not counting.root["spec"].get("suspend")):
            counting.reset_limits()
        for name in bugs:
            counting.settle(name)
        self.see_unwatched(counting.key, state, new[: account.room])
        if complete:
            self.count_unseen(counting, state, self.clock())
        return complete

    async def limit_evictions(self, counting: CountingPass, workload: Workload | None) -> None:
        """Act if Kueue has evicted a workload too often; raise what `Api` raises."""
        if self.may_act(counting.key) and not await self.eviction_limit.enforce(counting, workload):
            self.wake(counting.key, HELD_FOR)  # the brake holds what has to be done

    def maybe_evicted(self, counting: CountingPass) -> set[str]:
        """Return the uids of the pods that their Job has just deleted, and that Kueue may have evicted."""
        kueue, root, tracker = self.cluster.kueue, counting.root, counting.tracker
        if kueue.informer.missing or (kueue.of(root) is None and not batch.is_queued(root["metadata"])):
            return set()
        since = self.clock() - DOUBT
        new = (pod for pod in islice(tracker.open_of_jobs(), TOGETHER) if tracker.failed_at[pod.uid] > since)
        return {
            pod.uid
            for pod in new
            if pod.deleting and not pod.tracked and pod.disruption is None and not kueue.reason_of(root, pod)
        }

    def needs_whole(self, key: Key, state: WorkloadState) -> bool:
        """Return True if more than the metadata of a workload of another kind must be known to count its pods.

        Of any kind if a pod can be counted now that was deleted while it ran.
        """
        if key.system is None or not state.tracker.open:
            return False
        if key.system.reads_spec:
            return True
        doubtful = self.doubtful(key, state)
        return any(uid not in doubtful and outcomes.was_killed(pod) for uid, pod in state.tracker.open.items())

    def doubtful(self, key: Key, state: WorkloadState) -> set[str]:
        """Return the uids of the failed pods of which it is not known yet who deleted them."""
        return state.tracker.doubtful(self.clock(), current=self.trackers.is_current(key.row))

    async def read_before(self, key: Key, state: WorkloadState) -> tuple[Json | None, list[Json] | None]:
        """Return a workload as the API has it, if that is needed to count, and what `System.bears` returns of it.

        Raise what `Api` raises.
        """
        bears = None if key.system is None else key.system.bears
        whole = await self.whole_of(key) if bears is not None or self.needs_whole(key, state) else None
        return whole, [] if bears is None or whole is None else bears(whole)

    async def whole_of(self, key: Key) -> Json | None:
        """Return a workload as the API has it; None if it is not the same any more; raise what `Api` raises."""
        root, whole = self.trackers.root_of(key), await self.api.find(path_of(key))
        is_same = root is not None and whole is not None and whole["metadata"]["uid"] == root["metadata"]["uid"]
        return whole if is_same else None

    def suspends(self, counting: CountingPass, state: WorkloadState) -> bool:
        """Return True if the leader may now suspend a Job that exceeded its disruptions, with the next write."""
        over = (counting.exceeded, counting.free_too_often, counting.beyond_retries)
        if any(any(find(counting.details)) for find in over):
            state.see_over_limit()
        if counting.system is not None:  # that is a write of its own
            return False
        if not state.over_limit or not self.may_act(counting.key) or not counting.suspends(counting.attempts):
            return False
        limit = counting.budgets_of(counting.root).disruptions
        return self.allows("suspend", batch.JOB, counting.root, f"suspend it: disruptions exceed the limit of {limit}")

    def allows(self, action: Action, row: KindSpec, root: Json, step: str) -> bool:
        """Return True if the leader may act on an object now; see `Brake.allows`."""
        return self.brake.allows(action, self.settings_of(root).profile, subject_of(row, root), step)

    async def store(self, counting: CountingPass, state: WorkloadState, tests: list[Json], *, suspends: bool) -> None:
        """Write the account, and in the same write suspend the Job if it `suspends`; raise what `Api` raises.

        `tests`: operations that make the write fail if the workload is no longer as it was when they were made.
        """
        if suspends:
            counting.suspend()
        text = encode(counting.account)
        found = operations(counting.root, state.text, text, suspends=suspends)
        await self.api.patch(path_of(counting.key), [*tests, *found])
        state.see_written(text, self.clock(), counting.vanished)
        metrics.LEDGER_WRITES.labels("good").inc()
        self.tell(counting, suspended=suspends)

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
            counting.count_unseen(short)
        else:
            self.wake(counting.key, state.missing_since + UNSEEN_AFTER - now)

    async def mark_counted(self, account: Account, tracker: Tracker) -> None:
        """Mark pods that an account has counted, so that it can forget their ids; raise what `Api` raises."""
        if len(account.recent) > KEPT:
            for pod in list(tracker.staying()):
                await self.mark(pod)
        oldest = list(account.restarted.items())[:-KEPT_RESTARTED]
        for pod, number in list(tracker.restarted.unmarked(oldest)):
            await self.mark(pod, f"{MARK}{number}")

    async def mark(self, pod: Pod, restarts: str = "") -> None:
        """Annotate a counted pod that still exists, so that the account can forget its id; raise what `Api` raises.

        `restarts`: how many of its restarts in place are counted, if its end is not.
        """
        mark = restarts or datetime.now(UTC).isoformat(timespec="milliseconds")
        test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
        marks = [test, *annotated(names.COUNTED, mark, first=not pod.annotated)]
        try:
            await self.api.patch(core.POD.path(pod.namespace, pod.name), marks)
        except ApiError as error:
            if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:  # it was deleted, or the next pass marks it
                raise
        else:
            metrics.LEDGER_WRITES.labels("mark").inc()

    async def end(self, counting: CountingPass) -> bool:
        """Fail a workload with too many free restarts, or with too many disruptions and `onExceed: Fail`.

        Return False if the brake holds that, or the suspension of a Job, and True if no more is to be done. Raise what
        `Api` raises.
        """
        if counting.system is not None:
            return await self.end_elsewhere(counting, counting.system)
        if counting.suspends(counting.attempts):
            return False
        end = counting.end(counting.attempts)
        if end is None:
            return True
        namespace, reason, message = counting.key.namespace, end.reason, end.message(counting.key.namespace)
        if not self.allows("fail", counting.key.row, counting.root, f"fail it: {message}"):
            return False
        if counting.key.job_set:
            await job_failer.fail_set(self.api, path_of(counting.key), reason, message)
        else:
            await job_failer.fail(self.api, namespace, end.job["metadata"]["name"], reason, message)
        return True

    async def end_elsewhere(self, counting: CountingPass, system: System) -> bool:
        """Suspend or fail a workload of another kind, or a part of it, as `end`."""
        key, attempts = counting.key, counting.attempts
        whole = counting.whole = await self.whole_of(key)
        if whole is None or system.has_ended(whole):
            return True
        end, write = counting.end(attempts), None
        action: Action = "fail" if end is not None else "suspend"
        if end is not None:
            pod = counting.tracker.failed_named(end.pod)
            reason, message = end.reason, end.message(key.namespace)
            write = None if pod is None else system.fail(whole, pod, reason, message)
        elif counting.suspends(attempts):
            reason, message = LIMIT_EXCEEDED, words.suspended_elsewhere(counting.budgets_of(counting.root).disruptions)
            write = system.suspend(whole)
        if write is None:
            return True
        if not self.allows(action, key.row, counting.root, f"{action} it: {message}"):
            return False
        await self.send(write)
        self.tell_stopped(key, counting.root, "Failed" if end is not None else "Suspended", reason, message)
        if end is None:  # a person who resumes it allows as many disruptions again
            self.trackers.state_of(key).see_suspended()
            self.wake(key)
        return True

    async def decide_elsewhere(self, key: Key, state: WorkloadState, uid: str, crash: Crash, system: System) -> bool:
        """End a workload of another kind, or a part of it, after a bug; as `decide`."""
        root, pod = self.trackers.root_of(key), state.tracker.failed.get(uid, crash.pod)
        message = None if root is None else settling.bug_elsewhere(pod, system, self.settings_of(root))
        if root is None or message is None:
            return True
        if uid in state.tracker.open:
            return False  # it is not counted yet
        policy = self.settings_of(root).profile.failure_policy
        others = state.tracker.has_others(pod.scope) or any(one.scope != pod.scope for one in state.account.last)
        if policy.coupled != "FailJob" and system.coupled and others:
            was_bug = policy.coupled == "Settle" and self.was_bug(state, crash, policy.settle_within)
            if not was_bug:
                return was_bug is False
        cost = next((one.cost for one in reversed(state.account.last) if one.pod == pod.name), "")
        whole = None if cost in {"fatal", "none"} else await self.whole_of(key)
        if whole is None or system.has_ended(whole):
            return True
        write = system.fail(whole, pod, job_failer.OF_SET, message)
        if write is None:
            return True
        if not self.allows("settle", key.row, root, f"end it: {message}"):
            crash.next = self.clock() + LONGEST_PAUSE
            return False
        try:
            await self.send(write)
        except ApiError as error:
            if error.status not in CHANGED:
                raise
            crash.next = self.clock() + INTERVAL  # it has changed, or its controller has still something to do
            return False
        self.tell_stopped(key, root, "Failed", job_failer.OF_SET, message)
        state.see_bug(pod.name)
        self.wake(key)
        return True

    async def send(self, write: Write | Create) -> None:
        """Send the write that ends or suspends a workload of another kind; raise what `Api` raises."""
        if isinstance(write, Create):
            await self.api.create(write.path, write.root)
        else:
            await self.api.patch(write.path, write.operations)

    def was_bug(self, state: WorkloadState, crash: Crash, within: int) -> bool | None:
        """Return whether a crash was a bug, as no disruption explains it; None if it is too early to say.

        `within`: the seconds before and after the crash in which a disruption explains it. The controller may have
        deleted the pod, so none of its changes can show that the watch has delivered everything before.
        """
        explained = settling.is_explained(crash.seen, state.tracker.disturbed, within)
        if explained or crash.seen - within < self.trackers.watching_since:
            return False  # a disruption explains the crash, or may have done so before the watch began
        is_over = self.clock() >= crash.seen + within + WATCH_DELAY and self.trackers.pods.live
        return True if is_over else None

    def tell_stopped(self, key: Key, root: Json, how: str, reason: str, message: str) -> None:
        """Report that a workload of another kind, or a part of it, was failed or suspended; `how`: as in the metric."""
        metrics.LEDGER_STOPPED.labels(how, reason).inc()
        log.info("workload ended", **where(key), how=how, reason=reason, message=message)
        self.events.tell(Notice(**subject_of(key.row, root)._asdict(), type="Warning", reason=reason, message=message))

    async def settle(self) -> None:
        """Decide about each crash of `crashes` once its time has passed, whether it was a bug; until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            now = self.clock()
            for key in [key for key, due in self.restarted.items() if due <= now]:
                del self.restarted[key]
                self.wake(key)
            async for (key, uid), crash in in_slices(list(self.crashes.items())):
                if now - crash.seen > REMEMBERED or (
                    self.leading and now >= crash.next and await self.tried(key, uid, crash)
                ):
                    self.crashes.pop((key, uid), None)

    async def tried(self, key: Key, uid: str, crash: Crash) -> bool:
        """Call `decide` for a crash, and log errors; return True if the crash needs no further look."""
        try:
            return await self.decide(key, uid, crash)
        except (ApiError, *UNREACHABLE) as error:
            conflict = isinstance(error, ApiError) and error.status == HTTPStatus.CONFLICT
            pause = INTERVAL if conflict else LONGEST_PAUSE
            crash.next = self.clock() + pause
            log.warning("crash not settled", **where(key), error=repr(error), retry_in=pause)
        except Exception:  # an error with one workload must not stop all others
            log.exception("crash not settled", **where(key))
            return True
        return False

    async def decide(self, key: Key, uid: str, crash: Crash) -> bool:
        """Decide whether a crash was a bug, if its time has passed; return True if that is decided.

        Raise what `Api` raises.
        """
        state = self.trackers.states.get(key)
        job = None if state is None else state.tracker.jobs.get(crash.pod.job_uid)
        if state is None or job is None or terminal.is_decided(job["status"]) or not self.may_act(key):
            return True
        if key.system is not None:
            return await self.decide_elsewhere(key, state, uid, crash, key.system)
        settings, pod, within = self.settings_of(job), state.tracker.failed.get(uid, crash.pod), 0
        if settling.may_settle(job, settings) and settling.is_crash(crash.pod):
            within = settling.window(job, settings)
            explained = settling.is_explained(crash.seen, state.tracker.disturbed, within)
            if explained or crash.seen - within < self.trackers.watching_since or uid not in state.tracker.failed:
                return True  # a disruption explains the crash, or may have done so before the watch began
            end = crash.seen + within
            if self.clock() < end or not state.tracker.has_counted(uid):
                return False
            if not (self.trackers.pods.live and self.trackers.pods.last_event > end):
                crash.next = self.clock() + WATCH_DELAY
                await self.mark(pod)  # once the watch delivers this change, it has delivered everything before it
                return False
        elif uid in state.tracker.open:
            return False  # it is not counted yet
        return await self.settled(key, state, crash, pod, within)

    async def settled(self, key: Key, state: WorkloadState, crash: Crash, pod: Pod, within: int) -> bool:
        """Fail the Job of a pod whose crash was a bug; return False if the brake holds that. Raise what `Api` raises.

        `within`: the seconds before and after the crash in which a disruption would explain it.
        """
        job = await job_failer.running_job(self.api, pod)
        job_set = self.trackers.job_set_of(key)
        message = None if job is None else settling.bug_in(job, self.settings_of(job), pod, within, job_set)
        if job is None or message is None:
            return True
        if not self.allows("settle", batch.JOB, job, f"fail it: {message}"):
            crash.next = self.clock() + LONGEST_PAUSE
            return False
        if await job_failer.put(self.api, pod.namespace, job, job_failer.OF_SET, message):
            state.see_bug(pod.name)
            self.wake(key)
        return True

    def tell(self, counting: CountingPass, *, suspended: bool) -> None:
        """Write Events about what was counted on the workload, and count it in the metrics."""
        measures.add(counting)
        key, metadata = counting.key, counting.root["metadata"]
        about: dict[str, Any] = {
            "kind": key.row.kind,
            "api_version": key.row.api_version,
            "namespace": key.namespace,
            "name": key.name,
        }
        if counting.details:
            message = counting.sentence() + self.verdict_on(counting)
            self.events.tell(
                Notice(**about, uid=metadata["uid"], type="Normal", reason="AttemptEnded", message=message)
            )
        if suspended:
            metrics.LEDGER_STOPPED.labels("Suspended", LIMIT_EXCEEDED).inc()
            limit = counting.budgets_of(counting.root).disruptions
            message = words.suspended(limit, key.namespace, key.name)
            self.events.tell(
                Notice(**about, uid=metadata["uid"], type="Warning", reason="DisruptionLimitExceeded", message=message)
            )

    def verdict_on(self, counting: CountingPass) -> str:
        """Return, for the Event, when the crash that was counted last is a bug; empty if that is not pending."""
        key, last = counting.key, counting.details[-1]
        if key.system is not None:
            return ""
        if last.cost not in MENDED or last.restart or not self.may_act(key):
            return ""
        crashed = (crash.pod for (of, _), crash in self.crashes.items() if of == key)
        pod = next((one for one in crashed if one.name == last.pod), None)
        job = None if pod is None else self.trackers.state_of(key).tracker.jobs.get(pod.job_uid)
        if pod is None or job is None or failure_policy.tolerates_failures(job["spec"]):
            return ""
        settings = self.settings_of(job)
        if last.on_failure is not None and settling.may_judge(job, settings):
            return f"; {words.fatal_by(last.on_failure, key.kind)}"
        if last.rule is not None:
            return ""
        if not settling.may_settle(job, settings):
            return f"; {words.unlisted(key.kind)}"
        return f"; {words.verdict(settling.window(job, settings), key.kind)}"

    def settings_of(self, root: Json) -> Settings:
        """Return the settings of a workload under its Namespace's profile; the defaults if the policy lacks it."""
        name, _ = self.cluster.namespaces.items.get(("", root["metadata"]["namespace"]), (None, None))
        return NamedProfile(name or "", self.policy.profile(name or "")).settings(annotations.of(root))

    def may_act(self, key: Key) -> bool:
        """Return True if the namespace of a workload is in mode Enforce, and the policy has its profile."""
        profile, mode = self.cluster.namespaces.items.get(("", key.namespace), (None, None))
        policy = self.policy.current
        return policy is not None and profile in policy.profiles and mode in modes.ENFORCED


def pause_after(error: Exception, key: Key, state: WorkloadState) -> float:
    """Return the seconds to wait after a write that failed; count the error, and log it unless it is a conflict."""
    pause, outcome = state.back_off(), "bad"
    if isinstance(error, ApiError) and error.status in {HTTPStatus.NOT_FOUND, *CHANGED}:
        outcome = "conflict"
    elif isinstance(error, ApiError):
        pause = LONGEST_PAUSE
        log.warning("account not written", **where(key), error=str(error), retry_in=pause)
    elif isinstance(error, UNREACHABLE):
        pause = INTERVAL
        log.warning("account not written", **where(key), error=repr(error), retry_in=pause)
    else:
        pause = LONGEST_PAUSE
        log.error("account not written", **where(key), retry_in=pause, exc_info=error)
    metrics.LEDGER_WRITES.labels(outcome).inc()
    return pause


def path_of(key: Key) -> str:
    """Return the API path of the object that has the account."""
    return key.row.path(key.namespace, key.name)


def operations(root: Json, before: str | None, now: str, *, suspends: bool) -> list[Json]:
    """Return the JSON Patch that replaces the account of an object, and fails if the account is not `before`.

    `suspends`: whether it suspends a Job too. If so, or if `before` is too long to be cached whole, the patch fails if
    anything in the object has changed.
    """
    metadata, path = root["metadata"], pointer((*ANNOTATIONS, names.LEDGER))
    first, is_whole = "annotations" not in metadata, before is None or len(before) <= LARGEST
    found: list[Json] = []
    if suspends or not is_whole:
        found.append(job_failer.unless_changed(metadata))
    if is_whole and not first:
        found.append({"op": "test", "path": path, "value": before})
    found += annotated(names.LEDGER, now, first=first)
    if suspends:
        found.append({"op": "add", "path": "/spec/suspend", "value": True})
    return found


def annotated(key: str, value: str, *, first: bool) -> list[Json]:
    """Return the JSON Patch that sets an annotation; with `first`, it fails unless the object has no annotations."""
    if first:
        path = pointer(ANNOTATIONS)
        return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": {key: value}}]
    return [{"op": "add", "path": pointer((*ANNOTATIONS, key)), "value": value}]
