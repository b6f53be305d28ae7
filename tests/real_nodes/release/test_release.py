"""Helm installs, upgrades, rolls back and uninstalls the chart: real pods behind their real Service.

The tests build on each other: each begins with the release as the one before has left it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.helm import RELEASE
from tests.cluster.installation import BASE, SYSTEM, built
from tests.cluster.objects import account, disruptions, ended
from tests.faults.installed import POLICY, SECRET
from tests.faults.watched import under_load
from tests.real_nodes.release.release import CONFIGURATIONS, SHIPPED, Release
from tests.real_nodes.workloads import UNTIL_SIGTERM, job, running
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 5
OF_TEAM = {"profiles": {"default": {"disruptions": {"limit": LIMIT}, "placement": {"provider": "gke"}}}}
STRICTER = {"profiles": {"default": {**OF_TEAM["profiles"]["default"], "retries": {"limit": 9}}}}
UNTOUCHED = ("a Job was accepted and not mutated", "a Job with 25 retries was accepted")
PART_OF = "--selector=app.kubernetes.io/part-of=retry-policy-webhook"
# What a call of the webhook needs.
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


def test_install_upgrade_and_rollback_lose_no_admission_no_account_and_no_ca_bundle(release: Release) -> None:
    release.clear()
    with under_load(release.load, release.table, "helm install, namespace not opted in") as watched:
        notes = release.install(f"--set-json=policy={json.dumps(OF_TEAM)}")
        watched.note = "wrong, because it must be: without the label every Job is stored as it was written"
    tally = watched.tally
    assert (tally.failed, tally.api, tally.wrong) == (0, 0, tally.sent), tally
    assert [message for message in tally.messages if not message.endswith(UNTOUCHED)] == []
    assert f"kubectl --namespace {SYSTEM} rollout status deployment/retry-policy-webhook" in notes
    assert "kubectl label namespace NAMESPACE retry-policy.dev/profile=default" in notes
    release.opt_in()
    (bundle,) = set(release.bundles().values())
    begin = release.versions(*CONFIGURATIONS)
    release.team.create(job(UNTIL_SIGTERM, backoffLimit=3))
    disrupt(release, 1)

    with under_load(release.load, release.table, "helm upgrade: other pods, another policy") as watched:
        release.upgrade(f"--set-json=policy={json.dumps(STRICTER)}", "--set=labels.team=batch")
        until(lambda: teams(release) == {"batch"})
    assert watched.tally.lost == 0, watched.tally
    assert "limit: 9" in release.policy()
    disrupt(release, 2)

    with under_load(release.load, release.table, "helm rollback") as watched:
        release.rollback(1)
        until(lambda: teams(release) == {None})
    assert watched.tally.lost == 0, watched.tally
    assert "limit: 9" not in release.policy()
    disrupt(release, 3)

    left = account(release.team.get("job", "train"))["left"]
    assert left == {"retries": 3, "disruptions": LIMIT - 3}
    states = list(release.bundles_since(begin))
    assert len(states) >= 2 * len(CONFIGURATIONS)
    assert [state for state in states if state != {bundle}] == []


def teams(release: Release) -> set[str | None]:
    """Return the values of the label that the upgrade adds, of all pods, those that are terminating included."""
    return {pod["metadata"]["labels"].get("team") for pod in release.pods()}


def disrupt(release: Release, number: int) -> None:
    """Evict the Job's pod for the nth time, and wait until the account counts it."""
    pod = running(release.team)
    assert disruptions(pod) == str(number - 1)
    release.team.evict(pod["metadata"]["name"])
    release.team.wait_for("jobs", "train", lambda one: ended(one, number))


def test_a_second_release_in_the_same_cluster_is_refused(release: Release) -> None:
    second = release.deploy("install", name="another")
    assert second.returncode == 1
    assert "exists and cannot be imported into the current release" in second.stderr


def test_an_upgrade_overwrites_a_policy_that_was_edited_in_the_cluster(release: Release) -> None:
    release.api.merge(POLICY, {"data": {KEY: SHIPPED.replace("limit: 10", "limit: 7")}})
    assert "limit: 7" in release.policy()
    release.upgrade()
    assert release.policy() == SHIPPED


def test_an_invalid_policy_fails_the_upgrade_and_leaves_the_one_in_force(release: Release, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text(SHIPPED.replace("limit: 10", "limit: 99"))
    good.write_text(SHIPPED.replace("limit: 10", "limit: 7"))
    refused = release.deploy("upgrade", f"--set-file=policy={bad}")
    assert refused.returncode == 1
    assert "profiles.default.retries.limit" in refused.stderr
    assert release.policy() == SHIPPED
    release.upgrade(f"--set-file=policy={good}")
    assert release.policy() == good.read_text()


def test_a_forced_upgrade_removes_the_ca_bundles_and_the_controller_writes_them_again(release: Release) -> None:
    (bundle,) = set(release.bundles().values())
    begin = release.versions(*CONFIGURATIONS)
    release.upgrade("--force")
    until(lambda: set(release.bundles().values()) == {bundle})
    assert any("" in state for state in release.bundles_since(begin))


def test_a_webhook_that_an_upgrade_adds_gets_the_ca_bundle(release: Release) -> None:
    (bundle,) = set(release.bundles().values())
    release.upgrade("--set=requestedRetries.enabled=true")
    added = "MutatingWebhookConfiguration/requested-retries.retry-policy.dev"
    until(lambda: release.bundles()[added] == bundle)


def test_an_uninstall_deletes_the_webhooks_before_what_they_need_and_leaves_only_the_certificates(
    release: Release,
) -> None:
    certificates = release.api.get(SECRET)["data"]
    begin = release.versions(*CONFIGURATIONS, *NEEDED)
    release.uninstall()
    deleted = {path: deleted_at(release, path, version) for path, version in begin.items()}
    assert max(deleted[path] for path in CONFIGURATIONS) < min(deleted[path] for path in NEEDED)
    left = release.kubectl.run("get", KINDS, "--all-namespaces", PART_OF, "--output=name")
    assert (left.returncode, left.stdout) == (0, "")
    assert release.api.get(SECRET)["data"] == certificates


def deleted_at(release: Release, path: str, version: str) -> int:
    """Return the version of the cluster's state in which an object no longer existed.

    Helm then creates a configuration without webhooks for a moment (uninstall.yaml), and deletes it too.
    """
    root = next(root for kind, root in release.events_since(path, version) if kind == "DELETED")
    return int(root["metadata"]["resourceVersion"])


def test_helm_takes_over_what_kubectl_has_applied_with_its_certificates(release: Release) -> None:
    certificates = release.api.get(SECRET)["data"]
    release.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": built(release.kubectl, BASE)})
    until(lambda: all(release.bundles().values()))
    bundles = set(release.bundles().values())
    begin = release.versions(*CONFIGURATIONS)
    release.install("--take-ownership")
    assert [state for state in release.bundles_since(begin) if state != bundles] == []
    assert release.api.get(SECRET)["data"] == certificates
    assert release.helm.run("status", RELEASE).returncode == 0
