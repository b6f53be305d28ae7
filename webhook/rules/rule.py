"""Defines a rule, and applies rules in their order."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, TypeVar

from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Problem
from webhook.systems import core
from webhook.systems.kind_spec import KindSpec

Context = TypeVar("Context")  # what a rule is applied to: see webhook/rules/contexts.py
Writes = Callable[[KindSpec], tuple[Pattern, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Context]):
    """One rule that edits objects, or denies them."""

    # Recorded with each edit and each problem, and counted in metrics. Rules with the same purpose share a name.
    name: str
    # Edits the object, and returns warnings.
    edit: Callable[[Context], list[Problem]] = lambda _: []
    # Returns the patterns of the paths at which, or below which, the rule edits objects of a kind. A rule for
    # workloads is not applied to a kind in which it writes nothing.
    writes: Writes = lambda _: ()
    # Returns the problems for which the object is denied.
    problems: Callable[[Context], Iterable[Problem]] = lambda _: ()
    # Returns False for an object to which the rule does not apply; None if the rule applies to all.
    applies: Callable[[Context], bool] | None = None
    # Whether the rule is applied to a workload, or to a Job in it, that its author has skipped. Skipped pods get only
    # registry.UNPLACED_POD_RULES.
    even_if_skipped: bool = False
    # The objects to which the rule applies, for the documentation.
    applies_to: str


def below(places: Iterable[Pattern], fields: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Return the patterns of fields below each of the places."""
    return tuple((*place, *field) for place in places for field in fields)


def apply(rules: Iterable[Rule[Context]], context: Context, editor: Editor) -> list[Problem]:
    """Apply rules in their order; return their warnings, and record them in `editor.warned`."""
    warnings: list[Problem] = []
    for rule in rules:
        if rule.applies is None or rule.applies(context):
            editor.rule = rule.name
            found = rule.edit(context)
            if found:
                editor.warned += zip(repeat(rule.name), found, strict=False)
                warnings += found
    return warnings


def problems(rules: Iterable[Rule[Context]], context: Context) -> Iterator[tuple[str, Problem]]:
    """Yield the problems that rules find, in the order of the rules, each with the name of its rule."""
    for rule in rules:
        if rule.applies is None or rule.applies(context):
            yield from zip(repeat(rule.name), rule.problems(context), strict=False)


def in_job_specs(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits fields of every JobSpec."""
    return lambda kind: below(kind.job_specs, fields)


def where_jobs_get_policies(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits JobSpecs, except those of a runtime: it edits their Jobs on creation."""
    return lambda kind: below(kind.job_specs, fields) if kind.failure_policy else ()


def in_pods(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits pods."""
    return lambda kind: fields if kind is core.POD else ()
