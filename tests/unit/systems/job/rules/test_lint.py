"""Warnings about a podFailurePolicy that is valid but does not do what its author wants."""

from functools import cache
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.accounts.pods import disrupted, failed
from webhook.admission.review import PROBLEM_LENGTH
from webhook.objects.problem import Json, Path, field
from webhook.pods import matching
from webhook.systems.job.rules import lint, schema

IGNORE_DISRUPTIONS: Json = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
COUNT_DISRUPTIONS: Json = {**IGNORE_DISRUPTIONS, "action": "Count"}
FAIL_ON_BUGS: Json = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [137, 143]},
}
JOB: Path = ("spec",)
CRON_JOB: Path = ("spec", "jobTemplate", "spec")
JOB_SET: Path = ("spec", "replicatedJobs", 0, "template", "spec")


def job_spec(*rules: Json, containers: tuple[str, ...] = ("main",), **fields: Any) -> Json:
    template: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": name} for name in containers]}}
    return {"podFailurePolicy": {"rules": list(rules)}, "template": template, **fields}


def on_codes(action: str, operator: str, *values: int, name: str | None = None) -> Json:
    return {"action": action, "onExitCodes": {"containerName": name, "operator": operator, "values": list(values)}}


def on_conditions(action: str, *types: str) -> Json:
    return {"action": action, "onPodConditions": [{"type": name, "status": "True"} for name in types]}


def warned(spec: Json, *, suspendable: bool = False) -> list[str]:
    assert schema.problems({**spec, "backoffLimitPerIndex": 1}, JOB) == []  # FailIndex requires this field
    return [str(warning).removeprefix("spec.") for warning in lint.warnings(spec, JOB, suspendable=suspendable)]


def warned_at(spec: Json, *, suspendable: bool = False) -> list[str]:
    return [field(warning.path) for warning in lint.warnings(spec, JOB, suspendable=suspendable)]


@pytest.mark.parametrize("spec", [{}, {"podFailurePolicy": None}, {"podFailurePolicy": {"rules": None}}])
def test_a_policy_without_rules_brings_no_warning(spec: Json) -> None:
    assert lint.warnings(spec, JOB, suspendable=True) == []


@pytest.mark.parametrize("suspendable", [False, True])
def test_the_usual_policy_brings_no_warning(*, suspendable: bool) -> None:
    assert warned(job_spec(IGNORE_DISRUPTIONS, FAIL_ON_BUGS), suspendable=suspendable) == []


POLICY_RULES = st.lists(
    st.builds(
        lambda operator, values, name: on_codes("Count", operator, *values, name=name),
        st.sampled_from(["In", "NotIn"]),
        st.sets(st.integers(1, 4), min_size=1),
        st.sampled_from(["main", "log", None]),
    )
    | st.builds(lambda name: on_conditions("Ignore", name), st.sampled_from(["DisruptionTarget", "Other"]))
    | st.just({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}),
    max_size=5,
)


@given(POLICY_RULES, st.sampled_from(["main", "log", "other"]), st.integers(1, 5), st.sampled_from([failed, disrupted]))
def test_lint_and_the_ledger_agree_on_the_rule_that_matches_a_pod(
    rules: list[Json], container: str, code: int, made: Any
) -> None:
    found = matching.match(rules, made(code=code, container=container))
    expected = [
        rule.path[-1]
        for rule in lint.read(job_spec(*rules), ())
        if (made is disrupted and lint.DISRUPTION in rule.conditions)
        or (rule.exit_codes and rule.exit_codes.container in {None, container} and rule.exit_codes.match(code))
    ]
    assert expected[:1] == ([] if found is None else [found.index])


# An exit-code rule before the disruption rule


@pytest.mark.parametrize("action", ["Count", "FailIndex", "FailJob"])
@pytest.mark.parametrize(
    ("operator", "values", "code"),
    [("NotIn", [143], 137), ("NotIn", [137], 143), ("NotIn", [1], 137), ("In", [1, 137], 137), ("In", [143], 143)],
)
def test_an_exit_code_rule_that_matches_disruptions_must_not_stand_before_the_disruption_rule(
    action: str, operator: str, values: list[int], code: int
) -> None:
    assert warned(job_spec(on_codes(action, operator, *values), IGNORE_DISRUPTIONS)) == [
        f"podFailurePolicy.rules[1]: rules[0] matches code {code} first; move this rule up"
    ]


@pytest.mark.parametrize(("operator", "values"), [("NotIn", [137, 143]), ("In", [1, 42])])
def test_an_exit_code_rule_that_does_not_match_disruptions_may_stand_first(operator: str, values: list[int]) -> None:
    assert warned(job_spec(on_codes("FailJob", operator, *values), IGNORE_DISRUPTIONS)) == []


