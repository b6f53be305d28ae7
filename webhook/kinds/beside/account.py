"""retry-policy.dev: the Account of a workload that must not be written, or that is no object of the API.

Its annotation `ledger` is the account, as on all other objects. `spec` says which workload it is about.
"""

import re
from hashlib import blake2b
from typing import Any, Final

from webhook.kinds.beside.airflow import DAG_RUN
from webhook.kinds.core import METADATA
from webhook.kinds.kind_spec import KindSpec, controller_of
from webhook.kube import names
from webhook.objects.problem import Json

ACCOUNT: Final = KindSpec(
    group="retry-policy.dev",
    versions=("v1alpha1",),
    kind="Account",
    resource="accounts",
    admitted=False,
    shape={"metadata": METADATA},
)
OTHERS: Final = re.compile(r"[^a-z0-9]+")
LONGEST_READABLE: Final = 60  # characters of a workload's name in the name of its Account


def name_of(row: KindSpec, name: str) -> str:
    """Return the name of the Account of a workload, whose name may be any text: with a digest of the whole."""
    readable = OTHERS.sub("-", name.lower())[:LONGEST_READABLE].strip("-")
    digest = blake2b(name.encode(errors="replace"), digest_size=8).hexdigest()
    return f"{row.kind.lower()}-{readable}-{digest}"


def path_of(row: KindSpec, namespace: str, name: str) -> str:
    """Return the API path of the Account of a workload."""
    return ACCOUNT.path(namespace, name_of(row, name))


def new(row: KindSpec, root: Json, text: str) -> Json:
    """Return the Account to create for a workload; it is deleted together with the workload if that is an object."""
    metadata, owner = root["metadata"], controller_of(root)
    spec = {"kind": row.kind, "name": metadata["name"], "uid": metadata["uid"]}
    own: dict[str, Any] = {
        "name": name_of(row, metadata["name"]),
        "namespace": metadata["namespace"],
        "annotations": {names.LEDGER: text},
    }
    if row is DAG_RUN:
        spec |= {"owner": "" if owner is None else owner.name}
    else:
        reference = {"apiVersion": row.api_version, "kind": row.kind, "name": metadata["name"], "uid": metadata["uid"]}
        own["ownerReferences"] = [reference]
    return {"apiVersion": ACCOUNT.api_version, "kind": ACCOUNT.kind, "metadata": own, "spec": spec}


def run_of(namespace: str, name: str, dag: str) -> Json:
    """Return what stands for a run of a DAG, without an account: its name is its uid."""
    owner = {"apiVersion": DAG_RUN.api_version, "kind": "DAG", "name": dag, "uid": "", "controller": True}
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": name,
        "resourceVersion": "",
        "labels": {},
        "ownerReferences": [owner] if dag else [],
    }
    return {"metadata": metadata, "spec": {}, "status": {}}


def with_account(root: Json, found: Json | None) -> Json:
    """Return a workload with the account beside it, as if it were its own: nothing that its author wrote counts.

    `found`: the Account; None if there is none. One of a former workload of the same name is not read.
    """
    metadata = root["metadata"]
    annotations = {key: one for key, one in (metadata.get("annotations") or {}).items() if key != names.LEDGER}
    if found is not None and found["spec"].get("uid") == metadata["uid"]:
        text = (found["metadata"].get("annotations") or {}).get(names.LEDGER)
        annotations |= {} if text is None else {names.LEDGER: text}
    return {**root, "metadata": {**metadata, "annotations": annotations}}
