"""Makes the workloads of a report of Jobs, JobSets, workloads of other kinds, and pods, as the API has them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from webhook.accounts import limits
from webhook.accounts.account import Account, Attempt
from webhook.accounts.counted import counted_of
from webhook.accounts.stored import account_in
from webhook.accounts.tracker import Key, key_of
from webhook.capacity.recognition import NodeFacts, capacities, facts_of
from webhook.history.amounts import Amounts, requested
from webhook.history.record import VERSION, AttemptRecord, Capacity
from webhook.history.usage import UsedRow, label_keys
from webhook.insight.report.known import NOTHING, Counted, Known, RowPrice, State, Window
from webhook.insight.report.sums import loss_of
from webhook.kube import names, terminal
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import between
from webhook.pods import outcomes
from webhook.pods.outcomes import Outcome
from webhook.pods.pods import ZONE, Pod
from webhook.policy.applied import profile_of
from webhook.policy.causes import CAUSES, Cause, Loss
from webhook.policy.model import FailurePolicy, Policy, Profile
from webhook.policy.settings import NamedProfile, own_spot_labels
from webhook.rules import undo
from webhook.systems import core
from webhook.systems.account_object import is_of
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.system import System


class PricedNode(NamedTuple):
    """A node; `labels`: those by which the policy's prices choose."""

    zone: str = ""
    capacity: Capacity = ""
    labels: Mapping[str, str] = {}


UNKNOWN: Final = PricedNode()


def nodes_of(found: Iterable[Json], policy: Policy | None, left_out: LeftOut = RAISING) -> dict[str, PricedNode]:
    """Return the nodes of the API by name; the policy says which labels mark spot nodes of its own, and prices."""
    keys = () if policy is None or policy.prices is None else label_keys(policy.prices.rates)
    facts: dict[str, NodeFacts] = {}
    for one in found:
        with left_out.around("PricedNode", one):
            facts[one["metadata"]["name"]] = facts_of(one)
    known = capacities(facts, {} if policy is None else own_spot_labels(policy))
    return {
        name: PricedNode(
            one.labels.get(ZONE) or "", known[name], {key: one.labels[key] for key in keys if key in one.labels}
        )
        for name, one in facts.items()
    }


CAPACITIES: Final[dict[str, Capacity]] = {"Spot": "Spot", "OnDemand": "OnDemand"}
TOTALS: Final = (
    "of older attempts an account has only sums, without times: they are left out because of the time asked for"
)


class LiveWork(NamedTuple):
    """A workload, its Jobs if it has such, and what is known of its pods. `account`: its Account; None without one."""

    root: Json
    jobs: list[Json]
    pods: list[Pod]
    system: System
    account: Json | None = None


def grouped(  # noqa: PLR0913, PLR0917 - what a cluster has
    jobs: Iterable[Json],
    job_sets: Iterable[Json],
    found: Iterable[Pod],
    others: Mapping[KindSpec, Iterable[Json]] | None = None,
    accounts: Iterable[Json] = (),
    left_out: LeftOut = RAISING,
) -> list[LiveWork]:
    """Return the JobSets, the Jobs that none of them controls, and workloads of other kinds; with pods and Account.

    A Job of a JobSet that is not among `job_sets` is left out.
    """
    stored = {(at(one, ("spec", "kind")), at(one, ("spec", "uid"))): one for one in accounts}
    elsewhere: dict[Key, LiveWork] = {}
    for row, some in (others or {}).items():
        for one in some:
            with left_out.around(row.kind, one):
                key = Key(one["metadata"]["namespace"], row, one["metadata"]["name"])
                elsewhere[key] = LiveWork({**one, "kind": key.kind_name}, [], [], key.system, _own(row, one, stored))
    roots: dict[str, LiveWork] = {}
    for one in job_sets:
        with left_out.around(JOB_SET.kind, one):
            root = {**one, "kind": JOB_SET.kind}
            roots[one["metadata"]["uid"]] = LiveWork(root, [], [], SYSTEMS[JOB_SET], _own(JOB_SET, one, stored))
    of_job: dict[str, LiveWork] = {}
    for job in jobs:
        with left_out.around(batch.JOB.kind, job):
            uid, workload = job["metadata"]["uid"], workload_with(job, roots, stored)
            if workload is not None:
                workload.jobs.append(job)
                of_job[uid] = workload
    for pod in found:
        with left_out.around(core.POD.kind, pod):
            of_pod = of_job.get(pod.job_uid) if pod.kind is batch.JOB else elsewhere.get(key_of(pod))
            if of_pod is not None and (of_pod.system.has_jobs or pod.job_uid in {"", of_pod.root["metadata"]["uid"]}):
                of_pod.pods.append(pod)
    return [*roots.values(), *elsewhere.values()]


