"""Ends a running pod as its kubelet reports it: with reasons and messages that KWOK's stages do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.objects import condition

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.cluster.on_failure_matrix import Ending


def terminated(code: int, started: str, reason: str = "Completed", message: str = "") -> Object:
    times = {"startedAt": started, "finishedAt": started}
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, **times}}


def end(team: Namespace, pod: Object, ending: Ending) -> None:
    """End a running pod as its kubelet would report it, or evict it."""
    name = pod["metadata"]["name"]
    if ending.evicted:
        team.evict(name)
        return
    started = condition(pod, "Ready")["lastTransitionTime"]
    status: Object = {"phase": "Failed", "reason": ending.of_pod or None, "containerStatuses": None}
    if ending.code is not None:
        status["containerStatuses"] = [
            {
                **{key: one[key] for key in ("name", "image", "imageID")},
                "ready": False,
                "restartCount": 0,
                "state": terminated(ending.code, started, ending.reason, ending.message)
                if one["name"] == ending.container
                else terminated(0, started),
            }
            for one in pod["status"]["containerStatuses"]
        ]
    path = f"api/v1/namespaces/{team.name}/pods/{name}/status"
    answer = team.api.send("PATCH", path, {"status": status})
    assert answer["kind"] == "Pod", answer
