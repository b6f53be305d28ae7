"""The annotation `attempt`: on the pod, or else on its controller."""

from typing import Final

from webhook.kube import names
from webhook.objects.problem import Problem
from webhook.policy.settings import count
from webhook.systems.level import Evidence

NAME: Final = "Annotation"


def attempt(evidence: Evidence) -> int | None:
    """Return the 0-based attempt; None if there is no annotation, or only malformed ones, each with a warning.

    An annotation on the pod is ignored if attempt-source names another source: then the webhook wrote both.
    """
    said, owner_metadata = evidence.annotations, (evidence.owner or {}).get("metadata") or {}
    of_owner = (owner_metadata.get("annotations") or {}).get(names.ATTEMPT)
    if of_owner is None and names.ATTEMPT not in said:
        return None
    own = said.get(names.ATTEMPT) if said.get(names.ATTEMPT_SOURCE, NAME) == NAME else None
    for text in (own, of_owner):
        if text is None:
            continue
        number = count(text)
        if number is not None:
            return number
        path = ("metadata", "annotations", names.ATTEMPT)
        evidence.warnings.append(Problem(path, f"is {text[:20]!r}", "must be a whole number, 0 or more"))
    return None
