"""The policies that are compared, and the Jobs as their authors would write them under each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.market.figures import ON_DEMAND
from tests.bench.simulation import name_of, namespace_of, policy_of
from tests.cluster.manifests import SECONDS, exits, job
from tests.cluster.nodes import MARK, SPOT, own_node

if TYPE_CHECKING:
    from tests.bench.market.draw import DrawnJob
    from webhook.objects.problem import Json

SPOT_BY_SELECTOR = "spot by nodeSelector, no webhook"
BESIDE = (SPOT_BY_SELECTOR, ON_DEMAND)
# The ledger's moment is the shortest that a policy can say: half a minute of simulated time.
SECTIONS = {"placement": {"provider": "gke"}, "failurePolicy": {"settleWithin": 1}}
BY_JOB: Json = {"perIndex": False, "disruptions": "Exponential"}
BY_INDEX: Json = {"singlePod": "Indexed"}
PROFILES: dict[str, Json] = {
    "limit 20, back-off by Job": {**SECTIONS, "disruptions": {"limit": 20}, "backOff": BY_JOB},
    "limit 20, one pod indexed": {**SECTIONS, "disruptions": {"limit": 20}, "backOff": BY_INDEX},
    **{f"limit {limit}": {**SECTIONS, "disruptions": {"limit": limit}} for limit in (3, 2, 1)},
}
POLICIES = (*BESIDE, *PROFILES)
OWN = "retry-policy-test/market"  # label of nodes: the policy whose pods run there, and whether one pod has one alone
SHARED_MACHINES = 4  # of each policy


def policy_file() -> str:
    return policy_of({"default": SECTIONS} | {name_of(policy): sections for policy, sections in PROFILES.items()})


def namespace(policy: str) -> Json:
    return namespace_of(policy, opted_in=policy in PROFILES)


def nodes(policy: str) -> list[Json]:
    """Return the machines of one policy: of either pool one for the pods that have machines alone, some to share."""
    return [
        _node(policy, f"{pool}-{kind}", kind, spot=pool == "spot")
        for pool in ("spot", "on-demand")
        for kind in ("alone", *(f"shared-{number}" for number in range(SHARED_MACHINES)))
    ]


def shared_machine(policy: str, number: int) -> str:
    return f"{name_of(policy)}-spot-shared-{number}"


def manifest(policy: str, drawn: DrawnJob, seconds_of_a_minute: float) -> Json:
    """Return a Job as its author would write it."""
    seconds = ",".join(f"{minutes * seconds_of_a_minute:.2f}" for minutes in drawn.minutes)
    many = len(drawn.minutes)
    indexed = {"completionMode": "Indexed", "completions": many, "parallelism": many} if drawn.indexed else {}
    found = job(drawn.name, {**exits(int(drawn.bug)), SECONDS: seconds}, **indexed)
    spec = found["spec"]["template"]["spec"]
    spec["nodeSelector"] = {MARK: "fake", OWN: _mark(policy, "shared" if drawn.indexed else "alone")}
    if policy == SPOT_BY_SELECTOR:
        spec["nodeSelector"][SPOT] = "true"
        spec["tolerations"].append({"key": SPOT, "operator": "Exists"})
    return found


def _node(policy: str, name: str, kind: str, *, spot: bool) -> Json:
    node = own_node(f"{name_of(policy)}-{name}", spot=spot)
    node["metadata"]["labels"][OWN] = _mark(policy, kind.partition("-")[0])
    return node


def _mark(policy: str, kind: str) -> str:
    return f"{name_of(policy)}.{kind}"
