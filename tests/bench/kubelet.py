"""Ends containers for reasons that KWOK's stages do not know: a kill for memory, a crash with its last words."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from webhook.kube.client import ApiError
from webhook.policy import quantities

if TYPE_CHECKING:
    from webhook.kube.client import Api
    from webhook.objects.problem import Json


class End(NamedTuple):
    """How the container of a pod ends, as the kubelet writes it."""

    code: int = 0
    reason: str = "Completed"
    message: str = ""


SUCCESS = End()
OUT_OF_MEMORY = End(137, "OOMKilled")
EVICTED = End(137, "Error", "evicted")


async def end(api: Api, pod: Json, how: End) -> bool:
    """End a running pod of one container; return False if it has ended or was deleted before."""
    metadata = pod["metadata"]
    terminated = {
        "exitCode": how.code,
        "reason": how.reason,
        "startedAt": pod["status"].get("startTime"),
        "finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **({"message": how.message} if how.message else {}),
    }
    operations: list[Json] = [
        {"op": "test", "path": "/status/phase", "value": "Running"},
        {"op": "replace", "path": "/status/phase", "value": "Failed" if how.code else "Succeeded"},
        {"op": "replace", "path": "/status/containerStatuses/0/state", "value": {"terminated": terminated}},
        {"op": "replace", "path": "/status/containerStatuses/0/ready", "value": False},
    ]
    with contextlib.suppress(ApiError):
        await api.patch(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status", operations)
        return True
    return False


def memory_of(pod: Json) -> int:
    """Return the bytes of memory to which the only container of a pod is limited; 0 if it has no limit."""
    resources = pod["spec"]["containers"][0].get("resources") or {}
    return quantities.memory((resources.get("limits") or {}).get("memory")) or 0
