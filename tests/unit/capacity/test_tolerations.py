"""Tolerations that a pod has already, and those it lacks."""

import pytest

from webhook.capacity.provider import combine, custom
from webhook.capacity.table import AKS, CASTAI, EKS, GKE
from webhook.capacity.tolerations import missing_tolerations
from webhook.objects.problem import Json

SPOT = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
NEEDS_SPOT = custom({"pool": ["spot"]}, [SPOT])


@pytest.mark.parametrize(
    "had",
    [
        SPOT,
        {"key": "spot", "value": "true", "effect": "NoSchedule"},
        {"key": "spot", "operator": None, "value": "true", "effect": "NoSchedule", "tolerationSeconds": None},
        {"key": "spot", "operator": "Equal", "value": "true"},
        {"key": "spot", "operator": "Equal", "value": "true", "effect": ""},
        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": None},
        {"operator": "Exists"},
        {"key": "", "operator": "Exists", "effect": "NoSchedule"},
    ],
)
def test_an_equal_or_wider_toleration_is_enough(had: Json) -> None:
    assert missing_tolerations([{"key": "gpu", "operator": "Exists"}, had], NEEDS_SPOT) == []


@pytest.mark.parametrize(
    "had",
    [
        {"key": "spot", "operator": "Equal", "value": "false", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Equal", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoExecute"},
        {"key": "spot", "operator": "Lt", "value": "true", "effect": "NoSchedule"},
        {"key": "other", "operator": "Exists"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
        {},
    ],
)
def test_a_narrower_or_other_toleration_is_not_enough(had: Json) -> None:
    assert missing_tolerations([had], NEEDS_SPOT) == [SPOT]


@pytest.mark.parametrize("none", [None, []])
def test_a_pod_without_tolerations_lacks_them_all(none: list[Json] | None) -> None:
    assert missing_tolerations(none, combine(CASTAI, AKS, GKE)) == [
        *CASTAI.tolerations,
        *AKS.tolerations,
        *GKE.tolerations,
    ]


def test_a_provider_without_taints_needs_no_toleration() -> None:
    assert missing_tolerations(None, EKS) == []


def test_a_toleration_of_one_effect_does_not_cover_all_effects() -> None:
    one_effect = {"key": "scheduling.cast.ai/spot", "operator": "Exists", "effect": "NoSchedule"}
    assert missing_tolerations([one_effect], CASTAI) == [*CASTAI.tolerations]


def test_a_toleration_with_a_time_limit_does_not_cover_one_without() -> None:
    for_ever = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
    for_a_while = {**for_ever, "tolerationSeconds": 60}
    assert missing_tolerations([for_a_while], custom({"pool": ["spot"]}, [for_ever])) == [for_ever]
    assert missing_tolerations([for_a_while], custom({"pool": ["spot"]}, [for_a_while])) == []
    assert missing_tolerations([for_ever], custom({"pool": ["spot"]}, [for_a_while])) == []


def test_changing_a_returned_toleration_does_not_change_the_provider() -> None:
    missing_tolerations(None, NEEDS_SPOT)[0]["key"] = "changed"
    assert missing_tolerations(None, NEEDS_SPOT)[0]["key"] == "spot"
