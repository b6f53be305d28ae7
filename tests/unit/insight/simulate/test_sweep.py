"""A sweep tries values of one field of the profiles; the parser of policies judges each of them."""

import pytest

from tests.unit.insight.simulate.stories import policy
from webhook.insight.simulate import sweep
from webhook.insight.simulate.prediction import Figure, Outlook
from webhook.insight.simulate.sweep import MOST_VALUES, Point
from webhook.policy.model import Delay, Duration, FailureRule, Match, Next, Placement
from webhook.policy.parse import load_default


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        (
            "placement.interruptibleFailureThreshold=-3..3",
            ("placement", "interruptibleFailureThreshold"),
            (-3, -2, -1, 0, 1, 2, 3),
        ),
        ("placement.spot=Require,Prefer", ("placement", "spot"), ("Require", "Prefer")),
        ("attemptTimeout=30m, 2h,null", ("attemptTimeout",), ("30m", "2h", None)),
        ("backOff.perIndex=true,false", ("backOff", "perIndex"), (True, False)),
        ("disruptions.limit=0,3", ("disruptions", "limit"), (0, 3)),
    ],
)
def test_values_are_a_range_or_a_list(text: str, field: tuple[str, ...], values: tuple[object, ...]) -> None:
    assert sweep.read(text) == (field, values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disruptions.limit", "write one such as disruptions.limit=0..5"),
        ("=1..2", "is no field with values"),
        ("disruptions.limit=", "is no field with values"),
        ("disruptions.limit=5..0", "write 0..5"),
        (f"disruptions.limit=0..{MOST_VALUES}", f"name at most {MOST_VALUES}"),
        (f"disruptions.limit={','.join('1' * (MOST_VALUES + 1))}", f"name at most {MOST_VALUES}"),
    ],
)
def test_what_is_no_sweep_is_refused_with_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        sweep.read(text)


def test_a_huge_range_is_refused_before_it_is_made() -> None:
    with pytest.raises(ValueError, match="at most"):
        sweep.read("disruptions.limit=-999999999..999999999")


def test_each_value_is_in_all_profiles_and_nothing_else_changes() -> None:
    before = load_default()

    (two, three) = sweep.policies(sweep.read("disruptions.limit=1,3"), before, None)

    assert two[1] == before
    assert three[1] is not None
    assert three[1].profiles["default"].disruptions.limit == 3


def test_a_policy_with_rules_and_prices_stays_as_it_is_but_for_the_field() -> None:
    rule = FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(30))))
    before = policy(on_failure=(rule,), placement=Placement(provider="gke", spot="Require", spot_wait=Duration(60)))

    ((_, same, problems),) = sweep.policies(sweep.read("disruptions.limit=1"), before, None)

    assert (same, problems) == (before, [])


def test_with_a_profile_the_others_stay() -> None:
    ((_, changed, _),) = sweep.policies(sweep.read("disruptions.limit=7"), policy(), "other")

    assert changed is not None
    assert changed.profiles["default"].disruptions.limit == 1


def test_a_value_that_the_policy_cannot_have_has_problems() -> None:
    ((_, changed, problems),) = sweep.policies(sweep.read("retries.limit=1"), policy(), None)

    assert changed is None
    assert str(problems[0]) == "profiles.default.retries.default: is 3, above the limit; must be at most 1"


def test_a_field_that_no_profile_has_is_named() -> None:
    ((_, changed, problems),) = sweep.policies(sweep.read("retries.most=1"), policy(), None)

    assert changed is None
    assert "profiles.default.retries.most: is not a field" in str(problems[0])


def figures(complete: float, money: float, time: float) -> Point:
    def one(value: float) -> Figure:
        return Figure(value, value, value)

    outlook = Outlook(
        attempts=one(1),
        node_seconds=one(1),
        spot_seconds=one(1),
        money=one(money),
        complete=one(complete),
        failed=one(0),
        mean_time_to_finish=one(time),
    )
    return sweep.point(complete, outlook)


def test_the_best_value_is_the_cheapest_or_the_fastest() -> None:
    points = [figures(100, 50, 900), figures(100, 40, 1000), figures(100, 60, 800)]

    assert sweep.best_of(points, "money") == 1
    assert sweep.best_of(points, "time") == 2


def test_a_value_with_which_fewer_workloads_are_complete_is_not_the_best() -> None:
    points = [figures(100, 50, 900), figures(50, 10, 100), Point(value=3, problems=["no"])]

    assert sweep.best_of(points, "money") == 0
    assert sweep.best_of([Point(value=3, problems=["no"])], "money") is None


def test_values_that_are_nearly_as_good_are_named() -> None:
    points = [figures(100, 50, 900), figures(100.2, 50.2, 900), figures(100, 60, 900)]

    assert sweep.as_good(points, "money", 0) == [100.2]


def test_values_that_are_better_with_fewer_complete_workloads_are_named() -> None:
    points = [figures(100, 50, 900), figures(98, 10, 800), figures(0, 0, 0), figures(100, 60, 950)]
    best = sweep.best_of(points, "time")
    assert best == 0
    assert sweep.better_with_fewer(points, "time", best) == [98]
