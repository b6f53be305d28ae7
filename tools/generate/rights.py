"""The table of docs/reference/permissions.md: each write that the controller's roles grant, and what limits it."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

from tests.bench.curve.figures import markdown
from tests.documents import documents_of

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
    policies = list(_policies())
    rows = (
        (f"`{resource}`", ", ".join(dict.fromkeys(of)), ", ".join(_limits(resource, of, policies)))
        for resource, of in verbs.items()
    )
    return markdown(("Resource", "The roles grant", "Limited by the admission policy"), sorted(rows))


def _objects(kind: str) -> Iterator[dict[str, Any]]:
    for folder in FOLDERS:
        for file in sorted((MANIFESTS / folder).glob("*.yaml")):
            yield from (one for one in documents_of(file.read_text()) if one and one.get("kind") == kind)


def _granted() -> Iterator[tuple[str, str]]:
    for kind in ("ClusterRole", "Role"):
        for role in _objects(kind):
            for rule in role["rules"]:
                for resource, verb in product(_named(rule), rule["verbs"]):
                    if verb not in READS and not resource.startswith(OF_WEBHOOK):
                        yield resource, verb


def _named(rule: dict[str, Any]) -> list[str]:
    """Return the resources of a rule, of a role or of a policy, each with its group."""
    return [f"{name}.{group}" if group else name for group, name in product(rule["apiGroups"], rule["resources"])]


def _policies() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name and the rules of each admission policy about what the controller writes."""
    for policy in _objects("ValidatingAdmissionPolicy"):
        conditions = policy["spec"].get("matchConditions") or ()
        if any(one["name"] == "is-the-controller" for one in conditions):
            name = policy["metadata"]["name"].removeprefix("retry-policy-webhook-")
            yield name, policy["spec"]["matchConstraints"]["resourceRules"]


def _limits(resource: str, verbs: list[str], policies: list[tuple[str, list[dict[str, Any]]]]) -> Iterator[str]:
    """Yield the names of the policies that judge these writes."""
    wanted = {OPERATIONS[verb] for verb in verbs}
    for name, rules in policies:
        if any(wanted.intersection(rule["operations"]) and resource in _named(rule) for rule in rules):
            yield f"`{name}`"
