"""The policies that are compared, their nodes, and the Jobs as their authors would write them under each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.kubelet import End
from tests.bench.simulation import name_of, namespace_of, policy_of
from tests.cluster.manifests import job
from tests.cluster.nodes import MARK, SPOT, own_node
from webhook.pods.pods import ZONE

if TYPE_CHECKING:
    from tests.bench.hour.draw import DrawnJob
    from webhook.objects.problem import Json

STOCK, WITHOUT, WITH = POLICIES = ("no webhook", "without onFailure", "with onFailure")

BROKEN = "CUDA error: uncorrectable ECC error encountered"
CRASH = End(1, "Error", BROKEN)
RULES: list[Json] = [
    {"match": {"cause": "OOMKilled"}, "next": {"memory": {"factor": 2, "limit": "64Gi"}}},
    {"match": {"message": "*ECC error*"}, "next": {"avoid": "Node"}},
    {"match": {"cause": "Disruption"}, "next": {"avoid": "Zone"}},
]
# The ledger's window for a crash is the shortest that a policy can say; simulated time is faster than its clock.
SECTIONS: Json = {
    "placement": {"provider": "gke"},
    "disruptions": {"limit": 3},
    "failurePolicy": {"settleWithin": 1},
    "diagnostics": {"lastWords": True},
}
PROFILES: dict[str, Json] = {WITHOUT: SECTIONS, WITH: {**SECTIONS, "onFailure": RULES}}

OWN = "retry-policy-test/hour"  # label of nodes: the policy whose pods run there, and which of them
ZONES = ("a", "b", "c")
INTERRUPTED = "b"
SPOT_IN_ZONE = 2  # nodes
ACCELERATED, BAD = 4, 2  # nodes with an accelerator; so many of them are bad
ASKED, NEEDED = "4Gi", "6Gi"  # memory of a Job that is short of it


def policy_file() -> str:
    return policy_of({"default": SECTIONS} | {name_of(policy): sections for policy, sections in PROFILES.items()})


def namespace(policy: str) -> Json:
    return namespace_of(policy, opted_in=policy in PROFILES)


def nodes(policy: str) -> list[Json]:
    """Return the nodes of one policy: spot and on-demand ones in three zones, and those with an accelerator."""
    found = [_node(policy, f"on-demand-{zone}", zone) for zone in ZONES]
    found += [_node(policy, name, zone, spot=True) for zone in ZONES for name in spot_names(zone)]
    found += [_node(policy, f"accelerated-{number}", "a", accelerated=True) for number in range(ACCELERATED)]
    return found


def spot_names(zone: str) -> list[str]:
    return [f"spot-{zone}-{number}" for number in range(SPOT_IN_ZONE)]


def interrupted_nodes(policy: str) -> list[str]:
    """Return the spot nodes of the zone that is interrupted."""
    return [f"{name_of(policy)}-{name}" for name in spot_names(INTERRUPTED)]


def is_bad(node: str) -> bool:
    """Return True if programs crash on a node."""
    _, found, number = node.rpartition("-accelerated-")
    return bool(found) and int(number) < BAD


def manifest(policy: str, drawn: DrawnJob) -> Json:
    """Return a Job as its author would write it; without the webhook, its author prefers spot nodes too."""
    found = job(drawn.name)
    spec = found["spec"]["template"]["spec"]
    accelerated = drawn.kind == "on bad nodes"
    spec["nodeSelector"] = {MARK: "fake", OWN: _mark(policy, accelerated=accelerated)}
    amount = {"cpu": "4", "memory": ASKED}
    spec["containers"][0]["resources"] = {"requests": amount, "limits": amount}
    if policy == STOCK and not accelerated:
        spec["tolerations"].append({"key": SPOT, "operator": "Exists"})
        wish = {"weight": 100, "preference": {"matchExpressions": [{"key": SPOT, "operator": "Exists"}]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    return found


def _node(policy: str, name: str, zone: str, *, spot: bool = False, accelerated: bool = False) -> Json:
    node = own_node(f"{name_of(policy)}-{name}", spot=spot)
    node["metadata"]["labels"] |= {OWN: _mark(policy, accelerated=accelerated), ZONE: f"europe-west1-{zone}"}
    return node


def _mark(policy: str, *, accelerated: bool) -> str:
    return f"{name_of(policy)}.{'accelerated' if accelerated else 'plain'}"
