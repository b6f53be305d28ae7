"""The node names of a Workflow's pods, and the limits of the levels in them."""

from functools import partial
from typing import Any

import msgspec
import pytest

from tests.objects import container_of
from tests.unit.systems.pods import (
    NO_NUMBERS,
    last_of_four_off_spot,
    made,
    off_spot,
    on_spot,
    only_the_first_on_spot,
    owned,
    place,
    read,
    with_value,
)
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.systems.argo import pods as argo
from webhook.systems.argo.spec import sparing_disruptions
from webhook.systems.pod_source import Level

ask = partial(read, of=argo.levels)

NODE_NAME = "workflows.argoproj.io/node-name"


def pod_at(node_name: str, template: str | None = None) -> Json:
    """Return a pod as Argo writes it; `template`: the variable of the init container, None without one."""
    variable = [] if template is None else [{"name": "ARGO_TEMPLATE", "value": template}]
    spec = {
        "restartPolicy": "Never",
        "initContainers": [{**container_of("init"), "env": [{"name": "ARGO_NODE_ID", "value": "w-1234"}, *variable]}],
        "containers": [container_of("wait"), container_of("main")],
    }
    return made(
        owned("argoproj.io/v1alpha1", "Workflow", "w"),
        name="w-s-1234567890",
        labels={"workflows.argoproj.io/workflow": "w", "workflows.argoproj.io/completed": "false"},
        annotations={NODE_NAME: node_name, "kubectl.kubernetes.io/default-container": "main"},
        spec=spec,
    )


def template(limit: Any = None, expression: Any = None) -> str:
    fields = {"limit": limit, **({} if expression is None else {"expression": expression})}
    strategy = {} if limit is None else {"retryStrategy": fields}
    return msgspec.json.encode({"name": "s", **strategy, "container": container_of("main")}).decode()


def workflow(limit: Any = None) -> Json:
    spec = {"entrypoint": "s"} if limit is None else {"entrypoint": "s", "retryStrategy": {"limit": limit}}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}, "spec": spec}


@pytest.mark.parametrize("limit", [3, "3"])
@pytest.mark.parametrize("node_name", ["w({})", "w[0].s({})", "w.t({})", "w.t(2:a)({})", "w.t.onExit({})"])
def test_the_last_of_a_steps_four_attempts_leaves_spot(node_name: str, limit: object) -> None:
    pods = [pod_at(node_name.format(attempt), template(limit)) for attempt in range(4)]
    assert [place(root, workflow()) for root in pods] == last_of_four_off_spot("Argo")


def test_the_workflows_limit_applies_to_a_template_without_one() -> None:
    pods = [pod_at(f"w({attempt})", template()) for attempt in range(4)]
    assert [place(root, workflow("3")) for root in pods] == last_of_four_off_spot("Argo")
    assert [place(root, workflow(1)) for root in pods] == only_the_first_on_spot("Argo", 1)


def test_a_templates_limit_overrides_the_workflows() -> None:
    assert ask(pod_at("w(1)", template("5")), workflow("2"))[0] == [Level("Argo", 1, 5)]


def test_every_retried_node_above_a_pod_is_a_level_outer_ones_first() -> None:
    inner_and_outer = pod_at("w(1)[0].s(0)", template(3))
    assert ask(inner_and_outer, workflow(2)) == ([Level("Argo", 1, 2), Level("Argo", 0, 3)], [])
    assert place(inner_and_outer, workflow(2)) == on_spot("Argo", 1, 2)


def test_the_last_attempt_of_an_outer_level_leaves_spot_at_the_first_of_an_inner_one() -> None:
    assert place(pod_at("w(2)[0].s(0)", template(3)), workflow(2)) == off_spot("Argo", 2, 2)
    assert place(pod_at("w(2)[0].s", template()), workflow(2)) == off_spot("Argo", 2, 2)


def test_the_level_without_retries_left_decides_not_the_one_with_more_attempts() -> None:
    assert place(pod_at("w(4)[0].s(1)", template(1)), workflow(9)) == off_spot("Argo", 1, 1)


def test_three_retried_nodes_are_three_levels() -> None:
    found = ask(pod_at("w(2)[0].a(0:x)(1)[3].b(0)", template("4")), workflow("7"))[0]
    assert found == [Level("Argo", 2, 7), Level("Argo", 1, 7), Level("Argo", 0, 4)]


@pytest.mark.parametrize("node_name", ["w", "w[0].s", "w.t", "w.t(2:a)", "w[1].s(3:2)", "w.onExit", "w.t.hooks.done"])
def test_a_step_that_is_not_retried_never_runs_on_spot_even_with_an_items_number(
    node_name: str,
) -> None:
    assert ask(pod_at(node_name, template()), workflow()) == ([Level("Argo", 0, 0)], [])
    assert place(pod_at(node_name, template()), workflow()) == off_spot("Argo", 0, 0)


