"""Tests of a policy: what their file says, the cases that it makes, and how each is judged."""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import click
import msgspec
from msgspec import Meta, Struct, inspect

from webhook.admission.engine import read_policy
from webhook.cli import admission, documents, forms, line_numbers, writing
from webhook.cli.console import printable
from webhook.cli.documents import Document, Unusable
from webhook.cli.next_pod import MOST_ENDS, After, Ended, meaning
from webhook.cli.policy_file import DEFAULT, default_profile, policy_text
from webhook.cli.writing import as_yaml
from webhook.kube import names
from webhook.objects import bounds, strict_yaml
from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem, one_of
from webhook.objects.problem import Path as FieldPath
from webhook.objects.problem import field as field_of
from webhook.policy.model import Policy, Profile
from webhook.policy.parse import load_default
from webhook.policy.reader import Reader, TooManyProblemsError
from webhook.policy.relations import Relations, Wrong
from webhook.systems.job import spec as batch

MOST_CASES: Final = 1_000

Number = Annotated[int, Meta(ge=1)]
Attempt = Annotated[int, Meta(ge=0, le=2147483647)]


class Message(Struct, frozen=True, kw_only=True, rename="camel"):
    """A problem or a warning that is expected."""

    path: Annotated[str, meaning("The path of its field, as `check` prints it. Left out: any path.")] = ""
    what: Annotated[str, meaning("A part of its text. Left out: any text.")] = ""


class Expectation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What admission is expected to do with the object of a case."""

    denied: Annotated[
        list[Message], meaning("The problems for which the object is denied: exactly these. Left out: it is admitted.")
    ] = []
    warnings: Annotated[
        list[Message] | None, meaning("The warnings: exactly these; `[]` for none. Left out: they are not compared.")
    ] = None
    fields: Annotated[
        dict[str, Any], meaning("Values in the admitted object, by their path; `null` for a field that is absent.")
    ] = {}
    object: Annotated[dict[str, Any] | None, meaning("The whole admitted object.")] = None
    manifest: Annotated[str | None, meaning("A file with the whole admitted object, in place of `object`.")] = None
    placement: Annotated[
        Literal["Spot", "OnDemand", "None"] | None,
        meaning("The nodes on which the attempt runs. Needs a policy that names a provider."),
    ] = None


class Case(Struct, frozen=True, kw_only=True, rename="camel"):
    """One test: an object, and what is expected of it."""

    name: Annotated[str, meaning("What the case shows, as a sentence.")]
    manifest: Annotated[
        str | None, meaning("A file with the object. Its path, as each in the file, begins at the folder of the file.")
    ] = None
    document: Annotated[Number | None, meaning("The number of the document, from 1, in a manifest with several.")] = (
        None
    )
    object: Annotated[dict[str, Any] | None, meaning("The object itself, in place of `manifest`.")] = None
    profile: Annotated[str | None, meaning("The profile of the object's Namespace. Left out: that of the file.")] = None
    attempt: Annotated[
        Attempt | None,
        meaning(
            "The attempt of a Pod; 0 is the first. A Job with it stands for the pod that its controller creates for "
            "this attempt: `fields`, `object` and `placement` are those of the pod."
        ),
    ] = None
    after: Annotated[
        list[Ended],
        Meta(
            max_length=MOST_ENDS,
            extra={
                "meaning": "How the attempts before the pod ended, the oldest first. A Job with it stands for the pod "
                "that its controller creates next, at 2026-01-01T00:00:00Z."
            },
        ),
    ] = []
    expect: Annotated[Expectation, meaning("What is expected. `{}`: the object is admitted.")]


class Cases(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    api_version: Literal["retry-policy.dev/v1alpha1"]
    kind: Literal["RetryPolicyTest"]
    policy: Annotated[
        str | None, meaning("The policy under test, or the ConfigMap with it. Left out: the packaged policy.")
    ] = None
    profile: Annotated[
        str | None,
        meaning("The profile of all cases that name none. Left out: `default`, or the only one of the policy."),
    ] = None
    cases: Annotated[list[Case], Meta(min_length=1, max_length=MOST_CASES, extra={"meaning": "The tests."})]


LARGEST: Final = 1024 * 1024  # bytes of a file with cases
PLACED: Final = frozenset({"Pod", batch.JOB.kind, batch.CRON_JOB.kind})
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


class UnusableTestsError(Exception):
    """The file cannot be used; `problems` says why, each as a line for people."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def load(file: Path) -> tuple[Policy, list[Prepared]]:
    """Return the policy and the cases in a file; raise UnusableTestsError."""
    text = _text_of(file)
    cases = _parsed(text)
    problems: list[Problem] = []
    policy = _policy_of(file, cases, problems)
    lines = line_numbers.find(text, [(1, ("cases", index)) for index in range(len(cases.cases))])
    files = Files(file.parent)
    prepared = []
    for index, case in enumerate(cases.cases):
        path: FieldPath = ("cases", index)
        found = [*_problems_of(case, path)]
        profile = case.profile or cases.profile or (DEFAULT if policy is None else default_profile(policy))
        if policy is not None and profile not in policy.profiles:
            remedy = f"must be {one_of(sorted(policy.profiles), profile)}"
            found.append(Problem((*path, "profile"), f"is {profile!r}, which the policy does not have", remedy))
        root = _object_of(files, case, path, found)
        whole = case.expect.object
        if case.expect.manifest is not None:
            whole = files.one(case.expect.manifest, (*path, "expect", "manifest"), found)
        for name in ("attempt",) * (case.attempt is not None) + ("after",) * bool(case.after):
            if root is not None and root["kind"] not in PLACED:
                what = f"is set for a {root['kind']}"
                found.append(Problem((*path, name), what, "leave it out, or write a Pod, a Job or a CronJob"))
        problems += found
        if root is not None:
            line = lines.get((1, path))
            prepared.append(Prepared(case=case, line=line, root=root, whole=whole, profile=profile))
    if problems or policy is None:
        raise UnusableTestsError(problems[: bounds.LISTED_PROBLEMS])
    return policy, prepared


