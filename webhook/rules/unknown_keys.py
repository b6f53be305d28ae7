"""Warns about keys with our prefix, or a misspelt one, that have no effect where they are.

Reads the keys of:
    metadata.labels and metadata.annotations, of the object and of objects that are embedded in it
    the annotations of its Job templates and pod templates, and of what else the kind's kind names
"""

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.rules import annotations
from webhook.rules.contexts import ValidationContext
from webhook.systems.kind_spec import EmbeddedJob, KindSpec
from webhook.systems.kinds import embedded_in

LABELS: Final[Path] = ("metadata", "labels")
ANNOTATIONS: Final[Path] = ("metadata", "annotations")
# The annotations of a workload or pod that a person writes.
WRITTEN_BY_PEOPLE: Final = (*names.SAID_BY_AUTHORS, names.RETRY_REQUESTED_AT, names.KEEP_FINALLY)
LONGEST: Final = 63  # characters of a key after its prefix; the API allows no more
# Our prefix, and what people write instead of it, such as retry-policy/, retrypolicy.dev/ and retry-policy.io/.
PREFIXES: Final = re.compile(
    r"(?:retr?y|retries)[-_.]?po?li?c(?:y|ies)(?:[-_.]?[a-z]{1,3}|\.(?:x-)?k8s\.io)?/", re.ASCII | re.IGNORECASE
)


class KeyPlace(NamedTuple):
    """The path and keys of a map of labels or annotations, the keys that have an effect there, and those to suggest."""

    path: Path
    keys: Collection[str]
    known: Collection[str]
    suggested: tuple[str, ...] = ()


def warnings(context: ValidationContext) -> list[Problem]:
    """Return warnings about unknown keys of an object; for an update, only about those that it adds."""
    found = first(places(context.kind, context.root, context.jobs))
    if not found or context.old is None:
        return found
    before = first(places(context.kind, context.old, list(context.kind.jobs(context.old))))
    return [problem for problem in found if problem not in before]


def of_namespace(root: Json, old: Json | None) -> list[Problem]:
    """Return warnings about unknown keys of a Namespace; for an update of `old`, only about those that it adds."""
    before = [] if old is None else first(places_of_namespace(old))
    return [problem for problem in first(places_of_namespace(root)) if problem not in before]


def first(found: Iterable[KeyPlace]) -> list[Problem]:
    """Return the warnings about the first unknown keys, at most LISTED_NAMES."""
    return list(islice((warning(place, key) for place in found for key in unknown(place)), bounds.LISTED_NAMES))


def places_of_namespace(root: Json) -> Iterator[KeyPlace]:
    """Yield the labels and the annotations of a Namespace."""
    yield KeyPlace(LABELS, at(root, LABELS) or (), names.NAMESPACE_LABELS, (names.PROFILE, names.MODE))
    yield KeyPlace(ANNOTATIONS, at(root, ANNOTATIONS) or (), ())


def places(kind: KindSpec, root: Json, jobs: list[EmbeddedJob]) -> Iterator[KeyPlace]:
    """Yield the maps of an object that may have keys of ours."""
    yield from of_metadata((), root, names.LABELS if kind.namespaced else names.LABELS | names.NAMESPACE_LABELS)
    for path in (*annotations.of_pods(kind, root), *annotations.at_fields(kind.judged_annotations, root)):
        yield of_annotations(path, at(root, path) or ())
    for job in jobs:
        if job.metadata_path != ("metadata",):
            yield of_annotations((*job.metadata_path, "annotations"), annotations.own_of(job))
        yield of_annotations(annotations.of_template((*job.path, "template")), job.pod_annotations)
    for path, found, _ in embedded_in(kind, root):
        yield from of_metadata(path, found, names.LABELS)


def of_metadata(path: Path, root: Json, labels: Collection[str]) -> Iterator[KeyPlace]:
    """Yield the labels, and the annotations, of the object at a path; `labels`: those that have an effect on it."""
    yield KeyPlace((*path, *LABELS), at(root, LABELS) or (), labels)
    yield of_annotations((*path, *ANNOTATIONS), annotations.of(root))


def of_annotations(path: Path, keys: Collection[str]) -> KeyPlace:
    """Return a map of annotations of a workload or pod."""
    return KeyPlace(path, keys, names.ANNOTATIONS, WRITTEN_BY_PEOPLE)


def unknown(place: KeyPlace) -> Iterator[str]:
    """Yield the keys with our prefix, or a misspelt one, that have no effect in a map."""
    for key in place.keys:
        if PREFIXES.match(key) and key not in place.known:
            yield key


def warning(place: KeyPlace, key: str) -> Problem:
    """Return the warning about one unknown key."""
    return Problem((*place.path, key), "unknown, no effect", remedy(key, place.suggested))


def remedy(key: str, suggested: tuple[str, ...]) -> str:
    """Return the remedy: the key that was probably meant, or the object where it belongs, or the known keys."""
    is_ours = key.startswith(names.PREFIX)
    said = key.partition("/")[2][:LONGEST]
    near = get_close_matches(said.lower(), map(short, suggested), n=1)
    if near:
        return f"use {near[0]}" if is_ours else f"use {names.PREFIX}{near[0]}"
    meant = names.PREFIX + said
    shown = "it" if is_ours else meant
    if meant in names.NAMESPACE_LABELS:
        return f"label the Namespace with {shown}"
    if meant in WRITTEN_BY_PEOPLE:
        return f"annotate the workload with {shown}"
    if not is_ours:
        return f"keys of this webhook begin with {names.PREFIX}"
    return f"known: {', '.join(map(short, suggested))}" if suggested else "remove it"


def short(key: str) -> str:
    """Return a key without its prefix."""
    return key.removeprefix(names.PREFIX)