@pytest.mark.parametrize(
    "template_text", [None, "offloaded", "", "{", "null", "5", "[]", '"text"', '{"retryStrategy": []}']
)
def test_without_the_template_the_workflows_limit_applies_or_else_the_default(template_text: str | None) -> None:
    assert ask(pod_at("w(1)", template_text), workflow("7")) == ([Level("Argo", 1, 7)], [])
    assert ask(pod_at("w(1)", template_text), workflow()) == ([Level("Argo", 1, 3)], [])
    settings = resolve("default", Profile(), {names.MAX_RETRIES: "8"})
    assert ask(pod_at("w(1)", template_text), None, settings=settings)[0] == [Level("Argo", 1, 8)]


SUMMED = template("5", sparing_disruptions("true", 3))  # three retries and two disruptions


def test_attempts_that_the_ledger_has_counted_as_disruptions_are_no_retries() -> None:
    assert ask(pod_at("w(4)", SUMMED), workflow(), disruptions=1) == ([Level("Argo", 3, 3)], [])


def test_more_disruptions_than_attempts_leave_a_first_attempt() -> None:
    assert ask(pod_at("w(1)", SUMMED), workflow(), disruptions=2) == ([Level("Argo", 0, 3)], [])


def test_without_a_ledger_every_attempt_counts_against_the_retries() -> None:
    assert ask(pod_at("w(3)", SUMMED), workflow()) == ([Level("Argo", 3, 3)], [])


def test_the_sum_of_a_workflow_applies_to_a_template_without_a_limit() -> None:
    owner = workflow("5")
    owner["spec"]["retryStrategy"]["expression"] = sparing_disruptions("true", 3)
    assert ask(pod_at("w(1)", template()), owner, disruptions=1) == ([Level("Argo", 0, 3)], [])


@pytest.mark.parametrize("expression", ["true", "", 5, [], sparing_disruptions("true", 9)])
def test_a_limit_beside_another_expression_is_no_sum(expression: object) -> None:
    assert ask(pod_at("w(1)", template("5", expression)), workflow(), disruptions=1) == ([Level("Argo", 1, 5)], [])


@pytest.mark.parametrize("limit", [True, 1.5, [], [1], {}, "two", "", "{{workflow.parameters.tries}}", "{{=1+1}}"])
def test_a_limit_that_is_not_a_number_is_ignored(limit: object) -> None:
    assert ask(pod_at("w(1)", template(limit)), workflow()) == ([Level("Argo", 1, 3)], [])
    assert ask(pod_at("w(1)", template()), workflow(limit)) == ([Level("Argo", 1, 3)], [])


def test_deeply_nested_templates_are_not_an_error() -> None:
    assert ask(pod_at("w(1)", "[" * 100_000), workflow(2))[0] == [Level("Argo", 1, 2)]


@pytest.mark.parametrize("value", [5, True, [], {}, ["{}"], None])
def test_a_variable_that_is_not_a_string_is_not_an_error(value: object) -> None:
    root = pod_at("w(1)", template(9))
    root["spec"]["initContainers"][0]["env"][1]["value"] = value
    assert ask(root, workflow(2)) == ([Level("Argo", 1, 2)], [])


@pytest.mark.parametrize("containers", [5, True, "text", {}, {"a": 1}, [5], [None], [{"env": 5}], [{"env": [5]}]])
def test_init_containers_of_another_type_give_no_template(containers: object) -> None:
    root = pod_at("w(1)", template(9))
    root["spec"]["initContainers"] = containers
    assert ask(root, workflow(2)) == ([Level("Argo", 1, 2)], [])


@pytest.mark.parametrize("nonsense", NO_NUMBERS)
@pytest.mark.parametrize(
    "path", [("spec",), ("spec", "retryStrategy"), ("spec", "retryStrategy", "limit"), ("status",)]
)
def test_malformed_fields_of_the_workflow_are_not_an_error(path: tuple[str, ...], nonsense: Any) -> None:
    found, warnings = ask(pod_at("w(1)", template(3)), with_value(workflow(), path, nonsense))
    assert (found, warnings) == ([Level("Argo", 1, 3)], [])


@pytest.mark.parametrize(
    "node_name", ["", "(", "w(", "w()", "w(-1)", "w(x)", "w(\u0661)", "w(" + "9" * 30 + ")", "w(1"]
)
def test_a_node_name_of_another_form_counts_as_a_first_attempt(node_name: str) -> None:
    assert place(pod_at(node_name, template(3)), workflow()).attempt == "0"
    assert [level.attempt for level in ask(pod_at(node_name, template(3)), workflow())[0]] == [0]


def test_the_pods_of_the_agent_and_of_artifact_gc_have_no_level() -> None:
    root = pod_at("w", template(3))
    del root["metadata"]["annotations"][NODE_NAME]
    assert place(root, workflow(3)) == on_spot("Unknown", 0, 3)
