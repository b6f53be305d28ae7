"""What the Deployment and the webhook configurations say about an installation."""

import pytest

from tests.unit.doctor.healthy import configuration, deployment
from webhook.doctor.installation import Installation, installation
from webhook.doctor.shipped import MUTATING, NAMESPACE


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
    assert found.username == "system:serviceaccount:a:retry-policy-webhook"
    assert found.version == ""


@pytest.mark.parametrize(
    ("image", "version"),
    [("r.example:5000/webhook:1.2.3", "1.2.3"), ("webhook:1.2.3@sha256:00", "1.2.3"), ("webhook@sha256:00", "")],
)
def test_without_its_label_the_tag_of_the_image_is_the_version(image: str, version: str) -> None:
    root = deployment(labels={})
    root["spec"]["template"]["spec"]["containers"][0]["image"] = image
    assert Installation("a", root).version == version


def test_the_command_that_restores_depends_on_how_it_was_installed() -> None:
    assert Installation("a", deployment()).apply == "kubectl apply -k manifests/base   # or your own kustomization"
    assert "-k manifests/overlays/cert-manager" in Installation("a", deployment("--tls-cert=x")).apply
    assert "with the component requested-retries" in Installation("a", deployment("--requested-retries")).apply
    by_helm = deployment(annotations={"meta.helm.sh/release-name": "policy"})
    assert Installation("a", by_helm).apply.startswith("helm upgrade policy charts/retry-policy-webhook --namespace a")
