"""The podFailurePolicies that kube-apiserver rejects."""

from typing import Any

import pytest

from webhook.objects.problem import Json, Path, field
from webhook.objects.shape import wrong_types
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import schema

DISRUPTION: Json = {"type": "DisruptionTarget", "status": "True"}
FAIL_ON_1: Json = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
RULE = "spec.podFailurePolicy.rules[0]"
CODES = f"{RULE}.onExitCodes"
CONDITIONS = f"{RULE}.onPodConditions"


def job_spec(*rules: Any, **fields: Any) -> Json:
    template: Json = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}], "initContainers": [{"name": "setup"}]}
    }
    return {"podFailurePolicy": {"rules": list(rules)}, "template": template, **fields}


def on_exit_codes(**fields: Any) -> Json:
    return job_spec({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], **fields}})


def on_pod_conditions(*patterns: Any) -> Json:
    return job_spec({"action": "Ignore", "onPodConditions": list(patterns)})


def restarted(policy: str | None, **fields: Any) -> Json:
    return job_spec(FAIL_ON_1, template={"spec": {"restartPolicy": policy, "containers": [{"name": "main"}]}}, **fields)


def refused(spec: Json, path: Path = ("spec",)) -> list[str]:
    assert not list(wrong_types(spec, batch.JOB_SPEC))
    return [field(problem.path) for problem in schema.problems(spec, path)]


def messages(spec: Json) -> list[str]:
    return [str(problem) for problem in schema.problems(spec, ("spec",))]


@pytest.mark.parametrize("spec", [{}, {"podFailurePolicy": None}, {"template": None}, {"template": {"spec": None}}])
def test_a_job_without_a_policy_is_not_judged(spec: Json) -> None:
    assert refused(spec) == []


@pytest.mark.parametrize("policy", [{}, {"rules": None}, {"rules": []}])
def test_a_policy_without_rules_is_accepted(policy: Json) -> None:
    assert refused(job_spec(podFailurePolicy=policy)) == []


@pytest.mark.parametrize(("count", "paths"), [(20, []), (21, ["spec.podFailurePolicy.rules"])])
def test_twenty_rules_are_accepted_and_one_more_is_not(count: int, paths: list[str]) -> None:
    assert refused(job_spec(*[FAIL_ON_1] * count)) == paths


@pytest.mark.parametrize("action", ["Count", "FailJob", "Ignore"])
def test_every_action_is_accepted(action: str) -> None:
    assert refused(job_spec({**FAIL_ON_1, "action": action})) == []


@pytest.mark.parametrize("action", [None, "", "failJob", "Retry"])
def test_an_action_that_is_missing_or_unknown_is_refused(action: str | None) -> None:
    assert refused(job_spec({**FAIL_ON_1, "action": action})) == [f"{RULE}.action"]


def test_the_problem_of_a_refused_action_lists_all_actions() -> None:
    assert messages(job_spec({**FAIL_ON_1, "action": "Retry"})) == [
        "spec.podFailurePolicy.rules[0].action: is 'Retry'; must be one of Count, FailIndex, FailJob, Ignore"
    ]


@pytest.mark.parametrize(("limit", "paths"), [(0, []), (3, []), (None, [f"{RULE}.action"])])
def test_fail_index_needs_a_backoff_limit_per_index(limit: int | None, paths: list[str]) -> None:
    assert refused(job_spec({**FAIL_ON_1, "action": "FailIndex"}, backoffLimitPerIndex=limit)) == paths


@pytest.mark.parametrize("rule", [{}, {"onExitCodes": None, "onPodConditions": None}, {"onPodConditions": []}])
def test_a_rule_without_a_requirement_is_refused(rule: Json) -> None:
    assert refused(job_spec({"action": "Ignore", **rule})) == [RULE]


def test_a_rule_with_both_requirements_is_refused() -> None:
    assert refused(job_spec({**FAIL_ON_1, "onPodConditions": [DISRUPTION]})) == [RULE]


@pytest.mark.parametrize("conditions", [None, []])
def test_an_empty_list_of_conditions_counts_as_absent(conditions: list[Json] | None) -> None:
    assert refused(job_spec({**FAIL_ON_1, "onPodConditions": conditions})) == []


def test_an_empty_requirement_on_exit_codes_does_not_count_as_absent() -> None:
    assert refused(job_spec({"action": "Ignore", "onExitCodes": {}})) == [f"{CODES}.operator", f"{CODES}.values"]


@pytest.mark.parametrize("operator", [None, "", "notIn", "Exists"])
def test_an_operator_that_is_missing_or_unknown_is_refused(operator: str | None) -> None:
    assert refused(on_exit_codes(operator=operator)) == [f"{CODES}.operator"]


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        (None, [f"{CODES}.values"]),
        ([], [f"{CODES}.values"]),
        ([1], []),
        (list(range(1, 256)), []),
        (list(range(1, 257)), [f"{CODES}.values"]),
    ],
)
def test_between_1_and_255_exit_codes_are_accepted(values: list[int] | None, paths: list[str]) -> None:
    assert refused(on_exit_codes(values=values)) == paths


