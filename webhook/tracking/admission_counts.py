"""Answers placement: how often the workload of a new pod was disrupted, and how its last pods ended."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from webhook import metrics
from webhook.accounts import limits
from webhook.accounts.cached import CachedJob
from webhook.accounts.counted import counted_of
from webhook.accounts.tracker import Key, lacked_spot
from webhook.kube.tasks import in_task
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.rules.facts import NO_WORK
from webhook.rules.pods.on_time import SavedWork
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET, SET_NAME
from webhook.systems.pod_source import Place
from webhook.tracking.trackers import Trackers

CATCHING_UP: Final = 0.5  # seconds that the admission of a pod waits until the watch delivers the end of the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCounts:
    """The counts of a workload that placement needs.

    `disruptions`: those of the pod's completion index, or of the Job divided by the pods that run at a time.
    `failures`: how many cost a retry of the Job; None if that is unknown, or the Job's own status has it; of the scope
    in a workload of another kind. `ended`: the
    last pods that have failed of the pod's completion index, or of the Job, the newest last. `spot_unavailable`: if
    the leader ended one of them, or any pod of the JobSet, because no spot node took it. `saved_work`: that of the
    index, if the Job has a deadline.
    """

    disruptions: int | None
    failures: int | None = None
    ended: tuple[Pod, ...] = ()
    spot_unavailable: bool = False
    saved_work: SavedWork = NO_WORK


UNKNOWN: Final = PlacementCounts(disruptions=None)
NONE: Final = PlacementCounts(disruptions=0, failures=0)
NONE_IN_SET: Final = PlacementCounts(disruptions=0)


class AdmissionCounts:
    """The counts of a workload before a new pod of it, from the same watches as the accounts."""

    def __init__(self, trackers: Trackers) -> None:
        self.trackers = trackers
        self.cluster = trackers.cluster
        self.pods = trackers.pods
        self.running = trackers.running
        self.states = trackers.states
        self.is_unlisted = False  # whether an admission has waited in vain for the first list of pods

    async def of_job(self, namespace: str, job: Json, pod: Json) -> PlacementCounts | None:
        """Return the counts of a workload before a new pod of it; None if nothing is known.

        If the pod shows that another one has ended, wait for the watch to deliver that, at most CATCHING_UP seconds.
        """
        metadata, labels = job["metadata"], pod["metadata"].get("labels") or {}
        job_set, index = labels.get(SET_NAME) or "", pods.index_of(pod["metadata"].get("annotations") or {})
        key = Key(namespace, JOB_SET, job_set) if job_set else Key(namespace, batch.JOB, metadata["name"])
        if not self.knows_all and not await self._is_listed():
            return None
        known = job if job is self.cluster.last_cached else self._job_with(namespace, metadata)
        if known is None:
            if not self._knows_set(key):
                return None
        elif self.running.is_behind(known, index):
            await in_task(self._catch_up(key, partial(self.is_behind, namespace, metadata, index)))
        state = self.states.get(key)
        if state is None or (state.text is None and state.tracker.failed is None):
            return NONE_IN_SET if job_set else NONE
        scope = limits.scope_named(job_set, metadata["name"], index)
        is_first = limits.is_first(*pods.failures_of_index(pod["metadata"].get("annotations") or {}))
        above, is_over = self.trackers.job_set_of(key), self.trackers.is_window_over(state.account, job)
        disruptions = state.disruptions_of(scope, job, above, is_first=is_first, is_over=is_over)
        disruptions = limits.share_of(disruptions, job["spec"])
        ended, deadline = state.tracker.ends_of(scope), self.trackers.settings_of(job).deadline
        return PlacementCounts(
            disruptions=disruptions,
            failures=None if job_set else state.failures_of(job),
            ended=ended,
            spot_unavailable=state.tracker.spot_unavailable if job_set else any(map(lacked_spot, ended)),
            saved_work=NO_WORK if deadline is None else state.saved_work_of(scope, job, deadline),
        )

    async def of_scope(self, namespace: str, place: Place) -> PlacementCounts | None:
        """Return the counts of a scope of a workload of another kind before a new pod of it; as `counts`."""
        system, key = SYSTEMS.get(place.kind), Key(namespace, place.kind, place.name)
        if system is None or system.has_jobs:
            return None
        if not self.knows_all and not await self._is_listed():
            return None
        root = self.trackers.root_of(key)
        if root is None or place.uid not in {"", root["metadata"]["uid"]}:
            return None
        state, uid, scope = self.trackers.state_of(key), root["metadata"]["uid"], place.scope
        tracker, is_behind = state.tracker, partial(self.running.is_behind_scope, uid, scope)
        if system.is_single(scope) and is_behind():
            await in_task(self._catch_up(key, is_behind))
        account, counted = state.account, counted_of(system, root, None, self.trackers.settings_of(root))
        disruptions = 0 if self.trackers.is_window_over(account, root) else account.scopes.of(scope)
        found = Counter(disruption=disruptions, retry=account.retries_of(scope))
        for pod in tracker.uncounted(account):
            if pod.scope == scope:
                found[counted.outcome_of(account, pod).cost] += 1
        ended = tracker.ends_of(scope)
        return PlacementCounts(
            disruptions=found["disruption"],
            failures=found["retry"],
            ended=ended,
            spot_unavailable=any(map(lacked_spot, ended)),
        )

    def _job_with(self, namespace: str, metadata: Json) -> CachedJob | None:
        job = self.cluster.jobs.get(namespace, metadata["name"])
        return job if job is not None and job["metadata"]["uid"] == metadata["uid"] else None

    def _knows_set(self, key: Key) -> bool:
        """Return True if a key is that of a JobSet that is known: it restarts with new Jobs."""
        return key.job_set != "" and (key in self.states or self.trackers.root_of(key) is not None)

    def is_behind(self, namespace: str, metadata: Json, index: str) -> bool:
        """Return True if the watch of pods lags behind the creation of a pod, as in RunningPods."""
        job = self._job_with(namespace, metadata)
        return job is not None and self.running.is_behind(job, index)

    async def _is_listed(self) -> bool:
        if not self.is_unlisted:
            await in_task(self._first_list())
        return self.knows_all

    @property
    def knows_all(self) -> bool:
        """Whether the pods have been listed, and the Accounts before them."""
        return self.pods.synced.is_set()

    async def _first_list(self) -> None:
        """Wait for the first list of pods, at most CATCHING_UP seconds: it says what is next."""
        try:
            async with asyncio.timeout(CATCHING_UP):
                await self.pods.synced.wait()
        except TimeoutError:
            self.is_unlisted = True  # without the ledger's Role it never comes: no other admission waits for it
            metrics.LEDGER_BEHIND.inc()

    async def _catch_up(self, key: Key, is_behind: Callable[[], bool]) -> None:
        """Wait until the watch has delivered the end of the replaced pod, at most CATCHING_UP seconds."""
        news = asyncio.Event()
        waiting = self.trackers.waiting.setdefault(key, [])
        waiting.append(news)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATCHING_UP):
                    while is_behind():
                        await news.wait()
                        news.clear()
                    return
            metrics.LEDGER_BEHIND.inc()
        finally:
            waiting.remove(news)
            if not waiting:
                self.trackers.waiting.pop(key, None)
