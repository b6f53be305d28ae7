"""The JSON schemas of files that users write, and of what programs read, from the models of their parsers."""

import json
from typing import Any, Final

import msgspec
from msgspec import inspect

from tools.generate.docs import comments, stated
from webhook.cli.findings import SITE
from webhook.cli.forms import CheckReport
from webhook.cli.policy_tests import Case, Cases, CasesReport, Expectation, Message
from webhook.history.record import Record
from webhook.insight.report.model import Report
from webhook.insight.simulate.result import Simulation
from webhook.insight.simulate.sweep import Curve
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.reader import LONGEST

FOLDER: Final = "docs/reference"
DURATION: Final[Json] = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": LONGEST},
        {"type": "string", "pattern": "^(?=.)([0-9]{1,10}h)?([0-9]{1,10}m)?([0-9]{1,10}s)?$"},
    ]
}


def policy() -> str:
    """Return the schema of a policy."""
    meanings = {path: meaning.replace("\\|", "|") for path, meaning in comments()}
    return text("policy", "A policy of retry-policy-webhook", schema(Policy, meanings))


def cases() -> str:
    """Return the schema of a file with tests of a policy."""
    return text("cases", "Tests of a policy, for retry-policy test", schema(Cases, {}))


def check_report() -> str:
    """Return the schema of what `check -o json` prints."""
    return text("check-report", "What retry-policy check -o json prints", of_report(CheckReport))


def test_report() -> str:
    """Return the schema of what `test -o json` prints."""
    return text("test-report", "What retry-policy test -o json prints", of_report(CasesReport))


def history() -> str:
    """Return the schema of a record of history."""
    return text("history", "A record of history, one line of what retry-policy serve writes", of_report(Record))


def simulation() -> str:
    """Return the schema of what `simulate -o json` prints."""
    return text("simulation", "What retry-policy simulate -o json prints", of_report(Simulation))


def simulation_sweep() -> str:
    """Return the schema of what `simulate --sweep … -o json` prints."""
    return text("simulation-sweep", "What retry-policy simulate --sweep … -o json prints", of_report(Curve))


