"""The JSON schema of the chart's values: its part for the policy is made from the model of the policy.

Helm reads patterns as Go does, which knows no lookahead: the server alone knows such a pattern.
"""

import json
from pathlib import Path
from typing import Any, Final

from msgspec import inspect

from webhook.policy.model import Policy
from webhook.policy.reader import LONGEST

ROOT: Final = Path(__file__).parents[2]
FILE: Final = "charts/retry-policy-webhook/values.schema.json"
DURATION: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": LONGEST},
        {"type": "string", "pattern": "^([0-9]{1,10}h)?([0-9]{1,10}m)?([0-9]{1,10}s)?$", "minLength": 2},
    ]
}
BOUNDS: Final[dict[str, str | dict[str, str]]] = {
    "ge": "minimum",
    "le": "maximum",
    "pattern": "pattern",
    "min_length": {"array": "minItems", "object": "minProperties", "string": "minLength"},
    "max_length": {"array": "maxItems", "object": "maxProperties", "string": "maxLength"},
}


def schema() -> str:
    """Return the schema of the values: as it is, except that the definition of the policy is written anew."""
    root = json.loads((ROOT / FILE).read_text())
    policy = schema_of(inspect.type_info(Policy))
    policy["required"] = ["profiles"]  # the template adds apiVersion and kind
    root["$defs"]["policy"] = policy
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def schema_of(kind: inspect.Type) -> dict[str, Any]:
    """Return the schema of a type of the policy's model."""
    match kind:
        case inspect.Metadata(extra={"shape": shape}):
            return schema_of(inspect.type_info(shape))
        case inspect.Metadata():
            return {**schema_of(kind.type), **(kind.extra_json_schema or {})}
        case inspect.UnionType():
            return {"anyOf": [schema_of(one) for one in kind.types]}
        case inspect.StructType():
            return {
                "type": "object",
                "additionalProperties": False,
                "properties": {field.encode_name: schema_of(field.type) for field in kind.fields},
                "required": [field.encode_name for field in kind.fields if field.required],
            }
        case inspect.DictType():
            names, values = schema_of(kind.key_type), schema_of(kind.value_type)
            return bounded("object", kind, propertyNames=names, additionalProperties=values)
        case inspect.ListType() | inspect.VarTupleType():
            return bounded("array", kind, items=schema_of(kind.item_type))
        case _:
            return plain(kind)


def plain(kind: inspect.Type) -> dict[str, Any]:
    """Return the schema of a type that has no types in it."""
    match kind:
        case inspect.LiteralType():
            return {"enum": list(kind.values)}
        case inspect.CustomType():
            return DURATION
        case inspect.IntType():
            return bounded("integer", kind)
        case inspect.FloatType():
            return bounded("number", kind)
        case inspect.StrType():
            return bounded("string", kind)
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.NoneType():
            return {"type": "null"}
    raise NotImplementedError(kind)


def bounded(name: str, kind: Any, **inner: Any) -> dict[str, Any]:
    """Return the schema of a type with its bounds."""
    found = {"type": name, **inner}
    for attribute, key in BOUNDS.items():
        bound = getattr(kind, attribute, None)
        if isinstance(bound, str):
            bound = None if "(?=" in bound else bound.replace(r"\Z", "$")
        if bound is not None:
            found[key if isinstance(key, str) else key[name]] = bound
    return found
