"""Makes pods whose containers have restarted in place, as a kubelet reports them."""

from typing import Any, Final
from uuid import UUID

import msgspec

from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods import pods
from webhook.pods.pods import Pod

RULES: Final = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [143]}}]
WHOLE: Final = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [143]}}]
DECODER: Final = msgspec.json.Decoder(type_of(pods.READ))


def ended(code: int, second: int = 30, reason: str = "Error") -> Json:
    """Return the end of a container `second` seconds after 00:00, which ran for ten seconds."""
    return {
        "terminated": {"exitCode": code, "reason": reason, "startedAt": time(second - 10), "finishedAt": time(second)}
    }


def time(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def container(restarts: int = 0, code: int = 143, name: str = "main", second: int = 30, **fields: Any) -> Json:
    """Return the status of a container that runs, after it has restarted so often, the last time after this code."""
    last = {"lastState": ended(code, second)} if restarts else {}
    state = {"running": {"startedAt": time(second + 5)}}
    return {"name": name, "restartCount": restarts, "state": state, **last, **fields}


def stored(*statuses: Json, number: int = 1, policy: str = "Never", phase: str = "Running", **fields: Any) -> Json:
    """Return a pod of the Job `train` as the API has it; `fields` are further ones of its spec and metadata."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
    sidecars = [{"name": "side", "restartPolicy": "Always"}]
    spec = {
        "restartPolicy": policy,
        "containers": [{"name": one["name"]} for one in statuses],
        "initContainers": sidecars,
    }
    return {
        "metadata": {
            "namespace": "ml",
            "name": f"train-{number}",
            "uid": str(UUID(int=(number + 1) << 80)),
            "resourceVersion": "1",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [owner],
            "annotations": fields.pop("annotations", None),
        },
        "spec": {**spec, **fields},
        "status": {"phase": phase, "startTime": time(0), "containerStatuses": list(statuses)},
    }


def read(root: Json) -> Pod:
    """Return a pod as the ledger keeps it."""
    return pods.read(DECODER.decode(msgspec.json.encode(root)))


def restarted(restarts: int = 1, code: int = 143, **fields: Any) -> Pod:
    """Return a running pod whose container has restarted so often."""
    second = fields.pop("second", 30)
    return read(stored(container(restarts, code, second=second), **fields))
