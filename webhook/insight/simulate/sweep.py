"""Draws how the figures change with one field of the policy's profiles, and names the best value."""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from webhook.admission.engine import read_policy
from webhook.insight.simulate.prediction import Outlook
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Policy

MOST_VALUES: Final = 50
AS_MANY: Final = 0.99  # of the workloads that are complete under the value with most: fewer are no good value
AS_FEW: Final = 0.001  # of the workloads: so many more may be late under a value that is no worse
ALIKE: Final = 0.01  # by which values may be worse that count as good as the best
RANGE: Final = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})")
NUMBER: Final = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,6})?")
WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}

Measure = Literal["money", "time"]


class Sweep(NamedTuple):
    """Values of a field of a profile, such as placement.spot."""

    field: tuple[str, ...]
    values: tuple[object, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value of the field, and what it gives; `problems`: why the policy cannot have it, then there are no figures.

    `money_per_complete`: per complete workload; None without prices.
    """

    value: Any
    problems: list[str] = []
    outlook: Outlook | None = None
    money_per_complete: float | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What each value of a field gives; `best`: by the measure, the index of the point; None if no value can be had."""

    api_version: Literal["retry-policy.dev/v1alpha1"] = "retry-policy.dev/v1alpha1"
    kind: Literal["SimulationSweep"] = "SimulationSweep"
    field: str
    since: str
    until: str
    workloads: int
    replications: int
    seed: int
    currency: str
    measure: Measure
    points: list[Point]
    best: int | None
    assumptions: list[str]


def read(text: str) -> Sweep:
    """Return the sweep that a user names as FIELD=FIRST..LAST or FIELD=VALUE,VALUE; raise ValueError."""
    field, equals, values = text.partition("=")
    path = tuple(field.strip().split("."))
    if not equals or not all(path) or not values.strip():
        raise ValueError(f"{text!r} is no field with values; write one such as disruptions.limit=0..5")
    found = RANGE.fullmatch(values.strip())
    if found is None:
        return Sweep(path, _bounded([_value_of(one.strip()) for one in values.split(",")]))
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ValueError(f"{values} has no value; write {last}..{first}")
    return Sweep(path, _bounded(range(first, last + 1)))


def _bounded(values: Any) -> tuple[object, ...]:
    """Return values; raise ValueError if there are too many."""
    if len(values) > MOST_VALUES:
        raise ValueError(f"there are {len(values)} values; name at most {MOST_VALUES}")
    return tuple(values)


def _value_of(text: str) -> object:
    found = NUMBER.fullmatch(text)
    if found is None:
        return WORDS.get(text, text)
    return float(text) if found[1] else int(text)


def policies(
    sweep: Sweep, policy: Policy, profile: str | None
) -> Iterator[tuple[object, Policy | None, list[Problem]]]:
    """Yield each value with the policy that has it in a profile, or in all; or with its problems."""
    for value in sweep.values:
        root = raw(policy)
        for name, one in root["profiles"].items():
            if profile in {None, name}:
                _put(one, sweep.field, value)
        changed, problems = read_policy(msgspec.json.encode(root).decode())
        yield value, changed, problems


def raw(policy: Policy) -> Json:
    """Return a policy as its file would have it."""
    found: Json = msgspec.to_builtins(policy, enc_hook=int)  # a duration is whole seconds
    for profile in found["profiles"].values():
        if not profile["message"]:
            del profile["message"]
    if found["prices"] is None:
        del found["prices"]
    return found


def _put(profile: Json, path: tuple[str, ...], value: object) -> None:
    """Set a field of a profile; the parser of policies judges whether there is such a field."""
    *sections, last = path
    for section in sections:
        inner = profile.get(section)
        if not isinstance(inner, dict):
            inner = profile[section] = {}
        profile = inner
    profile[last] = value


def best_of(points: list[Point], measure: Measure) -> int | None:
    """Return the index of the best point, of those with which about as many workloads are complete as with any.

    Of these, of those with which as few are late, or fail, as with any, within one in a thousand.
    """
    usable = [(index, one) for index, one in enumerate(points) if one.outlook is not None]
    most = max((_complete_of(one) for _, one in usable), default=0.0)
    found = [(index, one) for index, one in usable if _complete_of(one) >= most * AS_MANY]
    fewest = min((_missed_by(one) for _, one in found), default=0.0) + most * AS_FEW
    in_time = [(measured(one, measure), index) for index, one in found if _missed_by(one) <= fewest]
    return min(in_time)[1] if in_time and most else None


def as_good(points: list[Point], measure: Measure, best: int) -> list[object]:
    """Return the other values that are as good as the best one: the figures cannot distinguish them."""
    least, most = measured(points[best], measure), _complete_of(points[best])
    return [
        one.value
        for index, one in enumerate(points)
        if index != best
        and one.outlook is not None
        and measured(one, measure) <= least * (1 + ALIKE)
        and _complete_of(one) >= most * AS_MANY
        and _missed_by(one) <= _missed_by(points[best]) + most * AS_FEW
    ]


def better_with_fewer(points: list[Point], measure: Measure, best: int) -> list[object]:
    """Return the values that are better than the best one by the measure alone: fewer are complete, or more late."""
    usable = [one for one in points if one.outlook is not None and _complete_of(one)]
    return [one.value for one in usable if measured(one, measure) < measured(points[best], measure)]


def _complete_of(one: Point) -> float:
    return 0.0 if one.outlook is None else one.outlook.complete.mean


def _missed_by(one: Point) -> float:
    """Return how many workloads are late or fail; 0 if it is not known which are late."""
    found = one.outlook
    return 0.0 if found is None or found.late is None else found.late.mean + found.failed.mean


def measured(one: Point, measure: Measure) -> float:
    """Return what a point is measured by: money, or seconds, for each complete workload."""
    if one.outlook is None:
        return 0.0
    return (one.money_per_complete or 0.0) if measure == "money" else one.outlook.mean_time_to_finish.mean


def point(value: object, outlook: Outlook) -> Point:
    """Return the point of a value."""
    per_complete = None
    if outlook.money is not None and outlook.complete.mean:
        per_complete = outlook.money.mean / outlook.complete.mean
    return Point(value=value, outlook=outlook, money_per_complete=per_complete)
