"""Admission of documents without an API server: what `render` prints and `check` judges."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec
import yaml

from webhook.admission import engine
from webhook.admission.subject import Subject, request_to_create, subject_of
from webhook.cli import line_diff
from webhook.cli.documents import Document, items
from webhook.kinds.batch import JOB
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem, type_name
from webhook.objects.strict_yaml import resolve
from webhook.policy.model import Policy
from webhook.rules.facts import Facts

Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

FIELDS: Final = ("apiVersion", "kind")
LABELS: Final[Path] = ("metadata", "labels")
LABEL_IT: Final = "a template of the whole cluster takes part by its own label"

MEBIBYTE: Final = 1024 * 1024
LARGEST_OBJECT: Final = 3 * MEBIBYTE  # what the API server reads of a request (MaxRequestBodyBytes)

STRING: Final = "tag:yaml.org,2002:str"
RESOLVER: Final = yaml.resolver.Resolver()
JSON: Final = json.JSONEncoder(indent=2, ensure_ascii=False, check_circular=False)
PIECE: Final = 4096  # words of JSON that are written at once
REPRESENTER: Final = yaml.representer.SafeRepresenter()
PLAIN_TEXTS: Final = 4096  # strings that are remembered not to need quotes; most of a list's stand in it many times


@dataclass(slots=True)
class Verdict:
    """What admission says of one object, which it has edited; paths are in the object.

    `placed`: whether it is a Pod that is placed by its attempt. `before`: the object as it was, as YAML, where it is to
    be compared and may have been edited.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    placed: bool = False
    before: str = ""


def admit(root: Json, policy: Policy, profile_name: str, attempt: int | None, *, compare: bool = False) -> Verdict:
    """Apply validate(mutate(…)) to an object; `attempt` counts as annotated on a Pod."""
    admitted = root
    if attempt is not None and root["kind"] == "Pod":
        admitted = {**root, "metadata": with_attempt(root.get("metadata"), attempt)}
    subject = subject_of(request_to_create(admitted), admitted)
    if subject is None:
        return Verdict()
    size = len(msgspec.json.encode(root))
    if size > LARGEST_OBJECT:
        what = f"is {size / MEBIBYTE:.1f} MiB as JSON, more than the {LARGEST_OBJECT // MEBIBYTE} MiB of a request"
        return Verdict(problems=[Problem((), what, "make it smaller")])
    before = as_yaml(root) if compare else ""
    if not subject.row.namespaced:
        labelled = at(root, (*LABELS, names.PROFILE))
        if not isinstance(labelled, str):
            return Verdict(warnings=[Problem((*LABELS, names.PROFILE), "is missing, so it is left alone", LABEL_IT)])
        profile_name = labelled  # there is no namespace by which the one of the command line could come
    facts = Facts(profile_name=profile_name, defaulted=comes_from_the_api(root))
    with labels_by_default(subject):
        mutated = engine.mutate(subject, policy, facts)
    validated = engine.validate(subject, policy, facts)
    verdict = Verdict(problems=validated.problems, before=before)
    if not subject.malformed:
        verdict.warnings = [*mutated.warnings, *validated.warnings]
    if mutated.placement:  # a Pod that is not placed has not got the attempt either
        verdict.placed = True
        root.update(admitted)
    return verdict


def warnings(document: Document) -> Iterator[Problem]:
    """Yield what is odd in a document whatever the policy says."""
    yield from document.warnings
    yield from half_objects(document.value, ())


def half_objects(value: Any, path: Path) -> Iterator[Problem]:
    """Warn about what lacks one of the two fields that make it an object: nothing in it is looked at."""
    entries = items(value)
    if entries is not None:
        for index, item in enumerate(entries):
            yield from half_objects(item, (*path, "items", index))
    elif isinstance(value, dict) and any(key in value for key in FIELDS):
        for key in FIELDS:
            if not isinstance(value.get(key), str):
                what = f"is {type_name(value[key])}" if key in value else "is missing"
                yield Problem((*path, key), f"{what}, so nothing was looked at", "must be a string")


