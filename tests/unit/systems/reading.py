"""Reads the fields of an object by its KindSpec: one function for each sort of field, with paths as text."""

from collections.abc import Iterable

from webhook.objects.problem import Json, field
from webhook.objects.shape import wrong_types
from webhook.systems.kind_spec import Field, KindSpec


def root_of(kind: KindSpec, spec: Json, version: str | None = None, **metadata: Json) -> Json:
    """Return an object of a kind."""
    api_version = f"{kind.group}/{version or kind.versions[0]}"
    return {"apiVersion": api_version, "kind": kind.kind, "metadata": {"name": "train", **metadata}, "spec": spec}


def retries(kind: KindSpec, root: Json) -> dict[str, int | None]:
    """Return the retries that each retry field outside JobSpecs allows; None for unlimited."""
    assert wrong(kind, root) == []
    return {field(budget.path): budget.retries for budget in kind.budgets(root)}


def templates(kind: KindSpec, root: Json) -> list[str]:
    """Return the paths of the pod templates outside JobSpecs."""
    assert wrong(kind, root) == []
    return [field(path) for path, _ in kind.templates(root)]


def places(fields: Iterable[Field], root: Json) -> list[str]:
    """Return the paths of fields, in each object that may have them."""
    return [field(path) for one in fields for path, _ in one.find(root)]


def timeouts_unset(kind: KindSpec, root: Json) -> list[str]:
    """Return the paths of the time limits of one attempt that the author left out."""
    assert wrong(kind, root) == []
    return [field(path) for one in kind.timeout_fields for path in one.unset(root)]


def wrong(kind: KindSpec, root: Json) -> list[str]:
    """Return the problems of wrong types, which are found before any rule reads the object."""
    return [str(problem) for problem in wrong_types(root, kind.shape)]