def text(name: str, title: str, made: Json) -> str:
    """Return a schema as the text of its file."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{SITE}/reference/{name}.schema.json",
        "title": title,
    }
    return json.dumps({**head, **made}, indent=2, ensure_ascii=False) + "\n"


def of_report(model: Any) -> Json:
    """Return the schema of a report: a program that reads one must ignore fields that it does not know."""
    (made,), components = msgspec.json.schema_components([model])
    return {**made, "$defs": components}


def schema(model: type, meanings: dict[str, str]) -> Json:
    """Return the schema of a file that users write; `meanings` of fields by their path."""
    return Maker(meanings).of(inspect.type_info(model), "")


class Maker:
    """Makes schemas of types, by the rules of webhook/policy/reader.py."""

    def __init__(self, meanings: dict[str, str]) -> None:
        self.meanings = meanings

    def of(self, kind: Any, path: str) -> Json:
        """Return the schema of a type."""
        match kind:
            case inspect.Metadata(extra={"shape": shape}):
                return self.of(inspect.type_info(shape), path)
            case inspect.Metadata():
                return {**self.of(kind.type, path), **said(kind)}
            case inspect.UnionType():
                others = [self.of(one, path) for one in kind.types if not isinstance(one, inspect.NoneType)]
                return {"anyOf": [*others, {"type": "null"}]}
            case inspect.StructType():
                return self.struct(kind, path)
            case inspect.DictType():
                keys = self.of(kind.key_type, path)
                found = {"type": "object", "additionalProperties": self.of(kind.value_type, f"{path}*.")}
                if "pattern" in keys:
                    found["propertyNames"] = {"pattern": keys["pattern"]}
                return {**found, **bounds(kind, "minProperties", "maxProperties")}
            case inspect.ListType() | inspect.VarTupleType():
                items = self.of(kind.item_type, f"{path}*.")
                return {"type": "array", "items": items, **bounds(kind, "minItems", "maxItems")}
        return scalar(kind)

    def struct(self, kind: inspect.StructType, path: str) -> Json:
        """Return the schema of an object with fields; null stands for an object without any."""
        required = [field.encode_name for field in kind.fields if field.required]
        properties = {field.encode_name: self.field(field, f"{path}{field.encode_name}") for field in kind.fields}
        made: Json = {"type": "object" if required else ["object", "null"], "properties": properties}
        return {**made, **({"required": required} if required else {}), "additionalProperties": False}

    def field(self, field: inspect.Field, path: str) -> Json:
        """Return the schema of a field, with its meaning and its default."""
        made = self.of(field.type, f"{path}.")
        if self.meanings.get(path):
            made = {"description": self.meanings[path], **made}
        if field.default is not msgspec.NODEFAULT and not isinstance(field.default, msgspec.Struct):
            made["default"] = msgspec.to_builtins(field.default, enc_hook=int)
        return made


def said(kind: inspect.Metadata) -> Json:
    """Return the description of a type: the meaning of a field, else what a value must be."""
    if kind.extra is not None:
        return {"description": stated(kind)}
    description = (kind.extra_json_schema or {}).get("description")
    return {} if description is None else {"description": f"Must be {description}."}


def bounds(kind: Any, least: str, most: str) -> Json:
    """Return the bounds of a number of entries."""
    found = {least: kind.min_length, most: kind.max_length}
    return {name: bound for name, bound in found.items() if bound is not None}


def scalar(kind: Any) -> Json:
    """Return the schema of a type without parts."""
    match kind:
        case inspect.LiteralType():
            return {"enum": list(kind.values)}
        case inspect.IntType() | inspect.FloatType():
            found = {"minimum": kind.ge, "maximum": kind.le}
            name = "integer" if isinstance(kind, inspect.IntType) else "number"
            return {"type": name, **{name: bound for name, bound in found.items() if bound is not None}}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.StrType():
            # \Z is not in the regular expressions of JSON schema, in which $ matches at the end alone.
            pattern = {} if kind.pattern is None else {"pattern": kind.pattern.replace(r"\Z", "$")}
            return {"type": "string", **pattern}
        case inspect.CustomType():
            return DURATION
    return {}


def report() -> str:
    """Return the schema of what `report -o json` prints."""
    return text("report", "What retry-policy report -o json prints", of_report(Report))


FILES: Final = {
    f"{FOLDER}/policy.schema.json": policy,
    f"{FOLDER}/cases.schema.json": cases,
    f"{FOLDER}/check-report.schema.json": check_report,
    f"{FOLDER}/report.schema.json": report,
    f"{FOLDER}/test-report.schema.json": test_report,
    f"{FOLDER}/history.schema.json": history,
    f"{FOLDER}/simulation.schema.json": simulation,
    f"{FOLDER}/simulation-sweep.schema.json": simulation_sweep,
}


def cases_table() -> str:
    """Return a table of the fields of a file with cases."""
    rows = ["| Field | Values | |", "|---|---|---|"]
    for prefix, model in (("", Cases), ("cases[].", Case), ("cases[].expect.", Expectation), ("….denied[].", Message)):
        for field in inspect.type_info(model).fields:  # type: ignore[attr-defined]
            made = Maker({}).of(field.type, "")
            rows.append(f"| `{prefix}{field.encode_name}` | {values(made)} | {made.get('description', 'required')} |")
    return "\n".join(rows) + "\n"


def values(made: Json) -> str:
    """Return the values that a schema allows, in words."""
    if "anyOf" in made:
        return values(made["anyOf"][0])
    if "enum" in made:
        return ", ".join(f"`{value}`" for value in made["enum"])
    kind = made["type"][0] if isinstance(made["type"], list) else made["type"]
    return {"string": "a string", "integer": "a whole number", "array": "a list", "object": "an object"}[str(kind)]
