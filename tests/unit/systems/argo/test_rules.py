"""What is injected into the retryStrategies of Argo's workloads."""

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import Answer, mutate, policy, validate
from tests.argo_cases import (
    BACKOFF,
    CASES,
    CODES,
    FAILED,
    NO_BUG,
    OF_TEMPLATE,
    TAGGED,
    stored,
    stored_bounded,
    template,
    workflow_spec,
)
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, field
from webhook.policy.model import Disruptions, FailurePolicy, FailureRule, Match, Next, Policy, Profile, Retries
from webhook.systems.argo import rules as rule
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec

# A ClusterWorkflowTemplate differs from a WorkflowTemplate only in its name and in having no namespace.
EACH_KIND = pytest.mark.parametrize(
    "kind", [argo.WORKFLOW, argo.WORKFLOW_TEMPLATE, argo.CRON_WORKFLOW], ids=lambda kind: kind.kind
)


def made(kind: KindSpec, spec: Json, **annotations: str) -> Json:
    said = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = {"name": "train", **({"annotations": said} if said else {})}
    root: Json = {"apiVersion": "argoproj.io/v1alpha1", "kind": kind.kind, "metadata": metadata}
    if kind is argo.CRON_WORKFLOW:
        return {**root, "spec": {"schedule": "0 3 * * *", "workflowSpec": spec}}
    return {**root, "spec": spec}


def strategies(kind: KindSpec, root: Json) -> dict[str, Json]:
    """Return the retryStrategies of a workload, by their paths in a Workflow."""
    spec = at(root, argo.spec_of(kind))
    places = [("retryStrategy",), ("templateDefaults", "retryStrategy"), ("templates", 0, "retryStrategy")]
    return {field(("spec", *path)): found for path in places if (found := at(spec, path)) is not None}


def strategy_of(author: Json, under: Policy | None = None, **annotations: str) -> Json:
    """Return a template's strategy as it is stored."""
    found: Json = admitted(author, under, **annotations).object["spec"]["templates"][0]["retryStrategy"]
    return found


def admitted(author: Json, under: Policy | None = None, **annotations: str) -> Answer:
    return mutate(made(argo.WORKFLOW, workflow_spec(template(deepcopy(author))), **annotations), under=under)


def profile(**fields: Any) -> Policy:
    return policy(default=Profile(**fields))


@EACH_KIND
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_policy_is_merged_with_what_the_author_wrote(case: tuple[Json, dict[str, Json]], kind: KindSpec) -> None:
    author, wanted = case
    answer = mutate(made(kind, deepcopy(author)))
    assert strategies(kind, answer.object) == wanted
    assert validate(answer.object).allowed


@EACH_KIND
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_unchanged_manifest_applied_again_changes_nothing(case: tuple[Json, Any], kind: KindSpec) -> None:
    stored = mutate(made(kind, deepcopy(case[0]))).object
    assert mutate(stored).patch == []
    assert mutate(stored, old=stored).patch == []
    applied = deepcopy(stored)  # of the stored fields only those remain that the manifest lacks
    for path, own in strategies(kind, made(kind, case[0])).items():
        strategies(kind, applied)[path].update(own)
    assert mutate(applied, old=stored).object == stored


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_workflow_made_of_an_admitted_template_is_left_as_it_is(case: tuple[Json, Any]) -> None:
    spec = mutate(made(argo.CRON_WORKFLOW, deepcopy(case[0]))).object["spec"]["workflowSpec"]
    answer = mutate(made(argo.WORKFLOW, spec))
    assert answer.object["spec"] == spec
    assert validate(answer.object).allowed


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_injected_is_undone_when_the_profile_no_longer_injects(case: tuple[Json, Any]) -> None:
    author = made(argo.WORKFLOW_TEMPLATE, deepcopy(case[0]))
    injected = mutate(deepcopy(author)).object
    limits_alone = profile(failure_policy=FailurePolicy(inject="Never"))
    undone = mutate(injected, under=limits_alone, old=injected).object
    assert undone["spec"] == mutate(author, under=limits_alone).object["spec"]


