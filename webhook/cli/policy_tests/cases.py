"""Reads a file with cases, and the policy and the manifests that it names; finds all its problems at once."""

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import inspect

from webhook.admission.engine import read_policy
from webhook.cli.offline import documents, line_numbers
from webhook.cli.offline.documents import Document, Unusable
from webhook.cli.policy_file import policy_text
from webhook.cli.policy_tests.model import Case, Cases, Expectation
from webhook.objects import bounds, strict_yaml
from webhook.objects.problem import Json, Problem
from webhook.objects.problem import Path as FieldPath
from webhook.policy.model import Policy
from webhook.policy.parse import load_default
from webhook.policy.reader import Reader, TooManyProblemsError, one_of
from webhook.policy.relations import Relations, Wrong
from webhook.systems.job import spec as batch

LARGEST: Final = 1024 * 1024  # bytes of a file with cases
PLACED: Final = frozenset({"Pod", batch.JOB.kind})
# A part of a path as messages have it: [KEY] with a slash or a dot, [INDEX], or a plain key.
PART: Final = re.compile(r"\[(?P<index>\d+)\]|\[(?P<key>[^\[\]]+)\]|(?:^|\.)(?P<plain>[^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case with what it needs: its line in the file, its object, the whole object that is expected, if any."""

    case: Case
    line: int | None
    root: Json
    whole: Json | None
    profile: str


class UnusableError(Exception):
    """The file cannot be used; `problems` says why, each as a line for people."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def load(file: Path) -> tuple[Policy, list[Prepared]]:
    """Return the policy and the cases in a file; raise UnusableError."""
    text = text_of(file)
    cases = parsed(text)
    problems: list[Problem] = []
    policy = policy_of(file, cases, problems)
    lines = line_numbers.find(text, [(1, ("cases", index)) for index in range(len(cases.cases))])
    files = Files(file.parent)
    prepared = []
    for index, case in enumerate(cases.cases):
        path: FieldPath = ("cases", index)
        found = [*problems_of(case, path)]
        profile = cases.profile if case.profile is None else case.profile
        if policy is not None and profile not in policy.profiles:
            remedy = f"must be {one_of(sorted(policy.profiles), profile)}"
            found.append(Problem((*path, "profile"), f"is {profile!r}, which the policy does not have", remedy))
        root = object_of(files, case, path, found)
        whole = whole_of(files, case.expect, (*path, "expect"), found)
        for field in ("attempt",) * (case.attempt is not None) + ("after",) * bool(case.after):
            if root is not None and root["kind"] not in PLACED:
                what = f"is set for a {root['kind']}"
                found.append(Problem((*path, field), what, "leave it out, or write a Pod or a Job"))
        problems += found
        if root is not None:
            line = lines.get((1, path))
            prepared.append(Prepared(case=case, line=line, root=root, whole=whole, profile=profile))
    if problems or policy is None:
        raise UnusableError(problems[: bounds.LISTED_PROBLEMS])
    return policy, prepared


def text_of(file: Path) -> str:
    """Return the text of a file with cases; raise UnusableError."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UnusableError([Problem((), f"is larger than {LARGEST // 2**20} MiB", "split it")])
        return data.decode()
    except OSError as error:
        raise UnusableError([Problem((), f"cannot be read: {error.strerror}", "name a file with cases")]) from None
    except UnicodeDecodeError:
        raise UnusableError([Problem((), "is not UTF-8", "save it as UTF-8")]) from None


def parsed(text: str) -> Cases:
    """Return the cases in a text; raise UnusableError."""
    try:
        found = [one for one in strict_yaml.read(text) if one[0] is not None]
    except strict_yaml.YamlError as error:
        what = f"line {error.line}, column {error.column}: {error.what}"
        raise UnusableError([Problem((), what, error.remedy)]) from None
    if len(found) != 1:
        what = f"has {len(found)} documents"
        raise UnusableError([Problem((), what, "must be one, with apiVersion, kind and cases")])
    ((value, problems),) = found
    with suppress(TooManyProblemsError):
        cases = Reader(problems, RELATIONS).value(value, inspect.type_info(Cases), ())
        if isinstance(cases, Cases) and not problems:
            return cases
    raise UnusableError(problems[: bounds.LISTED_PROBLEMS])


def policy_of(file: Path, cases: Cases, problems: list[Problem]) -> Policy | None:
    """Return the policy under test; None if it cannot be used, with its problems."""
    if cases.policy is None:
        return load_default()
    try:
        text = policy_text(file.parent / cases.policy)
    except ValueError as error:
        problems.append(Problem(("policy",), f"{cases.policy} {error}", "correct the path: it begins at this file"))
        return None
    policy, found = read_policy(text)
    problems += [Problem(("policy",), f"{cases.policy}: {problem}", "correct the policy") for problem in found]
    return policy


def problems_of(case: Case, path: FieldPath) -> Iterator[Problem]:
    """Yield the problems of the expected fields."""
    expect = case.expect
    for name in expect.fields:
        if path_of(name) is None:
            remedy = "write it as check does, such as spec.template.spec.containers[0].image"
            yield Problem((*path, "expect", "fields", name), "is no path of a field", remedy)
    if expect.denied and (expect.fields or expect.object or expect.manifest or expect.placement):
        what = "stands beside fields, object, manifest or placement"
        yield Problem((*path, "expect", "denied"), what, "leave them out: nothing is stored of what is denied")


def path_of(text: str) -> FieldPath | None:
    """Return the path that a text names, as `field` writes it; None if it names none."""
    parts: list[str | int] = []
    end = 0
    for found in PART.finditer(text):
        if found.start() != end:
            return None
        end = found.end()
        parts.append(int(found["index"]) if found["index"] else found["key"] or found["plain"])
    return tuple(parts) if parts and end == len(text) else None


class Files:
    """The files that cases name, relative to a folder; each is read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: dict[str, list[Document | Unusable]] = {}

    def objects(
        self, name: str, path: FieldPath, problems: list[Problem], number: int | None = None
    ) -> list[Json] | None:
        """Return the objects in a file, or in one document of it; None if it cannot be read, with the problem."""
        if name not in self.read:
            self.read[name] = list(documents.read(str(self.folder / name), io.BytesIO()))
        objects: list[Json] = []
        for found in self.read[name]:
            if isinstance(found, Unusable):
                problems.append(Problem(path, f"{found.file}: {found.what}", found.remedy))
                return None
            if number in {None, found.number}:
                objects += [root for _, root in found.objects()]
        return objects


def object_of(files: Files, case: Case, path: FieldPath, problems: list[Problem]) -> Json | None:
    """Return the object of a case; None if there is none, with the problem."""
    if case.manifest is not None:
        found = files.objects(case.manifest, (*path, "manifest"), problems, case.document)
        if found is None:
            return None
        if len(found) == 1:
            return deepcopy(found[0])
        what = f"{case.manifest} has {len(found)} objects"
        remedy = "name one by its document, or write it inline" if found else "name a file with one"
        problems.append(Problem((*path, "manifest"), what, remedy))
        return None
    if documents.is_object(case.object):
        return case.object
    problems.append(Problem((*path, "object"), "has no apiVersion and kind", "write them first"))
    return None


def whole_of(files: Files, expect: Expectation, path: FieldPath, problems: list[Problem]) -> Json | None:
    """Return the whole object that a case expects; None if it expects none."""
    if expect.manifest is None:
        return expect.object
    found = files.objects(expect.manifest, (*path, "manifest"), problems)
    if found is None:
        return None
    if len(found) != 1:
        what = f"{expect.manifest} has {len(found)} objects"
        problems.append(Problem((*path, "manifest"), what, "name a file with one"))
        return None
    return found[0]


def one_object(case: Case) -> Wrong | None:
    """Require an object: in a file, or inline."""
    if case.manifest is None and case.object is None:
        return Wrong("is missing", "must name a file, or write the object inline as object")
    if case.manifest is not None and case.object is not None:
        return Wrong("stands beside object", "leave one of them out")
    return None


def document_of_manifest(case: Case) -> Wrong | None:
    """Reject the number of a document without a file."""
    if case.document is not None and case.manifest is None:
        return Wrong("stands without manifest", "leave it out")
    return None


def one_whole(expect: Expectation) -> Wrong | None:
    """Reject two whole objects."""
    if expect.manifest is not None and expect.object is not None:
        return Wrong("stands beside object", "leave one of them out")
    return None


RELATIONS: Final[Relations] = {
    Case: ((("manifest", "object"), one_object), (("document", "manifest"), document_of_manifest)),
    Expectation: ((("manifest", "object"), one_whole),),
}
