"""The JSON schemas of files that users write agree with the parsers."""

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import document_of
from tests.strategies import examples
from tests.unit.policy.test_parse_any import policies
from tools.generate import ROOT
from webhook.cli import policy_tests
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse

SAMPLES: Final = ROOT / "manifests" / "samples"


def schema(name: str) -> jsonschema.Draft202012Validator:
    found = json.loads((ROOT / "docs" / "reference" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


POLICY: Final = schema("policy")


def plain(policy: Policy) -> Json:
    found: Json = msgspec.json.decode(msgspec.json.encode(policy, enc_hook=int))
    return found


@examples(100)
@given(policies)
def test_the_schema_of_the_policy_accepts_what_the_parser_accepts(policy: Policy) -> None:
    written = plain(policy)
    assert not isinstance(parse(json.dumps(written)), list)
    assert list(POLICY.iter_errors(written)) == []


def objects_in(value: Any) -> list[Json]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(one for part in parts for one in objects_in(part))]


@examples(100)
@given(policies, st.data())
def test_what_has_an_unknown_field_both_reject(policy: Policy, data: st.DataObject) -> None:
    written = plain(policy)
    named = [one for one in objects_in(written) if one is not written["profiles"] and "spotLabels" not in one]
    custom = [one for one in objects_in(written) if "spotLabels" in one]
    holder = data.draw(st.sampled_from([one for one in (*named, *custom) if not is_map(one, written)]))
    holder["unknwon"] = {}
    assert isinstance(parse(json.dumps(written)), list)
    assert list(POLICY.iter_errors(written))


def is_map(one: Json, policy: Json) -> bool:
    """Whether an object has keys of the user's own."""
    placements = [profile["placement"] for profile in policy["profiles"].values()]
    return any(one is ((placement["custom"] or {}).get("spotLabels")) for placement in placements)


WRONG = [
    ("retries: {limit: 11}", True),
    ("retries: {onExceed: deny}", True),
    ("attemptTimeout: 90x", True),
    ("attemptTimeout: 0", True),
    ("attemptTimeout: 1h30m", False),
    ("allowSkip: 1", True),
    ("message: short", True),
    ("retries: null", False),
    ("placement: {custom: {spotLabels: {}}, provider: custom}", True),
    ("failurePolicy: {retriableExitCodes: [0]}", True),
]


@pytest.mark.parametrize(("profile", "is_wrong"), WRONG)
def test_the_schema_of_the_policy_rejects_wrong_values_as_the_parser_does(profile: str, is_wrong: bool) -> None:  # noqa: FBT001
    text = f"apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles: {{default: {{{profile}}}}}\n"
    assert isinstance(parse(text), list) is is_wrong
    assert bool(list(POLICY.iter_errors(document_of(text)))) is is_wrong


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("[pc]*.yaml")), ids=lambda file: file.stem)
def test_a_sample_names_its_schema_in_its_first_line_and_is_valid(file: Path) -> None:
    name = "cases" if file.stem == "cases" else "policy"
    first, _, rest = file.read_text().partition("\n")
    assert first == f"# yaml-language-server: $schema=../../docs/reference/{name}.schema.json"
    assert (file.parent / first.partition("$schema=")[2]).exists()
    assert list(schema(name).iter_errors(document_of(rest))) == []


def test_the_packaged_policy_is_valid() -> None:
    text = (ROOT / "webhook" / "policy" / "default.yaml").read_text()
    assert list(POLICY.iter_errors(document_of(text))) == []


def test_every_field_of_the_policy_has_a_description() -> None:
    whole = json.loads((ROOT / "docs" / "reference" / "policy.schema.json").read_text())
    profile = whole["properties"]["profiles"]["additionalProperties"]["properties"]
    fields = [
        (f"{name}.{key}", field) for name, one in profile.items() for key, field in one.get("properties", {}).items()
    ]
    fields += [(name, field) for name, field in profile.items() if "properties" not in field]
    assert [name for name, field in fields if "description" not in field] == []


CASE: Json = {"name": "a", "object": {"apiVersion": "v1", "kind": "Pod"}, "expect": {}}


@pytest.mark.parametrize(
    "changed",
    [{"expects": {}}, {"attempt": -1}, {"document": 0}, {"name": 1}, {"expect": {"placement": "spot"}}, {"expect": []}],
)
def test_the_schema_of_cases_rejects_what_the_parser_rejects(changed: Json, tmp_path: Path) -> None:
    whole = {"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicyTest", "cases": [{**CASE, **changed}]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(whole))
    with pytest.raises(policy_tests.UnusableTestsError):
        policy_tests.load(tmp_path / "cases.yaml")
    assert list(schema("cases").iter_errors(whole))
    assert not list(schema("cases").iter_errors({**whole, "cases": [CASE]}))
