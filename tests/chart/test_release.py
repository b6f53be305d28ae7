"""Helm installs, upgrades, rolls back and uninstalls the chart on a real API server.

No kubelet runs pods here: the pods of the Deployment are processes on this machine (kubelet.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.chart.cluster import CONFIGURATIONS, LAST, POLICY, done
from tests.chart.helm import RELEASE, ROOT
from tests.chart.kubelet import PLACEMENT
from tests.cluster.installation import BASE, SYSTEM, built
from tests.faults.installed import SECRET, called_at
from webhook import __version__
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.chart.cluster import Cluster
    from tests.cluster.kubectl import Object

SHIPPED = yaml.safe_load((ROOT / "manifests" / "base" / "configmap.yaml").read_text())["data"][KEY]
PART_OF = "--selector=app.kubernetes.io/part-of=retry-policy-webhook"
# What a call of the webhook needs in a real cluster; in this test the API server calls a URL.
NEEDED = (
    f"/api/v1/namespaces/{SYSTEM}/services/retry-policy-webhook",
    f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/retry-policy-webhook",
)
KINDS = (
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "flowschemas,prioritylevelconfigurations,"
    "deployments,services,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,resourcequotas"
)


def test_after_an_install_and_the_command_of_its_notes_jobs_are_mutated_and_denied(cluster: Cluster) -> None:
    notes = cluster.install()
    assert f"kubectl --namespace {SYSTEM} rollout status deployment/retry-policy-webhook" in notes
    assert "kubectl label namespace NAMESPACE retry-policy.dev/profile=default" in notes
    assert "retry-policy doctor" in notes
    labelled = cluster.kubectl.run("label", "namespace", cluster.team.name, "retry-policy.dev/profile=default")
    assert labelled.returncode == 0
    cluster.kubelet.until(lambda: cluster.load.ask("probe"))


def test_no_upgrade_and_no_rollback_removes_a_ca_bundle(cluster: Cluster) -> None:
    cluster.install()
    before = cluster.bundles()
    assert all(before.values())
    begin = {path: cluster.api.get(path)["metadata"]["resourceVersion"] for path in CONFIGURATIONS}
    cluster.upgrade("--set=failurePolicy=Ignore", "--set=labels.team=batch")
    assert {one["failurePolicy"] for one in cluster.entries().values()} == {"Ignore"}
    done(cluster.run("rollback", RELEASE, "1", "--wait"))
    assert {one["failurePolicy"] for one in cluster.entries().values()} == {"Fail", "Ignore"}
    for path, version in begin.items():
        states = list(states_since(cluster, path, version))
        assert len(states) > 1
        assert [state for state in states if set(state.values()) != set(before.values())] == []


def states_since(cluster: Cluster, path: str, version: str) -> list[Mapping[str, str]]:
    """Return the caBundles, by webhook, of every state that a configuration has had since a version of it."""
    return [
        {one["name"]: one["clientConfig"].get("caBundle", "") for one in root["webhooks"]}
        for _, root in events_since(cluster, path, version)
    ]


def events_since(cluster: Cluster, path: str, version: str) -> list[tuple[str, Object]]:
    """Return every change of an object since a version of it: the type of the event, and the new or deleted object."""
    folder, _, name = path.lstrip("/").rpartition("/")
    return list(
        cluster.team.api.watch(
            folder, fieldSelector=f"metadata.name={name}", resourceVersion=version, timeoutSeconds="2"
        )
    )


def test_a_webhook_that_an_upgrade_adds_gets_the_ca_bundle_from_the_server(cluster: Cluster) -> None:
    cluster.install()
    (bundle,) = set(cluster.bundles().values())
    cluster.upgrade("--set=requestedRetries.enabled=true")
    added = "MutatingWebhookConfiguration/requested-retries.retry-policy.dev"
    cluster.kubelet.until(lambda: cluster.bundles()[added] == bundle)


def test_a_forced_upgrade_removes_the_ca_bundles_and_the_server_writes_them_again(cluster: Cluster) -> None:
    cluster.install()
    (bundle,) = set(cluster.bundles().values())
    path, _ = CONFIGURATIONS
    before = cluster.api.get(path)["metadata"]["resourceVersion"]
    cluster.upgrade("--force")
    cluster.kubelet.until(lambda: set(cluster.bundles().values()) == {bundle})
    assert any("" in state.values() for state in states_since(cluster, path, before))


def test_an_upgrade_overwrites_a_policy_that_was_edited_in_the_cluster(cluster: Cluster) -> None:
    cluster.install()
    edited = cluster.policy().replace("limit: 10", "limit: 7")
    cluster.api.merge(POLICY, {"data": {KEY: edited}})
    assert "limit: 7" in cluster.policy()
    cluster.upgrade("--set=labels.team=batch")
    assert cluster.policy() == SHIPPED


def test_an_invalid_policy_fails_the_upgrade_and_leaves_the_one_in_force(cluster: Cluster, tmp_path: Path) -> None:
    cluster.install()
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text(SHIPPED.replace("limit: 10", "limit: 99"))
    good.write_text(SHIPPED.replace("limit: 10", "limit: 7"))
    refused = cluster.deploy("upgrade", f"--set-file=policy={bad}")
    assert refused.returncode == 1
    assert "profiles.default.retries.limit" in refused.stderr
    assert cluster.policy() == SHIPPED
    cluster.upgrade(f"--set-file=policy={good}")
    assert cluster.policy() == good.read_text()


def test_both_versions_serve_by_the_shipped_policy_through_an_upgrade_and_a_rollback(cluster: Cluster) -> None:
    cluster.install(f"--set=image.tag={LAST}")
    cluster.opt_in()
    cluster.upgrade("--set=labels.team=batch")  # the old server judges the ConfigMap, because it has another label
    cluster.kubelet.until(lambda: cluster.images() == [__version__] and cluster.load.ask("probe"))
    done(cluster.run("rollback", RELEASE, "1", "--wait"))
    cluster.kubelet.until(lambda: cluster.images() == [LAST] and cluster.load.ask("probe"))


def test_an_uninstall_leaves_only_what_the_server_has_written_and_a_new_install_uses_it(cluster: Cluster) -> None:
    cluster.install("--set=requestedRetries.enabled=true")
    certificates = cluster.api.get(SECRET)["data"]
    done(cluster.run("uninstall", RELEASE))
    cluster.kubelet.until(lambda: not cluster.kubelet.containers)
    left = cluster.kubectl.run("get", KINDS, "--all-namespaces", PART_OF, "--output=name")
    assert (left.returncode, left.stdout) == (0, "")
    assert cluster.api.get(SECRET)["data"] == certificates
    cluster.install()
    assert cluster.api.get(SECRET)["data"] == certificates


def test_an_uninstall_deletes_the_webhooks_before_anything_that_they_need(cluster: Cluster) -> None:
    cluster.install()
    begin = {path: cluster.api.get(path)["metadata"]["resourceVersion"] for path in (*CONFIGURATIONS, *NEEDED)}
    done(cluster.run("uninstall", RELEASE))
    webhooks = [first_without_webhooks(cluster, path, begin[path]) for path in CONFIGURATIONS]
    others = [deleted_at(cluster, path, begin[path]) for path in NEEDED]
    assert max(webhooks) < min(others)


def first_without_webhooks(cluster: Cluster, path: str, version: str) -> int:
    """Return the version of the cluster's state in which a configuration called no webhook any more."""
    events = events_since(cluster, path, version)
    return min(int(root["metadata"]["resourceVersion"]) for kind, root in events if kind == "DELETED")


def deleted_at(cluster: Cluster, path: str, version: str) -> int:
    """Return the version of the cluster's state in which an object no longer existed."""
    ((_, root),) = [event for event in events_since(cluster, path, version) if event[0] == "DELETED"]
    return int(root["metadata"]["resourceVersion"])


def test_helm_takes_over_what_kubectl_has_applied_and_leaves_its_ca_bundles(cluster: Cluster) -> None:
    objects = [called_at(cluster.helm.url, one) if "webhooks" in one else one for one in built(cluster.kubectl, BASE)]
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["nodeSelector"] = dict(PLACEMENT)
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.kubelet.until(lambda: all(cluster.bundles().values()))
    before = cluster.bundles()
    begin = {path: cluster.api.get(path)["metadata"]["resourceVersion"] for path in CONFIGURATIONS}
    cluster.install("--take-ownership")
    for path, version in begin.items():
        for state in states_since(cluster, path, version):
            assert set(state.values()) == set(before.values())


def test_a_second_release_in_the_same_cluster_is_refused(cluster: Cluster) -> None:
    cluster.install()
    second = cluster.deploy("install", name="another")
    assert second.returncode == 1
    assert "exists and cannot be imported into the current release" in second.stderr
