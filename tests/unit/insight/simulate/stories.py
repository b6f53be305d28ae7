"""Records of single workloads, for tests: times are in seconds after BEGIN."""

from typing import Any

import msgspec

from tests.unit.insight.simulate.world import BEGIN, PRICES, stamp
from webhook.history.record import VERSION, AttemptRecord, Record, WorkloadRecord
from webhook.policy.model import Placement, Policy, Profile

GIB = 2.0**30


def policy(profile: Profile | None = None, **fields: Any) -> Policy:
    """Return a policy with one profile."""
    found = profile or Profile(**{"placement": Placement(provider="gke"), **fields})
    return Policy(
        api_version="retry-policy.dev/v1alpha1", kind="RetryPolicy", profiles={"default": found}, prices=PRICES
    )


def attempt(name: str, number: int, begin: float, seconds: float, cause: Any = "Succeeded", **fields: Any) -> Record:
    """Return an attempt that began 10 s after its pod was created."""
    values: dict[str, Any] = {
        "scope": "",
        "node": f"{name}-{number}-node",
        "zone": "z1",
        "capacity": "Spot",
        "placement": "Spot",
        "resources": {"cpu": 1.0, "memory": GIB},
        **fields,
    }
    uid = f"{name}/{values['scope']}/{number}"
    return AttemptRecord(
        **of(name, values.pop("kind", "Job")),
        uid=uid,
        pod=uid.replace("/", "-"),
        created=stamp(BEGIN + begin - 10),
        start=stamp(BEGIN + begin) if seconds else "",
        end=stamp(BEGIN + begin + seconds),
        seconds=seconds,
        cause=cause,
        **values,
    )


def ended(name: str, end: float, outcome: Any = "Complete", **fields: Any) -> Record:
    """Return the end of a workload of one pod that was created at BEGIN."""
    values: dict[str, Any] = {"retries": 3, "completions": 1, "parallelism": 1, **fields}
    return WorkloadRecord(
        **of(name, values.pop("kind", "Job")),
        created=stamp(BEGIN),
        end=stamp(BEGIN + end),
        outcome=outcome,
        **values,
    )


def of(name: str, kind: str) -> dict[str, Any]:
    """Return the fields that name a workload."""
    return {
        "version": VERSION,
        "namespace": "ml",
        "profile": "default",
        "kind": kind,
        "workload": name,
        "workload_uid": name,
    }


def disrupted(name: str, number: int, begin: float, seconds: float, **fields: Any) -> Record:
    """Return an attempt that was disrupted."""
    return attempt(
        name,
        number,
        begin,
        seconds,
        "Disruption",
        **{"reason": "DeletionByTaintManager", "cost": "disruption", **fields},
    )


def crashed(  # noqa: PLR0917 - as a story is told
    name: str, number: int, begin: float, seconds: float, code: int, cost: Any, **fields: Any
) -> Record:
    """Return an attempt that ended with an exit code."""
    return attempt(name, number, begin, seconds, "ExitCode", reason=f"main {code}", cost=cost, **fields)


def killed(name: str, number: int, begin: float, seconds: float, cost: Any, **fields: Any) -> Record:
    """Return an attempt that was killed for its memory."""
    return attempt(name, number, begin, seconds, "OOMKilled", reason="main", cost=cost, **fields)


def paid(name: str, price: float, currency: str) -> Record:
    """Return an attempt that succeeded after 150 s and has a price."""
    return attempt(name, 1, 10, 150, price=price, currency=currency)


def without_prices() -> Policy:
    """Return a policy that has no prices."""
    return msgspec.structs.replace(policy(), prices=None)
