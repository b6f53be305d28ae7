"""Makes records of Jobs, JobSets and pods as `kubectl get jobs,pods -o json` prints them. Pure.

A dump has less than history: pods that were evicted are deleted, and only the account of their workload, in its last
attempts, says that they were there. Nodes, if they are in the dump too, say capacity and zone.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast, get_args

from webhook.capacity import recognition
from webhook.capacity.provider import PRESENCE
from webhook.capacity.table import ANY
from webhook.history.record import VERSION, AttemptRecord, Capacity, Cause, Cost, Record, WorkloadRecord
from webhook.kinds import batch
from webhook.kinds.job_set import JOB_SET
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names, terminal
from webhook.ledger.model import account as accounts
from webhook.ledger.model import limits, outcomes, pods
from webhook.ledger.model.account import Account, Attempt
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy import quantities

CAUSES: Final = frozenset(get_args(Cause))
COSTS: Final = frozenset(get_args(Cost))
MOST_RETRIES: Final = 2**31 - 1
LONGEST: Final = 320  # characters of a text in a record


class Place(NamedTuple):
    """Where a node is."""

    zone: str = ""
    capacity: Capacity = ""


NOWHERE: Final = Place()


def records_of(objects: Iterable[Json]) -> list[Record]:
    """Return the records of the Jobs and JobSets in a dump, and of their pods."""
    by_kind: dict[str, list[Json]] = defaultdict(list)
    for one in objects:
        by_kind[one["kind"]].append(one)
    places = places_of(by_kind["Node"])
    jobs = {one["metadata"].get("uid") or "": one for one in by_kind["Job"]}
    sets = {one["metadata"].get("uid") or "": one for one in by_kind["JobSet"]}
    found: list[Record] = []
    by_root: dict[str, list[tuple[Pod, Json, Json]]] = defaultdict(list)
    for raw in by_kind["Pod"]:
        if not isinstance(at(raw, ("metadata", "uid")), str) or not isinstance(at(raw, ("metadata", "name")), str):
            continue
        pod = pods.read(raw)
        job = jobs.get(pod.job_uid)
        if job is not None:
            by_root[root_of(job, sets)["metadata"]["uid"]].append((pod, raw, job))
    roots = {root_of(job, sets)["metadata"].get("uid") or "": root_of(job, sets) for job in jobs.values()}
    for uid, root in roots.items():
        job_set = root if root["kind"] == "JobSet" else None
        found += attempts_of(root, by_root[uid], job_set, places)
        if (ended := terminal.condition_of(with_status(root))) is not None:
            found.append(workload_of(root, ended))
    return found


def places_of(nodes: list[Json]) -> dict[str, Place]:
    """Return capacity and zone of each node; a node that no label marks is on-demand if any provider is recognised."""
    known = any(recognition.claims(facts_of(one)) for one in nodes)
    found = {}
    for one in nodes:
        labels = facts_of(one).labels
        is_spot = any(
            key in labels and (values == PRESENCE or labels[key] in values) for key, values in ANY.spot_labels.items()
        )
        found[one["metadata"].get("name") or ""] = Place(
            labels.get(pods.ZONE) or "", "Spot" if is_spot else "OnDemand" if known else ""
        )
    return found


def facts_of(node: Json) -> recognition.NodeFacts:
    """Return the fields of a node by which its provider is recognised."""
    return recognition.NodeFacts(at(node, ("metadata", "labels")) or {}, at(node, ("spec", "providerID")) or "")


def root_of(job: Json, sets: dict[str, Json]) -> Json:
    """Return the JobSet of a Job, or the Job itself."""
    controller = controller_of(job)
    if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
        return sets.get(controller.uid, job)
    return job


def with_status(root: Json) -> Json:
    """Return an object that has a status."""
    return root if root.get("status") is not None else {**root, "status": {}}


def attempts_of(
    root: Json, owned: list[tuple[Pod, Json, Json]], job_set: Json | None, places: dict[str, Place]
) -> Iterable[AttemptRecord]:
    """Yield the ended attempts of a workload: those of its pods, then those that only its account has."""
    account = account_of(root)
    details = {one.pod: one for one in account.last}
    seen = set()
    for pod, raw, job in owned:
        if not pod.has_ended:
            continue
        seen.add(pod.name)
        yield attempt_of(root, pod, raw, job, job_set, details.get(pod.name), places)
    template = next((raw for _, raw, _ in owned), None)
    for detail in account.last:
        if detail.pod not in seen and detail.end:
            yield detailed(root, detail, {} if template is None else requested(template), places)


def account_of(root: Json) -> Account:
    """Return the account of a workload; an empty one if it has none that can be read."""
    try:
        return accounts.decode(at(root, ("metadata", "annotations", names.LEDGER)))
    except ValueError:
        return Account()


def attempt_of(  # noqa: PLR0913, PLR0917 - where all of it meets
    root: Json,
    pod: Pod,
    raw: Json,
    job: Json,
    job_set: Json | None,
    detail: Attempt | None,
    places: dict[str, Place],
) -> AttemptRecord:
    """Return the record of an ended pod."""
    place, end = places.get(pod.node, NOWHERE), end_of(pod, raw)
    common: dict[str, Any] = {
        **identity(root),
        "uid": pod.uid,
        "pod": pod.name[:LONGEST],
        "job": pod.job[:LONGEST],
        "scope": limits.scope_of(pod)[:LONGEST],
        "attempt": pod.attempt or 0,
        "node": pod.node[:LONGEST],
        "zone": (pod.zone or place.zone)[:LONGEST],
        "capacity": place.capacity,
        "placement": pod.placement,
        "created": at(raw, ("metadata", "creationTimestamp")) or "",
        "start": pod.started,
        "end": end,
        "seconds": max(0.0, (pods.seconds(end) or 0.0) - (pods.seconds(pod.started) or pods.seconds(end) or 0.0)),
        "resources": requested(raw),
    }
    if pod.phase == "Succeeded":
        return AttemptRecord(**common, cause="Succeeded")
    if detail is not None:
        return AttemptRecord(**common, **ended(detail))
    outcome = outcomes.outcome_of(pod, with_status(job), job_set)
    return AttemptRecord(**common, cause=outcome.cause, reason=outcome.reason[:LONGEST], cost=outcome.cost)


def detailed(root: Json, detail: Attempt, resources: dict[str, float], places: dict[str, Place]) -> AttemptRecord:
    """Return the record of an attempt of which only the account knows."""
    place = places.get(detail.node, NOWHERE)
    began, end = pods.seconds(detail.start), pods.seconds(detail.end)
    return AttemptRecord(
        **identity(root),
        uid=f"{root['metadata'].get('uid')}/{detail.pod}"[:LONGEST],
        pod=detail.pod[:LONGEST],
        scope=detail.scope[:LONGEST],
        attempt=detail.attempt,
        node=detail.node[:LONGEST],
        zone=place.zone[:LONGEST],
        capacity=place.capacity,
        placement=detail.placement[:LONGEST],
        start=detail.start,
        end=detail.end,
        seconds=0.0 if began is None or end is None else max(0.0, end - began),
        resources=resources,
        **ended(detail),
    )


def ended(detail: Attempt) -> dict[str, Any]:
    """Return how an attempt ended, as its account says."""
    return {
        "cause": detail.cause if detail.cause in CAUSES else "Other",
        "reason": detail.reason[:LONGEST],
        "cost": detail.cost if detail.cost in COSTS else "",
        "on_failure": detail.on_failure,
        "settled": detail.settled,
        "retries_left": None if detail.left is None else detail.left.retries,
        "disruptions_left": None if detail.left is None else detail.left.disruptions,
    }


def end_of(pod: Pod, raw: Json) -> str:
    """Return when a pod ended: of one that succeeded, when the last of its containers did."""
    if pod.ended:
        return pod.ended
    finished = [
        at(one, ("state", "terminated", "finishedAt")) or "" for one in at(raw, ("status", "containerStatuses")) or ()
    ]
    return max(finished, default="") or pod.deleted


def requested(raw: Json) -> dict[str, float]:
    """Return the cpu (cores) and memory (bytes) that the regular containers of a pod request."""
    found: dict[str, float] = {}
    for container in at(raw, ("spec", "containers")) or ():
        requests = at(container, ("resources", "requests")) or {}
        for name in ("cpu", "memory"):
            amount = quantities.memory(f"{requests[name]}") if name in requests else None
            if name == "cpu" and str(requests.get(name, "")).endswith("m"):
                found[name] = found.get(name, 0.0) + float(str(requests[name])[:-1] or 0) / 1000
            elif amount is not None:
                found[name] = found.get(name, 0.0) + amount
    return found


def identity(root: Json) -> dict[str, Any]:
    """Return the fields of a record that name its workload."""
    metadata = root["metadata"]
    owner = controller_of(root)
    return {
        "version": VERSION,
        "namespace": (metadata.get("namespace") or "")[:LONGEST],
        "profile": at(metadata, ("labels", names.PROFILE)) or "",
        "kind": root["kind"],
        "workload": (metadata.get("name") or "")[:LONGEST],
        "workload_uid": metadata.get("uid") or "",
        "owner": "" if owner is None else f"{owner.kind}/{owner.name}"[:LONGEST],
    }


def workload_of(root: Json, condition: Json) -> WorkloadRecord:
    """Return the record of a workload that has ended by a condition."""
    spec, in_set = root.get("spec") or {}, root["kind"] == JOB_SET.kind
    retries = at(spec, ("failurePolicy", "maxRestarts")) or 0 if in_set else batch.retry_budget(spec)
    return WorkloadRecord(
        **identity(root),
        created=at(root, ("metadata", "creationTimestamp")) or "",
        end=terminal.ended_at(root) or "",
        outcome="Complete" if terminal.has_ended_well(root) else "Failed",
        reason=(condition.get("reason") or "")[:LONGEST],
        retries=min(cast("int", retries), MOST_RETRIES),
        per_index=not in_set and batch.has_index_budgets(spec),
        indexed=not in_set and batch.is_indexed(spec),
        completions=0 if in_set else spec.get("completions") or 0,
        parallelism=0 if in_set else spec.get("parallelism") or 0,
    )
