"""The fields of Accounts that are cached."""

from typing import Final

import msgspec

from webhook.kube import names
from webhook.ledger.model.cached import LONGEST_OURS, METADATA_READ, CachedRoot
from webhook.ledger.model.pods import LONGEST_NAME, cut
from webhook.ledger.model.systems import SYSTEMS
from webhook.ledger.model.tracker import Key
from webhook.objects.problem import Json
from webhook.objects.shape import Shape

ACCOUNT_READ: Final[Shape] = {"metadata": METADATA_READ, "spec": dict.fromkeys(("kind", "name", "uid", "owner"), str)}
# The kinds whose accounts are in Accounts, by name.
BESIDE: Final = {row.kind: row for row, system in SYSTEMS.items() if system.beside}
KEPT: Final = ("uid", "resourceVersion", "creationTimestamp")


def trimmed_account(root: Json) -> CachedRoot:
    """Return an Account, decoded as ACCOUNT_READ."""
    metadata = root["metadata"]
    text = (metadata.get("annotations") or {}).get(names.LEDGER)
    kept = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        **{key: metadata.get(key) or "" for key in KEPT},
        "annotations": {} if text is None else {names.LEDGER: text[:LONGEST_OURS]},
    }
    spec = {key: cut(value, LONGEST_NAME) for key, value in (root.get("spec") or {}).items()}
    return CachedRoot({"metadata": kept, "spec": spec})


def whole(found: CachedRoot) -> tuple[bytes, ...]:
    """Return the JSON of an Account in one piece: nothing long is equal in two of them."""
    return (msgspec.json.encode(found),)


def key_of_account(found: CachedRoot) -> Key | None:
    """Return the workload that an Account is about; None if its kind has no Accounts."""
    spec = found["spec"]
    row = BESIDE.get(spec.get("kind") or "")
    return None if row is None else Key(found["metadata"]["namespace"], row, spec.get("name") or "")
