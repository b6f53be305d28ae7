"""Find the tolerations that a pod lacks for the spot nodes of a provider."""

from collections.abc import Sequence

from webhook.capacity.provider import Provider
from webhook.objects.problem import Json


def missing_tolerations(pod_tolerations: Sequence[Json] | None, provider: Provider) -> list[Json]:
    """Return copies of the provider's tolerations that no toleration of the pod covers."""
    return [
        dict(wanted) for wanted in provider.tolerations if not any(covers(own, wanted) for own in pod_tolerations or ())
    ]


def covers(own: Json, wanted: Json) -> bool:
    """Return True if the toleration `own` tolerates all taints that `wanted` tolerates, for the same time or longer.

    As the API defines it: no effect means all effects, no key with `Exists` means all keys, no operator means `Equal`,
    no tolerationSeconds means no time limit.
    """
    exists = own.get("operator") == "Exists"
    if own.get("effect") and own["effect"] != wanted.get("effect"):
        return False
    if own.get("tolerationSeconds") not in (None, wanted.get("tolerationSeconds")):
        return False
    if not own.get("key"):
        return exists
    if own["key"] != wanted.get("key"):
        return False
    return exists or (
        (own.get("operator") or "Equal") == (wanted.get("operator") or "Equal")
        and (own.get("value") or "") == (wanted.get("value") or "")
    )
