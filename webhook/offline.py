"""Admission of documents without an API server: what `render` prints and `check` judges."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from webhook import decide, names
from webhook.decide import Facts, Subject
from webhook.documents import Document, items
from webhook.policy.model import Policy
from webhook.problem import Json, Path, Problem, type_name
from webhook.review import GroupVersionKind, Request, Response

Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

FIELDS: Final = ("apiVersion", "kind")

# How the API server notes what was applied; of all fields, the rules ask for this one (see says_backoff_limit).
APPLIED: Final = [{"operation": "Apply", "fieldsV1": {"f:spec": {"f:backoffLimit": {}}}}]


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
    facts = Facts(profile_name=profile_name)
    for path, root in document.objects():
        admitted = root
        if attempt is not None and (root["apiVersion"], root["kind"]) == ("v1", "Pod"):
            admitted = {**root, "metadata": with_attempt(root.get("metadata"), attempt)}
        subject = decide.subject_of(request_for(admitted))
        if subject is None:
            continue
        mutated = mutate_as_applied(subject, policy, facts)
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


def mutate_as_applied(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Mutate an object that has not been defaulted: what stands in a manifest, its author said.

    One that comes from the API, and so has a uid, has been defaulted and speaks for itself.
    """
    metadata = subject.root.get("metadata")
    if not isinstance(metadata, dict) or "uid" in metadata or "managedFields" in metadata:
        return decide.mutate(subject, policy, facts)
    metadata["managedFields"] = APPLIED
    response = decide.mutate(subject, policy, facts)
    del metadata["managedFields"]
    return response


def request_for(root: Json) -> Request:
    """Make the request that creating an object would send."""
    group, _, version = root["apiVersion"].rpartition("/")
    kind = GroupVersionKind(group=group, version=version, kind=root["kind"])
    return Request(uid="offline", kind=kind, operation="CREATE", object=root)


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
    """Quotes every string that go-yaml, which kubectl reads with, would take for another type."""


KubectlDumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[.0-9][0-9_.xXoObBa-fA-F]*([eE][-+]?[0-9]+)?$"), list("-+.0123456789")
)
KubectlDumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
KubectlDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
KubectlDumper.ignore_aliases = lambda _self, _value: True
