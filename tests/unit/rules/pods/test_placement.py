"""The rule that keeps the last attempts off spot nodes."""

from copy import deepcopy
from itertools import product
from typing import Any

import pytest

from tests.admission import mutate, policy
from tests.objects import pod
from webhook import capacity
from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.policy.settings import Settings
from webhook.rules.pods import placement
from webhook.systems.kind_spec import controller_of
from webhook.systems.pod_source import Level

SPOT = {"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]}
NOT_SPOT = {"key": "eks.amazonaws.com/capacityType", "operator": "NotIn", "values": ["SPOT"]}
ZONE_A = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
ZONE_B = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}
STAYS = placement.Decision(off_spot=False, level=Level("JobStatus", 0, 3), retries=Level("JobStatus", 0, 3))
LEAVES = placement.Decision(off_spot=True, level=Level("JobStatus", 3, 3), retries=Level("JobStatus", 3, 3))


def settings(*, interruptible: bool | None = None, **fields: Any) -> Settings:
    return Settings(
        profile_name="default",
        profile=Profile(placement=Placement(**{"provider": "eks", **fields})),
        interruptible=interruptible,
    )


def placed(root: Json, decision: placement.Decision, recognised: capacity.Provider | None = None, **fields: Any) -> str:
    """Apply the rule; check that a second application changes nothing."""
    found = placement.plan(root, decision, settings(**fields), recognised)
    placement.edit(found, Editor(root))
    once, again = deepcopy(root), Editor(root)
    then = placement.plan(root, decision, settings(**fields), recognised)
    placement.edit(then, again)
    assert (then.placement, root, again.edits) == (found.placement, once, [])
    return found.placement


def terms(root: Json) -> Any:
    return at(root, placement.TERMS)


def preferences(root: Json) -> Any:
    return at(root, placement.PREFERRED)


def with_terms(*own: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(own)}}
    return pod({"affinity": {"nodeAffinity": required}})


def flytes_rule(attempt: int, budget: int, threshold: int) -> bool:
    """Return the result of the rule in Flyte's RFC: `above(n, max, t)` with the number of allowed attempts."""
    maximum = budget + 1
    if threshold > 0:
        above = attempt >= threshold
    elif threshold < 0:
        # Flyte subtracts unsigned numbers. Our rule differs beyond the budget: on-demand from attempt 1.
        above = attempt >= maximum - abs(threshold) if abs(threshold) <= maximum else True
    else:
        above = False
    return attempt > 0 and above


def test_a_level_leaves_spot_by_flytes_rule_for_every_attempt_budget_and_threshold() -> None:
    for attempt, budget, threshold in product(range(12), range(11), range(-11, 12)):
        levels = [Level("JobStatus", attempt, budget)]
        decision = placement.decide(levels, settings(interruptible_failure_threshold=threshold))
        assert decision.off_spot == flytes_rule(attempt, budget, threshold), (attempt, budget, threshold)


def test_a_pod_is_on_demand_if_a_rule_or_its_role_asks_for_it() -> None:
    first = placement.decide([Level("JobStatus", 0, 3)], settings(), asked=True)
    assert (first.off_spot, first.alone) == (True, True)


@pytest.mark.parametrize(("attempt", "interruptible"), [(3, None), (0, False)])
def test_a_pod_that_leaves_spot_anyway_does_not_leave_it_alone(
    attempt: int,
    interruptible: bool | None,  # noqa: FBT001
) -> None:
    levels = [Level("JobSet", attempt, 3)]
    assert not placement.decide(levels, settings(interruptible=interruptible), asked=True).alone


def test_a_pod_that_leaves_spot_alone_only_prefers_to_if_it_is_in_a_group() -> None:
    grouped = pod(labels={"scheduling.x-k8s.io/pod-group": "workers"})
    alone = placement.decide([Level("JobSet", 0, 3)], settings(), asked=True)
    assert placed(grouped, alone) == "OnDemand"
    assert terms(grouped) is None


def test_a_pod_is_on_demand_if_any_level_leaves_spot_and_that_level_is_recorded() -> None:
    retries, last = Level("JobIndex", 4, 9), Level("JobSet", 2, 2)
    assert placement.decide([retries, last], settings()) == placement.Decision(off_spot=True, level=last, retries=last)


