"""Writes CEL: texts, optional fields, and sets of places: what a pattern matches in an object, by its path.

A set is a CEL map from path to value. It is computed in a variable of the admission policy; each variable begins with
another set, so that no expression is long. In an update, a set has the places in the object before the update too:
their paths begin with BEFORE.

Expressions use two-variable comprehensions, which Kubernetes has since 1.33. `.?` finds nothing in a value that is
null or no object, where `.` would be an error.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.kube import names
from webhook.objects.patch import DEEPEST, EVERY, Nested, Pattern
from webhook.objects.problem import Path
from webhook.objects.problem import field as field_of
from webhook.objects.shape import ANY_KEY, Shape
from webhook.policy.model import Policy, Profile
from webhook.rules.opt_in import MODES
from webhook.systems.kind_spec import KindSpec

BEFORE: Final = "before: "
UNLIMITED: Final = 2**63 - 1  # the number of retries that stands for no limit
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED: Final = frozenset(
    {"as", "const", "else", "for", "function", "if", "import", "in", "namespace", "var", "void"}
)

Variable = dict[str, str]


def text(value: str) -> str:
    """Return a string as a CEL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: Any) -> str:
    """Return a JSON value as a CEL literal; `dyn` allows lists and maps of different types."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}: dyn({literal(entry)})" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(f"dyn({literal(entry)})" for entry in value) + "]"
    return json.dumps(value)


def plain_list(values: list[str]) -> str:
    """Return strings as a CEL list of strings."""
    return "[" + ", ".join(map(text, values)) + "]"


def field(path: Path, of: str = "o") -> str:
    """Return the optional value at a path of keys in the value of a CEL expression."""
    names_of_fields = (str(key) for key in path)
    return of + "".join(f".?{key}" if _is_identifier(key) else f"[?{text(key)}]" for key in names_of_fields)


def _is_identifier(key: str) -> bool:
    return IDENTIFIER.fullmatch(key) is not None and key not in RESERVED


def value(path: Path, of: str = "o") -> str:
    """Return the value at a path of keys, null if it is absent."""
    return f"{field(path, of)}.orValue(null)" if path else of


class Variables:
    """The variables of one admission policy, in their order; a set is computed once."""

    def __init__(self, shape: Shape, roots: str) -> None:
        self.shape = shape
        self.list: list[Variable] = []
        self.names: set[str] = set()
        self.sets: dict[Pattern, str] = {}
        self.too_deep: list[str] = []  # sets of what is nested deeper than rules follow
        self.sets[()] = self.add("objects", roots)

    def add(self, name: str, expression: str) -> str:
        """Add a variable, and return the expression of its value; a name that is taken gets a number."""
        unique, number = name, 1
        while unique in self.names:
            number += 1
            unique = f"{name}{number}"
        self.names.add(unique)
        self.list.append({"name": unique, "expression": expression})
        return f"variables.{unique}"

    def places(self, pattern: Pattern) -> str:
        """Return the set of what a pattern matches in the object."""
        if pattern not in self.sets:
            self.sets[pattern] = self.below(self.sets[()], pattern, self.shape, first=True)
        return self.sets[pattern]

    def below(self, start: str, pattern: Pattern, shape: Shape, *, first: bool = False) -> str:
        """Return the set of what a pattern matches in the values of another set; `first`: its paths are empty."""
        keys: list[str] = []
        name = "objects" if first else start.partition(".")[2]
        for index, part in enumerate(pattern):
            if isinstance(part, Nested):
                start = self.in_values(start, keys, name, first=first)
                start = self.nested(start, part, shape)
                rest = pattern[index + 1 :]
                return self.below(start, rest, shape) if rest else start
            if part == EVERY:
                is_list = isinstance(shape, list)
                start = self.add(name, self.every(start, keys, is_list=is_list, first=first))
                shape = entry_of(shape)
                keys, first = [], False
            else:
                key = str(part)
                shape = shape.get(key, {}) if isinstance(shape, dict) else {}
                name = key if not keys and name == "objects" else f"{name}_{key}"
                keys.append(key)
        return self.in_values(start, keys, name, first=first)

    def in_values(self, start: str, keys: list[str], name: str, *, first: bool) -> str:
        """Return the set of the values at a path of keys in the values of a set."""
        if not keys:
            return start
        found = value(tuple(keys))
        path = f"p + {text(path_of_keys(keys, first=first))}"
        return self.add(name, f"{start}.transformMapEntry(p, o, {found} != null,\n  {{{path}: {found}}})")

    def every(self, start: str, keys: list[str], *, is_list: bool, first: bool) -> str:
        """Return an expression for all entries of the lists or maps at a path of keys in the values of a set."""
        found = value(tuple(keys))
        entries = f"({found} == null ? {'[]' if is_list else '{}'} : {found})"
        suffix = f"{text(path_of_keys(keys, first=first))} + " if keys else ""
        step = "'[' + string(i) + ']'" if is_list else "'.' + i"
        return f"{start}.transformMapEntry(p, o,\n  {entries}.transformMapEntry(i, e, {{p + {suffix}{step}: e}}))"

    def nested(self, start: str, part: Nested, shape: Shape) -> str:
        """Return the set of values and of all values of the same type in them, down to DEEPEST levels."""
        levels = [start]
        for _ in range(DEEPEST + 1):
            inner = [self.below(levels[-1], pattern, shape) for pattern in part.patterns]
            levels.append(self.add("inner", union(inner)))
        self.too_deep.append(levels.pop())
        return self.add("levels", union(levels))


def path_of_keys(keys: list[str], *, first: bool) -> str:
    """Return what a path of keys adds to the path of a value, as messages have it."""
    return field_of(tuple(keys)) if first else field_of(("o", *keys))[1:]


def entry_of(shape: Any) -> Shape:
    """Return the shape of the entries of a list or map."""
    found: Shape = shape[0] if isinstance(shape, list) else shape[ANY_KEY]
    return found


def union(sets: list[str]) -> str:
    """Return the union of sets whose paths differ."""
    if len(sets) == 1:
        return sets[0]
    return f"[{', '.join(sets)}].transformMapEntry(i, one, one)"


class Profiles:
    """The profiles of a policy, for the admission policy of one kind."""

    def __init__(self, policy: Policy, kind: KindSpec) -> None:
        self.policy = policy
        labels = f"{'namespaceObject' if kind.namespaced else 'object'}.metadata.?labels"
        self.first: list[Variable] = [
            {"name": "profile", "expression": f"{labels}[?{text(names.PROFILE)}].orValue('')"},
            {"name": "mode", "expression": f"{labels}[?{text(names.MODE)}].orValue('Enforce')"},
        ]

    def variable(self, name: str, of: Callable[[Profile], Any]) -> Variable:
        """Return a variable with a value of the namespace's profile."""
        values = {profile: of(one) for profile, one in self.policy.profiles.items()}
        different = {repr(one) for one in values.values()}
        if len(different) == 1:
            return {"name": name, "expression": _typed(next(iter(values.values())))}
        entries = ", ".join(f"{text(profile)}: {_typed(one)}" for profile, one in sorted(values.items()))
        return {"name": name, "expression": f"{{{entries}}}[variables.profile]"}

    def is_known(self) -> str:
        """Return a condition that both labels have allowed values; with any other, objects are left alone."""
        names_of_profiles = plain_list(sorted(self.policy.profiles))
        return f"variables.profile in {names_of_profiles} && variables.mode in {plain_list([*MODES])}"


def _typed(value: Any) -> str:
    """Return a value of a profile as CEL; the entries of a list of numbers keep their type."""
    if isinstance(value, list) and all(type(entry) is int for entry in value):
        return "[" + ", ".join(map(str, value)) + "]"
    return literal(value)