def test_an_author_cannot_write_the_sum_of_retries_and_disruptions_by_hand() -> None:
    summed = strategy_of({"limit": 10})
    assert summed["limit"] == 11
    for changed in ({"expression": "true"}, {"limit": 12}, {"expression": summed["expression"] + " || true"}):
        root = made(argo.WORKFLOW, workflow_spec(template({**summed, **changed})))
        answer = validate(root)
        assert answer.message.startswith(f"{OF_TEMPLATE}.limit: "), changed


N = "{{workflow.parameters.n}}"


def with_parameters(strategy: Json, parameters: Any, inputs: Any = None) -> Json:
    """Return a WorkflowSpec whose template has a strategy; `inputs`: the parameters of the template."""
    said = {} if inputs is None else {"inputs": {"parameters": inputs}}
    arguments = {"arguments": {"parameters": parameters}}
    return workflow_spec(template(strategy, container={"image": "example.test/train"}, **said), **arguments)


@EACH_KIND
@pytest.mark.parametrize(
    "limit",
    [N, "{{ workflow.parameters.n }}", "{{=asInt(workflow.parameters.n)}}", "{{= workflow.parameters['n'] }}"],
)
def test_a_limit_whose_parameter_is_in_the_same_object_is_judged_as_a_number(kind: KindSpec, limit: str) -> None:
    for value, allowed in (
        (1000, False),
        ("1000", False),
        ("11", False),
        ("-4294966296", False),
        ("10", True),
        (3, True),
    ):
        answer = mutate(made(kind, with_parameters({"limit": limit}, [{"name": "n", "value": value}])))
        assert validate(answer.object).allowed is allowed, value
        assert answer.warnings == []
    message = validate(
        mutate(made(kind, with_parameters({"limit": limit}, [{"name": "n", "value": 1000}]))).object
    ).message
    assert "retryStrategy.limit: 1000 retries exceed the limit of 10" in message


def test_a_limit_that_is_an_input_of_its_template_is_judged_by_its_default() -> None:
    inputs = [{"name": "m"}, {"name": "n", "default": "1000"}]
    root = made(argo.WORKFLOW, with_parameters({"limit": "{{inputs.parameters.n}}"}, [], inputs))
    assert validate(mutate(root).object).message.startswith(f"{OF_TEMPLATE}.limit: 1000 retries exceed")


def test_the_runs_of_a_container_set_are_judged_by_their_parameter_too() -> None:
    spec = workflow_spec(
        template(None, containerSet={"retryStrategy": {"retries": N}}),
        arguments={"parameters": [{"name": "n", "value": "12"}]},
    )
    assert ".containerSet.retryStrategy.retries: 11 retries exceed" in validate(made(argo.WORKFLOW, spec)).message


VALUES: list[Any] = [True, "{{x}}", [], {}, "1e3", 1e3, " 1000 ", "9" * 31]
UNKNOWN: list[Any] = [
    *([], None, "x", {}, [{}], [5], [{"name": "n"}]),
    *([{"name": "n", "value": value}] for value in VALUES),
    [*([{"name": "m"}] * 100), {"name": "n", "value": 1000}],
]


@pytest.mark.parametrize("parameters", UNKNOWN)
def test_whatever_a_limit_becomes_an_expression_bounds_its_retries(parameters: Any) -> None:
    answer = mutate(made(argo.WORKFLOW, with_parameters({"limit": N}, parameters)))
    assert answer.object["spec"]["templates"][0]["retryStrategy"] == stored_bounded(N, FAILED, NO_BUG)
    said = f"{OF_TEMPLATE}.limit: '{N}' allows 10 retries at most; write a number to have it checked"
    assert answer.warnings == [said]
    assert validate(answer.object).allowed
    assert mutate(answer.object).patch == []


@pytest.mark.parametrize("under", [profile(failure_policy=FailurePolicy(inject="Never")), None], ids=["Never", "skip"])
@pytest.mark.parametrize("said", [{}, {"retryPolicy": "OnError"}, {"expression": CODES}])
def test_the_bound_holds_where_nothing_else_is_injected(under: Policy | None, said: Json) -> None:
    annotations = {} if under else {"skip": "true"}
    policies = {"retryPolicy": "Always" if "expression" in said else "OnFailure", **said}
    wanted = {"limit": N, **policies, "expression": argo.bounded(said.get("expression", ""), 10)}
    found = strategy_of({"limit": N, **said}, under, **annotations)
    assert found == wanted
    assert strategy_of(found, under, **annotations) == wanted


