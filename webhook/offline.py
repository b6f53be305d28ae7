"""Admission of documents without an API server: what `render` prints and `check` judges."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from webhook import decide, names
from webhook.documents import Document, items
from webhook.patch import at
from webhook.policy.model import Policy
from webhook.problem import Json, Path, Problem, type_name
from webhook.review import GroupVersionKind, Request
from webhook.strict_yaml import resolve
from webhook.subject import Facts, Subject, subject_of
from webhook.workloads.batch import JOB

Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

FIELDS: Final = ("apiVersion", "kind")


@dataclass(slots=True)
class Verdict:
    """What admission says of one document, whose value it has edited; paths are in the document.

    `pods`: whether there was a pod that is placed by its attempt.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    pods: bool = False


def admit(document: Document, policy: Policy, profile_name: str, attempt: int | None) -> Verdict:
    """Apply validate(mutate(…)) to each object in a document; `attempt` counts as annotated on its Pods."""
    verdict = Verdict(warnings=[*document.warnings, *half_objects(document.value, ())])
    for path, root in document.objects():
        admitted = root
        if attempt is not None and root["kind"] == "Pod":
            admitted = {**root, "metadata": with_attempt(root.get("metadata"), attempt)}
        subject = subject_of(request_for(admitted), admitted)
        if subject is None:
            continue
        facts = Facts(profile_name=profile_name, defaulted=comes_from_the_api(root))
        with labels_by_default(subject):
            mutated = decide.mutate(subject, policy, facts)
        validated = decide.validate(subject, policy, facts)
        verdict.problems += prefixed(path, validated.problems)
        if not subject.malformed:
            verdict.warnings += prefixed(path, [*mutated.warnings, *validated.warnings])
        if mutated.placement:  # a Pod that is not placed has not got the attempt either
            verdict.pods = True
            root.update(admitted)
    return verdict


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


def request_for(root: Json) -> Request:
    """Make the request that creating an object would send."""
    group, _, version = root["apiVersion"].rpartition("/")
    kind = GroupVersionKind(group=group, version=version, kind=root["kind"])
    return Request(uid="offline", kind=kind, operation="CREATE")


def with_attempt(metadata: Any, attempt: int) -> Any:
    """Return a Pod's metadata with the attempt said as its author could, in place of what admission may have noted."""
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else metadata
    if not isinstance(annotations, dict | None):
        return metadata  # of a wrong type, which admission names
    said = {names.ATTEMPT: str(attempt), names.ATTEMPT_SOURCE: "Annotation"}
    return {**(metadata or {}), "annotations": {**(annotations or {}), **said}}


def prefixed(path: Path, problems: list[Problem]) -> list[Problem]:
    """Put the path of a list's item before those inside it."""
    return [Problem((*path, *problem.path), problem.what, problem.remedy) for problem in problems] if path else problems


def as_yaml(value: Any) -> str:
    """Write a value so that kubectl reads the same one back."""
    text: str = yaml.dump(value, Dumper=KubectlDumper, sort_keys=False, allow_unicode=True, width=4096)
    return text


def as_json(value: Any) -> str:
    """Write a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def as_diff(name: str, before: str, after: str) -> Iterator[str]:
    """Yield the lines of a unified diff; none where nothing was changed."""
    lines = (before.splitlines(), after.splitlines())
    yield from difflib.unified_diff(*lines, name, f"{name} as admitted", lineterm="", n=5)


class KubectlDumper(Dumper):  # type: ignore[misc]
    """Writes each string so that it is read back as one, by what reads as kubectl does and by PyYAML."""

    def string(self, text: str) -> Any:
        """Write lines as lines, and quote what kubectl would take for another type."""
        quote = "'" if resolve(text) is not text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else quote)

    def ignore_aliases(self, _value: Any) -> bool:
        """Write a value that stands twice twice: aliases are not for people."""
        return True


KubectlDumper.add_representer(str, KubectlDumper.string)
