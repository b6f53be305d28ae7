"""The envelopes of admission policies: names, labels, to which requests and namespaces each applies."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from webhook.kinds import KindSpec
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.rules.opt_in import MODES

VALIDATING: Final = "ValidatingAdmissionPolicy"
MUTATING: Final = "MutatingAdmissionPolicy"
GROUP: Final = "admissionregistration.k8s.io"
LABELS: Final = {
    "app.kubernetes.io/name": "retry-policy-webhook",
    "app.kubernetes.io/component": "limits-without-the-server",
}
DESCRIPTION: Final = "kubernetes.io/description"
# As in manifests/base/webhooks.yaml.
NOT_JUDGED: Final = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
NAMESPACES_LEFT_ALONE: Final = ["kube-system", "retry-policy-system"]
ACTIONS: Final = {"Enforce": "Deny", "Warn": "Warn", "Audit": "Audit"}
BEING_DELETED: Final = {
    "name": "not-being-deleted",
    "expression": "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)",
}
CHANGES_SOMETHING: Final = {
    "name": "changes-something",
    "expression": (
        "request.operation == 'CREATE' || object.?spec != oldObject.?spec ||\n"
        "object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) ||\n"
        "object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
    ),
}
Operation = Literal["CREATE", "UPDATE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What an admission policy and its bindings have beside its expressions."""

    purpose: str  # the beginning of the names
    row: KindSpec
    policy: Policy
    description: str
    version: str  # of the API group admissionregistration.k8s.io

    @property
    def name(self) -> str:
        """The name of the policy."""
        return f"retry-policy-{self.purpose}-{self.row.resource}{f'.{self.row.group}' if self.row.group else ''}"

    def root(self, kind: str, name: str, spec: Json) -> Json:
        """Return an object."""
        metadata: Json = {"name": name, "labels": dict(LABELS)}
        if not kind.endswith("Binding"):
            metadata["annotations"] = {DESCRIPTION: self.description}
        return {"apiVersion": f"{GROUP}/{self.version}", "kind": kind, "metadata": metadata, "spec": spec}

    def constraints(self, operations: Iterable[Operation]) -> Json:
        """Return the requests to which the policy applies."""
        row = self.row
        rule = {
            "apiGroups": [row.group],
            "apiVersions": [*row.versions],
            "operations": [*operations],
            "resources": [row.resource],
            "scope": "Namespaced" if row.namespaced else "Cluster",
        }
        return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule]}

    def matches(self, modes: Iterable[str], object_labels: Iterable[Json] = ()) -> Json:
        """Return the selectors of a binding: opted-in namespaces, or templates of the cluster, in one of the modes."""
        profile: Json = {"key": names.PROFILE, "operator": "In", "values": sorted(self.policy.profiles)}
        other = sorted(set(MODES).difference(modes))
        mode: Json = {"key": names.MODE, "operator": "In", "values": [*modes]}
        if "Enforce" in modes:  # the default
            mode = {"key": names.MODE, "operator": "NotIn", "values": other}
        opted_in: Json = {"matchExpressions": [profile, mode]}
        if not self.row.namespaced:
            return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": opted_in}
        opted_in["matchExpressions"].append({**NOT_JUDGED, "values": NAMESPACES_LEFT_ALONE})
        selector: Json = {"matchExpressions": [*object_labels]} if object_labels else {}
        return {"matchPolicy": "Equivalent", "namespaceSelector": opted_in, "objectSelector": selector}


def validating(envelope: Envelope, spec: Json) -> list[Json]:
    """Return a ValidatingAdmissionPolicy for creations and updates, with a binding for each mode."""
    constraints = envelope.constraints(["CREATE", "UPDATE"] if envelope.row.admitted else ["CREATE"])
    whole = {"failurePolicy": "Fail", "matchConstraints": constraints, **spec}
    found = [envelope.root(VALIDATING, envelope.name, whole)]
    for mode, action in ACTIONS.items():
        binding = {
            "policyName": envelope.name,
            "validationActions": [action],
            "matchResources": envelope.matches([mode]),
        }
        found.append(envelope.root(f"{VALIDATING}Binding", f"{envelope.name}-{mode.lower()}", binding))
    return found


def mutating(envelope: Envelope, spec: Json, object_labels: Iterable[Json] = ()) -> list[Json]:
    """Return a MutatingAdmissionPolicy for creations, with a binding for the mode Enforce.

    It never runs a second time: the webhook, which is called after it, decides again, and its result must stand. An
    error in it lets the object pass unchanged, and the validating policy judges it.
    """
    whole = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": envelope.constraints(["CREATE"]),
        **spec,
    }
    binding = {"policyName": envelope.name, "matchResources": envelope.matches(["Enforce"], object_labels)}
    return [
        envelope.root(MUTATING, envelope.name, whole),
        envelope.root(f"{MUTATING}Binding", f"{envelope.name}-enforce", binding),
    ]
