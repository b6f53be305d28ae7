"""Makes Workloads of Kueue for tests of the ledger, as the API has them."""

from typing import Any

import msgspec

from webhook.accounts import kueue
from webhook.accounts.kueue import KueueWorkload
from webhook.objects.problem import Json
from webhook.objects.shape import type_of

EVICTED_AT = "2026-01-01T00:10:00Z"
UID = "70af1c56-0000-4000-8000-000000000001"


def stored_workload(
    stats: Json | None = None, evicted: str | None = None, at: str = EVICTED_AT, *, active: bool = True, **metadata: Any
) -> Json:
    """Return a Workload of the Job `train`; `stats`: its evictions by reason, `evicted`: why it is evicted now."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
    known = {"namespace": "ml", "name": "job-train-70af1", "uid": UID, "creationTimestamp": "2026-01-01T00:00:00Z"}
    condition = {"type": "Evicted", "status": "True", "reason": evicted, "lastTransitionTime": at}
    return {
        "metadata": {**known, "resourceVersion": "1", "ownerReferences": [owner], **metadata},
        "spec": {"active": active, "podSets": [{"name": "main"}]},
        "status": {
            "conditions": [] if evicted is None else [condition],
            "schedulingStats": {
                "evictions": [
                    {"reason": reason, "underlyingCause": "", "count": number}
                    for reason, number in (stats or {}).items()
                ]
            },
        },
    }


def read(stored: Json) -> KueueWorkload:
    """Return a Workload as it is kept."""
    return kueue.read(msgspec.json.decode(msgspec.json.encode(stored), type=type_of(kueue.READ)))
