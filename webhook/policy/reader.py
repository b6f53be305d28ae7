"""Converts plain values to those of a model, and finds all problems in them, with their paths."""

import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, inspect

from webhook.objects import bounds
from webhook.objects.problem import Path, Problem, one_of, type_name
from webhook.policy.model import Duration, Retries
from webhook.policy.relations import RELATIONS, Relations

# The API's bound on activeDeadlineSeconds (ValidatePodSpec).
LONGEST: Final = 2147483647
DURATION: Final = re.compile(r"(?:([0-9]{1,10})h)?(?:([0-9]{1,10})m)?(?:([0-9]{1,10})s)?")

PLAIN: Final[dict[type, str]] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.CustomType: f"whole seconds from 1 to {LONGEST}, or such as 90s, 1h30m, 24h",
}
SHOWN: Final = 60  # characters of a wrong value in a message


class TooManyProblemsError(Exception):
    """The text has as many problems as are listed: parsing stops."""


class Reader:
    """Converts plain values to those of the model, by the types of the model, and appends problems to `problems`.

    A value with a problem becomes UNSET, so that no relation between fields reports it a second time. Each method
    raises TooManyProblemsError at the last problem that is listed. `relations`: the checks on several fields of one
    object, by the type of the object.
    """

    def __init__(self, problems: list[Problem], relations: Relations | None = None) -> None:
        self.problems = problems
        self.relations = RELATIONS if relations is None else relations

    def value(self, raw: Any, kind: inspect.Type, path: Path, description: str = "") -> Any:
        """Return the value of a type of the model, or UNSET; `description` is the model's own text after "must be"."""
        match kind:
            case inspect.Metadata(extra={"shape": shape}):  # stays raw
                self.value(raw, inspect.type_info(shape), path)
                return raw
            case inspect.Metadata():
                return self.value(raw, kind.type, path, right(kind))
            case inspect.AnyType():
                return raw
            case inspect.UnionType():
                other = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
                return None if raw is None else self.value(raw, other, path)
            case inspect.StructType():
                return self.struct(raw, kind, path)
            case inspect.DictType():
                return self.mapping(raw, kind, path)
            case inspect.ListType() | inspect.VarTupleType():
                return self.sequence(raw, kind, path)
            case inspect.CustomType():
                found = duration(raw)
                return self.wrong(raw, kind, path) if found is None else found
        return raw if fits(raw, kind) else self.wrong(raw, kind, path, description)

    def struct(self, raw: Any, kind: inspect.StructType, path: Path) -> Any:
        """Return an object with fields. Null counts as an object without any: `retries:` in YAML has the value null."""
        if not isinstance(raw, dict | None):
            return self.wrong(raw, kind, path)
        fields = {field.encode_name: field for field in kind.fields}
        given: dict[str, Any] = {}
        for key, entry in (raw or {}).items():
            if key in fields:
                given[fields[key].name] = self.value(entry, fields[key].type, (*path, key))
            else:
                self.problem((*path, key), "is not a field", f"must be {one_of(fields, key)}")
        for key, field in fields.items():
            if field.required and field.name not in given:
                self.problem((*path, key), "is missing", f"must be {right(field.type)}")
                given[field.name] = UNSET
        if kind.cls is Retries and isinstance(given.get("limit"), int):
            given.setdefault("default", min(Retries().default, given["limit"]))
        built = kind.cls(**given)
        for names, holds in self.relations.get(kind.cls, ()):
            if UNSET not in [getattr(built, name) for name in names] and (found := holds(built)):
                first = next(field for field in kind.fields if field.name == names[0])
                self.problem((*path, first.encode_name), *found)
        return built

    def mapping(self, raw: Any, kind: inspect.DictType, path: Path) -> Any:
        """Return an object whose keys are not fixed, or UNSET."""
        if not isinstance(raw, dict):
            return self.wrong(raw, kind, path)
        if not self.size(raw, kind, path):
            return UNSET
        return {
            self.value(key, kind.key_type, (*path, key)): self.value(entry, kind.value_type, (*path, key))
            for key, entry in raw.items()
        }

    def sequence(self, raw: Any, kind: inspect.ListType | inspect.VarTupleType, path: Path) -> Any:
        """Return a list, as a tuple where the model has one, or UNSET."""
        if not isinstance(raw, list):
            return self.wrong(raw, kind, path)
        if not self.size(raw, kind, path):
            return UNSET
        entries = [self.value(entry, kind.item_type, (*path, index)) for index, entry in enumerate(raw)]
        return tuple(entries) if isinstance(kind, inspect.VarTupleType) else entries

    def size(self, raw: Any, kind: inspect.DictType | inspect.ListType | inspect.VarTupleType, path: Path) -> bool:
        """Append a problem if there are too few or too many entries; return False if there are too many to read."""
        if kind.min_length is not None and len(raw) < kind.min_length:
            self.problem(path, "is empty", f"must have {kind.min_length} or more entries")
        if kind.max_length is not None and len(raw) > kind.max_length:
            self.problem(path, f"has {len(raw)} entries", f"must have {kind.max_length} or fewer")
            return False
        return True

    def wrong(self, raw: Any, kind: inspect.Type, path: Path, description: str = "") -> Any:
        """Append the problem that a value does not have its type, and return UNSET."""
        remedy = f"must be {description or right(kind)}"
        if isinstance(kind, inspect.LiteralType) and isinstance(raw, str):
            remedy = f"must be {one_of(kind.values, raw)}"
        elif isinstance(kind, inspect.StrType) and isinstance(raw, bool | int | float):
            remedy = f'must be a string: "{shown(raw)}"'
        self.problem(path, f"is {shown(raw)}", remedy)
        return UNSET

    def problem(self, path: Path, what: str, remedy: str) -> None:
        """Append a problem; raise TooManyProblemsError if it is the last that is listed."""
        self.problems.append(Problem(path, what, remedy))
        if len(self.problems) >= bounds.LISTED_PROBLEMS:
            raise TooManyProblemsError


