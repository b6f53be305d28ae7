"""Find the tolerations that a pod lacks for the spot nodes of a provider."""

from collections.abc import Sequence

from webhook.capacity.provider import Provider
from webhook.objects.problem import Json


def missing_tolerations(pod_tolerations: Sequence[Json] | None, provider: Provider) -> list[Json]:
    """Return copies of the provider's tolerations that no toleration of the pod covers."""
    return [
        dict(wanted) for wanted in provider.tolerations if not any(covers(had, wanted) for had in pod_tolerations or ())
    ]


def covers(had: Json, wanted: Json) -> bool:
    """Return True if the toleration `had` tolerates all taints that `wanted` tolerates, for the same time or longer.

    As the API defines it: no effect means all effects, no key with `Exists` means all keys, no operator means `Equal`,
    no tolerationSeconds means no time limit.
    """
    exists = had.get("operator") == "Exists"
    if had.get("effect") and had["effect"] != wanted.get("effect"):
        return False
    if had.get("tolerationSeconds") not in (None, wanted.get("tolerationSeconds")):
        return False
    if not had.get("key"):
        return exists
    if had["key"] != wanted.get("key"):
        return False
    return exists or (
        (had.get("operator") or "Equal") == (wanted.get("operator") or "Equal")
        and (had.get("value") or "") == (wanted.get("value") or "")
    )