@pytest.mark.parametrize("expression", [TAGGED["expression"], "true) || (true", "let x = 1; true"])
def test_a_limit_that_nothing_can_bound_is_denied_or_replaced_by_the_limit(expression: str) -> None:
    answer = admitted({"limit": N, "expression": expression})
    assert validate(answer.object).message.startswith(f"{OF_TEMPLATE}.limit: may become more than the limit of 10; ")
    clamps = profile(retries=Retries(on_exceed="Clamp", limit=4, default=3))
    assert strategy_of({"limit": N, "expression": expression}, clamps)["limit"] == 4


def test_a_bound_that_an_author_has_written_is_lowered_to_the_limit() -> None:
    expression = argo.bounded(CODES, 1000)
    assert validate(made(argo.WORKFLOW, workflow_spec(template({"limit": N, "expression": expression})))).message
    wanted = {"limit": N, "retryPolicy": "Always", "expression": argo.bounded(CODES, 10)}
    assert strategy_of({"limit": N, "expression": expression}, skip="true") == wanted


def test_a_number_that_argo_cuts_to_a_positive_one_is_unlimited() -> None:
    for limit in ("-4294966296", "-2147483649"):
        root = made(argo.WORKFLOW, workflow_spec(template({"limit": limit})))
        assert validate(root).message.startswith(f"{OF_TEMPLATE}.limit: unlimited retries exceed the limit"), limit
    assert validate(made(argo.WORKFLOW, workflow_spec(template({"limit": "-2147483648"})))).allowed


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (
            {"storedWorkflowTemplateSpec": {"templates": [{"retryStrategy": {"limit": 1000}}]}},
            "status.storedWorkflowTemplateSpec.templates[0].retryStrategy.limit",
        ),
        (
            {"storedWorkflowTemplateSpec": {"templateDefaults": {"retryStrategy": {"limit": "1000"}}}},
            "status.storedWorkflowTemplateSpec.templateDefaults.retryStrategy.limit",
        ),
        (
            {"storedTemplates": {"x": {"retryStrategy": {"limit": 1000}}}},
            "status.storedTemplates.x.retryStrategy.limit",
        ),
    ],
)
def test_a_new_workflow_may_have_no_templates_with_more_retries_in_its_status(status: Json, path: str) -> None:
    root = {**made(argo.WORKFLOW, {"workflowTemplateRef": {"name": "x"}}), "status": status}
    assert validate(mutate(root).object).message.startswith(f"{path}: 1000 retries exceed the limit of 10")
    assert validate({**root, "metadata": {**root["metadata"], "labels": {"a": "b"}}}, old=root).allowed  # as Argo does


@pytest.mark.parametrize("key", ["RetryStrategy", "RETRYSTRATEGY", "retry\u017ftrategy"])
def test_a_key_in_another_case_is_refused_because_argo_may_read_it(key: str) -> None:
    root = made(argo.WORKFLOW, workflow_spec({**template(None), key: {"limit": 1000}}))
    assert validate(root).message == f"spec.templates[0].{key}: may be read as retryStrategy; write retryStrategy"
    root = {**made(argo.WORKFLOW, workflow_spec(template(None))), "Spec": {"retryStrategy": {"limit": 1000}}}
    assert validate(root).message == "Spec: may be read as spec; write spec"


def test_an_expression_that_leaves_its_parentheses_is_none_of_ours() -> None:
    forged = argo.sparing_disruptions("true) || (true", 10)
    root = made(argo.WORKFLOW, workflow_spec(template({"limit": 11, "expression": forged})))
    assert validate(root).message.startswith(f"{OF_TEMPLATE}.limit: 11 retries exceed the limit of 10")