def test_the_highest_attempt_is_recorded_if_every_level_stays_on_spot() -> None:
    highest = Level("JobIndex", 4, 20)
    decision = placement.decide([Level("JobIndex", 0, 9), highest], settings())
    assert decision == placement.Decision(off_spot=False, level=highest, retries=highest)


def test_disruptions_are_recorded_beside_the_retries_and_never_as_an_attempt() -> None:
    retries, disruptions = Level("JobIndex", 0, 2), Level("Ledger", 20, 20, of_disruptions=True)
    assert placement.decide([retries, disruptions], settings()) == placement.Decision(
        off_spot=True, level=disruptions, retries=retries, disruptions=disruptions
    )


def test_a_pod_without_any_level_is_a_first_attempt_of_unknown_source() -> None:
    unknown = Level("Unknown", 0, 3)
    assert placement.decide([], settings()) == placement.Decision(off_spot=False, level=unknown, retries=unknown)


def test_a_workload_that_is_not_interruptible_is_on_demand_from_the_first_attempt() -> None:
    assert placement.decide([Level("JobStatus", 0, 3)], settings(interruptible=False)).off_spot


@pytest.mark.parametrize(
    ("root", "takes_part"),
    [
        (pod(), True),
        (pod(owner=None), False),
        (pod(owner=None, annotations={names.ATTEMPT: "1"}), True),
        (pod(owner=None, annotations={names.INTERRUPTIBLE: "true"}), True),
        (pod(owner="Wonder"), False),
        (pod(owner="Wonder", annotations={names.ATTEMPT: "1"}), True),
        (pod(owner="ReplicaSet", annotations={names.ATTEMPT: "1"}), False),
        (pod(owner="DaemonSet", annotations={names.INTERRUPTIBLE: "true"}), False),
        (pod({"nodeName": "node-1"}), False),
    ],
    ids=[
        "of a Job",
        "bare",
        "bare with an attempt",
        "bare and interruptible",
        "of an unknown kind",
        "of an unknown kind with an attempt",
        "of a Deployment",
        "of a DaemonSet",
        "bound to a node",
    ],
)
def test_the_owner_and_the_annotations_of_a_pod_decide_whether_it_takes_part(root: Json, takes_part: bool) -> None:  # noqa: FBT001
    controller = controller_of(root)
    batch = controller is not None and controller.kind == "Job"
    assert placement.takes_part(root, controller, batch=batch) is takes_part


def test_require_adds_a_requirement_to_a_pod_on_spot_and_to_a_pod_off_spot() -> None:
    first, last = pod(), pod()
    assert (placed(first, STAYS, spot="Require"), terms(first)) == ("Spot", [{"matchExpressions": [SPOT]}])
    assert (placed(last, LEAVES, spot="Require"), terms(last)) == ("OnDemand", [{"matchExpressions": [NOT_SPOT]}])


def test_prefer_adds_a_preference_to_a_pod_on_spot_and_a_requirement_to_a_pod_off_spot() -> None:
    first, last = pod(), pod()
    assert placed(first, STAYS) == "Spot"
    assert (terms(first), preferences(first)) == (None, [{"weight": 100, "preference": {"matchExpressions": [SPOT]}}])
    assert placed(last, LEAVES) == "OnDemand"
    assert (terms(last), preferences(last)) == ([{"matchExpressions": [NOT_SPOT]}], None)


def test_allow_adds_nothing_until_the_pod_leaves_spot() -> None:
    first, last = pod(), pod()
    assert (placed(first, STAYS, spot="Allow", provider="gke"), first) == ("None", pod())
    assert placed(last, LEAVES, spot="Allow") == "OnDemand"


def test_only_a_pod_on_spot_tolerates_the_taint_of_spot_nodes() -> None:
    first, last = pod(), pod()
    placed(first, STAYS, provider="gke")
    placed(last, LEAVES, provider="gke")
    assert [toleration["key"] for toleration in first["spec"]["tolerations"]] == ["cloud.google.com/gke-spot"]
    assert "tolerations" not in last["spec"]


