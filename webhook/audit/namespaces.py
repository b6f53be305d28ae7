"""Which namespaces an audit covers, and the profile under which the objects of each are judged."""

from dataclasses import dataclass, field
from typing import Final

from webhook.admission import engine
from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api
from webhook.kube.paths import path_of
from webhook.objects.problem import Json, listed
from webhook.policy.model import Policy
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of

DEFAULT: Final = "default"  # the profile under which a namespace is judged that is not opted in
NAMESPACES: Final = path_of("v1", "namespaces")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which namespaces are audited: the opted-in ones, or all, or one; and under which profile.

    `profile`: None for the profile of each namespace, which is `default` where it is not opted in.
    """

    namespace: str | None = None
    all_namespaces: bool = False
    profile: str | None = None


@dataclass(slots=True)
class Chosen:
    """The profile of each namespace that is audited, and what must be said of those that are judged otherwise or not.

    `outside`: the namespaces that are not opted in.
    """

    profiles: dict[str, str] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


async def chosen(api: Api, policy: Policy, scope: Scope) -> Chosen:
    """Return the namespaces that are audited; raise what `Api` raises."""
    if scope.namespace is not None and scope.profile is not None:
        return Chosen(profiles={scope.namespace: scope.profile})
    query = {} if scope.all_namespaces else {"labelSelector": names.PROFILE}
    if scope.namespace is not None:
        query = {"fieldSelector": f"metadata.name={scope.namespace}"}
    found = Chosen()
    async for one in api.objects(NAMESPACES, query, METADATA_ONLY_LIST):
        if scope.profile is None:
            add(found, one, policy)
        else:
            found.profiles[one["metadata"]["name"]] = scope.profile
    if found.outside and DEFAULT in policy.profiles:
        found.warnings.append(f"not opted in, judged under profile {DEFAULT!r}: {listed(found.outside)}")
    elif found.outside:
        found.unread.append(f"not opted in, name a profile for them with --profile: {listed(found.outside)}")
    if found == Chosen() and scope.namespace is None:
        found.warnings.append("no namespace is opted in; choose one with -n NAMESPACE, or all with -A")
    elif found == Chosen():
        found.unread.append(f"there is no namespace {scope.namespace}; list them: kubectl get namespaces")
    return found


def add(found: Chosen, namespace: Json, policy: Policy) -> None:
    """Add a namespace with the profile that its labels name."""
    name, labels = namespace["metadata"]["name"], labels_of(namespace)
    if names.PROFILE not in labels:
        found.outside.append(name)
        if DEFAULT in policy.profiles:
            found.profiles[name] = DEFAULT
        return
    facts = Facts(profile_name=labels[names.PROFILE], mode=labels.get(names.MODE))
    if engine.profile_for(policy, facts) is not None:
        found.profiles[name] = labels[names.PROFILE]
        return
    wrong = engine.response_without_profile(policy, facts).warnings
    found.warnings += [f"namespace {name}: {problem}" for problem in wrong]