def _text_of(file: Path) -> str:
    """Return the text of a file with cases; raise UnusableTestsError."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UnusableTestsError([Problem((), f"is larger than {LARGEST // 2**20} MiB", "split it")])
        return data.decode()
    except OSError as error:
        raise UnusableTestsError([Problem((), f"cannot be read: {error.strerror}", "name a file with cases")]) from None
    except UnicodeDecodeError:
        raise UnusableTestsError([Problem((), "is not UTF-8", "save it as UTF-8")]) from None


def _parsed(text: str) -> Cases:
    """Return the cases in a text; raise UnusableTestsError."""
    try:
        found = [one for one in strict_yaml.read(text) if one[0] is not None]
    except strict_yaml.YamlError as error:
        what = f"line {error.line}, column {error.column}: {error.what}"
        raise UnusableTestsError([Problem((), what, error.remedy)]) from None
    if len(found) != 1:
        what = f"has {len(found)} documents"
        raise UnusableTestsError([Problem((), what, "must be one, with apiVersion, kind and cases")])
    ((value, problems),) = found
    with suppress(TooManyProblemsError):
        cases = Reader(problems, RELATIONS).value(value, inspect.type_info(Cases), ())
        if isinstance(cases, Cases) and not problems:
            return cases
    raise UnusableTestsError(problems[: bounds.LISTED_PROBLEMS])


def _policy_of(file: Path, cases: Cases, problems: list[Problem]) -> Policy | None:
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


def _problems_of(case: Case, path: FieldPath) -> Iterator[Problem]:
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

    def one(self, name: str, path: FieldPath, problems: list[Problem], case: Case | None = None) -> Json | None:
        """Return the object in a file; None if there is not exactly one, with the problem.

        `case`: the one whose object it is, if its document may be named.
        """
        if name not in self.read:
            self.read[name] = list(documents.read(str(self.folder / name), io.BytesIO()))
        objects: list[Json] = []
        for found in self.read[name]:
            if isinstance(found, Unusable):
                problems.append(Problem(path, f"{found.file}: {found.what}", found.remedy))
                return None
            if case is None or case.document in {None, found.number}:
                objects += [root for _, root in found.objects()]
        if len(objects) == 1:
            return objects[0]
        what = f"{name} has {len(objects)} objects"
        is_one_of_many = objects and case is not None
        remedy = "name one by its document, or write it inline" if is_one_of_many else "name a file with one"
        problems.append(Problem(path, what, remedy))
        return None


def _object_of(files: Files, case: Case, path: FieldPath, problems: list[Problem]) -> Json | None:
    if case.manifest is not None:
        return deepcopy(files.one(case.manifest, (*path, "manifest"), problems, case))
    if documents.is_object(case.object):
        return case.object
    problems.append(Problem((*path, "object"), "has no apiVersion and kind", "write them first"))
    return None


def _one_object(case: Case) -> Wrong | None:
    if case.manifest is None and case.object is None:
        return Wrong("is missing", "must name a file, or write the object inline as object")
    if case.manifest is not None and case.object is not None:
        return Wrong("stands beside object", "leave one of them out")
    return None


def _document_of_manifest(case: Case) -> Wrong | None:
    if case.document is not None and case.manifest is None:
        return Wrong("stands without manifest", "leave it out")
    return None


def _one_whole(expect: Expectation) -> Wrong | None:
    if expect.manifest is not None and expect.object is not None:
        return Wrong("stands beside object", "leave one of them out")
    return None


RELATIONS: Final[Relations] = {
    Case: ((("manifest", "object"), _one_object), (("document", "manifest"), _document_of_manifest)),
    Expectation: ((("manifest", "object"), _one_whole),),
}


EXPECTED, FOUND = writing.REMOVED, writing.ADDED
ABSENT: Final = "(absent)"
MOST_LINES: Final = 200  # of one difference
CREATED: Final = datetime(2026, 1, 1, tzinfo=UTC)  # the pod of a case: the same in each run, for times in its fields
AUTO: Final = "placement.provider is auto, and there are no nodes to look at; name a provider in the policy"


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs from the expectation, and how: lines that begin with `- ` are expected, those with `+ ` found."""

    where: str
    lines: list[str]