def test_terms_are_ored_so_each_gets_the_requirement() -> None:
    root = with_terms({"matchExpressions": [ZONE_A]}, {"matchExpressions": [ZONE_B]})
    assert placed(root, LEAVES) == "OnDemand"
    assert terms(root) == [{"matchExpressions": [ZONE_A, NOT_SPOT]}, {"matchExpressions": [ZONE_B, NOT_SPOT]}]


def test_a_term_with_match_fields_gets_the_requirement_too() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    root = with_terms({"matchFields": fields})
    placed(root, LEAVES)
    assert terms(root) == [{"matchFields": fields, "matchExpressions": [NOT_SPOT]}]


def test_an_empty_term_matches_nothing_and_stays_empty() -> None:
    root = with_terms({}, {"matchExpressions": [ZONE_A]}, {"matchExpressions": []})
    placed(root, LEAVES)
    assert terms(root) == [{}, {"matchExpressions": [ZONE_A, NOT_SPOT]}, {"matchExpressions": []}]


def test_a_pod_whose_terms_are_all_empty_gets_no_placement() -> None:
    root = with_terms({})
    assert (placed(root, LEAVES), terms(root)) == ("None", [{}])


def test_a_pod_that_selects_spot_nodes_itself_gets_no_contrary_requirement() -> None:
    selector = {"nodeSelector": {"eks.amazonaws.com/capacityType": "SPOT"}}
    root = pod(selector)
    assert (placed(root, LEAVES), root) == ("None", pod(selector))


@pytest.mark.parametrize("spot", ["Require", "Prefer"])
def test_a_pod_that_selects_on_demand_nodes_itself_gets_no_contrary_requirement(spot: str) -> None:
    selector = {"nodeSelector": {"eks.amazonaws.com/capacityType": "ON_DEMAND"}}
    root = pod(selector)
    assert (placed(root, STAYS, spot=spot), root) == ("None", pod(selector))


def test_a_pod_that_requires_spot_nodes_by_affinity_gets_no_contrary_requirement() -> None:
    root = with_terms({"matchExpressions": [SPOT]})
    assert (placed(root, LEAVES), terms(root)) == ("None", [{"matchExpressions": [SPOT]}])


def test_a_pod_that_selects_spot_nodes_itself_gets_no_second_requirement() -> None:
    selector = {"nodeSelector": {"eks.amazonaws.com/capacityType": "SPOT"}}
    root = pod(selector)
    assert (placed(root, STAYS, spot="Require"), root) == ("Spot", pod(selector))


@pytest.mark.parametrize("name", ["topology", "admission", "elastic-job"])
def test_a_pod_whose_nodes_kueue_chooses_gets_preferences_only(name: str) -> None:
    gate = {"schedulingGates": [{"name": f"kueue.x-k8s.io/{name}"}]}
    first, last = pod(gate), pod(gate)
    assert placed(first, STAYS, spot="Require") == "Spot"
    assert placed(last, LEAVES, spot="Require") == "OnDemand"
    assert (terms(first), terms(last)) == (None, None)
    assert [term["preference"]["matchExpressions"] for term in preferences(last)] == [[NOT_SPOT]]


@pytest.mark.parametrize("decision", [STAYS, LEAVES])
@pytest.mark.parametrize(
    "fields",
    [
        {"nodeSelector": {"cloud.google.com/gke-flex-start": "true"}},
        {"nodeSelector": {"cloud.google.com/gke-queued": "true", "cloud.google.com/gke-accelerator": "nvidia-l4"}},
        {"nodeSelector": {"cloud.google.com/reservation-name": "tpu-rsv"}},
        {"nodeSelector": {"karpenter.k8s.aws/capacity-reservation-type": "capacity-block"}},
    ],
)
def test_a_pod_that_selects_reserved_capacity_gets_no_placement(fields: Json, decision: Any) -> None:
    root = pod(deepcopy(fields))
    assert (placed(root, decision, spot="Require", provider="gke"), root) == ("None", pod(fields))


@pytest.mark.parametrize(
    "key",
    [
        "autoscaling.x-k8s.io/consume-provisioning-request",
        "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
    ],
)
def test_a_pod_with_a_provisioning_request_gets_no_placement(key: str) -> None:
    root = pod(annotations={key: "job-train-1"})
    assert (placed(root, LEAVES), root) == ("None", pod(annotations={key: "job-train-1"}))


