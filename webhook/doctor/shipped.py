"""What manifests/ installs, as this version ships it: webhooks, roles and admission policies. Pure."""

from collections.abc import Iterator
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec

from webhook.objects.problem import Json

NAMESPACE: Final = "retry-policy-system"
NAME: Final = "retry-policy-webhook"  # of both webhook configurations; the webhook's Deployment and account
CONTROLLER: Final = "retry-policy-controller"  # the controller's Deployment and account
MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"
LEDGER: Final = f"{NAME}-ledger"  # the name of its roles and of its Lease
REQUESTED_RETRIES: Final = f"{NAME}-requested-retries"  # likewise
WORKLOADS: Final = "workloads.retry-policy.dev"  # the webhook that is called for Jobs


class NeededRight(NamedTuple):
    """A permission of a program; `namespace` and `name` are empty if it is not restricted to one.

    `account`: the name of the program's ServiceAccount.
    """

    role: str
    namespace: str
    group: str
    resource: str
    name: str
    verb: str
    account: str = NAME

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}" + (f"/{self.name}" if self.name else "")


class Shipped(NamedTuple):
    """The objects of an installation."""

    objects: list[Json]

    def find(self, kind: str, name: str) -> Json:
        """Return an object; the last one of that name, which may be a changed one of the base."""
        return next(one for one in reversed(self.objects) if one["kind"] == kind and one["name"] == name)

    def names(self, kind: str) -> list[str]:
        """Return the names of all objects of a kind."""
        return list(dict.fromkeys(one["name"] for one in self.objects if one["kind"] == kind))

    def webhooks(self, kind: str) -> dict[str, Json]:
        """Return the webhooks of a configuration by name."""
        return {hook["name"]: hook for one in self.objects if one["kind"] == kind for hook in one["webhooks"]}

    def rights(self) -> Iterator[NeededRight]:
        """Yield the permissions of all roles, once for each ServiceAccount that has them."""
        for one in self.objects:
            if one["kind"] in {"Role", "ClusterRole"}:
                binding = self.find(f"{one['kind']}Binding", one["name"])
                for subject in binding["subjects"]:
                    for rule in one["rules"]:
                        yield from rights_of(one["name"], one.get("namespace", ""), rule, subject["name"])


def rights_of(role: str, namespace: str, rule: Json, account: str) -> Iterator[NeededRight]:
    """Yield the permissions that one rule of a role gives a ServiceAccount."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or ("",):
                for verb in rule.get("verbs") or ():
                    yield NeededRight(role, namespace, group, resource, name, verb, account)


def normal(value: Any) -> Any:
    """Return a value in which white space in texts is alike: tools that apply manifests fold long lines differently."""
    match value:
        case str():
            return " ".join(value.split())
        case list():
            return [normal(one) for one in value]
        case dict():
            return {key: normal(one) for key, one in value.items()}
    return value


def shipped_in(namespace: str, *, requested_retries: bool) -> Shipped:
    """Return what is installed in a namespace, with the component requested-retries or without."""
    text = resources.files("webhook.doctor").joinpath("shipped.json").read_text(encoding="utf-8")
    parts = msgspec.json.decode(text.replace(NAMESPACE, namespace))
    return Shipped([*parts["base"], *(parts["requestedRetries"] if requested_retries else ())])
