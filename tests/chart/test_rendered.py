"""The chart renders the objects of manifests/, and refuses values that it does not know."""

from __future__ import annotations

import json
import os
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.helm import CHART, ROOT, Helm
from tests.cluster.installation import SYSTEM, built
from webhook import __version__
from webhook.policy.model import Policy
from webhook.policy.parse import KEY, parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object

MANIFESTS = ROOT / "manifests"
# The values that stand for an overlay, or a component on top of the base.
OVERLAYS: dict[str, Object] = {
    "cert-manager": {"certManager": {"enabled": True}},
    "fail-open": {"failurePolicy": "Ignore"},
    "prometheus": {"prometheus": {"enabled": True}},
    "requested-retries": {"requestedRetries": {"enabled": True}},
}
CHOICES = [chosen for number in range(len(OVERLAYS) + 1) for chosen in combinations(OVERLAYS, number)]
DIGEST = f"sha256:{'a' * 64}"
FIVE: Object = {"profiles": {"default": {"retries": {"limit": 5}}}}


def by_name(objects: Iterable[Object]) -> dict[tuple[str, ...], Object]:
    """Return objects by kind, namespace and name, as `comparable`; fail if there are two of one name."""
    found: dict[tuple[str, ...], Object] = {}
    for one in objects:
        metadata = one["metadata"]
        key = (one["apiVersion"], one["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found
        found[key] = comparable({**one, "webhooks": by_own_name(one["webhooks"])} if "webhooks" in one else one)
    return found


def by_own_name(webhooks: list[Object]) -> dict[str, Object]:
    """Return webhooks by name: where kustomize inserts one depends on the overlays."""
    return {webhook["name"]: webhook for webhook in webhooks}


def comparable(value: Any) -> Any:
    """Return a value in which no line of an expression is empty: kustomize writes line breaks of folded texts twice."""
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if isinstance(value, dict):
        return {
            key: inner.replace("\n\n", "\n") if key == "expression" else comparable(inner)
            for key, inner in value.items()
        }
    return value


def kustomized(kubectl: Kubectl, folder: Path, overlays: Collection[str], namespace: str = SYSTEM) -> list[Object]:
    """Return the objects of manifests/ with these overlays, except the Namespace: Helm cannot own its own one."""
    base = MANIFESTS / ("overlays/cert-manager" if "cert-manager" in overlays else "base")
    components = [name for name in overlays if name != "cert-manager"]
    kustomization = {
        "resources": [os.path.relpath(base, folder)],
        "components": [os.path.relpath(MANIFESTS / "overlays" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))  # JSON is YAML too
    text = yaml.safe_dump_all(built(kubectl, folder)).replace(SYSTEM, namespace)
    return [one for one in yaml.safe_load_all(text) if one["kind"] != "Namespace"]


def values_of(overlays: Iterable[str]) -> Object:
    return {name: value for overlay in overlays for name, value in OVERLAYS[overlay].items()}


def one(objects: Iterable[Object], kind: str) -> Object:
    """Return the only object of a kind."""
    (found,) = (root for root in objects if root["kind"] == kind)
    return found


def programs(objects: Iterable[Object], kind: str) -> list[Object]:
    """Return the objects of a kind of which the webhook and the controller have one each, in this order."""
    found = {root["metadata"]["name"]: root for root in objects if root["kind"] == kind}
    return [found.pop("retry-policy-webhook"), found.pop("retry-policy-controller")]


def policy_of(objects: Iterable[Object]) -> str:
    return str(one(objects, "ConfigMap")["data"][KEY])


def test_the_chart_has_no_lint(helm: Helm) -> None:
    result = helm.run("lint", "--strict", "--kube-version=1.30", str(CHART), values=values_of(OVERLAYS))
    assert result.returncode == 0, result.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in result.stdout


@pytest.mark.parametrize("overlays", CHOICES, ids=lambda chosen: "+".join(chosen) or "base")
def test_the_chart_renders_every_object_of_the_base_and_its_overlays(
    overlays: tuple[str, ...], helm: Helm, kubectl: Kubectl, tmp_path: Path
) -> None:
    rendered, expected = by_name(helm.rendered(values_of(overlays))), by_name(kustomized(kubectl, tmp_path, overlays))
    assert rendered.keys() == expected.keys()
    assert [name for name in expected if rendered[name] != expected[name]] == []


def test_in_another_namespace_every_object_names_that_namespace(helm: Helm, kubectl: Kubectl, tmp_path: Path) -> None:
    result = helm.template("--no-hooks", "--namespace=batch-policy", values=values_of(OVERLAYS))
    rendered = [root for root in yaml.safe_load_all(result.stdout) if root is not None]
    assert SYSTEM not in result.stdout
    assert by_name(rendered) == by_name(kustomized(kubectl, tmp_path, OVERLAYS, "batch-policy"))


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"replica": 3}, "replica"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"replicas": 20}, "replicas"),
        ({"replicas": "2"}, "replicas"),
        ({"failurePolicy": "Fails"}, "failurePolicy"),
        ({"certManager": True}, "certManager"),
        ({"prometheus": {"enable": True}}, "enable"),
        ({"image": {"digest": "sha256:1"}}, "image/digest"),
        ({"image": {"repository": "registry.example/retry-policy-webhook:1"}}, "image/repository"),
        ({"networkPolicy": {"apiServers": ["10.0.0.1"]}}, "networkPolicy/apiServers/0"),
        ({"labels": {"app.kubernetes.io/name": "mine"}}, "app.kubernetes.io/name"),
        ({"resources": {"cpu": 1}}, "cpu"),
        ({"policy": {"profiles": {"default": {"retries": {"limit": 11}}}}}, "policy/profiles/default/retries/limit"),
        ({"policy": {"profiles": {"default": {"retry": {}}}}}, "retry"),
        ({"policy": {"profiles": {"default": {"disruptions": {"onExceed": "Stop"}}}}}, "disruptions/onExceed"),
        ({"policy": {"profiles": {"default": {"attemptTimeout": "1d"}}}}, "attemptTimeout"),
        ({"policy": {"profiles": {"-": {}}}}, "-"),
        ({"policy": {"profiles": {}}}, "policy/profiles"),
        ({"policy": {}}, "profiles"),
        ({"policy": 3}, "policy"),
    ],
    ids=str,
)
def test_an_unknown_or_wrong_value_is_refused_with_its_path(values: Object, path: str, helm: Helm) -> None:
    result = helm.template(values=values)
    assert result.returncode == 1
    assert "values don't meet the specifications of the schema" in result.stderr
    assert path in result.stderr


