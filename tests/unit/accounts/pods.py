"""Makes decoded pods of a Job `train`, that Job, and a JobSet `set` for tests of the ledger."""

from typing import Any, Final
from uuid import UUID

from tests.objects import DISRUPTION, exit_codes, job_spec
from webhook.accounts.cached import CachedJob
from webhook.objects.problem import Json
from webhook.pods.pods import Condition, Exit, Pod
from webhook.systems.job import spec as batch

BUG: Final = exit_codes("FailJob", "NotIn", 143, container="main")
RULES: Final = [DISRUPTION, BUG]
EVICTED: Final = "EvictionByEvictionAPI"


def running_pod(number: int = 1, **fields: Any) -> Pod:
    """Return a running pod; each number is a different pod."""
    known = {
        "namespace": "ml",
        "name": f"train-{number}",
        "uid": str(UUID(int=(number + 1) << 80)),
        "job": "train",
        "job_uid": "job-uid",
        "phase": "Running",
        "tracked": True,
        "placement": "Spot",
        "node": "spot-1",
        "started": "2026-01-01T00:00:00Z",
    }
    row = fields.pop("row", batch.JOB)
    kind = {} if row is batch.JOB else {"group": row.group, "kind_name": row.kind}
    return Pod(**{**known, **kind, **fields})


def failed(number: int = 1, code: int = 143, *, container: str = "main", **fields: Any) -> Pod:
    """Return a pod whose container ended with an exit code."""
    exits = (Exit(container, code, fields.pop("exit_reason", "Error"), f"2026-01-01T00:{number % 60:02}:00Z"),)
    return running_pod(
        number, **{"phase": "Failed", "exits": exits, "ended": f"2026-01-01T00:{number % 60:02}:00Z", **fields}
    )


def disrupted(number: int = 1, reason: str = EVICTED, code: int = 137, **fields: Any) -> Pod:
    """Return a disrupted pod."""
    condition = Condition("DisruptionTarget", "True", reason, "2026-01-01T00:00:30Z")
    return failed(number, code, **{"conditions": (condition,), "deleting": True, **fields})


def job(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> CachedJob:
    """Return a stored Job with the fields that are cached."""
    spec = job_spec(rules=RULES, **{"backoffLimit": 3, "podReplacementPolicy": "Failed", **(spec or {})})
    metadata = {"namespace": "ml", "name": "train", "uid": "job-uid", "resourceVersion": "7", **metadata}
    return CachedJob({"metadata": metadata, "spec": spec, "status": status or {}})


def job_set(*rules: Json, status: Json | None = None, **policy: Any) -> Json:
    """Return a stored JobSet."""
    return {
        "kind": "JobSet",
        "metadata": {"namespace": "ml", "name": "set", "uid": "set-uid"},
        "spec": {"failurePolicy": {"maxRestarts": 3, "rules": list(rules), **policy}},
        "status": status or {},
    }