def test_a_template_with_an_expression_of_its_own_does_not_inherit_a_sum() -> None:
    defaults = {"limit": 11, "retryPolicy": "Always", "expression": argo.sparing_disruptions("true", 10)}
    spec = workflow_spec(template({"expression": "true"}), templateDefaults={"retryStrategy": defaults})
    assert validate(made(argo.WORKFLOW, spec)).message.startswith(f"{OF_TEMPLATE}.limit: 11 retries exceed")
    assert validate(mutate(made(argo.WORKFLOW, spec)).object).allowed


@pytest.mark.parametrize("retries", [14, 15, 50])
def test_a_template_with_more_retries_in_an_expression_of_ours_does_not_inherit_a_sum(retries: int) -> None:
    under = profile(disruptions=Disruptions(limit=5))
    defaults = {"limit": 15, "retryPolicy": "Always", "expression": argo.sparing_disruptions("true", 10)}
    own = {"expression": argo.sparing_disruptions("true", retries)}
    spec = workflow_spec(template(own), templateDefaults={"retryStrategy": defaults})
    said = f"{OF_TEMPLATE}.limit: {min(retries, 15)} retries exceed the limit of 10"
    assert validate(made(argo.WORKFLOW, spec, skip="true"), under=under).message.startswith(said)


def test_too_many_retries_are_denied_with_the_number_that_the_author_wrote() -> None:
    answer = admitted({"limit": 11})
    assert validate(answer.object).message.startswith(f"{OF_TEMPLATE}.limit: 11 retries exceed the limit of 10")
    assert answer.patch == []


def test_clamped_retries_get_the_disruptions_in_addition() -> None:
    under = profile(retries=Retries(on_exceed="Clamp", limit=4, default=3))
    assert strategy_of({"limit": 8}, under) == stored(5, 4, FAILED, NO_BUG)


def test_a_sum_with_more_disruptions_than_the_profile_allows_is_clamped_where_nothing_is_injected() -> None:
    summed = strategy_of({"limit": 10}, profile(disruptions=Disruptions(limit=5)))
    under = profile(retries=Retries(on_exceed="Clamp"), failure_policy=FailurePolicy(inject="Never"))
    answer = admitted(summed, under)
    assert answer.object["spec"]["templates"][0]["retryStrategy"] == {**summed, "limit": 10}
    assert answer.warnings == [f"{OF_TEMPLATE}.limit: 15 lowered to 10; profile 'default' allows no more"]
    assert validate(answer.object, under=under).allowed


def test_the_annotations_set_both_numbers() -> None:
    under = profile(disruptions=Disruptions(limit=5))
    assert strategy_of({"limit": 8}, under, max_retries="2", max_disruptions="3") == stored(5, 2, FAILED, NO_BUG)


def test_the_annotations_of_a_workflow_made_of_an_admitted_template_set_both_numbers() -> None:
    under = profile(disruptions=Disruptions(limit=5))
    assert strategy_of(strategy_of({"limit": 8}, under), under, max_retries="2", max_disruptions="3") == stored(
        5, 2, FAILED, NO_BUG
    )


def test_a_step_that_runs_once_is_told_that_a_disruption_fails_it_too() -> None:
    assert admitted({"limit": 0}).warnings == [
        f"{OF_TEMPLATE}.limit: 0: disruptions fail the step too; max-disruptions allows some"
    ]
    assert strategy_of({"limit": 0}, max_disruptions="1") == stored(1, 0, FAILED, NO_BUG)


def test_with_one_budget_for_all_failures_the_limit_stays() -> None:
    under = profile(disruptions=Disruptions(action="Count"))
    assert strategy_of({"limit": 2}, under) == stored(2, 2, FAILED, NO_BUG)


def test_a_disruption_that_is_fatal_is_not_retried() -> None:
    fatal = FailureRule(match=Match(cause="Disruption"), next=Next(cost="Fatal"))
    found = strategy_of({"limit": 2}, profile(on_failure=(fatal,)))
    expression = f"({FAILED} && {NO_BUG}) && !({argo.IS_DISRUPTED})"
    assert found == {"limit": 2, "retryPolicy": "Always", "expression": expression}