def differences(prepared: Prepared, policy: Policy) -> list[Difference]:
    """Return how what admission does differs from what a case expects; empty if it does not.

    With an attempt, a Job stands for the pod that its controller creates for it.
    """
    case, root, expect = prepared.case, prepared.root, prepared.case.expect
    as_pod = case.after or (case.attempt is not None and root["kind"] != "Pod")
    after = After(tuple(case.after), CREATED) if as_pod else None
    verdict = admission.admit(root, policy, prepared.profile, case.attempt, after=after)
    found = [*_messages("denied", expect.denied, verdict.problems)]
    if expect.warnings is not None:
        found += _messages("warnings", expect.warnings, verdict.warnings)
    if not verdict.problems:
        found += _of_fields(expect, root)
        found += _of_placement(expect, root, policy.profiles[prepared.profile])
        if prepared.whole is not None and prepared.whole != root:
            found.append(Difference("object", _compared(_as_lines(prepared.whole), _as_lines(root))))
    return found


def _messages(where: str, expected: list[Message], found: list[Problem]) -> Iterator[Difference]:
    """Yield a difference if not each expected message is found, or another one is."""
    left = list(found)
    missing = []
    for message in expected:
        match = next((problem for problem in left if _is_meant(message, problem)), None)
        if match is None:
            missing.append(message)
        else:
            left.remove(match)
    if missing or left:
        lines = [f"{EXPECTED} {': '.join(filter(None, (one.path, one.what))) or 'any'}" for one in missing]
        yield Difference(where, _limited([*lines, *(f"{FOUND} {problem}" for problem in left)]))


def _is_meant(message: Message, problem: Problem) -> bool:
    return message.path in {"", field_of(problem.path)} and message.what in f"{problem.what}; {problem.remedy}"


