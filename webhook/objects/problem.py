"""What is wrong in a document: where, what, and what would be right."""

from collections.abc import Sequence
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

# A raw JSON object, as decoded: never copied, never turned into a typed model.
Json = dict[str, Any]

# Where a value stands in an object: ("spec", "containers", 0, "name").
Path = tuple[str | int, ...]


def field(path: Path) -> str:
    """Spell a path as the API server does in its messages.

    ("spec", "containers", 0, "name") becomes spec.containers[0].name; a map key that is no plain field name stands in
    brackets: metadata.annotations[retry-policy.dev/attempt]. A longer key than the API allows is cut.
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
    """Something wrong, or worth a warning: prints as `path: what; what would be right`."""

    path: Path
    what: str
    remedy: str

    def __str__(self) -> str:
        where = field(self.path)
        text = f"{where}: {self.what}; {self.remedy}" if where else f"{self.what}; {self.remedy}"
        return text if len(text) <= bounds.MAX_PROBLEM else f"{text[: bounds.MAX_PROBLEM - 1]}…"


def listed(names: Sequence[str]) -> str:
    """List a few names, and how many more there are; a longer name than the API allows is cut."""
    few = [name[: bounds.MAX_KEY] for name in names[: bounds.LISTED_NAMES]]
    more = len(names) - len(few)
    return ", ".join(few) + (f" and {more} more" if more > 0 else "")


def type_name(value: object) -> str:
    """Say the type of a decoded JSON value in words a person uses."""
    return "null" if value is None else type_names.get(type(value), type(value).__name__)
