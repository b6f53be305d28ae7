"""Makes the records of history from what the watches deliver, and keeps those of the last minutes.

Every replica makes the same records, and the leader writes them. A new leader writes those of the last minutes again,
because the last leader may not have; readers keep the last record of each uid.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, NamedTuple

import structlog
from msgspec.structs import replace

from webhook.accounts import counting, limits
from webhook.accounts.account import Account, Attempt
from webhook.accounts.cached import CachedJob, CachedJobSet
from webhook.accounts.counted import counted_of
from webhook.accounts.tracker import Key
from webhook.history import record, usage
from webhook.history.record import VERSION, AttemptRecord, Record, WorkloadRecord
from webhook.history.spec import fields_of
from webhook.history.usage import Used
from webhook.kube import terminal
from webhook.kube.tasks import in_slices
from webhook.objects.problem import Json
from webhook.objects.times import between, seconds
from webhook.pods import outcomes
from webhook.pods.pods import Pod
from webhook.policy.settings import LARGEST_COUNT, Settings
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import controller_of
from webhook.tracking.cluster import Cluster
from webhook.tracking.kueue_workloads import KueueWorkloads
from webhook.tracking.nodes import NOWHERE, NodePlace
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.workload_state import WorkloadState

RECENT: Final = 120.0  # seconds for which a record is kept
MOST: Final = 10_000  # records that are kept
LONGEST: Final = 320  # characters of a text in a record

log = structlog.get_logger()


End = tuple[str, str]  # name of a pod, and when it ended


class Kept(NamedTuple):
    """A record that is kept: when it was made, seconds of a monotonic clock, its namespace, and its line."""

    made: float
    namespace: str
    line: bytes


class Recorder:
    """Makes records, and calls `write` with the namespace and the line of each from `lead` to `rest`.

    `root_of` returns the object that has the account of a workload; `settings_of` its settings. `clock` is monotonic,
    `now` is Unix time; both in seconds.
    """

    def __init__(  # noqa: PLR0913 - what the records are made of
        self,
        cluster: Cluster,
        policy: PolicySource,
        kueue: KueueWorkloads,
        write: Callable[[str, bytes], None],
        *,
        settings_of: Callable[[Json], Settings],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.kueue = kueue
        self.write = write
        self.leading = False
        self.settings_of = settings_of
        self.clock = clock
        self.now = now
        self.kept: dict[str, Kept] = {}  # by uid, the oldest first

    async def lead(self) -> None:
        """Begin to write, with the records of the last minutes: the last leader may not have written them.

        The caches must be filled.
        """
        self.leading = True
        self._forget_old()
        async for uid, one in in_slices([*self.kept.items()]):
            if self.kept.get(uid) is one and self._is_opted_in(one.namespace):
                self.write(one.namespace, self.completed(one))

    def rest(self) -> None:
        """Write no more: this replica does not lead any longer."""
        self.leading = False

    def completed(self, one: Kept) -> bytes:
        """Return a line, with what was not cached when the record was made: the profile, and what the node is."""
        found = replace(record.decode(one.line), profile=self.profile_of(one.namespace))
        if isinstance(found, AttemptRecord) and found.node and not found.capacity:
            place = self.cluster.known_nodes.of(found.node)
            used = self.priced(place, Used(found.seconds, tuple(found.resources.items()), place.capacity))
            labels, cost = dict(place.labels), usage.rounded(used.price)
            found = replace(found, capacity=place.capacity, labels=labels, price=cost, currency=used.currency)
        return record.encode(found)

    def keep(self, uid: str, found: Record) -> None:
        """Keep a record, in place of an earlier one about the same uid, and write it if this replica leads."""
        line = record.encode(found)
        if len(line) > record.LONGEST:  # users may name a pod's owner as they like
            found = replace(found, owner="")
            line = record.encode(replace(found, job="", scope="") if isinstance(found, AttemptRecord) else found)
        problem = _problem_of(line)
        if problem is not None:
            log.warning("record left out", namespace=found.namespace, uid=uid[:LONGEST], error=problem)
            return
        self.kept.pop(uid, None)
        self.kept[uid] = Kept(self.clock(), found.namespace, line)
        self._forget_old()
        if self.leading:
            self.write(found.namespace, line)

    def _forget_old(self) -> None:
        bound = self.clock() - RECENT
        while self.kept and (len(self.kept) > MOST or self.kept[next(iter(self.kept))].made < bound):
            del self.kept[next(iter(self.kept))]

    def _is_recent(self, time: str) -> bool:
        """Return True if a time is of the last minutes: a record about it may not have been written."""
        at = seconds(time)
        return at is not None and self.now() - at <= RECENT

    def see_succeeded(self, key: Key, pod: Pod, root: Json | None, *, just_now: bool) -> None:
        """Record that a pod succeeded; `just_now`: whether it ran before, as far as this replica knows."""
        if not self.is_recorded(key) or not (just_now or (self._is_recent(pod.ended) and pod.uid not in self.kept)):
            return
        self.keep(pod.uid, self.attempt(key, root, pod, None))

    def see_uncounted(self, pod: Pod) -> None:
        """Record that a pod without an account has ended lately, or was deleted: at no cost, which nobody counts."""
        known = pod.elsewhere
        unwritten = self._is_recent(pod.finished) and pod.uid not in self.kept
        if known is None or not unwritten or not self._may_record(pod.namespace):
            return
        identity = {
            "version": VERSION,
            "namespace": pod.namespace[:LONGEST],
            "profile": self.profile_of(pod.namespace),
            "kind": known.kind[:LONGEST],
            "workload": known.name[:LONGEST],
            "workload_uid": known.uid[:LONGEST],
            "owner": known.owner[:LONGEST],
        }
        found = self.succeeded(pod, identity, known.scope)
        if not pod.has_succeeded:
            outcome = outcomes.outcome_alone(pod, has_ended=False)
            found = replace(found, cause=outcome.cause, reason=outcome.reason[:LONGEST])
        self.keep(pod.uid, found)

    def see_account(self, key: Key, state: WorkloadState, account: Account, root: Json, *, certain: bool) -> None:
        """Record the pods that an account has counted since the one in `state`, and those that it has judged since.

        `certain`: whether the account in `state` is the one before it; else only what ended lately is recorded.
        """
        if not self.is_recorded(key):
            return
        known, tracker = set(state.account.recent), state.tracker
        found = (tracker.failed_of_id(one) for one in account.recent if one not in known)
        pods = [pod for pod in found if pod is not None and (certain or self._is_recent(pod.finished))]
        details = {_end_named(key, detail.pod, detail.end): detail for detail in account.last}
        if any(_end_named(key, pod.name, pod.finished) not in details for pod in pods):
            details = {**self._counted_again(key, state, pods, root), **details}
        for pod in pods:
            self.keep(pod.uid, self.attempt(key, root, pod, details[_end_named(key, pod.name, pod.finished)]))
        if certain:
            self._see_judged(key, state, account, root, {pod.name for pod in pods})

    def _see_judged(self, key: Key, state: WorkloadState, account: Account, root: Json, done: set[str]) -> None:
        """Record again the crashes that an account says were fatal, or faults of nodes, and did not before.

        `done`: names of pods.
        """
        before = {detail.pod for detail in state.account.last if detail.is_judged} | done
        for detail in account.last:
            if detail.is_judged and detail.pod not in before:
                pod = state.tracker.failed_named(detail.pod)
                if pod is not None:
                    self.keep(pod.uid, self.attempt(key, root, pod, detail))

    def _counted_again(self, key: Key, state: WorkloadState, pods: list[Pod], root: Json) -> dict[End, Attempt]:
        """Return what became of pods of which an account has no details: as the leader has counted them."""
        account, job_set, found = deepcopy(state.account), root if key.job_set else None, {}
        evicted = self.kueue.reason_of
        for pod in pods:
            known = state.tracker.job_of(pod) if key.system.has_jobs else root
            job = known or {"metadata": {"namespace": pod.namespace}, "spec": {}}
            counted = counted_of(key.system, job, job_set, self.settings_of(job))
            detail = counting.count(account, pod, counted, evicted=evicted(root, pod))
            found[_end_named(key, pod.name, pod.finished)] = detail
        return found

    def see_end(self, key: Key, root: CachedJob | CachedJobSet, *, just_now: bool) -> None:
        """Record that a workload has ended; `just_now`: whether it had not before, as far as this replica knows."""
        ended = terminal.condition_of(root)
        if ended is None or not self.is_recorded(key):
            return
        end = ended.get("lastTransitionTime") or ""
        if not (just_now or self._is_recent(end)):
            return
        metadata = root["metadata"]
        found = WorkloadRecord(
            **self.identity(key, root, ""),
            created=metadata.get("creationTimestamp") or "",
            end=end,
            outcome="Complete" if terminal.has_ended_well(root) else "Failed",
            reason=(ended.get("reason") or "")[:LONGEST],
            **fields_of(root["spec"], of_set=bool(key.job_set)),
        )
        self.keep(f"{key.kind_name}/{metadata['uid']}", found)

    def is_recorded(self, key: Key) -> bool:
        """Return True if the namespace of a workload is opted in, or if that is not known yet."""
        return self._may_record(key.namespace)

    def _may_record(self, namespace: str) -> bool:
        return self._is_opted_in(namespace) or not self.cluster.namespaces.synced.is_set()

    def _is_opted_in(self, namespace: str) -> bool:
        return self.cluster.namespaces.get("", namespace) is not None

    def profile_of(self, namespace: str) -> str:
        """Return the profile of a namespace, according to the cache; empty if it has none."""
        profile, _ = self.cluster.known_opt_in(namespace)
        return profile or ""

    def identity(self, key: Key, root: Json | None, uid: str) -> dict[str, Any]:
        """Return the fields of a record that name its workload; `uid`: that of the workload if `root` is unknown."""
        owner = None if root is None else controller_of(root)
        return {
            "version": VERSION,
            "namespace": key.namespace[:LONGEST],
            "profile": self.profile_of(key.namespace),
            "kind": key.kind_name,
            "workload": key.name[:LONGEST],
            "workload_uid": uid if root is None else root["metadata"]["uid"],
            "owner": "" if owner is None else f"{owner.kind}/{owner.name}"[:LONGEST],
        }

    def attempt(self, key: Key, root: Json | None, pod: Pod, detail: Attempt | None) -> AttemptRecord:
        """Return the record of a pod; `detail`: as the account has it, None if the pod succeeded."""
        found = self.succeeded(pod, self.identity(key, root, "" if key.job_set else pod.job_uid), limits.scope_of(pod))
        if detail is None:
            return found
        left = detail.left
        return replace(
            found,
            attempt=detail.attempt,
            cause=detail.cause,
            reason=detail.reason,
            cost=detail.cost,
            on_failure=detail.on_failure,
            settled=detail.settled,
            saved=detail.saved,
            retries_left=None if left is None else min(left.retries, LARGEST_COUNT),
            disruptions_left=None if left is None else min(left.disruptions, LARGEST_COUNT),
        )

    def succeeded(self, pod: Pod, identity: dict[str, Any], scope: str) -> AttemptRecord:
        """Return the record of a pod that succeeded; `identity`: the fields that name its workload."""
        place, used = self.cluster.known_nodes.of(pod.node), self.used(pod)
        return AttemptRecord(
            **identity,
            uid=pod.uid,
            pod=pod.name[:LONGEST],
            job=pod.job[:LONGEST] if pod.kind is batch.JOB else "",
            scope=scope[:LONGEST],
            attempt=pod.attempt or pod.restart or pod.index_failures or 0,
            node=pod.node[:LONGEST],
            zone=pod.zone[:LONGEST],
            capacity=used.capacity,
            labels=dict(place.labels),
            placement=pod.placement,
            created=pod.created,
            start=pod.started,
            end=pod.finished,
            seconds=used.seconds,
            cause="Succeeded",
            resources=dict(used.resources),
            price=usage.rounded(used.price),
            currency=used.currency,
        )

    def used(self, pod: Pod) -> Used:
        """Return what a pod used, and what that cost by the policy's prices now."""
        place: NodePlace = self.cluster.known_nodes.of(pod.node) if pod.node else NOWHERE
        return self.priced(place, Used(between(pod.started, pod.finished), pod.resources, place.capacity))

    def priced(self, place: NodePlace, used: Used) -> Used:
        """Return what an attempt used, with its price by the policy's prices now, if it has any."""
        policy = self.policy.current
        table = None if policy is None else policy.prices
        if table is None:
            return used
        cost = usage.price(table.rates, place.capacity, dict(place.labels), dict(used.resources), used.seconds)
        return used._replace(price=cost, currency=table.currency)


def _end_named(key: Key, name: str, ended: str) -> End:
    """Return by what a pod is found among the attempts of an account: other kinds than Job give a name again."""
    return name, "" if key.system.has_jobs else ended


def _problem_of(line: bytes) -> str | None:
    """Return why readers will not take a line: they check all bounds, which fields of objects may exceed; or None."""
    try:
        record.decode(line)
    except ValueError as error:
        return str(error)
    return None