def _of_fields(expect: Expectation, root: Json) -> Iterator[Difference]:
    """Yield a difference for each field with another value than expected; null is expected of an absent field."""
    for name, value in expect.fields.items():
        found = at(root, path_of(name) or ())
        if found != value:
            yield Difference(name, _compared(_as_lines(value), _as_lines(found)))


def _of_placement(expect: Expectation, root: Json, profile: Profile) -> Iterator[Difference]:
    found = at(root, ("metadata", "annotations", names.PLACEMENT))
    if expect.placement not in {None, found}:
        lines = [f"{EXPECTED} {expect.placement}", f"{FOUND} {found or ABSENT}"]
        yield Difference("placement", [*lines, f"  {AUTO}"] if profile.placement.provider == "auto" else lines)


def _as_lines(value: Any) -> list[str]:
    if value is None:
        return [ABSENT]
    return as_yaml(value).splitlines() if isinstance(value, dict | list) else [msgspec.json.encode(value).decode()]


def _compared(expected: list[str], found: list[str]) -> list[str]:
    """Return the lines of both, each with its sign; of long ones only those around a change."""
    merged = list(writing.merged(expected, found))
    spans = list(writing.changed_spans(merged))
    return _limited([f"{sign} {line}" for start, end in spans for sign, line in merged[start:end]])


def _limited(lines: Iterable[str]) -> list[str]:
    printed = [printable(line) for line in lines]
    more = len(printed) - MOST_LINES
    return [*printed[:MOST_LINES], f"  and {more} more lines"] if more > 0 else printed


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One case: its file and line, and how it differs from what is expected; `differences` is empty if it passed."""

    file: str
    line: int | None
    name: str
    differences: list[Difference]

    @property
    def lines(self) -> Iterator[str]:
        """The differences as lines."""
        for one in self.differences:
            yield f"{printable(one.where)}:"
            yield from (f"  {line}" for line in one.lines)


class CasesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases there are, and how many passed and failed."""

    cases: int
    passed: int
    failed: int


class CasesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The JSON form."""

    api_version: Literal["retry-policy.dev/v1alpha1"] = "retry-policy.dev/v1alpha1"
    kind: Literal["TestReport"] = "TestReport"
    summary: CasesSummary
    cases: list[Result]


def _summary_of(results: list[Result]) -> CasesSummary:
    failed = sum(1 for result in results if result.differences)
    return CasesSummary(cases=len(results), passed=len(results) - failed, failed=failed)


def text(results: list[Result]) -> Iterator[str]:
    """Yield the lines for people: the cases, each failed one with its differences, and a summary."""
    for result in results:
        passed = not result.differences
        place = "" if passed else f"  ({result.file}:{result.line or 1})"
        state = click.style("PASS", fg="green") if passed else click.style("FAIL", fg="red", bold=True)
        yield f"{state}  {result.name}{place}"
        for difference in result.differences:
            yield f"      {printable(difference.where)}:"
            yield from (f"        {_coloured(line)}" for line in difference.lines)
    summary = _summary_of(results)
    cases = "1 case" if summary.cases == 1 else f"{summary.cases:,} cases"
    legend = "; - is expected, + is what admission does" if summary.failed else ""
    yield ""
    yield f"{cases}: {summary.passed:,} passed, {summary.failed:,} failed{legend}"


def _coloured(line: str) -> str:
    colour = {"-": "red", "+": "green"}.get(line[:1])
    return line if colour is None else click.style(line, fg=colour)


def as_json(results: list[Result]) -> str:
    """Return the results as JSON."""
    return forms.encoded(CasesReport(summary=_summary_of(results), cases=results))


def as_junit(results: list[Result]) -> str:
    """Return the results as JUnit XML."""
    cases = (
        forms.JUnitCase(one.file, one.name, ["\n".join(one.lines)] if one.differences else [], [], [])
        for one in results
    )
    return forms.junit_document("retry-policy test", cases)


def as_github(results: list[Result]) -> str:
    """Return the cases that failed as annotations of GitHub Actions."""
    return "".join(
        forms.annotation("error", "\n".join(one.lines), file=one.file, line=one.line, title=f"failed: {one.name}")
        for one in results
        if one.differences
    )
