"""Judges what only a cluster admin writes: the labels of a Namespace, and the policy in its ConfigMap. Pure."""

from collections.abc import Mapping
from typing import Final

from webhook.admission.engine import validate_policy
from webhook.admission.review import Request, Response, UnreadableError, decode_value
from webhook.kube import names
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
NO_POLICY: Final = Problem(("data", KEY), "is missing", f"must be the policy as a text: {KEY}: |")
UNNAMED: Final = Problem(
    ("profiles",),
    "lack a profile that a namespace is labelled with",
    f"see: kubectl get namespaces -L {names.PROFILE}",
)


def is_asked_about(request: Request, config_map: tuple[str, str] | None) -> bool:
    """Return True if a request is about a Namespace or the policy's ConfigMap, whose namespace and name are given."""
    kind = (request.kind.group, request.kind.kind)
    if request.operation not in {"CREATE", "UPDATE"} or request.sub_resource:
        return False
    return kind == NAMESPACE or (kind == CONFIG_MAP and (request.namespace, request.name) == config_map)


def validate(request: Request, policy: Policy | None, in_use: Mapping[str, list[str]], uid: str) -> Response:
    """Return the response to a change of a Namespace or of the policy, with all problems at once.

    `policy`: the one in force; None if there is none yet, and then the labels of a Namespace are not judged, and no
    edit of the policy removes a profile. `in_use`: the opted-in namespaces by their profile. `uid`: that of the
    policy's ConfigMap, empty if there is none. Only the response to an update of an object with this uid names profiles
    and namespaces, because any client that reaches the port can send a policy.
    """
    shape = SHAPES[request.kind.group, request.kind.kind]
    try:
        root = decode_value(request.object)
        old = decode_value(request.old_object) if request.operation == "UPDATE" else None
    except UnreadableError as error:
        return Response(found=[("shape", error.problem)])
    malformed = [("shape", problem) for problem in wrong_types(root, shape)]
    if malformed:
        return Response(found=malformed)
    if request.kind.kind == "ConfigMap":
        text = (root.get("data") or {}).get(KEY)
        is_stored = bool(uid and at(old, ("metadata", "uid")) == uid)
        return validate_edit(text, policy, in_use, with_names=is_stored)
    found = [] if policy is None else opt_in.problems(root, old, policy)
    return Response(found=[("opt_in", problem) for problem in found], warnings=opt_in.warnings(root, old))


def validate_edit(
    text: str | None, policy: Policy | None, in_use: Mapping[str, list[str]], *, with_names: bool
) -> Response:
    """Return the response to a new text of the policy.

    A profile in use that the text lacks is a problem if the policy in force has it. Otherwise the text takes nothing
    from its namespaces: it is a warning, so that the policy can still be edited and repaired. `with_names`: whether
    problems and warnings may name these profiles and namespaces.
    """
    parsed = parse(text) if text is not None else [NO_POLICY]
    if not isinstance(parsed, Policy):
        return Response(found=[("policy", problem) for problem in parsed])
    had = set() if policy is None else policy.profiles.keys()
    lacking = sorted(in_use.keys() - parsed.profiles.keys())
    removed = [name for name in lacking if name in had]
    unknown = [name for name in lacking if name not in had]
    if with_names:
        problems = [removed_profile(name, in_use[name]) for name in removed]
        warnings = [unknown_profile(name, namespace) for name in unknown for namespace in in_use[name]]
    else:
        problems = [UNNAMED] if removed else []
        warnings = [UNNAMED] if unknown else []
    found = [*validate_policy(parsed), *problems]
    return Response(found=[("policy", problem) for problem in found], warnings=warnings)


def removed_profile(profile_name: str, namespaces: list[str]) -> Problem:
    """Return the problem that an edit removes a profile in use."""
    what = "is missing, and in use by " + listed(namespaces)
    return Problem(("profiles", profile_name), what, "must stay until those namespaces are labelled with another")


def unknown_profile(profile_name: str, namespace: str) -> Problem:
    """Return the warning that a namespace is labelled with a profile that is neither in force nor in the edit."""
    what = f"is missing, and namespace {namespace} is labelled with it"
    remedy = f"add it, or: kubectl label namespace {namespace} {names.PROFILE}-"
    return Problem(("profiles", profile_name), what, remedy)
