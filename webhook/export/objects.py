"""The envelopes of admission policies: names, labels, to which requests and namespaces each applies."""

from dataclasses import dataclass
from typing import Final

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.rules.opt_in import MODES
from webhook.systems.kind_spec import KindSpec

VALIDATING: Final = "ValidatingAdmissionPolicy"
API_VERSION: Final = "admissionregistration.k8s.io/v1"
LABELS: Final = {
    "app.kubernetes.io/name": "retry-policy-webhook",
    "app.kubernetes.io/component": "limits-without-the-server",
}
DESCRIPTION: Final = "kubernetes.io/description"
DESCRIBED: Final = (
    "{kind}: refuses more retries than the profile of the namespace allows. Written by retry-policy export."
)
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


@dataclass(frozen=True, slots=True)
class Envelope:
    """What an admission policy and its bindings have beside its expressions."""

    kind: KindSpec
    policy: Policy

    @property
    def name(self) -> str:
        """The name of the policy."""
        return f"retry-policy-limits-{self.kind.resource}{f'.{self.kind.group}' if self.kind.group else ''}"

    def root(self, kind: str, name: str, spec: Json) -> Json:
        """Return an object."""
        metadata: Json = {"name": name, "labels": dict(LABELS)}
        if not kind.endswith("Binding"):
            metadata["annotations"] = {DESCRIPTION: DESCRIBED.format(kind=self.kind.kind)}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    def constraints(self) -> Json:
        """Return the requests to which the policy applies: creations and, of a kind that is admitted, updates."""
        kind = self.kind
        rule = {
            "apiGroups": [kind.group],
            "apiVersions": [*kind.versions],
            "operations": ["CREATE", "UPDATE"] if kind.admitted else ["CREATE"],
            "resources": [kind.resource],
            "scope": "Namespaced" if kind.namespaced else "Cluster",
        }
        return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule]}

    def matches(self, mode: str) -> Json:
        """Return the selectors of a binding: opted-in namespaces, or templates of the cluster, in this mode."""
        profile: Json = {"key": names.PROFILE, "operator": "In", "values": sorted(self.policy.profiles)}
        of_mode: Json = {"key": names.MODE, "operator": "In", "values": [mode]}
        if mode == "Enforce":  # the default
            of_mode = {"key": names.MODE, "operator": "NotIn", "values": sorted(set(MODES).difference([mode]))}
        opted_in: Json = {"matchExpressions": [profile, of_mode]}
        if not self.kind.namespaced:
            return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": opted_in}
        opted_in["matchExpressions"].append({**NOT_JUDGED, "values": NAMESPACES_LEFT_ALONE})
        return {"matchPolicy": "Equivalent", "namespaceSelector": opted_in, "objectSelector": {}}


def validating(envelope: Envelope, spec: Json) -> list[Json]:
    """Return a ValidatingAdmissionPolicy, with a binding for each mode."""
    whole = {"failurePolicy": "Fail", "matchConstraints": envelope.constraints(), **spec}
    found = [envelope.root(VALIDATING, envelope.name, whole)]
    for mode, action in ACTIONS.items():
        binding = {
            "policyName": envelope.name,
            "validationActions": [action],
            "matchResources": envelope.matches(mode),
        }
        found.append(envelope.root(f"{VALIDATING}Binding", f"{envelope.name}-{mode.lower()}", binding))
    return found
