"""webhook/doctor/shipped.json: what `retry-policy doctor` compares a cluster with, taken from manifests/."""

import json
from pathlib import Path
from typing import Final

import jsonpatch

from tests.documents import document_of, documents_of
from webhook.objects.problem import Json

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
FILE: Final = "webhook/doctor/shipped.json"
OVERLAY: Final = MANIFESTS / "overlays" / "requested-retries"
BASE_FILES: Final = ("admission-policies", "protected-keys", "rbac", "ledger-rbac", "webhooks")
OVERLAY_FILES: Final = ("admission-policies", "rbac")
FIELDS: Final = ("webhooks", "rules", "spec", "subjects")  # what is compared of an object


def text() -> str:
    """Return the content of the file: the objects of the base, and those of the component requested-retries."""
    base = [one for name in BASE_FILES for one in documents(MANIFESTS / "base" / f"{name}.yaml")]
    component = [one for name in OVERLAY_FILES for one in documents(OVERLAY / f"{name}.yaml")]
    shipped = {
        "base": list(map(compared, base)),
        "requestedRetries": list(map(compared, [*component, *patched(base)])),
    }
    return json.dumps(shipped, indent=1, ensure_ascii=False) + "\n"


def documents(file: Path) -> list[Json]:
    """Return the objects in a file."""
    return documents_of(file.read_text(encoding="utf-8"))


def compared(root: Json) -> Json:
    """Return the parts of an object that are compared."""
    parts: Json = {field: root[field] for field in FIELDS if field in root}
    namespace = root["metadata"].get("namespace")
    within = {"namespace": namespace} if namespace else {}
    return {"kind": root["kind"], "name": root["metadata"]["name"], **within, **parts}


def patched(base: list[Json]) -> list[Json]:
    """Return what the component's patches change: admission policies, and the webhooks that they add."""
    (kustomization,) = documents(OVERLAY / "kustomization.yaml")
    found = []
    for one in kustomization["patches"]:
        patch = document_of(one["patch"])
        if isinstance(patch, dict):
            found.append(patch)
        elif one["target"]["kind"] == "ValidatingAdmissionPolicy":
            (before,) = [
                root
                for root in base
                if root["kind"] == one["target"]["kind"] and root["metadata"]["name"] == one["target"]["name"]
            ]
            found.append(jsonpatch.apply_patch(before, patch))
    return found
