"""The packaged policy agrees with the model."""

import importlib.resources
from typing import Any

from msgspec import inspect

from tests.documents import document_of
from webhook.policy.model import FailurePolicy, Hardware, Policy, Profile, Retries
from webhook.policy.parse import load_default


def test_the_packaged_policy_equals_the_defaults_of_the_model() -> None:
    confirming = Profile(
        retries=Retries(on_exceed="Clamp"),
        failure_policy=FailurePolicy(unknown_exit="Confirm", many_pods="Auto", hardware=Hardware()),
    )
    assert load_default() == Policy(
        api_version="retry-policy.dev/v1alpha1",
        kind="RetryPolicy",
        profiles={"default": Profile(), "confirm": confirming},
    )


def unwritten(kind: inspect.Type, raw: Any, path: str) -> list[str]:
    """Return the fields of a struct, and of the structs in it, that a raw object lacks."""
    if not isinstance(kind, inspect.StructType):
        return []
    fields = {f"{path}.{field.encode_name}": field for field in kind.fields}
    return [where for where, field in fields.items() if field.encode_name not in raw] + [
        missing
        for where, field in fields.items()
        for missing in unwritten(field.type, raw.get(field.encode_name, {}), where)
    ]


def test_the_packaged_policy_contains_every_field_except_message_and_prices() -> None:
    written = document_of(importlib.resources.files("webhook.policy").joinpath("default.yaml").read_text())
    assert unwritten(inspect.type_info(Profile), written["profiles"]["default"], "default") == ["default.message"]
    assert unwritten(inspect.type_info(Policy), written, "") == [".prices"]  # nobody else knows them
