"""Finds the containers of a pod with all its fields; in a file, their types are not checked."""

from collections.abc import Iterator
from typing import Final

from webhook.objects.problem import Json, Path

FIELDS: Final = ("containers", "initContainers")


def of(pod: Json) -> Iterator[tuple[Path, Json]]:
    """Yield the path and the object of each container and each init container."""
    spec = pod.get("spec") or {}
    for field in FIELDS:
        found = spec.get(field)
        for index, container in enumerate(found if isinstance(found, list) else ()):
            if isinstance(container, dict):
                yield ("spec", field, index), container
