"""Decides whether the crash of a pod was a bug, once its time has passed, and ends the workload of one that was.

`webhook/accounts/settling.py` has the rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog

from webhook.accounts import settling, words
from webhook.accounts.account import Attempt
from webhook.accounts.cached import CachedJob
from webhook.accounts.counted import Counted, counted_of
from webhook.accounts.counting import CountingPass
from webhook.accounts.limits import scope_of
from webhook.accounts.tracker import Key, place_of
from webhook.controller.brake import Authority
from webhook.controller.ends import WorkloadEnds
from webhook.controller.store import mark
from webhook.kube import terminal
from webhook.kube.bulkhead import Bulkhead
from webhook.kube.client import CHANGED, UNREACHABLE, Api, ApiError, wait_after
from webhook.kube.tasks import in_slices
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.tracking.node_faults import NodeFaults
from webhook.tracking.trackers import Trackers
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE, WATCH_DELAY, Verdict, WorkloadState, where

REMEMBERED: Final = 600.0  # seconds after the time of a crash has passed until it is forgotten, decided or not

log = structlog.get_logger()


@dataclass(slots=True)
class Crash:
    """The end of a pod that may end its Job: when it was `seen`, when it is `forgotten`, when to look `next`.

    All are seconds of a monotonic clock.

    - `is_suspect`: whether it may have been a bug; if not, it is only looked at for a fault of its node.
    - `has_looked`: whether its node was looked at; `has_looked_late`: also after the time in which a fault may come to
      light. `is_explained`: whether something else than a fault explains it.
    """

    pod: Pod
    seen: float
    forgotten: float
    is_suspect: bool = True
    next: float = 0.0
    has_looked: bool = False
    has_looked_late: bool = False
    is_explained: bool = False


class Crashes:
    """The pods that may have failed by a bug: `pending`, by workload and by uid; `wake`: as in `Ledger`.

    `quiet_until`: the time until which a busy API server wants to get nothing.
    """

    def __init__(
        self, api: Api, trackers: Trackers, ends: WorkloadEnds, authority: Authority, wake: Callable[[Key], None]
    ) -> None:
        self.api = api
        self.trackers = trackers
        self.clock = trackers.clock
        self.ends = ends
        self.authority = authority
        self.wake = wake
        self.pending: dict[Key, dict[str, Crash]] = {}
        self.faults = NodeFaults(api, self.clock)
        self.quiet_until = 0.0
        self.bulkhead = Bulkhead("crashes", self.clock)

    def see(self, key: Key, pod: Pod, job: CachedJob) -> None:
        """Record that a pod has failed that was disrupted, or that nobody had deleted."""
        counted = self.counted(key, job)
        is_suspect = settling.is_suspect(counted, pod)
        if is_suspect or settling.hardware_for(counted, pod) is not None:
            self.add(key, pod, counted.settings, is_suspect=is_suspect)
        if not is_suspect and settling.disturbs(counted, pod):
            self.trackers.state_of(key).tracker.disturb(self.clock())  # its end may make other pods crash

    def counted(self, key: Key, job: Json) -> Counted:
        """Return what the ends of pods of a Job of a workload cost, or of the workload of another kind."""
        return counted_of(key.system, job, self.trackers.job_set_of(key), self.authority.settings_of(job))

    def add(self, key: Key, pod: Pod, settings: Settings, *, is_suspect: bool) -> None:
        """Record that a pod may have failed by a bug, or by a fault of its node, just now."""
        now = self.clock()
        forgotten = now + settings.profile.failure_policy.settle_within + REMEMBERED
        self.pending.setdefault(key, {})[pod.uid] = Crash(pod, now, forgotten, is_suspect=is_suspect)

    def forget(self, key: Key, uid: str) -> None:
        """Forget a pod."""
        of_workload = self.pending.get(key, {})
        of_workload.pop(uid, None)
        if not of_workload:
            self.pending.pop(key, None)

    def see_unwatched(self, key: Key, state: WorkloadState, counted: list[Pod]) -> None:
        """Record those of the pods just counted that had failed before the watch began, by the rules of onFailure.

        Not where a disruption may explain a crash: it may have happened before the watch began, too. And only those of
        Jobs: of other kinds they may have started again since.
        """
        if not key.system.has_jobs:
            return
        for pod in counted:
            job = state.tracker.job_of(pod)
            if job is None or pod.uid in self.pending.get(key, {}):
                continue
            if not settling.may_settle(job, self.authority.settings_of(job)):
                self.see(key, pod, job)

    def is_pending(self, key: Key) -> bool:
        """Return True if it is not decided of a pod of a workload whether its crash was a bug."""
        return key in self.pending

    async def look(self, *, is_leading: Callable[[], bool]) -> None:
        """Decide about each crash whose time has passed whether it was a bug, while this replica leads."""
        now = self.clock()
        pending = [(key, uid, crash) for key, crashes in self.pending.items() for uid, crash in crashes.items()]
        async for key, uid, crash in in_slices(pending):
            if now > crash.forgotten or (
                is_leading() and now >= max(crash.next, self.quiet_until) and await self.tried(key, uid, crash)
            ):
                self.forget(key, uid)

    async def tried(self, key: Key, uid: str, crash: Crash) -> bool:
        """Call `decide` for a crash, and log errors; return True if the crash needs no further look."""
        with self.bulkhead.around(*place_of(key)):
            try:
                return await self.decide(key, uid, crash)
            except (ApiError, *UNREACHABLE) as error:
                status = error.status if isinstance(error, ApiError) else None
                if not key.system.has_jobs and status in CHANGED:
                    crash.next = self.clock() + INTERVAL  # its controller has still something to do
                    return False
                pause, wait = INTERVAL if status == HTTPStatus.CONFLICT else LONGEST_PAUSE, wait_after(error)
                if wait is not None:
                    pause, self.quiet_until = wait, self.clock() + wait
                crash.next = self.clock() + pause
                log.warning("crash not settled", **where(key), error=repr(error), retry_in=round(pause, 1))
                return False
        return True

    async def decide(self, key: Key, uid: str, crash: Crash) -> bool:
        """End the workload of a crash, or its part, if it was a bug and its time has passed; return True if decided.

        Raise what `Api` raises.
        """
        state = self.trackers.states.get(key)
        job = None if state is None else state.tracker.job_of(crash.pod)
        if state is None or job is None or not self.authority.may_act(key):
            return True
        counted, pod = self.counted(key, job), state.tracker.failed_pod(uid) or crash.pod
        is_over = terminal.is_decided(job["status"]) or (key.kind is batch.JOB and state.has_bug)
        noted = _noted(state, pod, has_jobs=key.system.has_jobs)
        if (is_over and noted is None) or (noted is not None and noted.is_judged):
            return True
        others = any(one.scope != pod.scope for one in state.account.last)
        within = settling.window_of(counted, crash.pod, has_others=others or state.tracker.has_others(pod))
        if within is not None and (within or self.clock() <= crash.seen + WATCH_DELAY or not crash.has_looked):
            crash.is_explained = self.is_explained(key, state, crash, within)
        is_left, fault = await self._fault_of(counted, crash, pod, is_noted=noted is not None)
        if is_left or (fault and state.tracker.is_open(uid)):
            return False
        if fault:
            if within:
                state.tracker.disturb(self.clock())  # its end may have made other pods crash
            if noted is not None:
                state.see_verdict(Verdict(pod.name, fault))
                self.wake(key)
        if fault or is_over or (within is not None and crash.is_explained):
            return True
        return await self._decide_without_fault(key, state, crash, counted, pod, within)

    async def _decide_without_fault(  # noqa: PLR0913, PLR0917 - what is known of a crash
        self, key: Key, state: WorkloadState, crash: Crash, counted: Counted, pod: Pod, within: float | None
    ) -> bool:
        """Decide as `decide` about a crash that nothing has explained so far."""
        if not crash.is_suspect or (not key.system.has_jobs and settling.bug_in(counted, pod) is None):
            return True
        faults = sum(one.cause == "Hardware" and one.scope == scope_of(pod) for one in state.account.last_now)
        if faults and not settling.is_confirmed(counted, pod, faults):
            return True
        if within and self._may_be_explained_by_fault(key, counted, crash):
            return False
        if state.tracker.is_open(pod.uid):
            return False  # it is not counted yet
        if within is not None and not await self._has_passed(key, crash, pod, within):
            return False
        return await self.end(key, state, crash, pod, int(within or 0))

    def _may_be_explained_by_fault(self, key: Key, counted: Counted, crash: Crash) -> bool:
        """Return True if the nodes of other pods that have crashed are still to be looked at for a fault."""
        if settling.fault_within(counted.settings) is None:
            return False
        others = (one for one in self.pending.get(key, {}).values() if one is not crash and not one.has_looked_late)
        return any(settling.hardware_for(counted, one.pod) is not None for one in others)

    async def _fault_of(self, counted: Counted, crash: Crash, pod: Pod, *, is_noted: bool) -> tuple[bool, str]:
        """Return whether a fault of its node may still come to light that explains a crash; and one that did.

        The node is looked at once the account has noted the crash, and again once the time has passed in which a
        detector may tell of it: so a thousand pods of a Job that crash on as many nodes cost a few looks at first, and
        most of them none, because the first bug ends the Job.
        """
        hardware = settling.hardware_for(counted, pod)
        if hardware is None:
            return False, ""
        end = crash.seen + counted.settings.profile.failure_policy.settle_within
        is_late = self.clock() >= end
        looks = bool(pod.node) and (is_late or (is_noted and not crash.has_looked))
        fault = pod.fault or (await self.faults.of(pod.node, hardware, pod.finished) if looks else "")
        crash.has_looked = crash.has_looked or is_noted
        crash.has_looked_late = is_late
        return not (is_late or fault), fault

    async def end(self, key: Key, state: WorkloadState, crash: Crash, pod: Pod, within: int) -> bool:
        """End the workload of a pod, or its part, if its crash was a bug; as `decide`."""
        cost = next((one.cost for one in reversed(state.account.last) if one.pod == pod.name), "")
        is_over = cost == "fatal" or (not key.system.has_jobs and cost == "none")  # its controller ends it by itself
        whole = None if is_over else await self.ends.read_running(pod)
        message = None if whole is None else settling.bug_in(self.counted(key, whole), pod, within)
        if whole is None or message is None:
            return True
        if not self.authority.allows("settle", pod.kind, whole, f"fail it: {message}"):
            crash.next = self.clock() + LONGEST_PAUSE
            return False
        if await self.ends.fail(pod.kind, whole, POD_FAILURE_POLICY, message, pod):
            state.see_verdict(Verdict(pod.name))
            self.wake(key)
        return True

    def is_explained(self, key: Key, state: WorkloadState, crash: Crash, within: float) -> bool:
        """Return True if a disruption explains a crash, or may have done so before the watch began."""
        if settling.is_explained(crash.seen, state.tracker.disturbed, within):
            return True
        ended = seconds(crash.pod.finished)
        faults = (seconds(one.end) for one in state.account.last_now if one.cause == "Hardware")
        if within and ended is not None and any(one is not None and abs(one - ended) <= within for one in faults):
            return True
        is_gone = key.system.has_jobs and state.tracker.failed_pod(crash.pod.uid) is None
        return is_gone or crash.seen - within < self.trackers.watching_since

    async def _has_passed(self, key: Key, crash: Crash, pod: Pod, within: float) -> bool:
        """Return True if a disruption in `within` seconds after a crash would have been seen; as `decide`.

        Once the watch delivers the mark on the pod, it has delivered everything before it. The controller of another
        kind may have deleted the pod, so that none of its changes can show that.
        """
        end, watched = crash.seen + within, self.trackers.pods
        if not key.system.has_jobs:
            return self.clock() >= end + WATCH_DELAY and watched.live
        if self.clock() < end:
            return False
        if watched.live and watched.last_event > end:
            return True
        crash.next = self.clock() + WATCH_DELAY
        await mark(self.api, self.trackers.cluster.state_key, pod)
        return False

    def verdict_on(self, counting: CountingPass) -> str:
        """Return, for the Event, when the crash that was counted last is a bug; empty if that is not pending."""
        key, last = counting.key, counting.details[-1]
        if not key.system.has_jobs:
            return ""
        if not ATTEMPT_COSTS[last.cost].verdict_may_replace or last.restart or not self.authority.may_act(key):
            return ""
        crashed = (crash.pod for crash in self.pending.get(key, {}).values())
        pod = next((one for one in crashed if one.name == last.pod), None)
        job = None if pod is None else self.trackers.state_of(key).tracker.job_of(pod)
        if pod is None or job is None or failure_policy.tolerates_failures(job["spec"]):
            return ""
        settings = self.authority.settings_of(job)
        if last.on_failure is not None and settling.may_judge(job, settings):
            return f"; {words.fatal_by(last.on_failure, key.kind_name)}"
        if last.rule is not None:
            return ""
        if not settling.may_settle(job, settings):
            return f"; {words.unlisted(key.kind_name)}"
        within, of_fault = settling.window(job, settings), settling.fault_within(settings)
        return f"; {words.verdict(within, key.kind_name, of_fault)}"


def _noted(state: WorkloadState, pod: Pod, *, has_jobs: bool) -> Attempt | None:
    """Return what the account says of the end of a pod; None if it does not list it. Other kinds give a name again."""
    if state.tracker.is_open(pod.uid):
        return None  # what it says is of another pod of that name, perhaps of the same second
    ends = (one for one in reversed(state.account.last) if one.pod == pod.name and not one.restart)
    return next((one for one in ends if has_jobs or one.end == pod.finished), None)