def test_exit_codes_must_ascend() -> None:
    assert messages(on_exit_codes(values=[1, 3, 2])) == [
        "spec.podFailurePolicy.rules[0].onExitCodes.values: entry 2 is less than entry 1; must be in ascending order"
    ]


def test_a_wrong_order_of_exit_codes_is_reported_once() -> None:
    assert refused(on_exit_codes(values=[5, 4, 3, 2])) == [f"{CODES}.values"]


def test_every_repeated_exit_code_is_reported_by_its_path() -> None:
    assert refused(on_exit_codes(values=[1, 1, 1, 2])) == [f"{CODES}.values[1]", f"{CODES}.values[2]"]


def test_an_exit_code_repeated_out_of_order_is_reported_for_both_reasons() -> None:
    assert refused(on_exit_codes(values=[1, 2, 1])) == [f"{CODES}.values[2]", f"{CODES}.values"]


@pytest.mark.parametrize(("operator", "paths"), [("In", [f"{CODES}.values[0]"]), ("NotIn", [])])
def test_exit_code_0_is_refused_only_with_operator_in(operator: str, paths: list[str]) -> None:
    assert refused(on_exit_codes(operator=operator, values=[0, 1])) == paths


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (-(2**31) - 1, [f"{CODES}.values[0]"]),
        (-(2**31), []),
        (-1, []),
        (256, []),
        (2**31 - 1, []),
        (2**31, [f"{CODES}.values[0]"]),
    ],
)
def test_any_exit_code_of_32_bits_is_accepted(value: int, paths: list[str]) -> None:
    assert refused(on_exit_codes(values=[value])) == paths


@pytest.mark.parametrize("name", [None, "main", "setup"])
def test_a_rule_may_name_a_container_or_an_init_container(name: str | None) -> None:
    assert refused(on_exit_codes(containerName=name)) == []


@pytest.mark.parametrize("name", ["", "Main", "sidecar"])
def test_a_rule_that_names_an_unknown_container_is_refused(name: str) -> None:
    assert refused(on_exit_codes(containerName=name)) == [f"{CODES}.containerName"]


def test_the_problem_of_an_unknown_container_lists_the_known_ones() -> None:
    assert messages(on_exit_codes(containerName="sidecar")) == [
        f"{CODES}.containerName: is 'sidecar'; must name a container or init container of the pod template: main, setup"
    ]


@pytest.mark.parametrize("template", [None, {}, {"spec": None}, {"spec": {"containers": None, "initContainers": None}}])
def test_no_container_name_is_accepted_if_the_template_has_no_containers(template: Json | None) -> None:
    spec = {**on_exit_codes(containerName="main"), "template": template}
    assert refused(spec) == [f"{CODES}.containerName", "spec.template.spec.restartPolicy"]


def test_an_empty_container_name_means_a_container_without_a_name() -> None:
    spec = {**on_exit_codes(containerName=""), "template": {"spec": {"restartPolicy": "Never", "containers": [{}]}}}
    assert refused(spec) == []


@pytest.mark.parametrize(("count", "paths"), [(20, []), (21, [CONDITIONS])])
def test_twenty_conditions_are_accepted_and_one_more_is_not(count: int, paths: list[str]) -> None:
    assert refused(on_pod_conditions(*[DISRUPTION] * count)) == paths


@pytest.mark.parametrize("status", [None, "", "True", "False", "Unknown"])
def test_every_known_condition_status_is_accepted_and_null_and_empty_too(status: str | None) -> None:
    assert refused(on_pod_conditions({"type": "DisruptionTarget", "status": status})) == []


@pytest.mark.parametrize("status", ["true", "Yes"])
def test_an_unknown_status_is_refused(status: str) -> None:
    assert refused(on_pod_conditions({"type": "DisruptionTarget", "status": status})) == [f"{CONDITIONS}[0].status"]


@pytest.mark.parametrize(
    "condition",
    ["DisruptionTarget", "a", "1_b.C-d", "x" * 63, "example.com/Ready", f"{'a' * 253}/Ready", f"0.a/{'x' * 63}"],
)
def test_a_qualified_name_is_accepted_as_a_condition_type(condition: str) -> None:
    assert refused(on_pod_conditions({"type": condition})) == []


@pytest.mark.parametrize(
    "condition",
    [
        None,
        "",
        "-a",
        "a-",
        "a b",
        "a\n",
        "é",
        "x" * 64,
        "/Ready",
        "example.com/",
        "a/b/c",
        "Example.com/Ready",
        "a..b/Ready",
        "a_b/Ready",
        "a-/Ready",
        "a\n/Ready",
        f"{'a' * 254}/Ready",
        f"example.com/{'x' * 64}",
    ],
)
def test_any_other_text_is_refused_as_a_condition_type(condition: str | None) -> None:
    assert refused(on_pod_conditions({"type": condition})) == [f"{CONDITIONS}[0].type"]


@pytest.mark.parametrize("replacement", [None, "Failed"])
def test_with_a_policy_pod_replacement_policy_may_be_failed_or_absent(replacement: str | None) -> None:
    assert refused(job_spec(podReplacementPolicy=replacement)) == []


