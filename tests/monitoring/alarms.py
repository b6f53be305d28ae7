"""Faults beyond those of the scenario, each of which makes an alert fire in the real Prometheus.

Three alerts are tried by promtool alone: RetryPolicyErrors needs a bug, RetryPolicySlow and RetryPolicyOverloaded need
more load than a test can bring.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import nodes
from tests.cluster.installation import INSTALLED, SERVICE_ACCOUNT, SYSTEM, built
from tools.generate.rule_groups import alerts, groups

if TYPE_CHECKING:
    from tests.monitoring.scenario import Scenario

ONLY_PROMTOOL: Final = {"RetryPolicyErrors", "RetryPolicySlow", "RetryPolicyOverloaded"}
REAL: Final = sorted(set(alerts()) - ONLY_PROMTOOL)
SOON: Final = "2s"


def impatient_rules() -> dict[str, Any]:
    """Return the shipped rules, which here are evaluated each second, and whose alerts fire after two seconds."""
    found = groups()
    for group in found:
        group.pop("interval", None)
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = SOON
    return {"groups": found}


def provoke(scenario: Scenario) -> None:
    """Cause the faults, one after the other; the installation is not usable afterwards."""
    scenario.start(relayed=True)  # the scenario may have killed the other one
    scenario.see(f"sum(retry_policy_ready) == {len(scenario.replicas)}")
    forbid_deletion_of_jobs(scenario)
    scenario.request_retry("bug-2")
    scenario.fires("RetryPolicyRetryStuck")
    scenario.relay.ask("cut")
    take_away(scenario, "retry-policy-webhook-ledger")
    scenario.fires("RetryPolicyLedgerForbidden")
    scenario.see("max(retry_policy_cache_age_seconds) > 30")
    scenario.fires("RetryPolicyCacheStale")
    take_away(scenario, SERVICE_ACCOUNT)
    scenario.stage.empty_bundles()
    scenario.fires("RetryPolicyCertificateNotTrusted", "RetryPolicyCertificateNotRenewed")
    for replica in [*scenario.replicas]:
        scenario.stop(replica)
    scenario.fires("RetryPolicyWebhookDown")
    nodes.remove(scenario.kubectl)
    give_back(scenario)
    scenario.stage.reset()
    scenario.start("--leaf=86400")
    scenario.fires("RetryPolicyCertificateExpires", "RetryPolicyProviderNotRecognised")


def forbid_deletion_of_jobs(scenario: Scenario) -> None:
    """Take a permission away that a requested retry needs."""
    path = "/rules/1/verbs/5"
    patch = [{"op": "test", "path": path, "value": "delete"}, {"op": "remove", "path": path}]
    role = ("clusterrole", "retry-policy-webhook-requested-retries")
    patched = scenario.kubectl.run("patch", *role, "--type=json", f"--patch={json.dumps(patch)}")
    assert patched.returncode == 0, patched.stderr


def take_away(scenario: Scenario, binding: str) -> None:
    """Delete bindings of the server's roles."""
    for kind in ("clusterrolebinding", "rolebinding"):
        deleted = scenario.kubectl.run("delete", kind, binding, f"--namespace={SYSTEM}")
        assert deleted.returncode == 0, deleted.stderr


def give_back(scenario: Scenario) -> None:
    """Create all bindings again."""
    bindings = [one for one in built(scenario.kubectl, INSTALLED) if one["kind"].endswith("Binding")]
    scenario.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": bindings})