def fits(raw: Any, kind: inspect.Type) -> bool:
    """Return True if a string, integer or boolean has a type of the model, with its bounds.

    Raise TypeError for a type of the model that the parser does not know.
    """
    match kind:
        case inspect.LiteralType():
            return isinstance(raw, str) and raw in kind.values
        case inspect.IntType():
            return type(raw) is int and not (
                (kind.ge is not None and raw < kind.ge) or (kind.le is not None and raw > kind.le)
            )
        case inspect.FloatType():
            least, most = raw if kind.ge is None else kind.ge, raw if kind.le is None else kind.le
            return type(raw) in {int, float} and least <= raw <= most
        case inspect.BoolType():
            return isinstance(raw, bool)
        case inspect.StrType():
            return isinstance(raw, str) and (kind.pattern is None or re.search(kind.pattern, raw) is not None)
    raise TypeError(f"the model has a type that the parser does not know: {kind}")


def right(kind: inspect.Type) -> str:
    """Return what a value of a type must be, for the text after "must be"."""
    match kind:
        case inspect.Metadata():
            return str((kind.extra_json_schema or {}).get("description") or right(kind.type))
        case inspect.UnionType():
            return right(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
        case inspect.LiteralType():
            return one_of(kind.values)
        case inspect.IntType(ge=None, le=None):
            return "an integer"
        case inspect.IntType(le=None):
            return f"an integer of at least {kind.ge}"
        case inspect.IntType():
            return f"an integer from {kind.ge} to {kind.le}"
    return PLAIN[type(kind)]


def shown(raw: Any) -> str:
    """Return a value for a message: as JSON, cut if it is long; of an object or list only the type."""
    if isinstance(raw, dict | list) or raw is None:
        return type_name(raw)
    text = msgspec.json.encode(raw).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def duration(raw: Any) -> Duration | None:
    """Return a duration; None if `raw` is not one.

    `raw` is an integer (seconds), or text with hours, minutes and seconds in this order, each at most once.
    """
    seconds = raw
    if isinstance(raw, str) and (found := DURATION.fullmatch(raw)):
        hours, minutes, rest = (int(part or 0) for part in found.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    return Duration(seconds) if type(seconds) is int and 1 <= seconds <= LONGEST else None
