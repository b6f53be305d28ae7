"""The schema of an Account's status in its CRD, and the table of its fields, from the structs that are written."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from webhook.accounts.stored import AccountStatus
from webhook.objects.problem import Json

KEPT: Final = ("description", "type", "minimum", "maximum", "maxLength", "maxItems", "enum", "required")
WIDTH: Final = 118


def schema() -> Json:
    """Return the OpenAPI schema of the status, without references: a CRD has none."""
    (whole,), parts = msgspec.json.schema_components([AccountStatus], ref_template="{name}")
    return resolved(whole, parts)


def resolved(found: Json, parts: Json) -> Json:
    """Return a part of the schema as a CRD has it; a field without a value is absent, never null."""
    alternatives = [one for one in found.get("anyOf", ()) if one != {"type": "null"}]
    if alternatives:
        return {**resolved(alternatives[0], parts), **described(found)}
    if "$ref" in found:
        return {**resolved(parts[found["$ref"]], parts), **described(found)}
    kept: Json = {key: found[key] for key in KEPT if key in found}
    if "enum" in kept:
        kept["type"] = "string"
    if "properties" in found:
        kept["properties"] = {name: resolved(one, parts) for name, one in found["properties"].items()}
    if "items" in found:
        kept["items"] = resolved(found["items"], parts)
    return kept


def described(found: Json) -> Json:
    """Return the description of a field, which is more exact than that of its type."""
    return {"description": found["description"]} if "description" in found else {}


def text() -> str:
    """Return the property `status` of the CRD's schema."""
    return yaml.dump({"status": schema()}, Dumper=Plain, sort_keys=False, width=WIDTH, allow_unicode=True)


class Plain(yaml.SafeDumper):
    """Writes equal parts again and again: people read them."""

    def ignore_aliases(self, _: object) -> bool:
        """Return True for any value."""
        return True


def table() -> str:
    """Return a table of all fields of the status."""
    rows = [f"| `{path}` | {kind} | {what} |" for path, kind, what in fields(schema(), "status")]
    return "\n".join(["", "| Field | Type | Meaning |", "|---|---|---|", *rows, "", ""])


def fields(found: Json, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, type with bounds, and description of each field below one."""
    for name, one in found.get("properties", {}).items():
        below = f"{path}.{name}"
        yield below, kind_of(one), one.get("description", "").replace("|", "\\|")
        if one["type"] == "array":
            yield from fields(one["items"], f"{below}[]")
        else:
            yield from fields(one, below)


def kind_of(one: dict[str, Any]) -> str:
    """Return the type of a field with its bounds."""
    if one["type"] == "array":
        return f"list, at most {one['maxItems']}"
    if "enum" in one:
        return ", ".join(f"`{value}`" if value else "empty" for value in one["enum"])
    if one["type"] == "string":
        return f"text, at most {one['maxLength']}"
    return str(one["type"])
