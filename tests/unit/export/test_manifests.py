"""The exported objects as a whole."""

from pathlib import Path

import pytest
import yaml

from tests.admission import policy
from webhook.export import claims, failure_policy, objects, profiles
from webhook.export.manifests import Versions, versions_in
from webhook.export.manifests import objects as all_objects
from webhook.kinds import KINDS, batch, core
from webhook.objects.problem import Json
from webhook.policy.model import FailureRule, Match, Next, Placement, Profile, Retries

BASE = Path(__file__).parents[3] / "manifests" / "base"
EXPORTED = list(all_objects(policy(gke=Profile(placement=Placement(provider="gke"))), Versions("v1")))


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
    for kind in (objects.VALIDATING, objects.MUTATING):
        known = {one["metadata"]["name"] for one in of_kind(kind)}
        assert {one["spec"]["policyName"] for one in of_kind(f"{kind}Binding")} == known


def test_the_namespaces_that_the_webhook_leaves_alone_are_left_alone() -> None:
    (webhooks,) = [
        one
        for one in yaml.safe_load_all((BASE / "webhooks.yaml").read_text())
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


@pytest.mark.parametrize(("minor", "version"), [(33, ""), (34, "v1beta1"), (35, "v1beta1"), (36, "v1"), (38, "v1")])
def test_the_version_of_mutating_policies_is_that_of_kubernetes(minor: int, version: str) -> None:
    versions = versions_in(minor)
    assert versions is not None
    found = {one["apiVersion"] for one in all_objects(policy(), versions) if objects.MUTATING in one["kind"]}
    assert found == ({f"admissionregistration.k8s.io/{version}"} if version else set())


def test_a_version_of_kubernetes_may_be_too_old() -> None:
    assert versions_in(32) is None


def test_a_claim_is_shown_only_if_it_concerns_a_profile() -> None:
    clamped = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
    names = {claim.name for claim in claims.of_policy(clamped, held=False)}
    assert {"clamp-others", "provider"} <= names
    assert "clamp-others" not in {claim.name for claim in claims.of_policy(policy(), held=False)}
    assert len({claim.name for claim in claims.CLAIMS}) == len(claims.CLAIMS)


def test_a_profile_with_rules_about_ended_attempts_leaves_failure_policies_to_the_webhook() -> None:
    rules = (FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free")),)
    with_rules = policy(default=Profile(on_failure=rules))
    assert [failure_policy.inject(one) for one in (Profile(), *with_rules.profiles.values())] == ["Merge", "Never"]
    held, not_held = ({one.name for one in claims.of_policy(with_rules, held=held)} for held in (True, False))
    assert "on-failure" in not_held
    assert "failure-policy" not in held


def test_the_profile_of_a_cluster_scoped_object_is_its_own_label() -> None:
    cluster_scoped = KINDS["argoproj.io", "ClusterWorkflowTemplate"]
    assert profiles.Profiles(policy(), cluster_scoped).first[0]["expression"].startswith("object.metadata")
    for row in (batch.JOB, core.POD):
        assert profiles.Profiles(policy(), row).first[0]["expression"].startswith("namespaceObject.metadata")
