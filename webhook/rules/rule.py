"""What a rule is, and how rules are applied in their order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from webhook.kinds import KindSpec
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Problem

Context = TypeVar("Context")  # what a rule is applied to: see webhook/rules/contexts.py


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Context]):
    """One rule that edits objects."""

    # Recorded with each edit and counted in metrics. Rules that serve one purpose share a name.
    name: str
    # Edits the object, and returns warnings.
    edit: Callable[[Context], list[Problem]]
    # Returns the patterns of the paths at which, or below which, the rule edits objects of a kind. A rule that writes
    # nothing in a kind is not applied to it.
    writes: Callable[[KindSpec], tuple[Pattern, ...]]
    # Returns False for an object of such a kind that the rule leaves alone; None where it leaves none alone.
    applies: Callable[[Context], bool] | None = None
    # Says for the documentation to what the rule applies.
    applies_to: str


def below(places: Iterable[Pattern], fields: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Return the patterns of fields in objects that stand at these places."""
    return tuple((*place, *field) for place in places for field in fields)


def apply(rules: Iterable[Rule[Context]], context: Context, editor: Editor) -> list[Problem]:
    """Apply rules in their order; return their warnings."""
    warnings: list[Problem] = []
    for rule in rules:
        if rule.applies is None or rule.applies(context):
            editor.rule = rule.name
            warnings += rule.edit(context)
    return warnings
