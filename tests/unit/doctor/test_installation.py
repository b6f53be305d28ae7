"""What the Deployment and the webhook configurations say about an installation."""

import pytest

from tests.unit.doctor.healthy import configuration, deployment
from webhook.doctor.installation import Installation, installation, version_of
from webhook.doctor.shipped import MUTATING, NAME, NAMESPACE


def test_the_configurations_decide_which_namespace_is_meant() -> None:
    found = installation([configuration(MUTATING)], [deployment(namespace="batch"), deployment()])
    assert found.namespace == NAMESPACE
    assert found.deployment["metadata"]["namespace"] == NAMESPACE
    assert installation([], [deployment(namespace="batch")]).namespace == "batch"
    assert installation([], []).namespace == NAMESPACE


@pytest.mark.parametrize("args", [("--policy-configmap=a/b",), ("--policy-configmap", "a/b")])
def test_an_option_may_have_its_value_beside_it(args: tuple[str, ...]) -> None:
    root = deployment()
    root["spec"]["template"]["spec"]["containers"][0]["args"] = ["serve", *args]
    assert Installation("a", root).policy == ("a", "b")


def test_without_a_deployment_the_shipped_values_are_taken() -> None:
    found = Installation("a", {})
    assert found.policy == ("a", "retry-policy")
    assert found.username("b") == "system:serviceaccount:a:b"
    assert version_of({}) == ""


@pytest.mark.parametrize(
    ("image", "version"),
    [("r.example:5000/webhook:1.2.3", "1.2.3"), ("webhook:1.2.3@sha256:00", "1.2.3"), ("webhook@sha256:00", "")],
)
def test_without_its_label_the_tag_of_the_image_is_the_version(image: str, version: str) -> None:
    root = deployment(labels={})
    root["spec"]["template"]["spec"]["containers"][0]["image"] = image
    assert version_of(root) == version


def test_the_command_that_restores_depends_on_how_it_was_installed() -> None:
    assert Installation("a", deployment()).apply == "kubectl apply -k manifests/base   # or your own kustomization"
    assert "-k manifests/overlays/cert-manager" in Installation("a", deployment("--tls-cert=x")).apply
    assert "with the component requested-retries" in Installation("a", deployment("--requested-retries")).apply
    by_helm = deployment(annotations={"meta.helm.sh/release-name": "policy"})
    upgrade = "helm upgrade policy charts/retry-policy-webhook --namespace a --reset-then-reuse-values"
    assert Installation("a", by_helm).apply == upgrade


def test_a_helm_release_is_known_by_the_configurations_if_the_deployment_is_absent() -> None:
    root = configuration(MUTATING)
    root["metadata"]["annotations"] = {
        "meta.helm.sh/release-name": "policy",
        "meta.helm.sh/release-namespace": "platform",
    }
    assert installation([root], []).release == ("platform", "policy")
    assert installation([root], [deployment()]).release == ("platform", "policy")
    root["metadata"]["name"] = "other"
    assert installation([root], []).release is None


def test_a_helm_release_is_known_by_its_label() -> None:
    root = deployment(labels={"app.kubernetes.io/managed-by": "Helm"})
    assert Installation("a", root).release == ("a", "retry-policy-webhook")
    assert Installation("a", deployment()).release is None


def test_a_helm_release_that_is_scaled_to_0_gets_its_own_number_of_replicas_back() -> None:
    by_helm = Installation("a", deployment(annotations={"meta.helm.sh/release-name": "policy"}))
    assert by_helm.scale_up(NAME) == by_helm.apply
    assert Installation("a", deployment()).scale_up(NAME).endswith("scale deployment/retry-policy-webhook --replicas=2")
