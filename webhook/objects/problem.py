"""A problem in a document: where it is, what is wrong, and what would be right."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from webhook.objects import bounds

type_names = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}

# A JSON object as decoded: not copied, and not converted to a typed model.
Json = dict[str, Any]

# The place of a value in an object: ("spec", "containers", 0, "name").
Path = tuple[str | int, ...]


def field(path: Path) -> str:
    """Return a path as the API server writes it in its messages.

    ("spec", "containers", 0, "name") becomes spec.containers[0].name. A map key with a slash or a dot is in brackets:
    metadata.annotations[retry-policy.dev/attempt]. A key that is longer than the API allows is cut.
    """
    text = ""
    for part in path:
        if isinstance(part, str) and len(part) > bounds.MAX_KEY:
            text += f"[{part[: bounds.MAX_KEY]}…]"
        elif isinstance(part, int) or "/" in part or "." in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Problem(msgspec.Struct, frozen=True):
    """An error or a warning about a field; as a string: `path: what; remedy`, without its middle if it is too long."""

    path: Path
    what: str
    remedy: str

    def __str__(self) -> str:
        where = field(self.path)
        text = f"{where}: {self.what}" if where else self.what
        remedy = cut(f"; {self.remedy}", bounds.MAX_PROBLEM // 2)
        return cut(text, bounds.MAX_PROBLEM - len(remedy)) + remedy


def cut(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, without its end if it is longer."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(names: Sequence[str]) -> str:
    """Return the first names, separated by commas, and the number of the others; cut names that are too long."""
    few = [name[: bounds.MAX_KEY] for name in names[: bounds.LISTED_NAMES]]
    more = len(names) - len(few)
    return ", ".join(few) + (f" and {more} more" if more > 0 else "")


def one_of(names: Iterable[Any], given: str = "") -> str:
    """Return the allowed names as text, with "did you mean" for the one that is most similar to `given`."""
    *most, last = names
    text = f"{', '.join(most)} or {last}" if most else str(last)
    by_lower = {name.lower(): name for name in (*most, last)}
    near = difflib.get_close_matches(given[: bounds.MAX_KEY].lower(), by_lower, n=1)
    return f"{text} (did you mean {by_lower[near[0]]}?)" if near and most else text


def type_name(value: object) -> str:
    """Return the type of a decoded JSON value for a message, such as "an object"."""
    return "null" if value is None else type_names.get(type(value), type(value).__name__)