def test_the_warning_names_the_first_rule_that_matches_disruptions() -> None:
    spec = job_spec(
        on_codes("FailJob", "In", 1),
        on_codes("Count", "In", 137),
        on_codes("FailJob", "NotIn", 42),
        IGNORE_DISRUPTIONS,
    )
    assert warned(spec) == ["podFailurePolicy.rules[3]: rules[1] matches code 137 first; move this rule up"]


def test_a_rule_after_one_that_ignores_its_codes_matches_no_disruption() -> None:
    ignored = on_codes("Ignore", "In", 137, 143)
    assert warned(job_spec(ignored, FAIL_ON_BUGS, IGNORE_DISRUPTIONS, activeDeadlineSeconds=60)) == []
    fails = on_codes("FailJob", "NotIn", 1, name="main")
    assert warned(job_spec(ignored, fails, IGNORE_DISRUPTIONS, activeDeadlineSeconds=60)) == []


def test_a_rule_after_one_that_ignores_its_codes_in_another_container_matches_disruptions() -> None:
    ignored = on_codes("Ignore", "In", 137, 143, name="helper")
    fails = on_codes("FailJob", "NotIn", 1, name="main")
    spec = job_spec(ignored, fails, IGNORE_DISRUPTIONS, containers=("main", "helper"), activeDeadlineSeconds=60)
    assert warned_at(spec) == ["spec.podFailurePolicy.rules[2]"]


@pytest.mark.parametrize(("action", "paths"), [("FailJob", ["spec.podFailurePolicy.rules[1]"]), ("Count", [])])
def test_if_disruptions_count_only_a_rule_that_fails_the_job_must_not_stand_before_their_rule(
    action: str, paths: list[str]
) -> None:
    assert warned_at(job_spec(on_codes(action, "In", 137), COUNT_DISRUPTIONS)) == paths


def test_a_rule_that_fails_the_job_on_disruptions_may_stand_after_its_exit_code_rule() -> None:
    assert warned(job_spec(on_codes("FailJob", "In", 137), on_conditions("FailJob", "DisruptionTarget"))) == []


def test_a_rule_on_other_conditions_may_stand_anywhere() -> None:
    rules = (on_codes("FailJob", "In", 137), on_conditions("Ignore", "ConfigIssue"))
    assert warned(job_spec(*rules, activeDeadlineSeconds=60)) == []


def test_an_absent_condition_status_means_true() -> None:
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert warned(job_spec(on_codes("FailJob", "In", 137), ignored)) == [
        "podFailurePolicy.rules[1]: rules[0] matches code 137 first; move this rule up"
    ]


# NotIn without containerName


def test_not_in_must_name_a_container_if_there_are_several() -> None:
    assert warned(job_spec(on_codes("FailJob", "NotIn", 143), containers=("main", "helper"))) == [
        "podFailurePolicy.rules[0]: NotIn covers sidecars too; set onExitCodes.containerName"
    ]


@pytest.mark.parametrize(
    ("init_container", "paths"),
    [
        ({"name": "proxy", "restartPolicy": "Always"}, ["spec.podFailurePolicy.rules[0]"]),
        ({"name": "setup"}, []),
        ({"name": "setup", "restartPolicy": None}, []),
    ],
)
def test_a_native_sidecar_counts_as_a_second_container_and_an_init_container_does_not(
    init_container: Json, paths: list[str]
) -> None:
    spec = job_spec(on_codes("FailJob", "NotIn", 143))
    spec["template"]["spec"]["initContainers"] = [init_container]
    assert warned_at(spec) == paths


@pytest.mark.parametrize(
    "rule",
    [
        on_codes("FailJob", "NotIn", 143, name="main"),
        on_codes("FailJob", "In", 1),
        IGNORE_DISRUPTIONS,
    ],
)
def test_any_other_rule_may_omit_the_container_name(rule: Json) -> None:
    assert warned(job_spec(rule, containers=("main", "helper"))) == []


# A rule that can never match


def test_a_rule_that_earlier_rules_cover_is_reported_as_never_matching() -> None:
    never = "never matches: earlier rules do; move or remove it"
    one, other = (on_conditions("Count", name) for name in ("A", "B"))
    spec = job_spec(on_codes("Count", "In", 1), one, other, on_conditions("FailJob", "A", "B"))
    assert warned(spec) == [f"podFailurePolicy.rules[3]: {never}"]
    spec["podFailurePolicy"]["rules"][3]["onPodConditions"][0]["status"] = "False"
    assert warned(spec) == []


