"""The table of docs/reference/permissions.md: each write that the controller's roles grant, and what limits it."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import yaml

from tests.bench.curve.figures import markdown

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
FOLDERS: Final = ("base", "overlays/requested-retries")
READS: Final = frozenset({"get", "list", "watch"})
OPERATIONS: Final = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
OF_WEBHOOK: Final = "subjectaccessreviews"  # the only one that the webhook may create, which stores nothing


def table() -> str:
    """Return a row for each resource that the controller may write."""
    verbs: dict[str, list[str]] = {}
    for resource, verb in _granted():
        verbs.setdefault(resource, []).append(verb)
    rows = (
        (f"`{resource}`", ", ".join(dict.fromkeys(of)), ", ".join(_limits(resource, of)))
        for resource, of in verbs.items()
    )
    return markdown(("Resource", "The roles grant", "Limited by the admission policy"), sorted(rows))


def _objects(kind: str) -> Iterator[dict[str, Any]]:
    for folder in FOLDERS:
        for file in sorted((MANIFESTS / folder).glob("*.yaml")):
            yield from (one for one in yaml.safe_load_all(file.read_text()) if one and one.get("kind") == kind)


def _granted() -> Iterator[tuple[str, str]]:
    for kind in ("ClusterRole", "Role"):
        for role in _objects(kind):
            for rule in role["rules"]:
                for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                    if verb not in READS and resource != OF_WEBHOOK:
                        yield f"{resource}.{group}" if group else resource, verb


def _limits(resource: str, verbs: list[str]) -> list[str]:
    """Return the names of the policies that judge these writes of the controller."""
    wanted = {OPERATIONS[verb] for verb in verbs}
    found = []
    for policy in _objects("ValidatingAdmissionPolicy"):
        conditions = policy["spec"].get("matchConditions") or ()
        if not any(one["name"] == "is-the-controller" for one in conditions):
            continue  # it is about what users write
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
            of = {f"{name}.{group}" if group else name for group, name in product(rule["apiGroups"], rule["resources"])}
            if wanted.intersection(rule["operations"]) and of & {resource, "*.*", f"*.{resource.partition('.')[2]}"}:
                found.append(policy["metadata"]["name"].removeprefix("retry-policy-webhook-"))
    return [f"`{name}`" for name in dict.fromkeys(found)]
