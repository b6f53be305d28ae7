"""The ValidatingAdmissionPolicies."""

import re

import pytest

from tests.admission import policy
from webhook.export import limits, retry_strategies
from webhook.policy.model import Profile, Retries
from webhook.systems import core
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS


def names_in(text: str) -> set[str]:
    return set(re.findall(r"variables\.(\w+)", text))


@pytest.mark.parametrize("kind", [row for row in KINDS.values() if row.admitted], ids=lambda row: row.resource)
def test_every_variable_is_defined_before_it_is_read_and_is_read(kind: KindSpec) -> None:
    spec = limits.spec(kind, policy())
    defined: set[str] = set()
    read: set[str] = set()
    for variable in spec["variables"]:
        assert names_in(variable["expression"]) <= defined
        read |= names_in(variable["expression"])
        defined.add(variable["name"])
    for one in spec["validations"]:
        read |= names_in(one["expression"] + one.get("messageExpression", ""))
    assert defined == read


def test_profiles_with_different_limits_are_looked_up_by_their_name() -> None:
    strict = policy(strict=Profile(retries=Retries(limit=2, default=2)))
    variables = {one["name"]: one["expression"] for one in limits.spec(batch.JOB, strict)["variables"]}
    assert variables["limit"] == "{'default': 10, 'strict': 2}[variables.profile]"
    assert variables["total"] == "1000"


def test_only_pods_without_a_controller_are_judged() -> None:
    (condition,) = limits.spec(core.POD, policy())["matchConditions"]
    assert condition["name"] == "without-a-controller"


def test_the_message_of_a_profile_ends_a_refusal() -> None:
    spec = limits.spec(batch.JOB, policy(default=Profile(message="Ask #batch, https://wiki/batch")))
    assert {"name": "line", "expression": "'; Ask #batch, https://wiki/batch'"} in spec["variables"]


CLOSED = re.compile(retry_strategies.closed(retry_strategies.DEEPEST))
CONDITIONS = (
    *("", "true", "a(b)[c]{d}", "x == ')'", 'x == "\\")"', "x == `(`", "x == '//'", "a / (b) * c / 'd'", "'\\\n'"),
    *("((((((((x))))))))", "(", ")", ")(", "'", "x == '\\'", "true // (", "/* ( */", "let x = 1; x", "a) || (b"),
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_exported_limit_of_argo_reads_a_condition_as_admission_does(condition: str) -> None:
    assert bool(CLOSED.fullmatch(condition)) is argo.is_closed(condition)


def test_the_exported_limit_of_argo_takes_a_deeper_condition_for_an_authors() -> None:
    assert not CLOSED.fullmatch("(" * 9 + ")" * 9)
