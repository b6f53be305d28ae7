"""Pods whose node the autoscaler should not remove."""

from typing import Any

import pytest

from tests.admission import mutate, policy
from tests.objects import pod
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.rules.pods.protect import PROTECTION

OFF_SPOT = {names.INTERRUPTIBLE: "false"}


def annotations(protect: Any, said: Json, provider: Any = "eks") -> Json:
    """Return the annotations of a pod that was admitted twice, the second time without a change."""
    under = policy(default=Profile(placement=Placement(provider=provider, protect=protect)))
    answer = mutate(pod(annotations=said), under=under)
    assert mutate(answer.object, under=under).patch == []
    found: Json = answer.object["metadata"]["annotations"]
    return found


@pytest.mark.parametrize(
    ("protect", "said", "provider", "protected"),
    [
        ("OnDemand", OFF_SPOT, "eks", True),
        ("OnDemand", {}, "eks", False),
        ("OnDemand", OFF_SPOT, "auto", False),  # where the pod runs is not known
        ("Always", OFF_SPOT, "eks", True),
        ("Always", {}, "eks", True),
        ("Always", {}, "auto", True),
        ("Never", OFF_SPOT, "eks", False),
    ],
)
def test_a_pod_is_protected_by_its_placement_and_the_profile(
    protect: str, said: Json, provider: str, *, protected: bool
) -> None:
    assert (PROTECTION.items() <= annotations(protect, said, provider).items()) is protected


def test_on_demand_pods_are_protected_by_default() -> None:
    assert Placement().protect == "OnDemand"


def test_what_an_author_says_about_the_autoscaler_stays() -> None:
    own = dict.fromkeys(PROTECTION, "whatever")
    assert own.items() <= annotations("Always", own).items()
