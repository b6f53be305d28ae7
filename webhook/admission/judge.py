"""Judges one stored object: what admission in mode Enforce would do if it were created now."""

from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from webhook.admission import engine, modes
from webhook.admission.subject import request_to_create, subject_of
from webhook.objects import bounds
from webhook.objects.patch import Edit, Editor
from webhook.objects.problem import Json, Problem, field
from webhook.policy.model import Policy
from webhook.policy.settings import NamedProfile
from webhook.rules.facts import Facts
from webhook.systems import core

Verdict = Literal["denied", "changed", "warned", "unchanged"]

# The verdicts that are printed, the worst first.
WORST_FIRST: Final[tuple[Verdict, ...]] = ("denied", "changed", "warned")


class Judgement(NamedTuple):
    """The worst that admission would do to an object, and the lines that say it."""

    verdict: Verdict
    findings: tuple[str, ...] = ()


def judge(root: Json, policy: Policy, profile_name: str, facts: Facts) -> Judgement | None:
    """Return the judgement of an object, which is edited; None if admission has nothing to say about it.

    `profile_name` names a profile of the policy. Of a pod only a denial is reported: it is placed by its attempt, when
    it is created.
    """
    subject = subject_of(request_to_create(root), root)
    if subject is None:
        return None
    facts = replace(facts, profile_name=profile_name)
    profile = NamedProfile(profile_name, policy.profiles[profile_name])
    editor = Editor(root)
    warnings: list[Problem] = []
    if not subject.malformed:
        warnings, _, _ = engine.edit(subject, profile, facts, editor)
    validated = engine.validate(subject, policy, facts)
    if validated.found:
        return Judgement("denied", lines(validated.problems))
    if subject.kind is core.POD:
        return Judgement("unchanged")
    edits = [edit for edit in editor.edits if edit.path[0] != modes.BOOKKEEPING]
    if edits:
        return Judgement("changed", (sentence(edits),))
    found = lines(list(dict.fromkeys([*warnings, *validated.warnings])))
    return Judgement("warned", found) if found else Judgement("unchanged")


def lines(problems: list[Problem]) -> tuple[str, ...]:
    """Return a line for each problem, for the last ones together."""
    listed = tuple(str(problem) for problem in problems[: bounds.LISTED_NAMES])
    more = len(problems) - len(listed)
    return (*listed, f"and {more} more") if more else listed


def sentence(edits: list[Edit]) -> str:
    """Return what would be changed, in one line; of a field that is edited twice, the last edit."""
    last = {edit.path: f"{field(edit.path)} {modes.what(edit)}" for edit in edits}
    listed = [*last.values()][: bounds.LISTED_NAMES]
    more = len(last) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")