def test_a_rule_that_can_never_match_brings_no_other_warning() -> None:
    spec = job_spec(on_codes("Count", "NotIn", 0, name="main"), on_codes("Ignore", "In", 1, name="main"))
    assert ["never matches" in warning for warning in warned(spec)] == [True]


CODES = (1, 2, 3)
REST = 4  # stands for every code that no rule names
NAMES = ("main", "helper", "injected")
exit_code_rules = st.builds(
    lambda action, operator, values, name: on_codes(action, operator, *sorted(values), name=name),
    st.sampled_from(("Count", "FailJob", "Ignore")),
    st.sampled_from(("In", "NotIn")),
    st.sets(st.sampled_from((0, *CODES)), min_size=1),
    st.sampled_from((None, "main", "helper")),
)
condition_rules = st.builds(
    lambda action, types: on_conditions(action, *types),
    st.sampled_from(("Count", "FailJob", "Ignore")),
    st.sets(st.sampled_from(("A", "B")), min_size=1),
)


PODS = [
    (dict(zip(NAMES, codes, strict=True)), conditions)
    for codes in product((0, *CODES, REST), repeat=len(NAMES))
    for conditions in ((), ("A",), ("B",), ("A", "B"))
]


@cache
def matched_by(requirement: bytes) -> frozenset[int]:
    """Return which of PODS a rule matches, as in the Job controller; `requirement`: the rule without its action."""
    rule = msgspec.json.decode(requirement)
    by_code = rule.get("onExitCodes")
    return frozenset(
        index
        for index, (codes, conditions) in enumerate(PODS)
        if (
            any(pattern["type"] in conditions for pattern in rule["onPodConditions"])
            if by_code is None
            else any(
                code != 0 and (code in by_code["values"]) == (by_code["operator"] == "In")
                for name, code in codes.items()
                if by_code["containerName"] in {None, name}
            )
        )
    )


@given(st.lists(exit_code_rules | condition_rules, min_size=1, max_size=5))
def test_a_rule_is_reported_as_never_matching_exactly_if_it_decides_no_possible_pod(rules: list[Json]) -> None:
    left, unused = frozenset(range(len(PODS))), set()
    for index, rule in enumerate(rules):
        decided = left & matched_by(msgspec.json.encode({**rule, "action": None}))
        left -= decided
        if not decided:
            unused.add(index)
    spec = job_spec(*rules, containers=("main", "helper"))
    assert {warning.path[-1] for warning in lint.warnings(spec, JOB) if "never" in warning.what} == unused


# Count with parallelism above the budget


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ({"backoffLimit": 3, "parallelism": 4}, 4),
        ({"backoffLimit": 3, "parallelism": 100, "completions": 8}, 8),
        ({"parallelism": 7}, 7),
        ({"backoffLimit": 2, "parallelism": 3, "backoffLimitPerIndex": 1}, 3),
    ],
)
def test_a_retry_budget_that_one_lost_node_can_spend_brings_a_warning(fields: Json, pods: int) -> None:
    assert warned(job_spec(COUNT_DISRUPTIONS, **fields)) == [
        f"backoffLimit: losing {pods} pods at once uses it up; raise it or Ignore disruptions"
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"backoffLimit": 3, "parallelism": 3},
        {"backoffLimit": 3, "parallelism": 100, "completions": 2},
        {"backoffLimit": 1},
        {"parallelism": 6},
        {"completions": 100},
        {"backoffLimit": 0, "parallelism": 4},
        {"parallelism": 1000, "backoffLimitPerIndex": 1},
    ],
)
def test_a_retry_budget_of_0_or_large_enough_for_all_pods_brings_no_warning(fields: Json) -> None:
    assert warned(job_spec(COUNT_DISRUPTIONS, **fields)) == []


@pytest.mark.parametrize(
    "rules",
    [
        (IGNORE_DISRUPTIONS,),
        (on_codes("Count", "In", 42),),
        (IGNORE_DISRUPTIONS, on_conditions("Count", "ConfigIssue")),
    ],
)
def test_a_small_retry_budget_brings_no_warning_if_disruptions_do_not_count(rules: tuple[Json, ...]) -> None:
    assert warned(job_spec(*rules, backoffLimit=1, parallelism=100)) == []


def test_the_first_rule_on_disruptions_decides_whether_they_count() -> None:
    rules = (IGNORE_DISRUPTIONS, on_conditions("Count", "DisruptionTarget", "ConfigIssue"))
    assert warned(job_spec(*rules, backoffLimit=1, parallelism=100)) == []


# A policy that fails a Job when it is suspended


