"""The known workload kinds of all systems: a KindSpec for each, which says where its JobSpecs and retry fields are."""

from collections.abc import Iterator
from typing import Any, Final

from webhook.objects import bounds
from webhook.objects.patch import at, find
from webhook.objects.problem import Json, Path
from webhook.systems import parts
from webhook.systems.kind_spec import KindSpec, OwnerReference

# All KindSpecs by group and kind, as an AdmissionRequest names them.
KINDS: Final[dict[tuple[str, str], KindSpec]] = {
    (kind.group, kind.kind): kind for module in parts("spec") for kind in module.KINDS
}

# The kinds that control pods, or control controllers of pods; the kind in lower case, as Flyte writes its own.
CONTROLLERS: Final = {(kind.group, kind.kind.lower()): kind for kind in KINDS.values() if kind.owns_pods or kind.counts}

# How the command line names each kind; if two kinds have the same name, the second one with its group.
FIRST: Final = {kind.kind.lower(): kind for kind in reversed(KINDS.values())}
WORDS: Final = {
    kind: word if FIRST[word] is kind else f"{word}.{kind.group}"
    for kind in KINDS.values()
    for word in (kind.kind.lower(),)
}


def full_name(kind: KindSpec, namespace: str, name: str) -> str:
    """Return how the command line names an object: NAMESPACE/KIND/NAME; without what is empty."""
    return "/".join(part for part in (namespace, WORDS[kind], name) if part)


def embedded_in(kind: KindSpec, root: Json, depth: int = 0) -> Iterator[tuple[Path, Json, KindSpec]]:
    """Yield path, object and KindSpec of each object of a known kind that is embedded in `root`, at any level.

    Down to bounds.DEEPEST_EMBEDDED levels; `depth` is the level of `root`. `kind` is the KindSpec of `root`.
    """
    for pattern in kind.embedded if depth < bounds.DEEPEST_EMBEDDED else ():
        for path, found in find(root, pattern):
            inner = kind_of(found)
            if inner is not None:
                yield path, found, inner
                for below, one, its_kind in embedded_in(inner, found, depth + 1):
                    yield (*path, *below), one, its_kind


def kind_of(root: Any) -> KindSpec | None:
    """Return the KindSpec of a value; None if it is not an object of a known kind."""
    api_version, kind = at(root, ("apiVersion",)), at(root, ("kind",))
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return KINDS.get((api_version.rpartition("/")[0], kind))


def kind_of_controller(controller: OwnerReference) -> KindSpec | None:
    """Return the KindSpec of a controller; None if its kind does not control pods of known workloads."""
    return CONTROLLERS.get((controller.group, controller.kind.lower()))
