"""Parse a policy text: return a Policy, or all problems in the text at once."""

import pathlib
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, Final

import yaml
from msgspec import UNSET, inspect

from webhook.objects import bounds, strict_yaml
from webhook.objects.problem import Problem
from webhook.policy.model import Policy
from webhook.policy.reader import Reader, TooManyProblemsError, shown

# The key of a ConfigMap's data that contains the policy.
KEY: Final = "policy.yaml"
# To work out the types of the model takes as long as to read a small policy.
_type_info: Final = cache(inspect.type_info)


def parse(text: str) -> Policy | list[Problem]:
    """Return the policy in a text, or its problems, at most bounds.LISTED_PROBLEMS.

    The text is YAML: a policy, or the manifest of a ConfigMap with a policy. The paths of problems are relative to the
    policy.
    """
    value, problems = read(text)
    if isinstance(value, dict) and value.get("kind") == "ConfigMap":
        inner = value["data"].get(KEY) if isinstance(value.get("data"), dict) else None
        if not isinstance(inner, str):
            what = f"is {shown(inner)}" if inner is not None else "is missing"
            return [Problem(("data", KEY), what, f"must be the policy as a text: {KEY}: |")]
        value, problems = read(inner)
    if value is not UNSET:
        reader = Reader(problems)
        with suppress(TooManyProblemsError):
            policy = reader.value(value, _type_info(Policy), ())
            if isinstance(policy, Policy) and not problems:
                return policy
    return problems[: bounds.LISTED_PROBLEMS]


def load_default() -> Policy:
    """Return the packaged policy; raise TypeError if it has problems."""
    text = pathlib.Path(__file__).with_name("default.yaml").read_text(encoding="utf-8")
    policy = parse(text)
    if not isinstance(policy, Policy):
        raise TypeError(f"the packaged policy has problems: {'; '.join(map(str, policy))}")
    return policy


def read(text: str) -> tuple[Any, list[Problem]]:
    """Return the value of the one YAML document in a text, and its YAML problems; UNSET if there is no usable value."""
    if len(text) > bounds.MAX_POLICY:
        return UNSET, [Problem((), f"has {len(text)} characters", f"must have at most {bounds.MAX_POLICY}")]
    if has_too_many_events(text):
        what = f"has more than {bounds.MOST_POLICY_EVENTS} values"
        return UNSET, [Problem((), what, f"must have at most {bounds.MOST_PROFILES} profiles")]
    try:
        documents = [found for found in strict_yaml.read(text, strict=True) if found[0] is not None]
    except strict_yaml.YamlError as error:
        return UNSET, [Problem((), f"line {error.line}, column {error.column}: {error.what}", error.remedy)]
    if len(documents) != 1:
        return UNSET, [
            Problem((), f"has {len(documents)} documents", "must be one, with apiVersion, kind and profiles")
        ]
    return documents[0]


def has_too_many_events(text: str) -> bool:
    """Return True if a text has more YAML events than bounds.MOST_POLICY_EVENTS.

    False at a syntax error, which `strict_yaml.read` reports.
    """
    events = islice(yaml.parse(text, Loader=strict_yaml.Loader), bounds.MOST_POLICY_EVENTS + 1)
    try:
        return sum(1 for _ in events) > bounds.MOST_POLICY_EVENTS
    except yaml.YAMLError:
        return False