def workload_with(job: Json, roots: dict[str, LiveWork], stored: Mapping[tuple[Any, Any], Json]) -> LiveWork | None:
    """Return the workload of a Job, by uid in `roots`, where a Job without a JobSet is added; None without its set."""
    controller = controller_of(job)
    if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
        return roots.get(controller.uid)
    found = LiveWork({**job, "kind": batch.JOB.kind}, [], [], SYSTEMS[batch.JOB], _own(batch.JOB, job, stored))
    return roots.setdefault(job["metadata"]["uid"], found)


def _own(kind: KindSpec, root: Json, stored: Mapping[tuple[Any, Any], Json]) -> Json | None:
    """Return the Account of a workload, of Accounts by kind and uid of their workloads; None if it has none."""
    found = stored.get((kind.kind, root["metadata"]["uid"]))
    return found if found is not None and is_of(found, kind, root) else None


def known_of(
    workload: LiveWork, nodes: Mapping[str, PricedNode], window: Window, price_of_row: RowPrice
) -> tuple[Known, list[str]]:
    """Return a workload as the report needs it, and notes about what could not be read."""
    root, notes = workload.root, []
    metadata = root["metadata"]
    try:
        account = account_in(workload.account, root)
    except ValueError as error:
        account = Account()
        notes.append(f"the account of {metadata['namespace']}/{metadata['name']} cannot be read: {error}")
    controller, ended = controller_of(root), terminal.condition_of(root)
    known = Known(
        namespace=metadata["namespace"],
        kind=root["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        profile=(metadata.get("labels") or {}).get(names.PROFILE) or recorded_profile(root),
        owner=f"{controller.kind}/{controller.name}" if controller is not None else "",
        state=_state_of(root) if workload.system.has_jobs else "Unknown",
        reason=(ended or {}).get("reason") or "",
        created=metadata.get("creationTimestamp") or "",
        end=terminal.ended_at(root) or "",
        per_index=root["kind"] == batch.JOB.kind and batch.has_index_budgets(root.get("spec") or {}),
    )
    records = Records(known, workload, account, nodes)
    counted = [*records.counted()]
    if window == Window():
        known.told = counted
        known.attempts = [*records.uncounted()]
        known.counted = [*_counted_in(account, price_of_row)]
        known.saved = [
            one for name, rows in account.saved.items() for one in _rows_of(name, rows, account, price_of_row)
        ]
    else:
        known.attempts = [
            one
            for one in (*counted, *records.uncounted())
            if window.has(one.end) or (not one.end and window.until is None)
        ]
        notes += [TOTALS] if account.ended + sum(account.in_place.values()) > len(counted) else []
    return known, notes


def recorded_profile(root: Json) -> str:
    """Return the profile that admission recorded on a workload; empty if it recorded none."""
    record = undo.read(root)
    return "" if record is None else record.profile


def _state_of(root: Json) -> State:
    well = terminal.has_ended_well(root)
    if well is not None:
        return "Complete" if well else "Failed"
    return "Suspended" if at(root, ("spec", "suspend")) else "Running"


class Records:
    """Makes records of the pods of a workload."""

    def __init__(self, known: Known, workload: LiveWork, account: Account, nodes: Mapping[str, PricedNode]) -> None:
        self.known = known
        self.workload = workload
        self.account = account
        self.nodes = nodes
        self.details = {detail.pod: detail for detail in account.last if detail.pod and not detail.restart}
        self.jobs = {job["metadata"]["uid"]: job for job in workload.jobs}
        self.job_set = workload.root if workload.root["kind"] == JOB_SET.kind else None

    def counted(self) -> Iterator[AttemptRecord]:
        """Yield the attempts that the account has counted and of which the pod or the detail exists."""
        existing = set()
        for pod in self.workload.pods:
            if self.is_counted(pod):
                existing.add(pod.name)
                yield self.record(pod)
        for detail in self.account.last:
            if detail.pod and detail.pod not in existing and not detail.restart:
                yield self.record(_vanished(detail, self.known, self.requests_of(detail)))

    def requests_of(self, detail: Attempt) -> Amounts:
        """Return what a pod that is gone requested: as much as one of the same Job, or else of the same JobSet.

        Where no pod exists that requests anything, what the template of its Job says; empty if that is gone too.
        """
        others = (pod for pod in self.workload.pods if pod.resources)
        job = _job_in(detail.scope)
        like = max(others, key=lambda pod: _job_in(limits.scope_of(pod)) == job, default=None)
        return self.requests_of_template(job) if like is None else like.resources

    def requests_of_template(self, job: str) -> Amounts:
        """Return what the pods of a Job of this workload request; `job`: its name in a JobSet, else empty."""
        name = f"{self.known.name}-{job}" if job else ""
        found = (one for one in self.workload.jobs if name in {"", one["metadata"]["name"]})
        return requested(at(next(found, {}), ("spec", "template", "spec")) or {})

    def uncounted(self) -> Iterator[AttemptRecord]:
        """Yield the other pods: those that run, that succeeded, and that are not counted yet."""
        yield from (self.record(pod) for pod in self.workload.pods if not self.is_counted(pod))

    def is_counted(self, pod: Pod) -> bool:
        """Return True if the account has counted a pod."""
        return pod.enters_account and (self.account.has(pod) or self.detail_of(pod) is not None)

    def detail_of(self, pod: Pod) -> Attempt | None:
        """Return what the account says of a failed pod; None if nothing. Other kinds create pods of the same name."""
        detail = self.details.get(pod.name)
        is_another = detail is not None and not self.workload.system.has_jobs and detail.end != pod.finished
        return None if is_another else detail

    def record(self, pod: Pod) -> AttemptRecord:
        """Return the record of a pod, without an end if it runs."""
        known, node = self.known, self.nodes.get(pod.node, UNKNOWN)
        end = pod.finished if pod.has_ended else ""
        found = AttemptRecord(
            version=VERSION,
            namespace=known.namespace,
            profile=known.profile,
            kind=known.kind,
            workload=known.name,
            workload_uid=known.uid,
            owner=known.owner,
            uid=pod.uid,
            pod=pod.name,
            job=pod.job,
            scope=limits.scope_of(pod),
            attempt=pod.attempt or pod.restart or pod.index_failures or 0,
            node=pod.node,
            zone=pod.zone or node.zone,
            capacity=node.capacity,
            labels=dict(node.labels),
            placement=pod.placement,
            created=pod.created,
            start=pod.started,
            end=end,
            seconds=between(pod.started, end),
            cause="Succeeded",
            resources=dict(pod.resources),
        )
        return self.failed(found, pod) if pod.enters_account else found

    def failed(self, found: AttemptRecord, pod: Pod) -> AttemptRecord:
        """Return the record of a failed pod, as its account has it, or else as its Job's failure policy judges it."""
        detail = self.detail_of(pod)
        if detail is None:
            outcome = self.outcome_of(pod)
            if outcome.rule is not None:
                self.known.rules[pod.name] = _rule_named(outcome.rule.index, outcome.rule.action)
            return replace(found, cause=outcome.cause, reason=outcome.reason, cost=outcome.cost)
        if detail.rule is not None and detail.on_failure is None:
            self.known.rules[pod.name] = _rule_named(detail.rule, detail.action)
        left = detail.left
        return replace(
            found,
            scope=detail.scope,
            attempt=detail.attempt,
            cause=_cause_named(detail.cause),
            reason=detail.reason,
            cost=detail.cost,
            on_failure=detail.on_failure,
            settled=detail.settled,
            retries_left=None if left is None else left.retries,
            disruptions_left=None if left is None else left.disruptions,
        )

    def outcome_of(self, pod: Pod) -> Outcome:
        """Return how a failed pod ended that is not counted yet."""
        if self.workload.system.has_jobs:
            return outcomes.outcome_of(pod, self.jobs.get(pod.job_uid), self.job_set)
        applied = self.account.applied
        profile = Profile() if applied is None else profile_of(applied, FailurePolicy().retriable_exit_codes)
        settings = NamedProfile(self.known.profile, profile).settings({})
        return counted_of(self.workload.system, self.workload.root, None, settings).outcome_of(self.account, pod)


def _job_in(scope: str) -> str:
    """Return the part of a scope that names a Job of a JobSet; empty if there is no JobSet."""
    return scope.rpartition("/")[0]


def _vanished(detail: Attempt, known: Known, resources: Amounts) -> Pod:
    """Return what an account still says of a pod that is gone, without a uid; `resources`: what it requested."""
    return Pod(
        namespace=known.namespace,
        name=detail.pod,
        uid="",
        job="",
        job_uid="",
        node=detail.node,
        placement=detail.placement,
        phase="Failed",
        started=detail.start,
        ended=detail.end,
        resources=resources,
    )


def _rule_named(index: int, action: str) -> str:
    return f"podFailurePolicy rule {index}: {action}"


def _counted_in(account: Account, price_of: RowPrice) -> Iterator[Counted]:
    """Yield all attempts that an account has counted, also those of which it does not know what they used.

    Attempts without capacity never started, so all that was used is of the others of their cause.
    """
    left: Counter[tuple[Cause, Loss | None]] = Counter()
    kept = _kept_in(account)
    for known, reasons in account.causes.items():
        for reason, number in reasons.items():
            left[known, loss_of(known, reason)] += number
    for name, by_capacity in account.lost.items():
        for one in _rows_of(name, by_capacity, account, price_of):
            key = (one.cause, one.loss)
            number = min(one.number, left[key])
            left[key] -= number
            yield one._replace(number=number, kept=kept)
    for (cause, loss), number in left.items():
        if number:
            yield Counted(number, cause, loss, price=NOTHING)


def _rows_of(name: str, by_capacity: dict[str, UsedRow], account: Account, price_of: RowPrice) -> Iterator[Counted]:
    cause = _cause_named(name)
    for capacity, row in by_capacity.items():
        known = CAPACITIES.get(capacity, "")
        resources = dict(zip(account.resources, row.resources, strict=False))
        price = price_of(row, known, account.resources, account.currency)
        yield Counted(row.attempts, cause, loss_of(cause, ""), known, row.seconds, resources, price)


def _kept_in(account: Account) -> float:
    """Return which share of what the attempts of an account used, in all, the attempts after them need not repeat."""
    used = sum(row.seconds for by_capacity in account.lost.values() for row in by_capacity.values())
    return min(1.0, account.work.total() / used) if used else 0.0


def _cause_named(name: str) -> Cause:
    """Return a cause of an account; Other for one of another version."""
    return next((cause for cause in CAUSES if cause == name), "Other")


def is_in(known: Known, window: Window) -> bool:
    """Return True if a workload has attempts in a window, or ended in it."""
    return window == Window() or bool(known.attempts) or (bool(known.end) and window.has(known.end))