def comes_from_the_api(root: Json) -> bool:
    """Tell whether an object has been defaulted by an API server; what stands in another, its author said."""
    metadata = root.get("metadata")
    return isinstance(metadata, dict) and ("uid" in metadata or "managedFields" in metadata)


@contextmanager
def labels_by_default(subject: Subject) -> Iterator[None]:
    """Give a Job without labels those of its pod template, and take them away again if it gets no other.

    The API does so before admission (SetDefaults_Job, pkg/apis/batch/v1/defaults.go); with a label of ours it does not.
    """
    metadata = subject.root.get("metadata")
    labels = None
    if subject.row is JOB and not subject.malformed:
        labels = at(subject.root, ("spec", "template", "metadata", "labels"))
    are_labels = isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
    if not (labels and are_labels and metadata) or metadata.get("labels"):
        yield
        return
    absent, before = "labels" not in metadata, metadata.get("labels")
    metadata["labels"] = dict(labels)
    yield
    if metadata["labels"] == labels:
        metadata["labels"] = before
        if absent:
            del metadata["labels"]


def with_attempt(metadata: Any, attempt: int) -> Any:
    """Return a Pod's metadata with the attempt said as its author could, in place of what admission may have noted."""
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else metadata
    if not isinstance(annotations, dict | None):
        return metadata  # of a wrong type, which admission names
    said = {names.ATTEMPT: str(attempt), names.ATTEMPT_SOURCE: "Annotation"}
    return {**(metadata or {}), "annotations": {**(annotations or {}), **said}}


def prefixed(path: Path, problems: list[Problem]) -> list[Problem]:
    """Put the path of an object in its document before those inside it."""
    return [Problem((*path, *problem.path), problem.what, problem.remedy) for problem in problems] if path else problems


@dataclass(frozen=True, slots=True)
class Stream:
    """What PyYAML writes to; because it has an encoding, it is given text."""

    write: Callable[[str], object]
    encoding: str = "utf-8"


def as_yaml(value: Any) -> str:
    """Write a value so that kubectl reads the same one back."""
    pieces: list[str] = []
    write_yaml(value, pieces.append)
    return "".join(pieces)


def write_yaml(value: Any, write: Callable[[str], object]) -> None:
    """Write the same piece by piece: the text of a large value is nowhere in memory as a whole."""
    yaml.emit(stream_of(value), Stream(write), Dumper=Dumper, allow_unicode=True, width=4096)


def stream_of(value: Any) -> Iterator[yaml.Event]:
    """Yield the events of a text with one document.

    They are made here, because PyYAML would build a tree of nodes first that takes several times the memory of the
    value. A value that stands twice is written twice: aliases are not for people.
    """
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from events_of(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def events_of(value: Any) -> Iterator[yaml.Event]:
    """Yield the events of one value."""
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=False)
        for key, entry in value.items():
            yield from events_of(key)
            yield from events_of(entry)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=False)
        for entry in value:
            yield from events_of(entry)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        plain = is_plain(value)
        style = "|" if "\n" in value else None if plain else "'"
        yield yaml.ScalarEvent(None, None, (plain, True), value, style=style)
    else:
        yield yaml.ScalarEvent(None, None, (True, False), REPRESENTER.represent_data(value).value)


@lru_cache(maxsize=PLAIN_TEXTS)
def is_plain(text: str) -> bool:
    """Whether a string without quotes is read back as one, by what reads as kubectl does and by PyYAML."""
    tag: str = RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return resolve(text) == text and tag == STRING


def write_json(value: Any, write: Callable[[str], object]) -> None:
    """Write a value as indented JSON, piece by piece."""
    words = JSON.iterencode(value)
    while piece := "".join(islice(words, PIECE)):
        write(piece)
    write("\n")


def as_diff(name: str, before: str, after: str) -> Iterator[str]:
    """Yield the lines of a unified diff; none where nothing was changed."""
    yield from line_diff.unified(name, f"{name} as admitted", before.splitlines(), after.splitlines())
