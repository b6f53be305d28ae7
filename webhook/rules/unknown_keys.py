"""Warns about keys with our prefix that have no effect where they are, such as misspelt ones.

Reads the keys of:
    metadata.labels and metadata.annotations, of the object and of objects that are embedded in it
    the annotations of its Job templates and pod templates, and of what else the kind's row names
"""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple

from webhook.kinds import EmbeddedJob, KindSpec, embedded_in
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.rules import annotations
from webhook.rules.contexts import ValidationContext

LABELS: Final[Path] = ("metadata", "labels")
ANNOTATIONS: Final[Path] = ("metadata", "annotations")
# The annotations of a workload or pod that a person writes.
WRITTEN_BY_PEOPLE: Final = (*names.SAID_BY_AUTHORS, names.RETRY_REQUESTED_AT, names.KEEP_FINALLY)
LONGEST: Final = 63  # characters of a key after its prefix; the API allows no more


class Place(NamedTuple):
    """The path and keys of a map of labels or annotations, the keys that have an effect there, and those to suggest."""

    path: Path
    keys: Collection[str]
    known: Collection[str]
    suggested: tuple[str, ...] = ()


def warnings(context: ValidationContext) -> list[Problem]:
    """Return warnings about unknown keys of an object; for an update, only about those that it adds."""
    found = first(places(context.row, context.root, context.jobs))
    if not found or context.old is None:
        return found
    before = first(places(context.row, context.old, list(context.row.jobs(context.old))))
    return [problem for problem in found if problem not in before]


def of_namespace(root: Json, old: Json | None) -> list[Problem]:
    """Return warnings about unknown keys of a Namespace; for an update of `old`, only about those that it adds."""
    before = [] if old is None else first(places_of_namespace(old))
    return [problem for problem in first(places_of_namespace(root)) if problem not in before]


def first(found: Iterable[Place]) -> list[Problem]:
    """Return the warnings about the first unknown keys, at most LISTED_NAMES."""
    return list(islice((warning(place, key) for place in found for key in unknown(place)), bounds.LISTED_NAMES))


def places_of_namespace(root: Json) -> Iterator[Place]:
    """Yield the labels and the annotations of a Namespace."""
    yield Place(LABELS, at(root, LABELS) or (), names.NAMESPACE_LABELS, (names.PROFILE, names.MODE))
    yield Place(ANNOTATIONS, at(root, ANNOTATIONS) or (), ())


def places(row: KindSpec, root: Json, jobs: list[EmbeddedJob]) -> Iterator[Place]:
    """Yield the maps of an object that may have keys of ours."""
    yield from of_metadata((), root, names.LABELS if row.namespaced else names.LABELS | names.NAMESPACE_LABELS)
    for path in (*annotations.of_pods(row, root), *annotations.at_fields(row.judged_annotations, root)):
        yield of_annotations(path, at(root, path) or ())
    for job in jobs:
        if job.metadata_path != ("metadata",):
            yield of_annotations((*job.metadata_path, "annotations"), annotations.own_of(job))
        yield of_annotations(annotations.of_template((*job.path, "template")), job.pod_annotations)
    for path, found, _ in embedded_in(row, root):
        yield from of_metadata(path, found, names.LABELS)


def of_metadata(path: Path, root: Json, labels: Collection[str]) -> Iterator[Place]:
    """Yield the labels, and the annotations, of the object at a path; `labels`: those that have an effect on it."""
    yield Place((*path, *LABELS), at(root, LABELS) or (), labels)
    yield of_annotations((*path, *ANNOTATIONS), annotations.of(root))


def of_annotations(path: Path, keys: Collection[str]) -> Place:
    """Return a map of annotations of a workload or pod."""
    return Place(path, keys, names.ANNOTATIONS, WRITTEN_BY_PEOPLE)


def unknown(place: Place) -> Iterator[str]:
    """Yield the keys with our prefix that have no effect in a map."""
    for key in place.keys:
        if key.startswith(names.PREFIX) and key not in place.known:
            yield key


def warning(place: Place, key: str) -> Problem:
    """Return the warning about one unknown key."""
    return Problem((*place.path, key), "unknown, no effect", remedy(key, place.suggested))


def remedy(key: str, suggested: tuple[str, ...]) -> str:
    """Return the remedy: the key that was probably meant, or the object where this key belongs, or the known keys."""
    said = key.removeprefix(names.PREFIX)[:LONGEST].lower()
    near = get_close_matches(said, map(short, suggested), n=1)
    if near:
        return f"use {near[0]}"
    if key in names.NAMESPACE_LABELS:
        return "label the Namespace with it"
    if key in WRITTEN_BY_PEOPLE:
        return "annotate the workload with it"
    return f"known: {', '.join(map(short, suggested))}" if suggested else "remove it"


def short(key: str) -> str:
    """Return a key without its prefix."""
    return key.removeprefix(names.PREFIX)
