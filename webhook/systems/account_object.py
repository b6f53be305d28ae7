"""Account: an object beside each workload that has had an end to count, deleted together with it.

The ledger alone writes it. `spec` says which workload it is about, `status` what its attempts cost
(webhook/accounts/stored.py).
"""

import re
from hashlib import blake2b
from typing import Final

from webhook.objects.problem import Json
from webhook.systems.core import METADATA
from webhook.systems.kind_spec import KindSpec

ACCOUNT: Final = KindSpec(
    group="retry-policy.dev",
    versions=("v1alpha1",),
    kind="Account",
    admitted=False,
    shape={"metadata": METADATA},
)
OTHERS: Final = re.compile(r"[^a-z0-9]+")
LONGEST_READABLE: Final = 60  # characters of a workload's name in the name of its Account


def name_of(kind: KindSpec, name: str, uid: str) -> str:
    """Return the name of the Account of a workload, whose name may be any text: with a digest of what it is.

    A workload that is created again under the same name has an Account of its own.
    """
    readable = OTHERS.sub("-", name.lower())[:LONGEST_READABLE].strip("-")
    whole = f"{kind.group}/{kind.kind}/{name}/{uid}"
    return f"{kind.kind.lower()}-{readable}-{blake2b(whole.encode(errors='replace'), digest_size=8).hexdigest()}"


def path_of(kind: KindSpec, root: Json) -> str:
    """Return the API path of the Account of a workload."""
    metadata = root["metadata"]
    return ACCOUNT.path(metadata["namespace"], name_of(kind, metadata["name"], metadata["uid"]))


def new(kind: KindSpec, root: Json) -> Json:
    """Return the Account to create for a workload, without its status."""
    metadata, workload = root["metadata"], owner_reference(kind, root)
    own = {
        "name": name_of(kind, metadata["name"], metadata["uid"]),
        "namespace": metadata["namespace"],
        "ownerReferences": [workload],
    }
    return {"apiVersion": ACCOUNT.api_version, "kind": ACCOUNT.kind, "metadata": own, "spec": {**workload}}


def owner_reference(kind: KindSpec, root: Json) -> Json:
    """Return the reference by which an Account is deleted together with an object."""
    metadata = root["metadata"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": metadata["name"], "uid": metadata["uid"]}


def is_of(found: Json, kind: KindSpec, root: Json) -> bool:
    """Return True if an Account is that of a workload: it names the workload, with its uid, and is owned by it.

    Not that of a former workload of the same name.
    """
    metadata, spec = root["metadata"], found.get("spec") or {}
    uid = metadata.get("uid") or ""
    named = [spec.get("kind"), spec.get("name"), spec.get("uid")] == [kind.kind, metadata["name"], uid]
    return named and uid in owners_of(found)


def owners_of(found: Json) -> list[str]:
    """Return the uids of all owners of an object: together with the last of them it is deleted."""
    return [one.get("uid") or "" for one in found["metadata"].get("ownerReferences") or ()]