@pytest.mark.parametrize("replacement", ["TerminatingOrFailed", "", "Never"])
def test_with_a_policy_any_other_pod_replacement_policy_is_refused(replacement: str) -> None:
    assert refused(job_spec(podReplacementPolicy=replacement)) == ["spec.podReplacementPolicy"]
    assert refused(job_spec(podFailurePolicy={}, podReplacementPolicy=replacement)) == ["spec.podReplacementPolicy"]


@pytest.mark.parametrize("replacement", [None, "Failed", "TerminatingOrFailed"])
def test_without_a_policy_every_known_pod_replacement_policy_is_accepted(replacement: str | None) -> None:
    assert refused({"podReplacementPolicy": replacement}) == []


@pytest.mark.parametrize("replacement", ["", "Never"])
def test_without_a_policy_an_unknown_pod_replacement_policy_is_refused(replacement: str) -> None:
    assert refused({"podReplacementPolicy": replacement}) == ["spec.podReplacementPolicy"]


@pytest.mark.parametrize("policy", [None, "", "Always", "OnFailure", "never"])
def test_a_policy_requires_restart_policy_never(policy: str | None) -> None:
    assert refused(restarted(policy)) == ["spec.template.spec.restartPolicy"]
    assert refused(restarted(policy, podFailurePolicy={})) == ["spec.template.spec.restartPolicy"]


@pytest.mark.parametrize("policy", [None, "Always", "OnFailure"])
def test_without_a_policy_the_restart_policy_is_not_judged(policy: str | None) -> None:
    assert refused(restarted(policy, podFailurePolicy=None)) == []


def test_all_problems_are_named_at_once() -> None:
    spec = job_spec(
        {"action": "Retry", "onExitCodes": {"containerName": "x", "operator": "Is", "values": [2, 2, 1]}},
        FAIL_ON_1,
        {"action": "FailIndex", "onPodConditions": [{"type": "a b", "status": "Yes"}, {"type": "", "status": "True"}]},
        {},
        podReplacementPolicy="TerminatingOrFailed",
        template={"spec": {"restartPolicy": "OnFailure"}},
    )
    assert refused(spec) == [
        "spec.podFailurePolicy.rules[0].action",
        "spec.podFailurePolicy.rules[0].onExitCodes.operator",
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
        "spec.podFailurePolicy.rules[0].onExitCodes.values[1]",
        "spec.podFailurePolicy.rules[0].onExitCodes.values",
        "spec.podFailurePolicy.rules[2].action",
        "spec.podFailurePolicy.rules[2].onPodConditions[0].type",
        "spec.podFailurePolicy.rules[2].onPodConditions[0].status",
        "spec.podFailurePolicy.rules[2].onPodConditions[1].type",
        "spec.podFailurePolicy.rules[3].action",
        "spec.podFailurePolicy.rules[3]",
        "spec.podReplacementPolicy",
        "spec.template.spec.restartPolicy",
    ]


def test_problems_of_a_cron_job_have_the_path_of_its_job_template() -> None:
    spec = job_spec({**FAIL_ON_1, "action": None}, podReplacementPolicy="Never", template={})
    assert refused(spec, ("spec", "jobTemplate", "spec")) == [
        "spec.jobTemplate.spec.podFailurePolicy.rules[0].action",
        "spec.jobTemplate.spec.podReplacementPolicy",
        "spec.jobTemplate.spec.template.spec.restartPolicy",
    ]


def test_null_in_a_list_counts_as_an_empty_value_as_in_the_api_server() -> None:
    spec = job_spec(
        None,
        {"action": "Ignore", "onPodConditions": [None]},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [None]}},
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [None], "containerName": ""}},
        template={"spec": {"restartPolicy": "Never", "containers": [None]}},
    )
    assert [field(problem.path) for problem in schema.problems(spec, ("spec",))] == [
        "spec.podFailurePolicy.rules[0].action",
        "spec.podFailurePolicy.rules[0]",
        "spec.podFailurePolicy.rules[1].onPodConditions[0].type",
        "spec.podFailurePolicy.rules[2].onExitCodes.values[0]",
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"podFailurePolicy": []}, "podFailurePolicy"),
        ({"podFailurePolicy": {"rules": [{"action": 1}]}}, "podFailurePolicy.rules[0].action"),
        (
            {"podFailurePolicy": {"rules": [{"onExitCodes": {"values": ["1"]}}]}},
            "podFailurePolicy.rules[0].onExitCodes.values[0]",
        ),
        ({"podReplacementPolicy": 1}, "podReplacementPolicy"),
        ({"backoffLimitPerIndex": "1"}, "backoffLimitPerIndex"),
        ({"template": {"spec": {"containers": [{"name": 1}]}}}, "template.spec.containers[0].name"),
    ],
)
def test_wrong_types_are_reported_by_their_path_before_the_rule_runs(fields: Json, path: str) -> None:
    assert [field(problem.path) for problem in wrong_types(fields, batch.JOB_SPEC)] == [path]
