"""A Job whose pods need nodes that no pool has is accepted with a warning."""

from typing import Any

import pytest

from tests.admission import policy, validate
from tests.objects import cron_job, job, job_spec
from webhook import capacity
from webhook.capacity import Census, NodeFacts
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.rules.facts import Facts
from webhook.rules.pods.node_pools import MOST_WORDS

POOL = "cloud.google.com/gke-nodepool"
GPU = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
SPOT = {"cloud.google.com/gke-spot": "true"}
ON_DEMAND_NODE = NodeFacts({POOL: "default"})
SPOT_NODE = NodeFacts({POOL: "spot", **SPOT})
GPU_NODE = NodeFacts({POOL: "gpu", **GPU})
NO_SPOT = "spec.template.spec: fits on no spot node of this cluster; its pods wait for one"
NO_ON_DEMAND = "spec.template.spec: fits on no on-demand node of this cluster; its pods wait for one"


def selecting(selector: Json | None = None, **fields: Any) -> Json:
    spec = job_spec(backoffLimit=3, completions=1)
    spec["template"]["spec"].update({"nodeSelector": selector, **fields})
    return spec


def warnings_of(root: Json, *nodes: NodeFacts, **placement: Any) -> list[str]:
    census = Census()
    for node in nodes:
        census.add(node)
    pools = tuple((census.pools() or {}).values())
    facts = Facts(profile_name="default", recognised=capacity.provider_named("gke", None), pools=pools)
    under = policy(default=Profile(placement=Placement(**{"spot": "Require", **placement})))
    return validate(root, facts, under=under).warnings


def test_a_cluster_with_spot_and_on_demand_nodes_brings_no_warning() -> None:
    assert warnings_of(job(selecting()), ON_DEMAND_NODE, SPOT_NODE) == []


def test_a_cluster_without_spot_or_without_on_demand_nodes_brings_a_warning() -> None:
    assert warnings_of(job(selecting()), ON_DEMAND_NODE) == [NO_SPOT]
    assert warnings_of(job(selecting()), SPOT_NODE) == [NO_ON_DEMAND]


def test_the_node_selector_of_the_author_must_match_a_node_of_each_required_kind() -> None:
    nodes = (ON_DEMAND_NODE, SPOT_NODE, GPU_NODE)
    assert warnings_of(job(selecting(GPU)), *nodes) == [NO_SPOT]
    assert warnings_of(job(selecting(GPU)), *nodes, spot="Prefer") == []


def test_the_node_affinity_of_the_author_is_checked_too() -> None:
    expression = {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert warnings_of(job(selecting(affinity=affinity)), SPOT_NODE, GPU_NODE) == [NO_SPOT]


@pytest.mark.parametrize(
    "selector",
    [SPOT, {"team": "vision"}, {"cloud.google.com/gke-flex-start": "true"}],
    ids=["asks for spot", "matches no known node", "asks for reserved capacity"],
)
def test_a_selector_that_already_decides_the_nodes_brings_no_warning(selector: Json) -> None:
    flex = NodeFacts({POOL: "flex", "cloud.google.com/gke-flex-start": "true"})
    assert warnings_of(job(selecting(selector)), SPOT_NODE, flex) == []


def test_a_job_that_names_too_many_values_to_compare_is_not_judged() -> None:
    expression = {"key": "zone", "operator": "NotIn", "values": [str(number) for number in range(MOST_WORDS)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert warnings_of(job(selecting(affinity=affinity)), ON_DEMAND_NODE) == []
    expression["values"] = ["1"]
    assert warnings_of(job(selecting(affinity=affinity)), ON_DEMAND_NODE) == [NO_SPOT]


def test_a_workload_that_is_not_interruptible_needs_no_spot_node() -> None:
    root = job(selecting(), annotations={names.INTERRUPTIBLE: "false"})
    assert warnings_of(root, ON_DEMAND_NODE) == []


def test_the_job_template_of_a_cron_job_is_judged() -> None:
    assert warnings_of(cron_job(selecting()), ON_DEMAND_NODE) == [NO_SPOT.replace("spec.", "spec.jobTemplate.spec.", 1)]


def test_unknown_node_pools_bring_no_warning() -> None:
    assert warnings_of(job(selecting())) == []
    assert warnings_of(job(selecting()), NodeFacts({"karpenter.sh/nodepool": "default"})) == []
