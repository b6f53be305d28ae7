"""Admission of documents without an API server: what `render` prints and `check` judges."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from webhook import decide, names
from webhook.decide import Facts
from webhook.documents import Document
from webhook.policy.model import Policy
from webhook.problem import Json, Path, Problem
from webhook.review import GroupVersionKind, Request

Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(slots=True)
class Verdict:
    """What admission says of one document, whose value it has edited; paths are in the document."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    not_placed: bool = False  # whether there was a pod that no provider could be told for


def admit(document: Document, policy: Policy, profile_name: str, attempt: int | None) -> Verdict:
    """Apply validate(mutate(…)) to each object in a document; `attempt` counts as annotated on its Pods."""
    verdict = Verdict(warnings=list(document.warnings))
    facts = Facts(profile_name=profile_name)
    automatic = policy.profiles[profile_name].placement.provider == "auto"
    for path, root in document.objects():
        request = request_for(root)
        if attempt is not None and request.kind.kind == "Pod":
            annotate_attempt(root, attempt)
        subject = decide.subject_of(request)
        if subject is None:
            continue
        mutated = decide.mutate(subject, policy, facts)
        validated = decide.validate(subject, policy, facts)
        verdict.problems += prefixed(path, validated.problems)
        if not subject.malformed:
            verdict.warnings += prefixed(path, [*mutated.warnings, *validated.warnings])
        verdict.not_placed |= automatic and bool(mutated.placement)
    return verdict


def request_for(root: Json) -> Request:
    """Make the request that creating an object would send."""
    group, _, version = root["apiVersion"].rpartition("/")
    kind = GroupVersionKind(group=group, version=version, kind=root["kind"])
    return Request(uid="offline", kind=kind, operation="CREATE", object=root)


def annotate_attempt(pod: Json, attempt: int) -> None:
    """Say a Pod's attempt as its author could, in place of what admission may have noted on it."""
    metadata = pod.get("metadata")
    if metadata is None:
        metadata = pod["metadata"] = {}
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations") or {}, dict):
        others = metadata.get("annotations") or {}
        metadata["annotations"] = {**others, names.ATTEMPT: str(attempt), names.ATTEMPT_SOURCE: "Annotation"}


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
