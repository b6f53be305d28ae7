"""History of a week as the server would write it, in simulated time, from what the witness saw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from tests.bench.week.policies import zone_label
from tests.cluster.objects import condition
from webhook.history.record import VERSION, AttemptRecord, Record, WorkloadRecord
from webhook.kube import names
from webhook.pods import on_failure, outcomes, pods
from webhook.policy.settings import count
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from tests.bench.week.witness import SeenPod, Witness
    from webhook.objects.problem import Json
    from webhook.policy.model import FailureRule

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)  # when the week begins


def time_of(hours: float) -> str:
    return (MONDAY + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def records(seen: Witness, namespace: str, rules: tuple[FailureRule, ...]) -> list[Record]:
    """Return a record of each pod and of each Job that has ended, in the order of their ends.

    `rules`: those of onFailure, of the policy.
    """
    ended = [pod for pod in seen.pods.values() if pod.ended is not None]
    found: list[Record] = [attempt(seen, pod, namespace, rules) for pod in ended]
    found += [workload(seen.last[name], namespace, seen.created[name], end) for name, end in seen.ended.items()]
    return sorted(found, key=lambda record: record.end)


def attempt(seen: Witness, pod: SeenPod, namespace: str, rules: tuple[FailureRule, ...]) -> AttemptRecord:
    job = seen.last[pod.job]
    how = _how(pod, job, rules)
    annotations = pod.last["metadata"].get("annotations") or {}
    return AttemptRecord(
        **identity(namespace, job),
        uid=pod.last["metadata"]["uid"],
        pod=pod.last["metadata"]["name"],
        job=pod.job,
        scope=str(pod.index) if seen.jobs[pod.job].indexed else "",
        attempt=count(annotations.get(names.ATTEMPT)) or 0,
        node=pod.node,
        zone=zone_label(pod.zone) if pod.zone else "",
        capacity="" if not pod.node else "Spot" if pod.spot else "OnDemand",
        labels={pods.ZONE: zone_label(pod.zone)} if pod.zone else {},
        placement=annotations.get(names.PLACEMENT, ""),
        created=time_of(pod.created),
        start="" if pod.started is None else time_of(pod.started),
        end=time_of(cast("float", pod.ended)),
        seconds=round(pod.hours * 3600, 1),
        resources=pod.resources,
        price=round(seen.money(pod), 6),
        currency="USD",
        **how,
    )


def workload(job: Json, namespace: str, created: float, end: float) -> WorkloadRecord:
    spec, complete = job["spec"], condition(job, "Complete")
    return WorkloadRecord(
        **identity(namespace, job),
        created=time_of(created),
        end=time_of(end),
        outcome="Complete" if complete else "Failed",
        reason=(complete or condition(job, "Failed")).get("reason", ""),
        retries=batch.retry_budget(spec),
        per_index=batch.has_index_budgets(spec),
        indexed=spec.get("completionMode") == "Indexed",
        completions=spec.get("completions") or 0,
        parallelism=spec.get("parallelism") or 0,
    )


def identity(namespace: str, job: Json) -> dict[str, Any]:
    metadata = job["metadata"]
    return {
        "version": VERSION,
        "namespace": namespace,
        "profile": "default",
        "kind": "Job",
        "workload": metadata["name"],
        "workload_uid": metadata["uid"],
    }


def _how(pod: SeenPod, job: Json, rules: tuple[FailureRule, ...]) -> dict[str, Any]:
    """Return how an attempt ended, as the ledger's functions say it."""
    if pod.succeeded:
        return {"cause": "Succeeded"}
    read = pods.read(pod.last)
    outcome = outcomes.outcome_of(read, job)
    failed = condition(job, "Failed")
    return {
        "cause": outcome.cause,
        "reason": outcome.reason,
        "cost": outcome.cost,
        "on_failure": on_failure.decided(read, outcome, rules),
        "settled": outcome.cost == "retry" and f"{read.namespace}/{read.name} " in failed.get("message", ""),
    }
