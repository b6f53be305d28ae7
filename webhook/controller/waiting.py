"""Acts on pods that do not get on: ends their delay, moves them from spot to on-demand, gives up what cannot start.

And those that cannot end, because their node is gone but its Node object stays. A podFailurePolicy demands
podReplacementPolicy Failed, with which the Job controller waits for the end of such a pod before it replaces it, and
without a kubelet it never comes.

Every replica knows the waiting pods from the watch, and only the leader acts. Each step is one write, which fails if
its reason no longer holds, and what is due follows from the pod alone: so another leader can take over at any time.

A pod that waits in vain is ended by its status: phase Failed with the condition DisruptionTarget, as the control
plane's own pod garbage collector does it. The Job controller then counts it, by that condition as a disruption, and
replaces it. Deletion would be a second write, and would need the permission to delete any pod; and the Job controller
would wait until the garbage collector has seen the pod, up to 20 seconds.

A pod that runs, and whose program tells no progress, in an annotation of the pod or in the status of its TrainJob, is
ended by its kubelet, as one that has exceeded its activeDeadlineSeconds, which the leader sets to what has passed. So
its program gets SIGTERM, and its grace period. The condition STALLED, written before, is by what the Job controller
counts it as a retry.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog
from msgspec.structs import replace

from webhook import metrics
from webhook.accounts import limits
from webhook.accounts.counted import Counted, counted_of
from webhook.accounts.tracker import Key, key_of
from webhook.controller import deadlines
from webhook.controller.brake import HELD_FOR, STOPPED, Action, Brake, BrakeSubject, subject_of
from webhook.controller.deadlines import Due
from webhook.controller.ends import WorkloadEnds
from webhook.kube import names
from webhook.kube.bulkhead import Bulkhead, repeat
from webhook.kube.client import CHANGED, UNREACHABLE, ApiError, wait_after
from webhook.kube.tasks import in_slices
from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods import outcomes
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.pods.pods import Condition, Exit, Pod
from webhook.policy.settings import Settings
from webhook.rules.facts import NO_WORK
from webhook.rules.pods import on_time, spot_wait
from webhook.systems import core, system
from webhook.systems.accounts import SYSTEMS
from webhook.systems.core import DISRUPTED, KILLED
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.trainer import progress
from webhook.systems.trainer.spec import TRAIN_JOB
from webhook.tracking.nodes import NODES
from webhook.tracking.trackers import Trackers
from webhook.tracking.train_jobs import Told, TrainJobs, train_job_of

# Seconds.
INTERVAL: Final = 1.0  # between two looks at the pods that are due
LOOK_AGAIN: Final = 10.0  # after which a pod is judged anew although it has not changed: the policy may have
AFTER_ERROR: Final = 5.0
LONGEST_PAUSE: Final = 60.0  # before another look at a pod that cannot leave spot nodes, or after an unexpected error

AT_ONCE: Final = 8  # pods
FIRST: Final = ("", "0")  # the index of the first pod of a Job

log = structlog.get_logger()


@dataclass(slots=True)
class Entry:
    """A pod that waits, or that has told its progress, or its TrainJob has. Times are in seconds since 1970.

    `released`: when its last scheduling gate was removed; 0 if it had none, or that is not known. `told`: when it told
    its progress last, as far as this replica has seen, in seconds of a monotonic clock. `next`: when to look at it
    next.
    """

    pod: Pod
    released: float = 0.0
    told: float = 0.0
    next: float = 0.0


class WaitingPods:
    """The pods that do not get on, and what the leader does to them.

    Of pods of other kinds than Job it only ends a delay, and a program that tells no progress.

    `train_jobs`: what TrainJobs say of their training. `settings_of`: returns the settings of a Job. `may_act`: whether
    the leader may change the objects of a workload. `clock`: seconds since 1970. `quiet_until`: the time until which a
    busy API server wants to get nothing. `blind_until`: the time until which this replica may not have seen what pods
    told, in seconds of a monotonic clock.
    """

    def __init__(  # noqa: PLR0913 - what it watches, acts with and asks
        self,
        trackers: Trackers,
        train_jobs: TrainJobs,
        brake: Brake,
        ends: WorkloadEnds,
        *,
        settings_of: Callable[[Json], Settings],
        may_act: Callable[[Key], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.trackers = trackers
        self.train_jobs = train_jobs
        self.cluster = trackers.cluster
        self.api = trackers.cluster.api
        self.brake = brake
        self.ends = ends
        self.settings_of = settings_of
        self.may_act = may_act
        self.clock = clock
        self.entries: dict[str, Entry] = {}
        self.unlisted: set[str] = set()  # uids of those that a list which is being read has not had yet
        self.bulkhead = Bulkhead("waiting pods")
        self.quiet_until = self.blind_until = 0.0
        self.reasons: Counter[str] = Counter()
        trackers.pods.observers.append(self)
        for reason in ("Delay", "Unschedulable", "NotStarted", "Terminating"):
            metrics.WAITING_PODS.labels(reason).set_function(partial(self.reasons.__getitem__, reason))
        for end in (outcomes.SPOT_UNAVAILABLE, outcomes.NEVER_STARTED, outcomes.NODE_LOST, outcomes.STALLED):
            metrics.WAITING_PODS_ENDED.labels(end)

    def begin_list(self) -> None:
        """Note which pods wait: those that the list lacks were deleted."""
        self.unlisted = set(self.entries)

    def listed(self, pod: Pod) -> None:
        """Take a pod of the list."""
        self.unlisted.discard(pod.uid)
        self.seen(pod)

    async def end_list(self) -> None:
        """Forget the pods that the list lacks."""
        for uid in self.unlisted:
            self.forget(uid)

    def seen(self, pod: Pod) -> None:
        """Take a pod that was created or has changed."""
        before = self.entries.get(pod.uid)
        self.forget(pod.uid)
        gated = pod.waiting is not None and pod.waiting.gated
        if not self._is_watched(pod):
            return
        entry = self.entries[pod.uid] = Entry(pod, told=self.trackers.clock())
        if before is not None:
            was_gated = before.pod.waiting is not None and before.pod.waiting.gated
            entry.released = self.clock() if was_gated and not gated else before.released
            if before.pod.progress == pod.progress:
                entry.told = before.told
        self.reasons[_reason_of(pod)] += 1

    def _is_watched(self, pod: Pod) -> bool:
        """Return True if a pod waits, or if it runs and has told its progress, or its TrainJob may have.

        Of another kind than Job it waits only if it has our gate.
        """
        if not pod.job:
            return False
        waits = pod.waiting is not None and (pod.kind is batch.JOB or pod.waiting.gate is not None)
        return waits or (pod.progress is not None and _runs(pod)) or self._may_be_of_train_job(pod)

    def _may_be_of_train_job(self, pod: Pod) -> bool:
        """Return True if a pod is a first one that runs, of a JobSet of a TrainJob, or of one that is not known yet.

        Only the first pod of a training stands for it: if that ends, the others cannot go on, and it costs one retry.
        """
        if not pod.job_set or pod.index not in FIRST or not _runs(pod):
            return False
        job_set = self.trackers.job_set_of(key_of(pod))
        return not self.trackers.knows_all(JOB_SET) if job_set is None else train_job_of(job_set) is not None

    def deleted(self, pod: Pod) -> None:
        """Take the last state of a deleted pod."""
        self.forget(pod.uid)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the pods of namespaces that are not opted in any more."""
        for uid in [uid for uid, entry in self.entries.items() if entry.pod.namespace in namespaces]:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """Remove a pod, if it is known."""
        entry = self.entries.pop(uid, None)
        if entry is not None:
            self.reasons[_reason_of(entry.pod)] -= 1

    async def run(self, leading: Callable[[], bool]) -> None:
        """Act on the pods that are due while this replica leads; until cancelled."""

        async def act() -> None:
            if not self.trackers.pods.live:
                self.blind_until = self.trackers.clock()
            if leading() and self.is_ready:
                await self.act()

        await repeat("act on waiting pods", INTERVAL, act)

    @property
    def is_ready(self) -> bool:
        """Whether policy, Jobs and Namespaces are known: else it would seem that nobody asks for the delays."""
        return (
            self.brake.policy.current is not None and self.trackers.synced and self.cluster.namespaces.synced.is_set()
        )

    async def act(self) -> None:
        """Act on the pods that are due, AT_ONCE at a time."""
        now = self.clock()
        found = [
            (entry, due)
            async for entry in in_slices(list(self.entries.values()))
            if entry.next <= now and (due := self._due_unless_set_aside(entry, now)) is not None
        ]
        for start in range(0, len(found), AT_ONCE):
            if self.clock() < self.quiet_until:
                return
            async with asyncio.TaskGroup() as group:
                for entry, due in found[start : start + AT_ONCE]:
                    group.create_task(self._try_to_take(entry, due))

    def _due_unless_set_aside(self, entry: Entry, now: float) -> Due | None:
        """Return the step that is due for a pod, as `due`; set the pod aside until it changes if that raises."""
        with self.bulkhead.around(entry.pod.namespace, entry.pod.name):
            return self.due(entry, now)
        entry.next = math.inf  # the watch delivers a change as a new entry
        return None

    def due(self, entry: Entry, now: float) -> Due | None:
        """Return the step that is due for a pod; None if there is none, then look again later, or forget it."""
        if not self._is_watched(entry.pod):
            self.forget(entry.pod.uid)
            return None
        job = self.job_of(entry.pod)
        if job is None and not self.trackers.knows_all(entry.pod.kind):
            entry.next = now + LOOK_AGAIN
            return None
        if job is None:  # it was deleted, and the pod will be; no delay may outlive it
            entry.next = now + LOOK_AGAIN
            return Due("lift", 0.0) if entry.pod.waiting is not None and entry.pod.waiting.gate is not None else None
        settings = self.settings_of(job)
        due = self._due_of(entry.pod, job, settings, entry)
        if due is not None and due.step == "leave_node" and job["spec"].get("podReplacementPolicy") != "Failed":
            due = None  # its Job does not wait for its end
        if due is not None and due.at <= now:
            return due
        entry.next = now + LOOK_AGAIN if due is None else min(due.at, now + LOOK_AGAIN)
        return None

    def _due_of(self, pod: Pod, job: Json, settings: Settings, entry: Entry) -> Due | None:
        """Return what follows for a pod, as it is now, by what is known of it."""
        silent = self.trackers.clock() - self._told_at(pod, entry)
        turns_at = None if pod.waiting is None else self._turns_at(pod, job, settings)
        return deadlines.due(pod, settings, entry.released, turns_at, self.clock() - silent)

    def _told_at(self, pod: Pod, entry: Entry) -> float:
        """Return when a program told its progress last, by a monotonic clock; infinite if nothing is expected of it.

        Nothing is of one that has never told any, nor of one that has done all: what is left to it then is not told.
        """
        train_job, reached = self._train_job_of(pod), self._reached(pod)
        if reached is not None and reached >= 1:
            return math.inf
        times = [] if train_job is None else [max(entry.told, train_job.at)]
        if pod.progress is not None:
            is_new = pod.progress != entry.pod.progress
            times.append(self.trackers.clock() if is_new else max(entry.told, self.blind_until))
        return max(times, default=math.inf)

    def _reached(self, pod: Pod) -> float | None:
        """Return how much of the work is done, 0 to 1, as a pod or its TrainJob says; None if neither does."""
        train_job = self._train_job_of(pod)
        percent = None if train_job is None else train_job.status.percent
        said = (pod.progress, None if percent is None else percent / progress.WHOLE)
        return max((one for one in said if one is not None), default=None)

    def _train_job_of(self, pod: Pod) -> Told | None:
        """Return what the TrainJob of a pod has said since the pod has started; None if that is nothing."""
        job_set = self.trackers.job_set_of(key_of(pod))
        told, started = None if job_set is None else self.train_jobs.of(job_set), seconds(pod.started)
        return told if told is not None and started is not None and told.status.time > started else None

    def _turns_at(self, pod: Pod, job: Json, settings: Settings) -> float | None:
        """Return until when a pod's deadline lets it wait for a spot node; None without one."""
        if settings.deadline is None or pod.kind is not batch.JOB:
            return None
        key = key_of(pod)
        state = self.trackers.states.get(key)
        saved = NO_WORK if state is None else state.saved_work_of(limits.scope_of(pod), job, settings.deadline)
        slack = on_time.slack_of(job, self.trackers.job_set_of(key), settings, saved, self.clock())
        return None if slack is None else slack.turns_at

    def job_of(self, pod: Pod) -> Json | None:
        """Return the Job of a pod; None if it is not known."""
        return self.trackers.job_of(self.trackers.identified(pod))

    async def _try_to_take(self, entry: Entry, due: Due) -> None:
        """Take a step, as `take`; set the pod aside until it changes if that raises."""
        with self.bulkhead.around(entry.pod.namespace, entry.pod.name):
            await self.take(entry, due)
            return
        entry.next = math.inf

    async def take(self, entry: Entry, due: Due) -> None:
        """Take a step; log an error of the API, and try again later."""
        pod = entry.pod
        entry.next = self.clock() + AFTER_ERROR  # once it has succeeded, the watch delivers that
        where = {"namespace": pod.namespace, "pod": pod.name, "step": due.step}
        try:
            if due.step == "lift":
                await self.lift(pod)
            else:
                entry.next = self.clock() + await self.end(entry, due)
        except ApiError as error:
            wait = wait_after(error)
            if wait is not None:
                entry.next = self.quiet_until = self.clock() + wait
                log.warning("waiting pod not changed", **where, error=str(error), retry_in=round(wait, 1))
            elif error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:  # else the watch delivers the change
                entry.next = self.clock() + LONGEST_PAUSE
                log.warning("waiting pod not changed", **where, error=str(error), retry_in=LONGEST_PAUSE)
        except UNREACHABLE as error:
            log.warning("waiting pod not changed", **where, error=repr(error), retry_in=AFTER_ERROR)

    async def lift(self, pod: Pod) -> None:
        """Remove the gate of a delay; raise what `Api` raises.

        Only emergency.actions stops it. With `actions: Report` the pod would wait for ever, although admission has
        promised an end; the rate limit is for what nobody can take back.
        """
        is_stopped = self.brake.is_stopped
        metrics.LEADER_ACTIONS.labels("lift", "stopped" if is_stopped else "taken").inc()
        if is_stopped:
            about = BrakeSubject("Pod", pod.namespace, pod.name, pod.uid)
            self.brake.tell("lift", about, f"would end the delay of the pod; {STOPPED}")
        elif pod.waiting is not None and pod.waiting.gate is not None:
            gate = f"/spec/schedulingGates/{pod.waiting.gate}"
            is_ours = {"op": "test", "path": f"{gate}/name", "value": names.DELAY}
            await self.api.patch(core.POD.path(pod.namespace, pod.name), [is_ours, {"op": "remove", "path": gate}])

    async def end(self, entry: Entry, due: Due) -> float:
        """End a pod that waits in vain, or fail its Job; return after how many seconds to look at the pod again.

        What the watch has delivered may be old, and is only a part: so this reads pod and Job. Raise what `Api` raises.
        """
        known = self.trackers.identified(entry.pod)
        if not self.may_act(key_of(known)):
            return LOOK_AGAIN
        told = self._train_job_of(known)
        if told is not None:
            train_job = await self.api.find(TRAIN_JOB.path(known.namespace, told.status.name))
            if train_job is not None:
                self.train_jobs.seen(progress.read(train_job))
        root = await self.api.find(core.POD.path(known.namespace, known.name))
        job = await self.ends.read_running(known)
        if root is None or job is None:
            return LOOK_AGAIN
        pod, settings = self.trackers.read_pod(root), self.settings_of(job)
        still = self._due_of(pod, job, settings, entry) if pod.uid == known.uid else None
        if still is None or still.step != due.step or still.at > self.clock():
            return AFTER_ERROR
        if due.step == "leave_spot":
            return await self.leave_spot(pod, root, job, settings)
        if due.step == "leave_node":
            return await self.leave_node(pod, root, job, settings)
        if due.step == "end_stalled":
            return await self.end_stalled(pod, root, job, settings, entry)
        return await self.give_up(pod, root, job, settings)

    async def leave_spot(self, pod: Pod, root: Json, job: Json, settings: Settings) -> float:
        """End a pod that no spot node takes, if the next one can run on-demand; as `end`."""
        job_set, disruptions = self.trackers.job_set_of(key_of(pod)), settings.profile.disruptions
        if not spot_wait.could_run_on_demand(root, job, job_set, settings, self.cluster.recognised):
            return LONGEST_PAUSE
        if disruptions.on_exceed != "OnDemand" and not self._has_disruptions_left(pod, job, settings):
            return LONGEST_PAUSE  # this would suspend or fail the Job
        message = f"no spot node took the pod in {settings.profile.placement.spot_wait} s; the next one runs on-demand"
        if settings.deadline is not None:
            message = "no spot node took the pod while its deadline left time for that; the next one runs on-demand"
        step = f"end pod {pod.name}: {message}"
        if not self.is_allowed("evict", settings, pod.kind, job, step):
            return HELD_FOR
        await self._fail_pod(root, outcomes.SPOT_UNAVAILABLE, outcomes.SPOT_UNAVAILABLE, message)
        return AFTER_ERROR

    async def give_up(self, pod: Pod, root: Json, job: Json, settings: Settings) -> float:
        """Fail the Job of a pod that cannot start, or end the pod if a rule asks for another attempt; as `end`."""
        stalled = None if pod.waiting is None else pod.waiting.stalled
        if stalled is None:
            return LOOK_AGAIN
        message = deadlines.words_about(pod, stalled, settings)
        if deadlines.may_try_again(pod, stalled, settings) and self._has_disruptions_left(pod, job, settings):
            if not self.is_allowed("evict", settings, pod.kind, job, f"end pod {pod.name}: {message}"):
                return HELD_FOR
            await self._fail_pod(root, outcomes.NEVER_STARTED, stalled.reason, message)
        elif not self.is_allowed("fail", settings, pod.kind, job, f"fail the Job: {message}"):
            return HELD_FOR
        else:
            # A JobSet treats the reason PodFailurePolicy as a bug; after any other it would restart.
            reason = POD_FAILURE_POLICY if pod.job_set else outcomes.NEVER_STARTED
            await self.ends.fail(batch.JOB, job, reason, message)
        return AFTER_ERROR

    async def leave_node(self, pod: Pod, root: Json, job: Json, settings: Settings) -> float:
        """End a pod that is being deleted on a node whose kubelet has stopped reporting; as `end`."""
        if await self._reports_since(pod.node) is not None:
            return LOOK_AGAIN
        timeout = settings.profile.unreachable_timeout
        message = f"the node {pod.node} was unreachable {timeout} s after the grace period of the pod"
        if not self.is_allowed("evict", settings, pod.kind, job, f"end pod {pod.name}: {message}"):
            return HELD_FOR
        await self._fail_pod(root, outcomes.NODE_LOST, outcomes.NODE_LOST, message)
        return AFTER_ERROR

    async def end_stalled(self, pod: Pod, root: Json, job: Json, settings: Settings, entry: Entry) -> float:
        """End a pod whose program tells no progress, if its workload counts that as a retry; as `end`.

        The time in which its node did not report does not count: it may not have been able to tell anything either.
        """
        if pod.progress is None and not progress.may_tell(root):
            return LONGEST_PAUSE
        if not self._counted(pod, job, settings).counts_as_retry(_ended(pod, root)):
            return LONGEST_PAUSE
        now, since = self.clock(), await self._reports_since(pod.node)
        told = self.trackers.clock() - (0.0 if since is None else now - since)
        if since is None or told > entry.told:
            entry.told = told
            return LOOK_AGAIN
        ran, limit = math.ceil(now - (seconds(pod.started) or now)), root["spec"].get("activeDeadlineSeconds")
        if pod.stalled and limit is not None and limit <= ran:
            return LONGEST_PAUSE  # its kubelet ends it
        timeout, reached = settings.profile.stall_timeout, self._reached(pod)
        beyond = "" if reached is None else f" beyond {reached:.1%}"
        message = f"no progress{beyond} in {timeout} s; find out where the program hangs"
        if not self.is_allowed("evict", settings, pod.kind, job, f"end pod {pod.name}: {message}"):
            return LONGEST_PAUSE
        if not pod.stalled:
            await self._mark_stalled(root, message)
        if limit is None or limit > ran:
            value = {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": max(1, ran)}
            same = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
            await self.api.patch(core.POD.path(pod.namespace, pod.name), [same, value])
            metrics.WAITING_PODS_ENDED.labels(outcomes.STALLED).inc()
            log.info("pod ended", namespace=pod.namespace, pod=pod.name, reason=outcomes.STALLED, message=message)
        return LONGEST_PAUSE

    async def _mark_stalled(self, root: Json, message: str) -> None:
        """Write the condition STALLED, unless the pod has changed since it was read; raise what `Api` raises."""
        metadata, conditions = root["metadata"], (root.get("status") or {}).get("conditions") or []
        value = [*conditions, system.condition(names.STALLED, "StallTimeout", message)]
        operations = [unless_changed(root), {"op": "add", "path": "/status/conditions", "value": value}]
        await self.api.patch(f"{core.POD.path(metadata['namespace'], metadata['name'])}/status", operations)

    async def _reports_since(self, node: str) -> float | None:
        """Return since when the kubelet of a node reports; None if it has stopped. Raise what `Api` raises.

        The node lifecycle controller sets Ready to Unknown then. A node that is gone is deleted with its pods.
        """
        query = {"fieldSelector": f"metadata.name={node}"}  # a list, because the Role has no right to get nodes
        nodes = (await self.api.get(NODES, query)).get("items") or ()
        conditions = (one for root in nodes for one in (root.get("status") or {}).get("conditions") or ())
        ready = [one for one in conditions if one.get("type") == "Ready"]
        if any(one.get("status") == "Unknown" for one in ready):
            return None
        return max((seconds(one.get("lastTransitionTime")) or 0.0 for one in ready), default=0.0)

    def _has_disruptions_left(self, pod: Pod, job: Json, settings: Settings) -> bool:
        """Return True if a pod may be ended as disrupted: a Job whose pods never start has no bound else."""
        key = key_of(pod)
        job_set = self.trackers.job_set_of(key)
        budgets = limits.budgets_of(job, job_set, settings)
        scope, is_first = limits.scope_of(pod), limits.is_first(pod.index_failures, pod.index_ignored)
        state = self.trackers.state_of(key)
        is_over = self.trackers.is_window_over(state.account, job)
        spent = state.disruptions_of(scope, job, job_set, is_first=is_first, is_over=is_over)
        return spent < budgets.disruptions

    def _counted(self, pod: Pod, job: Json, settings: Settings) -> Counted:
        """Return what the ends of the pods of a Job cost, or of a workload of another kind."""
        return counted_of(SYSTEMS[pod.kind], job, self.trackers.job_set_of(key_of(pod)), settings)

    def is_allowed(self, action: Action, settings: Settings, kind: KindSpec, job: Json, step: str) -> bool:
        """Return True if the leader may act on the pods of a Job now, or of a workload of another kind."""
        return self.brake.allows(action, settings.profile, subject_of(kind, job), step)

    async def _fail_pod(self, root: Json, disruption: str, reason: str, message: str) -> None:
        """End a pod as disrupted, unless it has changed since it was read; raise what `Api` raises.

        `disruption`: the reason of the condition, if the pod has none yet. `reason`: that in the pod's status.
        """
        metadata = root["metadata"]
        status = _ending(root.get("status") or {}, disruption, reason, message)
        operations = [unless_changed(root), {"op": "add", "path": "/status", "value": status}]
        await self.api.patch(f"{core.POD.path(metadata['namespace'], metadata['name'])}/status", operations)
        metrics.WAITING_PODS_ENDED.labels(disruption).inc()
        log.info("pod ended", namespace=metadata["namespace"], pod=metadata["name"], reason=disruption, message=message)


def _runs(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.deleting


def _ended(pod: Pod, root: Json) -> Pod:
    """Return a pod as it is after its kubelet has ended it because its program hangs, and had to be killed."""
    mark = Condition(names.STALLED, "True", "", "")
    killed = tuple(Exit(one["name"], KILLED, "", "") for one in root["spec"].get("containers") or ())
    return replace(pod, phase="Failed", reason=outcomes.DEADLINE, conditions=(*pod.conditions, mark), exits=killed)


def _reason_of(pod: Pod) -> str:
    waiting = pod.waiting
    if waiting is None or (waiting.gated and waiting.gate is None):
        return ""
    if waiting.deadline:
        return "Terminating"
    return "Delay" if waiting.gated else "Unschedulable" if waiting.unschedulable else "NotStarted"


def _ending(status: Json, disruption: str, reason: str, message: str) -> Json:
    conditions = status.get("conditions") or []
    ended = {**status, "phase": "Failed", "reason": reason, "message": message}
    if any(one.get("type") == DISRUPTED and one.get("status") == "True" for one in conditions):
        return ended
    kept = [one for one in conditions if one.get("type") != DISRUPTED]
    return {**ended, "conditions": [*kept, system.condition(DISRUPTED, disruption, message)]}
