"""Pods prefer other nodes and zones than those where attempts failed, and other zones than those that lose spot."""

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tests.admission import Answer, mutate, policy
from tests.objects import job_spec, pod, stored_job
from tests.unit.accounts.pods import disrupted, failed, running_pod
from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json
from webhook.objects.times import written
from webhook.pods.faulty_nodes import FaultyNodes
from webhook.pods.pods import Pod
from webhook.pods.rejections import APART, Rejections
from webhook.pods.waves import Waves
from webhook.policy.model import BadNodes, Duration, FailureRule, Match, Next, Placement, Profile, Wave
from webhook.rules.facts import Facts
from webhook.rules.pods import avoid, placement

OTHER_NODE = FailureRule(match=Match(exit_codes=(143,)), next=Next(avoid="Node"))
OTHER_ZONE = FailureRule(match=Match(cause="Disruption"), next=Next(avoid="Zone"))
ON_DEMAND = FailureRule(match=Match(exit_codes=(143,)), next=Next(placement="OnDemand"))
SPOT = {"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]}
NOW = 1767225660.0


def not_in_zone(*zones: str) -> Json:
    return {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": list(zones)}


def preference(*expressions: Json) -> Json:
    return {"weight": 100, "preference": {"matchExpressions": list(expressions)}}


def other_node(*nodes: str) -> Json:
    named = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    return {"weight": 100, "preference": {"matchFields": named}}


def admitted(
    *ended: Pod,
    rules: tuple[FailureRule, ...] = (),
    root: Json | None = None,
    waves: Waves | None = None,
    rejections: Rejections | None = None,
    faulty_nodes: FaultyNodes | None = None,
    actions: Literal["Act", "Report"] = "Act",
    **fields: Any,
) -> Answer:
    """Admit the next pod of a Job after pods that ended; check that a second admission changes nothing."""
    profile = Profile(placement=Placement(**{"provider": "eks", **fields}), on_failure=rules, actions=actions)
    facts = Facts(
        profile_name="default",
        owner=stored_job(job_spec(backoffLimit=6)),
        ended=ended,
        waves=waves,
        rejections=rejections,
        faulty_nodes=faulty_nodes,
        nodes=40,
        now=NOW,
    )
    answer = mutate(root or pod(), facts, policy(default=profile))
    assert mutate(answer.object, facts, policy(default=profile)).patch == []
    return answer


def preferences(answer: Answer) -> Any:
    return at(answer.object, placement.PREFERRED)


def placed(answer: Answer) -> str:
    return str(answer.object["metadata"]["annotations"][names.PLACEMENT])


def losing(zone: str) -> Waves:
    """Return a zone that has just lost 6 of 8 spot pods."""
    waves = Waves()
    for one in (*map(running_pod, range(8)), *map(disrupted, range(6))):
        waves.see(replace(one, zone=zone), NOW)
    return waves


def rejecting(*nodes: str) -> Rejections:
    """Return nodes that have just rejected pods three times each."""
    found = Rejections()
    for number, node in enumerate(nodes * 3):
        started = written(NOW - 60 + APART * number)
        found.see(failed(number, exits=(), reason="UnexpectedAdmissionError", node=node, started=started), NOW)
    return found


def test_pods_prefer_other_nodes_than_those_that_reject_pods_if_the_profile_says_so() -> None:
    found = admitted(rejections=rejecting("bad"), bad_nodes=BadNodes())
    assert preferences(found) == [preference(SPOT), other_node("bad")]
    assert preferences(admitted(rejections=rejecting("bad"))) == [preference(SPOT)]
    assert preferences(admitted(rejections=rejecting("bad"), bad_nodes=BadNodes(), actions="Report")) == [
        preference(SPOT)
    ]


def test_pods_prefer_other_nodes_than_those_whose_hardware_ended_pods_of_two_workloads() -> None:
    faulty = FaultyNodes()
    for workload in ("one", "other"):
        faulty.see("broken", workload, NOW, NOW)
    found = admitted(rejections=rejecting("bad"), faulty_nodes=faulty, bad_nodes=BadNodes())
    assert set(preferences(found)[1]["preference"]["matchFields"][0]["values"]) <= {"broken", "bad"}
    assert len(preferences(found)[1]["preference"]["matchFields"]) == 2
    assert preferences(admitted(faulty_nodes=faulty)) == [preference(SPOT)]


def test_a_node_of_a_failure_and_nodes_that_reject_pods_are_avoided_together() -> None:
    found = admitted(
        failed(node="own"), rules=(OTHER_NODE,), rejections=rejecting("bad", "own"), bad_nodes=BadNodes(rejected=3)
    )
    assert preferences(found) == [preference(SPOT), other_node("own", "bad")]


def test_after_a_failure_the_next_pod_prefers_another_node() -> None:
    answer = admitted(failed(node="bad"), rules=(OTHER_NODE,))
    assert preferences(answer) == [preference(SPOT), other_node("bad")]
    assert at(answer.object, placement.REQUIRED) is None


def test_the_last_five_nodes_are_avoided() -> None:
    pods: list[Pod] = []
    root = pod()
    for number in range(7):
        answer = admitted(*pods, rules=(OTHER_NODE,), root=root)
        after = answer.object["metadata"]["annotations"].get(names.AFTER_FAILURE, "")
        pods = [*pods, failed(number, node=f"n-{number}", after=after)][-5:]
    assert preferences(answer)[-1] == other_node("n-5", "n-4", "n-3", "n-2", "n-1")


def test_a_pod_on_spot_prefers_spot_nodes_in_another_zone_before_spot_nodes_anywhere() -> None:
    answer = admitted(disrupted(zone="a"), rules=(OTHER_ZONE,))
    assert preferences(answer) == [preference(SPOT, not_in_zone("a")), preference(SPOT)]


@pytest.mark.parametrize(
    ("fields", "expected"), [({"spot": "Require"}, "Spot"), ({"spot": "Allow"}, "None"), ({"provider": "auto"}, "None")]
)
def test_a_pod_without_a_preference_for_spot_prefers_another_zone(fields: Json, expected: str) -> None:
    answer = admitted(disrupted(zone="a"), rules=(OTHER_ZONE,), **fields)
    assert (placed(answer), preferences(answer)) == (expected, [preference(not_in_zone("a"))])


def test_a_pod_whose_zone_is_unknown_avoids_none() -> None:
    assert preferences(admitted(disrupted(), rules=(OTHER_ZONE,))) == [preference(SPOT)]


def test_a_pod_after_a_failure_that_no_rule_is_about_avoids_nothing() -> None:
    assert preferences(admitted(failed(code=1, node="bad"), rules=(OTHER_NODE,))) == [preference(SPOT)]


def test_the_rules_are_off_for_an_author_who_turns_them_off() -> None:
    own = pod(annotations={names.ON_FAILURE: "Off"})
    assert preferences(admitted(failed(node="bad"), rules=(OTHER_NODE,), root=own)) == [preference(SPOT)]


def test_an_authors_own_preferences_stay() -> None:
    own = {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    answer = admitted(failed(node="bad"), rules=(OTHER_NODE,), root=pod({"affinity": affinity}))
    assert preferences(answer) == [own, preference(SPOT), other_node("bad")]


def test_the_pods_of_a_group_stay_alike() -> None:
    member = pod(labels={"scheduling.x-k8s.io/pod-group": "workers"})
    answer = admitted(failed(node="bad"), disrupted(2, zone="a"), rules=(OTHER_NODE, OTHER_ZONE), root=member)
    assert preferences(answer) == [preference(SPOT)]


def test_nodes_of_autopilot_are_not_named_because_it_refuses_such_pods() -> None:
    editor = Editor(pod())
    avoid.nodes(editor, ["gk3-batch-pool-2-1234"])
    assert editor.edits == []
    avoid.nodes(editor, ["gk3-batch-pool-2-1234", "n"])
    assert at(editor.root, placement.PREFERRED) == [other_node("n")]


def test_a_rule_sends_the_next_pod_to_on_demand_nodes() -> None:
    assert placed(admitted(failed(1), rules=(ON_DEMAND,))) == "OnDemand"
    assert placed(admitted(failed(1, code=1), rules=(ON_DEMAND,))) == "Spot"


def test_a_rule_sends_a_pod_of_a_group_to_on_demand_nodes_by_a_preference_alone() -> None:
    member = pod(labels={"scheduling.x-k8s.io/pod-group": "workers"})
    answer = admitted(failed(1), rules=(ON_DEMAND,), root=member)
    assert (placed(answer), at(answer.object, placement.REQUIRED)) == ("OnDemand", None)


def test_while_a_zone_loses_its_spot_pods_new_pods_on_spot_avoid_it() -> None:
    answer = admitted(wave=Wave(), waves=losing("a"))
    assert preferences(answer) == [preference(SPOT, not_in_zone("a")), preference(SPOT)]


def test_a_rule_and_a_wave_together_avoid_both_zones() -> None:
    answer = admitted(disrupted(zone="b"), rules=(OTHER_ZONE,), wave=Wave(), waves=losing("a"))
    assert preferences(answer)[0] == preference(SPOT, not_in_zone("b", "a"))


@pytest.mark.parametrize(
    "fields", [{}, {"wave": Wave(share=90)}, {"wave": Wave(), "spot": "Allow"}, {"wave": Wave(), "provider": "auto"}]
)
def test_a_zone_is_not_avoided_below_the_profiles_share_or_by_a_pod_that_is_not_on_spot(fields: Json) -> None:
    assert "zone" not in str(preferences(admitted(waves=losing("a"), **fields)))


def test_a_zone_is_avoided_for_as_long_as_the_profile_says() -> None:
    waves = losing("a")
    profile = Profile(placement=Placement(provider="eks", wave=Wave(avoid_for=Duration(900))))
    for seconds, avoided in ((899, True), (900, False)):
        facts = Facts(profile_name="default", waves=waves, now=NOW + seconds)
        assert ("zone" in str(preferences(mutate(pod(), facts, policy(default=profile))))) is avoided