@pytest.mark.parametrize("file", sorted(MANIFESTS.glob("samples/policy-*.yaml")), ids=lambda file: file.name)
def test_a_policy_means_the_same_as_a_file_and_as_an_object(file: Path, helm: Helm) -> None:
    as_text = helm.rendered({}, f"--set-file=policy={file}")
    assert policy_of(as_text) == file.read_text()
    as_object = policy_of(helm.rendered({"policy": yaml.safe_load(file.read_text())}))
    assert isinstance(parse(as_object), Policy)
    assert parse(as_object) == parse(file.read_text())


def test_a_policy_object_needs_only_what_differs_from_the_defaults(helm: Helm) -> None:
    parsed = parse(policy_of(helm.rendered({"policy": FIVE})))
    assert isinstance(parsed, Policy)
    assert parsed.profiles["default"].retries.limit == FIVE["profiles"]["default"]["retries"]["limit"]


def test_large_numbers_in_a_policy_object_stay_integers(helm: Helm) -> None:
    profile: Object = {"retries": {"total": 1000000}, "failurePolicy": {"retriableExitCodes": [2147483647]}}
    parsed = parse(policy_of(helm.rendered({"policy": {"profiles": {"default": profile}}})))
    assert isinstance(parsed, Policy)
    assert parsed.profiles["default"].retries.total == profile["retries"]["total"]
    assert parsed.profiles["default"].failure_policy.retriable_exit_codes == (2147483647,)


def pod_specs(helm: Helm, values: Object) -> list[Any]:
    return [one["spec"]["template"]["spec"] for one in programs(helm.rendered(values), "Deployment")]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"retry-policy-webhook:{__version__}"),
        ({"repository": "registry.example:5000/webhook", "tag": "1.2"}, "registry.example:5000/webhook:1.2"),
        (
            {"repository": "registry.example/webhook", "tag": "1.2", "digest": DIGEST},
            f"registry.example/webhook@{DIGEST}",
        ),
    ],
)
def test_the_image_is_the_digest_or_the_tag_or_the_version(image: Object, expected: str, helm: Helm) -> None:
    assert [spec["containers"][0]["image"] for spec in pod_specs(helm, {"image": image})] == [expected, expected]


def test_values_for_pods_are_added_to_them(helm: Helm) -> None:
    toleration = {"key": "critical", "operator": "Exists"}
    values: Object = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [toleration],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "important",
    }
    for spec in pod_specs(helm, values):
        assert {name: spec[name] for name in values if name != "nodeSelector"} == {
            name: value for name, value in values.items() if name != "nodeSelector"
        }
        assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert not [root for root in helm.rendered(values) if root["kind"] == "ResourceQuota"]


def test_extra_labels_are_on_every_object_and_on_the_pods(helm: Helm) -> None:
    rendered = helm.rendered({**values_of(OVERLAYS), "labels": {"team": "batch"}})
    assert [root["metadata"]["name"] for root in rendered if root["metadata"]["labels"].get("team") != "batch"] == []
    for deployment in programs(rendered, "Deployment"):
        assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "batch"
        assert "team" not in deployment["spec"]["selector"]["matchLabels"]


def test_prometheus_finds_its_objects_by_labels_of_the_values(helm: Helm) -> None:
    rendered = helm.rendered({"prometheus": {"enabled": True, "labels": {"release": "stack"}}})
    labelled = {root["kind"] for root in rendered if root["metadata"]["labels"].get("release") == "stack"}
    assert labelled == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}  # the dashboard is a ConfigMap


def test_only_the_addresses_and_namespaces_of_the_values_reach_the_ports(helm: Helm) -> None:
    values = {"networkPolicy": {"apiServers": ["192.0.2.0/28"], "metricsNamespaceLabels": {"name": "monitoring"}}}
    found = [rule for policy in programs(helm.rendered(values), "NetworkPolicy") for rule in policy["spec"]["ingress"]]
    admission, *metrics = found
    assert admission["from"] == [{"ipBlock": {"cidr": "192.0.2.0/28"}}]
    assert [one["from"] for one in metrics] == [[{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]] * 2


def test_the_packaged_chart_has_the_version_of_the_program(helm: Helm, tmp_path: Path) -> None:
    assert helm.run("package", str(CHART), f"--destination={tmp_path}").returncode == 0
    package = tmp_path / f"retry-policy-webhook-{__version__}.tgz"
    assert by_name(helm.rendered()) == by_name(
        root for root in yaml.safe_load_all(helm.template("--no-hooks", chart=package).stdout) if root is not None
    )