def test_the_codes_of_the_policy_and_of_its_rules_are_retried() -> None:
    rules = (
        FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Retry")),
        FailureRule(match=Match(exit_codes=(75, 99)), next=Next(cost="Fatal")),
    )
    under = profile(on_failure=rules, failure_policy=FailurePolicy(retriable_exit_codes=(99, 143)))
    no_bug = NO_BUG.replace("(143)", "(75|143)")
    assert strategy_of({"limit": 2}, under) == stored(3, 2, FAILED, no_bug)


def test_without_retriable_codes_every_exit_code_is_a_bug() -> None:
    under = profile(failure_policy=FailurePolicy(retriable_exit_codes=()))
    no_bug = NO_BUG.partition(" || lastRetry.message matches")[0] + ")"
    assert strategy_of({"limit": 2}, under) == stored(3, 2, FAILED, no_bug)


def test_if_absent_leaves_an_expression_of_the_author_alone() -> None:
    under = profile(failure_policy=FailurePolicy(inject="IfAbsent"))
    assert strategy_of({"limit": 2, "expression": CODES}, under) == {"limit": 2, "expression": CODES}
    assert strategy_of({"limit": 2, "backoff": BACKOFF}, under) == stored(3, 2, FAILED, NO_BUG, backoff=BACKOFF)


@pytest.mark.parametrize("case", ["OnTransientError", "own expression with a tag", "own expression that is not closed"])
def test_an_author_is_told_what_a_strategy_means_that_is_left_alone(case: str) -> None:
    (warning,) = mutate(made(argo.WORKFLOW, deepcopy(CASES[case][0]))).warnings
    assert "is kept: bugs are retried, disruptions cost a retry; " in warning


def test_a_skipped_workflow_gets_nothing() -> None:
    assert strategy_of({"limit": 2}, skip="true") == {"limit": 2}


def test_a_longer_expression_than_is_looked_at_is_left_alone() -> None:
    author = {"limit": 2, "expression": "lastRetry.status == 'Error'" + " || false" * 1000}
    assert strategy_of(author) == author


@pytest.mark.parametrize("closed", ["", "a(b)[c]{d}", "x == ')'", 'x == "\\")"', "x == `(`", "x == '//'"])
def test_an_expression_is_closed(closed: str) -> None:
    assert argo.is_closed(closed)


@pytest.mark.parametrize("open_", ["(", ")", ")(", "'", "x == '\\'", "true // (", "/* ( */", "let x = 1; x", "{{a}}"])
def test_an_expression_is_not_closed(open_: str) -> None:
    assert not argo.is_closed(open_)


def test_a_profile_that_allows_fewer_disruptions_than_a_limit_holds_denies_the_sum() -> None:
    summed = strategy_of({"limit": 10}, profile(disruptions=Disruptions(limit=5)))
    assert summed["limit"] == 15
    root = made(argo.WORKFLOW, workflow_spec(template(summed)))
    assert validate(root).message.startswith(f"{OF_TEMPLATE}.limit: 15 retries exceed the limit of 10")
    assert validate(root, under=policy(default=replace(Profile(), disruptions=Disruptions(limit=5)))).allowed


def test_other_kinds_have_no_retry_strategy() -> None:
    assert rule.writes(batch.JOB) == ()


def test_a_template_does_not_repeat_a_limit_that_is_denied_where_it_inherits_it() -> None:
    spec = workflow_spec(template({"retryPolicy": "OnError"}), templateDefaults={"retryStrategy": {"limit": 11}})
    assert mutate(made(argo.WORKFLOW, spec)).patch == []


def test_up_to_a_bound_every_strategy_is_edited_and_recorded_and_beyond_it_none() -> None:
    most = [template({"limit": 1}) for _ in range(rule.MOST_STRATEGIES)]
    answer = mutate(made(argo.WORKFLOW, workflow_spec(*most)))
    assert answer.warnings == []
    assert mutate(answer.object).patch == []
    answer = mutate(made(argo.WORKFLOW, workflow_spec(*most, template({"limit": 1}))))
    assert answer.patch == []
    (warning,) = answer.warnings
    assert warning.startswith("spec.templates: more than 150 retryStrategies: bugs are retried")
