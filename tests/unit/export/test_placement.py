"""The MutatingAdmissionPolicy of pods."""

from tests.admission import policy
from tests.unit.export.test_limits import names_in
from webhook.export import placement
from webhook.policy.model import Disruptions, Placement, Profile

GKE = Profile(placement=Placement(provider="gke"))
ALWAYS = Profile(
    placement=Placement(provider="gke", interruptible_failure_threshold=0), disruptions=Disruptions(action="Count")
)


def test_a_profile_that_recognises_its_provider_places_no_pod() -> None:
    assert not placement.is_of_a_profile(policy())
    assert placement.is_of_a_profile(policy(gke=GKE))
    assert placement.labels(Profile()) == []


def test_a_profile_keeps_every_attempt_on_spot_only_if_no_attempt_and_no_disruption_leaves() -> None:
    assert placement.is_always_on_spot(ALWAYS)
    assert not placement.is_always_on_spot(GKE)


def test_only_pods_that_may_be_placed_are_evaluated() -> None:
    (condition,) = placement.spec(policy(gke=GKE))["matchConditions"]
    assert "job-name" not in condition["expression"]
    (condition,) = placement.spec(policy(gke=ALWAYS))["matchConditions"]
    assert "job-name" in condition["expression"]


def test_every_variable_is_defined_before_it_is_read() -> None:
    spec = placement.spec(policy(gke=GKE))
    defined: set[str] = set()
    for variable in spec["variables"]:
        assert names_in(variable["expression"]) <= defined
        defined.add(variable["name"])
