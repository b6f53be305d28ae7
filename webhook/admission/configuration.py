"""Judges what only a cluster admin writes: the labels of a Namespace, and the policy in its ConfigMap. Pure."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from webhook.admission.engine import validate_policy
from webhook.admission.review import Request, Response, UnreadableError, decode_value
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import at
from webhook.objects.problem import Problem, listed
from webhook.objects.shape import ANY_KEY, Shape, wrong_types
from webhook.policy.model import Policy
from webhook.policy.parse import KEY, parse
from webhook.rules import opt_in

NAMESPACE: Final = ("", "Namespace")
CONFIG_MAP: Final = ("", "ConfigMap")
SHAPES: Final[dict[tuple[str, str], Shape]] = {
    NAMESPACE: {"metadata": {"labels": {ANY_KEY: str}, "annotations": {ANY_KEY: str}}},
    CONFIG_MAP: {"data": {ANY_KEY: str}},
}


def is_asked_about(request: Request, config_map: tuple[str, str] | None) -> bool:
    """Return True if a request is about a Namespace or the policy's ConfigMap, whose namespace and name are given."""
    kind = (request.kind.group, request.kind.kind)
    if request.operation not in {"CREATE", "UPDATE"} or request.sub_resource:
        return False
    return kind == NAMESPACE or (kind == CONFIG_MAP and (request.namespace, request.name) == config_map)


def validate(request: Request, policy: Policy | None, in_use: Mapping[str, list[str]], uid: str) -> Response:
    """Return the response to a change of a Namespace or of the policy, with all problems at once.

    `policy`: the one in force; None if there is none yet, and then the labels of a Namespace are not judged. `in_use`:
    the opted-in namespaces by their profile. `uid`: that of the policy's ConfigMap, empty if there is none. Only the
    response to an update of an object with this uid names profiles and namespaces, because any client that reaches the
    port can send a policy.
    """
    shape = SHAPES[request.kind.group, request.kind.kind]
    try:
        root = decode_value(request.object)
        old = decode_value(request.old_object) if request.operation == "UPDATE" else None
    except UnreadableError as error:
        return Response(found=[("shape", error.problem)])
    malformed = [("shape", problem) for problem in islice(wrong_types(root, shape), bounds.MOST_PROBLEMS)]
    if malformed:
        return Response(found=malformed)
    if request.kind.kind == "ConfigMap":
        text = (root.get("data") or {}).get(KEY)
        is_stored = bool(uid and at(old, ("metadata", "uid")) == uid)
        found = policy_problems(text, in_use, with_names=is_stored)
        return Response(found=[("policy", problem) for problem in found])
    found = [] if policy is None else opt_in.problems(root, old, policy)
    return Response(found=[("opt_in", problem) for problem in found], warnings=opt_in.warnings(root, old))


def policy_problems(text: str | None, in_use: Mapping[str, list[str]], *, with_names: bool) -> list[Problem]:
    """Return the problems of a policy, and a problem for each profile in use that it lacks.

    `in_use`: the namespaces by their profile. `with_names`: whether problems may name these profiles and namespaces.
    """
    if text is None:
        return [Problem(("data", KEY), "is missing", f"must be the policy as a text: {KEY}: |")]
    parsed = parse(text)
    if not isinstance(parsed, Policy):
        return parsed
    found = validate_policy(parsed)
    dropped = sorted(in_use.keys() - parsed.profiles.keys())
    if dropped and not with_names:
        what = "lack a profile that a namespace is labelled with"
        return [*found, Problem(("profiles",), what, f"see: kubectl get namespaces -L {names.PROFILE}")]
    for profile_name in dropped:
        what = "is missing, and in use by " + listed(in_use[profile_name])
        remedy = "must stay until those namespaces are labelled with another"
        found.append(Problem(("profiles", profile_name), what, remedy))
    return found