@pytest.mark.parametrize("action", ["FailIndex", "FailJob"])
@pytest.mark.parametrize(
    ("operator", "values", "remedy"),
    [("NotIn", [143], "add 137 to values"), ("In", [1, 137], "remove 137")],
)
def test_a_job_that_may_be_suspended_must_not_fail_on_137(
    action: str, operator: str, values: list[int], remedy: str
) -> None:
    spec = job_spec(IGNORE_DISRUPTIONS, on_codes(action, operator, *values))
    assert warned(spec, suspendable=True) == [
        f"podFailurePolicy.rules[1]: fails suspended pods (exit code 137); {remedy}"
    ]


def test_a_job_that_is_never_suspended_may_fail_on_137() -> None:
    assert warned(job_spec(IGNORE_DISRUPTIONS, on_codes("FailJob", "NotIn", 143))) == []


@pytest.mark.parametrize("rule", [on_codes("FailJob", "In", 1), on_codes("Count", "NotIn", 143), COUNT_DISRUPTIONS])
def test_rules_that_do_not_fail_on_137_bring_no_warning_about_suspension(rule: Json) -> None:
    assert warned(job_spec(rule), suspendable=True) == []


def test_an_earlier_rule_that_counts_137_makes_suspension_harmless() -> None:
    spec = job_spec(on_codes("Count", "In", 137), on_codes("FailJob", "NotIn", 143))
    assert warned(spec, suspendable=True) == []


# The length of warnings, their paths, and malformed policies


@pytest.mark.parametrize("path", [JOB, CRON_JOB, JOB_SET])
def test_every_warning_fits_into_the_length_that_the_api_server_passes_on(path: Path) -> None:
    bad = job_spec(
        on_codes("FailJob", "In", 137),
        on_codes("Ignore", "In", 143),
        on_codes("Ignore", "In", 143),
        IGNORE_DISRUPTIONS,
    )
    judged = job_spec(on_codes("FailJob", "NotIn", 143), containers=("main", "helper"))
    counted = job_spec(COUNT_DISRUPTIONS, backoffLimit=10, parallelism=1024)
    texts = [str(warning) for spec in (bad, judged, counted) for warning in lint.warnings(spec, path, suspendable=True)]
    remedies = {text.rpartition("; ")[2] for text in texts}
    assert remedies == {
        "move this rule up",
        "set onExitCodes.containerName",
        "move or remove it",
        "raise it or Ignore disruptions",
        "add 137 to values",
        "remove 137",
    }
    assert [text for text in texts if len(text) > PROBLEM_LENGTH] == []


def test_warnings_of_a_cron_job_have_the_path_of_its_job_template() -> None:
    spec = job_spec(COUNT_DISRUPTIONS, backoffLimit=1, parallelism=2)
    assert [field(warning.path) for warning in lint.warnings(spec, CRON_JOB)] == ["spec.jobTemplate.spec.backoffLimit"]


def test_null_counts_as_absent_everywhere() -> None:
    spec: Json = {
        "podFailurePolicy": {"rules": [{**COUNT_DISRUPTIONS, "onExitCodes": None}, on_codes("FailJob", "NotIn", 143)]},
        "backoffLimit": None,
        "backoffLimitPerIndex": None,
        "completions": None,
        "parallelism": None,
        "template": {"spec": {"containers": None, "initContainers": None}},
    }
    assert lint.warnings(spec, JOB) == []
    assert lint.warnings({**spec, "template": None}, JOB) == []
    assert lint.warnings({**spec, "template": {"spec": {"containers": [None], "initContainers": [None]}}}, JOB) == []


@pytest.mark.parametrize(
    "rule",
    [
        None,
        {},
        {"action": "Ignore"},
        {"action": "Ignore", "onExitCodes": {}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": []}},
        {"action": "Ignore", "onPodConditions": []},
    ],
)
def test_a_rule_without_a_requirement_is_left_to_the_api_server(rule: Any) -> None:
    taken = on_codes("FailJob", "In", 137)
    texts = [str(warning) for warning in lint.warnings(job_spec(rule, taken, IGNORE_DISRUPTIONS), JOB)]
    assert texts == ["spec.podFailurePolicy.rules[2]: rules[1] matches code 137 first; move this rule up"]


@pytest.mark.parametrize(
    "rule",
    [
        {"onPodConditions": [None]},
        {"onPodConditions": [{"type": None, "status": None}]},
        {"onExitCodes": {"values": [None, 1]}},
        {"action": "Retry", "onExitCodes": {"operator": "Is", "values": [2, 1, 1]}},
    ],
)
def test_a_malformed_rule_with_a_requirement_brings_no_warning_and_no_exception(rule: Any) -> None:
    assert lint.warnings(job_spec(rule, IGNORE_DISRUPTIONS), JOB, suspendable=True) == []
