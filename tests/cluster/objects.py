"""What tests ask of an object that they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object


def condition(found: Object, kind: str) -> Object:
    """Return the object's condition of that type if its status is "True", else an empty one."""
    for one in found.get("status", {}).get("conditions", []):
        if one["type"] == kind and one["status"] == "True":
            return dict(one)
    return {}


def phase(pod: Object) -> str:
    return str(pod["status"]["phase"])


def exit_codes(pod: Object) -> dict[str, int]:
    """Return the exit code of each container that has ended, by its name."""
    statuses = pod["status"].get("containerStatuses", [])
    return {one["name"]: one["state"]["terminated"]["exitCode"] for one in statuses if "terminated" in one["state"]}
