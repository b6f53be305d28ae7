"""Judges a case: admits its object as the webhook does, and compares that with what the case expects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from webhook.cli.console import printable
from webhook.cli.offline import admission, line_diff
from webhook.cli.offline.next_pod import After
from webhook.cli.offline.writing import as_yaml
from webhook.cli.policy_tests.cases import Prepared, path_of
from webhook.cli.policy_tests.model import Expectation, Message
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.objects.problem import field as field_of
from webhook.policy.model import Policy
from webhook.systems.job import spec as batch

EXPECTED, FOUND = line_diff.REMOVED, line_diff.ADDED
ABSENT: Final = "(absent)"
MOST_LINES: Final = 200  # of one difference
CREATED: Final = datetime(2026, 1, 1, tzinfo=UTC)  # the pod of a case: the same in each run, for times in its fields
AUTO: Final = "placement.provider is auto, and there are no nodes to look at; name a provider in the policy"


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs from the expectation, and how: lines that begin with `- ` are expected, those with `+ ` found."""

    where: str
    lines: list[str]


@dataclass(slots=True)
class Admitted:
    """What admission made of an object: the problems, the warnings, and the object, or the pod of its attempt."""

    problems: list[Problem]
    warnings: list[Problem]
    root: Json = field(default_factory=dict)


def differences(prepared: Prepared, policy: Policy) -> list[Difference]:
    """Return how what admission does differs from what a case expects; empty if it does not."""
    expect = prepared.case.expect
    admitted = admit(prepared, policy)
    found = [*messages("denied", expect.denied, admitted.problems)]
    if expect.warnings is not None:
        found += messages("warnings", expect.warnings, admitted.warnings)
    if not admitted.problems:
        found += of_fields(expect, admitted.root)
        found += of_placement(expect, admitted.root, is_auto(policy, prepared.profile))
        if prepared.whole is not None and prepared.whole != admitted.root:
            found.append(Difference("object", compared(as_lines(prepared.whole), as_lines(admitted.root))))
    return found


def admit(prepared: Prepared, policy: Policy) -> Admitted:
    """Admit the object of a case; with an attempt, a Job stands for the pod that its controller creates for it."""
    case, root = prepared.case, prepared.root
    as_pod = case.after or (case.attempt is not None and root["kind"] == batch.JOB.kind)
    after = After(tuple(case.after), CREATED) if as_pod else None
    verdict = admission.admit(root, policy, prepared.profile, case.attempt, after=after)
    return Admitted(verdict.problems, verdict.warnings, root)


def messages(where: str, expected: list[Message], found: list[Problem]) -> Iterator[Difference]:
    """Yield a difference if not each expected message is found, or another one is."""
    left = list(found)
    missing = []
    for message in expected:
        match = next((problem for problem in left if is_meant(message, problem)), None)
        if match is None:
            missing.append(message)
        else:
            left.remove(match)
    if missing or left:
        lines = [f"{EXPECTED} {': '.join(filter(None, (one.path, one.what))) or 'any'}" for one in missing]
        yield Difference(where, limited([*lines, *(f"{FOUND} {problem}" for problem in left)]))


def is_meant(message: Message, problem: Problem) -> bool:
    """Return True if a problem has the expected path, and the expected part of a text."""
    return message.path in {"", field_of(problem.path)} and message.what in f"{problem.what}; {problem.remedy}"


def of_fields(expect: Expectation, root: Json) -> Iterator[Difference]:
    """Yield a difference for each field with another value than expected; null is expected of an absent field."""
    for name, value in expect.fields.items():
        found = at(root, path_of(name) or ())
        if found != value:
            yield Difference(name, compared(as_lines(value), as_lines(found)))


def of_placement(expect: Expectation, root: Json, is_auto: bool) -> Iterator[Difference]:  # noqa: FBT001 - called once
    """Yield a difference if a pod is placed on other nodes than expected."""
    found = at(root, ("metadata", "annotations", names.PLACEMENT))
    if expect.placement not in {None, found}:
        lines = [f"{EXPECTED} {expect.placement}", f"{FOUND} {found or ABSENT}"]
        yield Difference("placement", [*lines, f"  {AUTO}"] if is_auto else lines)


def is_auto(policy: Policy, profile: str) -> bool:
    """Return True if a profile leaves the provider to the nodes of a cluster."""
    return policy.profiles[profile].placement.provider == "auto"


def as_lines(value: Any) -> list[str]:
    """Return a value as lines for people: a scalar as JSON, all else as YAML."""
    if value is None:
        return [ABSENT]
    return as_yaml(value).splitlines() if isinstance(value, dict | list) else [msgspec.json.encode(value).decode()]


def compared(expected: list[str], found: list[str]) -> list[str]:
    """Return the lines of both, each with its sign; of long ones only those around a change."""
    merged = list(line_diff.merged(expected, found))
    spans = list(line_diff.changed_spans(merged))
    return limited([f"{sign} {line}" for start, end in spans for sign, line in merged[start:end]])


def limited(lines: Iterable[str]) -> list[str]:
    """Return lines that can be printed, not too many."""
    printed = [printable(line) for line in lines]
    more = len(printed) - MOST_LINES
    return [*printed[:MOST_LINES], f"  and {more} more lines"] if more > 0 else printed
