"""The `attempt` annotation, on the pod, else on its controller."""

from typing import Final

from webhook import names
from webhook.attempts.level import Level, budget_of
from webhook.policy.settings import Settings, count
from webhook.problem import Json, Problem

NAME: Final = "Annotation"


def levels(pod: Json, owner: Json | None, settings: Settings, warnings: list[Problem]) -> list[Level]:
    """Read the annotation; one that stands beside another attempt-source is the webhook's own and is not read."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    own = annotations.get(names.ATTEMPT_SOURCE, NAME) != NAME
    owner_annotations = ((owner or {}).get("metadata") or {}).get("annotations") or {}
    for text in (None if own else annotations.get(names.ATTEMPT), owner_annotations.get(names.ATTEMPT)):
        attempt = count(text)
        if attempt is not None:
            return [Level(NAME, attempt, budget_of(owner, settings))]
        if text is not None:
            path = ("metadata", "annotations", names.ATTEMPT)
            warnings.append(Problem(path, f"is {text[:20]!r}", "must be a whole number, 0 or more"))
    return []
