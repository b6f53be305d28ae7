"""The exported objects as a whole."""

from pathlib import Path

from tests.admission import policy
from tests.documents import documents_of
from webhook.export import cel, objects
from webhook.export.limits import objects as all_objects
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.kinds import KINDS

BASE = Path(__file__).parents[3] / "manifests" / "base"
EXPORTED = list(all_objects(policy(gke=Profile(placement=Placement(provider="gke")))))


def of_kind(kind: str) -> list[Json]:
    return [one for one in EXPORTED if one["kind"] == kind]


def test_every_admitted_kind_has_a_policy_and_a_binding_for_each_mode() -> None:
    admitted = {row.resource for row in KINDS.values() if row.admitted} | {"pods"}
    policies = of_kind(objects.VALIDATING)
    resources = {rule["resources"][0] for one in policies for rule in one["spec"]["matchConstraints"]["resourceRules"]}
    assert resources == admitted
    bindings = of_kind(f"{objects.VALIDATING}Binding")
    assert len(bindings) == 3 * len(policies)
    assert {one["metadata"]["name"].rpartition("-")[2]: one["spec"]["validationActions"] for one in bindings} == {
        "enforce": ["Deny"],
        "warn": ["Warn"],
        "audit": ["Audit"],
    }


def test_names_are_unique_and_every_binding_names_a_policy() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in EXPORTED]
    assert len(names) == len(set(names))
    known = {one["metadata"]["name"] for one in of_kind(objects.VALIDATING)}
    assert {one["spec"]["policyName"] for one in of_kind(f"{objects.VALIDATING}Binding")} == known


def test_the_namespaces_that_the_webhook_leaves_alone_are_left_alone() -> None:
    (webhooks,) = [
        one
        for one in documents_of((BASE / "webhooks.yaml").read_text())
        if one["kind"] == "MutatingWebhookConfiguration"
    ]
    selector = webhooks["webhooks"][0]["namespaceSelector"]["matchExpressions"][1]
    assert selector == {**objects.NOT_JUDGED, "values": objects.NAMESPACES_LEFT_ALONE}


def test_a_binding_selects_the_profiles_of_the_policy_and_a_mode() -> None:
    enforce = next(
        one for one in of_kind(f"{objects.VALIDATING}Binding") if one["metadata"]["name"].endswith("enforce")
    )
    profile, mode, _ = enforce["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert profile == {"key": "retry-policy.dev/profile", "operator": "In", "values": ["default", "gke"]}
    assert mode == {"key": "retry-policy.dev/mode", "operator": "NotIn", "values": ["Audit", "Warn"]}


def test_templates_of_the_whole_cluster_are_opted_in_by_their_own_label() -> None:
    name = "retry-policy-limits-clusterworkflowtemplates.argoproj.io-enforce"
    binding = next(one for one in EXPORTED if one["metadata"]["name"] == name)
    assert binding["spec"]["matchResources"]["namespaceSelector"] == {}
    assert binding["spec"]["matchResources"]["objectSelector"]["matchExpressions"][0]["operator"] == "In"


def test_the_profile_of_a_cluster_scoped_object_is_its_own_label() -> None:
    cluster_scoped = KINDS["argoproj.io", "ClusterWorkflowTemplate"]
    assert cel.Profiles(policy(), cluster_scoped).first[0]["expression"].startswith("object.metadata")
    for row in (batch.JOB, core.POD):
        assert cel.Profiles(policy(), row).first[0]["expression"].startswith("namespaceObject.metadata")
