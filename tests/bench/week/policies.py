"""The policies that are compared, their nodes, and the Jobs as their authors would write them under each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.bench.simulation import name_of, namespace_of
from tests.bench.week.draw import CPU, DAY, MEMORY
from tests.bench.week.market import PER_HOUR, SPOT_IN_ZONE, ZONES, Market
from tests.cluster.manifests import job
from tests.cluster.nodes import MARK, SPOT, own_node
from webhook.pods.pods import ZONE

if TYPE_CHECKING:
    from tests.bench.week.draw import DrawnJob
    from webhook.objects.problem import Json

HOUR = 7.2  # seconds that a simulated hour takes
FASTER = round(3600 / HOUR)

STOCK, ON_DEMAND = BESIDE = ("no webhook, spot", "no webhook, on-demand")
DEFAULT, LIMIT_3, REQUIRE, RULES = OURS = ("default policy", "limit 3", "spot required", "onFailure")
POLICIES = (*BESIDE, *OURS)
OWN = "retry-policy-test/week"  # label of nodes: the policy whose pods run there
REGION = "europe-west1"
SPOT_CPU, ON_DEMAND_CPU = 4 * CPU, 400 * CPU  # cores of a node: four pods on a spot node, any number on-demand
GIB = 2**30


def profiles(second: int = 1) -> dict[str, Json]:
    """Return the profile of each policy; `second`: how many seconds a second of the run stands for.

    A policy says whole seconds, so the shortest wait is a second of the run.
    """

    def wait(hours: float) -> int:
        return max(1, round(hours * HOUR)) * second

    common: Json = {"placement": {"provider": "gke"}, "failurePolicy": {"settleWithin": wait(30 / 3600)}}
    required: Json = {"provider": "gke", "spot": "Require", "spotWait": wait(0.75)}
    rules: list[Json] = [
        {"match": {"cause": "OOMKilled"}, "next": {"memory": {"factor": 2, "limit": "128Gi"}}},
        {
            "match": {"exitCodes": [75]},
            "next": {"cost": "Free", "delay": {"initial": wait(0.25), "factor": 2, "limit": wait(2)}},
        },
        {"match": {"cause": "Disruption"}, "next": {"avoid": "Zone"}},
    ]
    return {
        DEFAULT: common,
        LIMIT_3: {**common, "disruptions": {"limit": 3}},
        REQUIRE: {**common, "placement": required, "disruptions": {"limit": 3}},
        RULES: {**common, "disruptions": {"limit": 3}, "onFailure": rules},
    }


def policy_file(market: Market) -> Json:
    """Return a policy with a profile for each that is compared, and the default one, for the time of the run.

    A second of the run costs what the seconds cost that it stands for.
    """
    found = {"default": profiles()[DEFAULT]} | {name_of(policy): sections for policy, sections in profiles().items()}
    most = 10_000  # the leader's actions in a minute: so many simulated hours
    return {**_policy(found), "rateLimit": {"cluster": most, "namespace": most}, "prices": prices(market, FASTER)}


def simulated(policy: str, market: Market) -> Json:
    """Return a policy in simulated time as the profile `default`, with the mean prices of the market."""
    return {**_policy({"default": profiles(FASTER)[policy]}), "prices": prices(market)}


def prices(market: Market, hours: int = 1) -> Json:
    """Return the policy's table of prices, for so many hours: on spot, the mean price of each zone."""
    found: list[Json] = [
        {
            "match": {"capacity": "Spot", "nodeLabels": {ZONE: zone_label(zone)}},
            "perHour": {name: round(price * hours * market.mean_share(zone), 6) for name, price in PER_HOUR.items()},
        }
        for zone in ZONES
    ]
    return {
        "currency": "USD",
        "rates": [
            *found,
            {"match": {"capacity": "OnDemand"}, "perHour": {name: price * hours for name, price in PER_HOUR.items()}},
        ],
    }


def market_of(seed: int, days: int) -> Market:
    """Return the market of so many days, and of the two days in which the last Jobs end."""
    return Market(seed, (days + 2) * DAY)


def namespace(policy: str) -> Json:
    return namespace_of(policy, opted_in=policy in OURS)


def nodes(policy: str) -> list[Json]:
    """Return the nodes of one policy, in each zone four on spot and a large one on-demand."""
    found = [_node(policy, f"on-demand-{zone}", zone, spot=False) for zone in ZONES]
    found += [
        _node(policy, f"spot-{zone}-{number}", zone, spot=True) for zone in ZONES for number in range(SPOT_IN_ZONE)
    ]
    return found


def spot_node(policy: str, zone: str, number: int) -> str:
    return f"{name_of(policy)}-spot-{zone}-{number}"


def zone_label(zone: str) -> str:
    return f"{REGION}-{zone}"


def manifest(policy: str, drawn: DrawnJob) -> Json:
    """Return a Job as its author would write it; without the webhook, its author may prefer spot nodes too."""
    many = len(drawn.hours)
    indexed = {"completionMode": "Indexed", "completions": many, "parallelism": many} if drawn.indexed else {}
    found = job(drawn.name, **indexed)
    spec = found["spec"]["template"]["spec"]
    spec["nodeSelector"] = {MARK: "fake", OWN: name_of(policy)}
    amount = {"cpu": str(CPU), "memory": f"{MEMORY}Gi"}
    spec["containers"][0]["resources"] = {"requests": amount, "limits": amount}
    if policy == STOCK:
        spec["tolerations"].append({"key": SPOT, "operator": "Exists"})
        wish = {"weight": 100, "preference": {"matchExpressions": [{"key": SPOT, "operator": "Exists"}]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    return found


def _policy(found: dict[str, Json]) -> Json:
    return {"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicy", "profiles": found}


def _node(policy: str, name: str, zone: str, *, spot: bool) -> Json:
    """Return a node that is Ready, so that KWOK leaves its size as it is."""
    node = own_node(f"{name_of(policy)}-{name}", spot=spot)
    node["metadata"]["labels"] |= {OWN: name_of(policy), ZONE: zone_label(zone)}
    cpu = SPOT_CPU if spot else ON_DEMAND_CPU
    size = {"cpu": str(cpu), "memory": f"{cpu * 8}Gi", "pods": "1000"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {**node, "status": {"allocatable": size, "capacity": size, "conditions": [ready]}}


def file_of(policy: Json) -> str:
    """Return a policy as a text; JSON is YAML too."""
    return json.dumps(policy, indent=1) + "\n"
