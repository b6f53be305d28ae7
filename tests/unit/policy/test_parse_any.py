"""Properties of all policies and of all texts."""

import json
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from webhook.policy.model import (
    LONGEST_SETTLING,
    CustomProvider,
    Disruptions,
    Duration,
    FailurePolicy,
    JobSet,
    Placement,
    Policy,
    Profile,
    Retries,
)
from webhook.policy.parse import load_default, parse


def choices(kind: type[msgspec.Struct], name: str) -> st.SearchStrategy[Any]:
    """Draw a value that the model allows in a field with a choice."""
    (field,) = (field for field in inspect.type_info(kind).fields if field.name == name)  # type: ignore[attr-defined]
    assert isinstance(field.type, inspect.LiteralType)
    return st.sampled_from(field.type.values)


label_values = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", fullmatch=True)
label_names = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)
domains = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?){0,3}", fullmatch=True)
label_keys = label_names | st.builds("{}/{}".format, domains, label_names)
tolerations = st.fixed_dictionaries(
    {"key": label_keys, "operator": st.just("Equal"), "value": label_values}, optional={"effect": st.just("NoSchedule")}
) | st.fixed_dictionaries(
    {"operator": st.just("Exists"), "effect": st.just("NoExecute")},
    optional={"key": label_keys, "tolerationSeconds": st.integers(-(2**63), 2**63 - 1)},
)
characters = st.characters(max_codepoint=0xFFFF, exclude_categories=["C", "Z"])  # in JSON others are two escapes
messages = st.text(characters | st.just(" "), min_size=10, max_size=200).filter(lambda text: text == text.strip())
profiles = st.builds(
    Profile,
    retries=st.integers(0, 10).flatmap(
        lambda limit: st.builds(
            Retries, limit=st.just(limit), on_exceed=choices(Retries, "on_exceed"), default=st.integers(0, limit)
        )
    ),
    failure_policy=st.builds(
        FailurePolicy,
        inject=choices(FailurePolicy, "inject"),
        retriable_exit_codes=st.lists(st.integers(1, 2147483647), unique=True, max_size=254).map(tuple),
        coupled=choices(FailurePolicy, "coupled"),
        settle_within=st.integers(1, LONGEST_SETTLING).map(Duration),
        on_failure_restart_policy=choices(FailurePolicy, "on_failure_restart_policy"),
        many_pods=choices(FailurePolicy, "many_pods"),
    ),
    disruptions=st.builds(
        Disruptions,
        action=choices(Disruptions, "action"),
        limit=st.integers(0, 2**63 - 1),
        on_exceed=choices(Disruptions, "on_exceed"),
    ),
    job_set=st.builds(JobSet, on_disruption=choices(JobSet, "on_disruption")),
    placement=st.builds(
        Placement,
        provider=choices(Placement, "provider").filter(lambda provider: provider not in {"custom", "any"}),
        interruptible_failure_threshold=st.integers(-(2**63), 2**63 - 1),
        spot=choices(Placement, "spot"),
    )
    | st.builds(
        Placement,
        provider=st.just("custom"),
        custom=st.builds(
            CustomProvider,
            spot_labels=st.dictionaries(
                label_keys, st.lists(label_values, min_size=1, max_size=3), min_size=1, max_size=3
            ),
            tolerations=st.lists(tolerations, max_size=3),
        ),
        spot=choices(Placement, "spot"),
    )
    | st.builds(Placement, provider=st.just("any"), spot=st.sampled_from(["Prefer", "Allow"])),
    attempt_timeout=st.none() | st.integers(1, 2147483647).map(Duration),
    allow_skip=st.booleans(),
    message=messages,
)
policies = st.builds(
    Policy,
    api_version=st.just("retry-policy.dev/v1alpha1"),
    kind=st.just("RetryPolicy"),
    profiles=st.dictionaries(label_names, profiles, min_size=1, max_size=3),
)


class Quoting(yaml.SafeDumper):
    """Writes block style with strings in quotes: PyYAML leaves some unquoted that Kubernetes reads as other types."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def raw(any_policy: Any) -> Any:
    """Return a policy as plain values."""
    return msgspec.to_builtins(any_policy, enc_hook=int)


@settings(max_examples=50)
@given(policies, st.data())
def test_a_policy_that_is_written_is_read_back_and_a_section_that_is_left_out_has_the_defaults(
    any_policy: Policy, data: st.DataObject
) -> None:
    written = raw(any_policy)
    assert parse(json.dumps(written)) == any_policy
    assert parse(yaml.dump(written, Dumper=Quoting)) == any_policy
    name = data.draw(st.sampled_from(sorted(written["profiles"])))
    section = data.draw(st.sampled_from(sorted(written["profiles"][name])))
    del written["profiles"][name][section]
    read = parse(json.dumps(written))
    assert isinstance(read, Policy)
    written["profiles"][name][section] = raw(load_default())["profiles"]["default"][section]
    assert raw(read) == written


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each object and list in a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@settings(max_examples=50)
@given(policies, ANYTHING, st.data())
def test_a_policy_with_anything_in_one_place_is_read_or_has_problems(
    any_policy: Policy, anything: Any, data: st.DataObject
) -> None:
    written = raw(any_policy)
    container, key = data.draw(st.sampled_from(places(written)))
    container[key] = anything
    assert parse(json.dumps(written))
    if isinstance(container, dict):
        container[data.draw(st.text(max_size=8))] = container.pop(key)
        assert parse(json.dumps(written))


@settings(max_examples=50)
@given(st.text() | ANYTHING.map(json.dumps) | st.text(st.sampled_from("profiles:{}[]&*<!-\n \"'#|>ConfigMap,data.y")))
def test_any_text_is_read_or_has_problems(text: str) -> None:
    assert parse(text)