GROUPED = [
    pod(labels={"kueue.x-k8s.io/pod-group-name": "g"}),
    pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
    pod(labels={"pod-group.scheduling.sigs.k8s.io": "g"}),
    pod(annotations={"scheduling.k8s.io/group-name": "podgroup-1"}),
    pod(annotations={"yunikorn.apache.org/task-group-name": "members"}),
    pod({"schedulingGroup": {"podGroupName": "g"}}),
    pod({"workloadRef": {"name": "w", "podGroup": "g"}}),
]


@pytest.mark.parametrize("root", GROUPED)
def test_a_pod_that_would_leave_spot_without_its_group_gets_preferences_only(root: Json) -> None:
    first, last = deepcopy(root), deepcopy(root)
    assert placed(first, STAYS, spot="Require") == "Spot"
    assert placed(last, LEAVES, spot="Require") == "OnDemand"
    assert (terms(first), terms(last)) == (None, None)
    assert [term["preference"]["matchExpressions"] for term in preferences(first)] == [[SPOT]]
    assert [term["preference"]["matchExpressions"] for term in preferences(last)] == [[NOT_SPOT]]


@pytest.mark.parametrize("source", ["JobSet", "Volcano"])
@pytest.mark.parametrize("root", GROUPED)
def test_a_group_that_leaves_spot_as_a_whole_gets_a_requirement(root: Json, source: str) -> None:
    last = deepcopy(root)
    level = Level(source, 2, 2)
    assert placed(last, placement.Decision(off_spot=True, level=level, retries=level)) == "OnDemand"
    assert terms(last) == [{"matchExpressions": [NOT_SPOT]}]


@pytest.mark.parametrize(("restarts", "required"), [("0", [{"matchExpressions": [NOT_SPOT]}]), ("1", None)])
def test_a_pod_of_a_job_that_was_restarted_alone_gets_preferences_only(restarts: str, required: Any) -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "g", "jobset.sigs.k8s.io/job-restart-attempt": restarts}
    root = pod(labels=labels)
    level = Level("JobSet", 2, 2)
    assert placed(root, placement.Decision(off_spot=True, level=level, retries=level)) == "OnDemand"
    assert terms(root) == required


def test_interruptible_false_adds_a_requirement_in_a_group_too() -> None:
    root = pod(labels={"scheduling.x-k8s.io/pod-group": "g"})
    decision = placement.decide([], settings(interruptible=False))
    assert placed(root, decision, interruptible=False) == "OnDemand"
    assert terms(root) == [{"matchExpressions": [NOT_SPOT]}]


def test_a_pod_with_a_named_resource_claim_gets_preferences_only() -> None:
    named = pod({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]})
    of_template = pod({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]})
    assert (placed(named, LEAVES), placed(of_template, LEAVES)) == ("OnDemand", "OnDemand")
    assert (terms(named), terms(of_template)) == (None, [{"matchExpressions": [NOT_SPOT]}])


@pytest.mark.parametrize(
    "fields",
    [
        {"schedulingGroup": {"podGroupName": "g"}},
        {"workloadRef": {"name": "w", "podGroup": "g"}},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
    ],
)
def test_groups_and_resource_claims_are_read_from_an_admission_request(fields: Json) -> None:
    root = pod(fields, annotations={names.ATTEMPT: "3", names.MAX_RETRIES: "3"})
    made = mutate(root, under=policy(default=Profile(placement=Placement(provider="eks")))).object
    assert (made["metadata"]["annotations"][names.PLACEMENT], terms(made)) == ("OnDemand", None)


def test_auto_places_nothing_if_no_provider_was_recognised() -> None:
    root = pod()
    assert (placed(root, LEAVES, provider="auto"), root) == ("None", pod())


def test_auto_uses_the_provider_that_was_recognised() -> None:
    root = pod()
    assert placed(root, LEAVES, capacity.provider_named("eks", None), provider="auto") == "OnDemand"
    assert terms(root) == [{"matchExpressions": [NOT_SPOT]}]


def test_any_excludes_the_spot_nodes_of_every_provider() -> None:
    root = pod()
    assert placed(root, LEAVES, provider="any") == "OnDemand"
    keys = {expression["key"] for expression in terms(root)[0]["matchExpressions"]}
    assert {"cloud.google.com/gke-spot", "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"} < keys
