"""The settings that apply to one object."""

import pytest

from webhook.kube import names
from webhook.policy.model import Disruptions, Profile, Retries
from webhook.policy.settings import annotation_problems, count, resolve

PATH = ("metadata", "annotations")


def texts(annotations: dict[str, str], profile: Profile | None = None) -> list[str]:
    return [str(problem) for problem in annotation_problems("gpu", profile or Profile(), annotations, PATH)]


def test_annotations_apply_within_the_limits_of_the_profile() -> None:
    settings = resolve(
        "gpu",
        Profile(disruptions=Disruptions(limit=20)),
        {names.MAX_RETRIES: "5", names.MAX_DISRUPTIONS: "7", names.INTERRUPTIBLE: "false", names.SKIP: "true"},
    )
    assert (settings.max_retries, settings.disruption_budget) == (5, 7)
    assert (settings.interruptible, settings.skip) == (False, True)


def test_without_annotations_the_values_of_the_profile_apply() -> None:
    settings = resolve("gpu", Profile(), {})
    assert (settings.max_retries, settings.default_retries, settings.disruption_budget) == (None, 3, 1)
    assert (settings.interruptible, settings.skip) == (None, False)


def test_the_default_is_never_above_the_limit() -> None:
    assert resolve("gpu", Profile(retries=Retries(limit=1)), {}).default_retries == 1


def test_max_retries_above_the_limit_count_as_the_limit_if_the_profile_clamps() -> None:
    clamping = Profile(retries=Retries(limit=4, on_exceed="Clamp"))
    assert resolve("gpu", clamping, {names.MAX_RETRIES: "9"}).max_retries == 4
    assert texts({names.MAX_RETRIES: "9"}, clamping) == []


def test_max_retries_above_the_limit_are_a_problem_if_the_profile_denies() -> None:
    assert resolve("gpu", Profile(), {names.MAX_RETRIES: "11"}).max_retries is None
    assert texts({names.MAX_RETRIES: "11"}) == [
        (
            "metadata.annotations[retry-policy.dev/max-retries]: 11 is more than the 10 that profile 'gpu' allows;"
            " set 10 or less"
        )
    ]


def test_max_disruptions_above_the_limit_are_a_problem() -> None:
    profile = Profile(disruptions=Disruptions(limit=3))
    assert "more than the 3" in texts({names.MAX_DISRUPTIONS: "4"}, profile)[0]


@pytest.mark.parametrize("value", ["", "-1", "1.5", "three", "٣", "1" * 11, " 1"])
def test_a_malformed_number_is_a_problem_that_names_the_allowed_values(value: str) -> None:
    assert texts({names.ATTEMPT: value})[0].endswith("must be a whole number, 0 or more")
    assert texts({names.MAX_RETRIES: value})[0].endswith("must be a whole number from 0 to 10")
    assert resolve("gpu", Profile(), {names.MAX_RETRIES: value}).max_retries is None


@pytest.mark.parametrize("key", [names.INTERRUPTIBLE, names.SKIP])
@pytest.mark.parametrize("value", ["", "True", "yes", "1"])
def test_a_malformed_boolean_is_a_problem_that_names_the_allowed_values(key: str, value: str) -> None:
    assert texts({key: value}) == [f'metadata.annotations[{key}]: is {value!r}; must be "true" or "false"']


def test_skip_is_a_problem_if_the_profile_does_not_allow_it() -> None:
    strict = Profile(allow_skip=False)
    assert not resolve("gpu", strict, {names.SKIP: "true"}).skip
    assert len(texts({names.SKIP: "true"}, strict)) == 1
    assert texts({names.SKIP: "false"}, strict) == []


def test_all_problems_are_reported_together() -> None:
    assert len(texts({names.ATTEMPT: "x", names.MAX_RETRIES: "x", names.SKIP: "x", "other": "x"})) == 3


def test_a_count_consists_of_a_limited_number_of_ascii_digits() -> None:
    assert count("007") == 7
    assert count("9" * 5000) is None


def test_a_count_above_the_largest_integer_of_the_api_is_malformed() -> None:
    assert count("2147483647") == 2147483647
    assert count("2147483648") is None
    assert texts({names.ATTEMPT: "9999999999"}) == [
        "metadata.annotations[retry-policy.dev/attempt]: is '9999999999'; must be a whole number, 0 or more"
    ]
