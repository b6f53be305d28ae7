"""Judges what only a cluster admin writes: the labels of a Namespace, and the policy in its ConfigMap. Pure."""

from collections.abc import Mapping
from typing import Final

from webhook.decide import validate_policy
from webhook.policy.model import Policy
from webhook.policy.parse import KEY, parse
from webhook.problem import Problem
from webhook.review import Request, Response, decode_value
from webhook.rules import opt_in
from webhook.shape import ANY_KEY, Shape, wrong_types

NAMESPACE: Final = ("", "Namespace")
CONFIG_MAP: Final = ("", "ConfigMap")
SHAPES: Final[dict[tuple[str, str], Shape]] = {
    NAMESPACE: {"metadata": {"labels": {ANY_KEY: str}}},
    CONFIG_MAP: {"data": {ANY_KEY: str}},
}


def is_asked_about(request: Request, config_map: tuple[str, str] | None) -> bool:
    """Tell whether a request is about a Namespace or the policy's ConfigMap, whose namespace and name are given."""
    kind = (request.kind.group, request.kind.kind)
    if request.operation not in {"CREATE", "UPDATE"} or request.sub_resource:
        return False
    return kind == NAMESPACE or (kind == CONFIG_MAP and (request.namespace, request.name) == config_map)


def validate(request: Request, policy: Policy | None, in_use: Mapping[str, list[str]]) -> Response:
    """Deny what would not work, all problems at once.

    `policy` is the one in force, None if there is none yet: then a Namespace's labels can't be judged. `in_use` names
    the opted-in namespaces by their profile.
    """
    shape = SHAPES[request.kind.group, request.kind.kind]
    root = decode_value(request.object)
    malformed = [("shape", problem) for problem in wrong_types(root, shape)]
    if malformed:
        return Response(found=malformed)
    if request.kind.kind == "ConfigMap":
        text = (root.get("data") or {}).get(KEY)
        return Response(found=[("policy", problem) for problem in policy_problems(text, in_use)])
    if policy is None:
        return Response()
    old = decode_value(request.old_object) if request.operation == "UPDATE" else None
    return Response(found=[("opt_in", problem) for problem in opt_in.problems(root, old, policy)])


def policy_problems(text: str | None, in_use: Mapping[str, list[str]]) -> list[Problem]:
    """Judge a policy before it is in force; one that drops a profile in use would leave its namespaces without any."""
    if text is None:
        return [Problem(("data", KEY), "is missing", f"must be the policy as a text: {KEY}: |")]
    parsed = parse(text)
    if not isinstance(parsed, Policy):
        return parsed
    found = validate_policy(parsed)
    for profile_name in sorted(in_use.keys() - parsed.profiles.keys()):
        what = "is missing, and in use by " + opt_in.listed(in_use[profile_name])
        remedy = "must stay until those namespaces are labelled with another"
        found.append(Problem(("profiles", profile_name), what, remedy))
    return found
