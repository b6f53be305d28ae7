"""Which containers may restart in place: after which exit codes, where something counts that."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, policy, validate
from tests.objects import container_of, job, job_spec
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, FailureRule, Match, Next, Profile, Retries
from webhook.policy.settings import resolve
from webhook.rules import in_place
from webhook.rules.in_place import retriable

LOST = replace(OPTED_IN, ledger=False)
CLAMP = policy(default=Profile(retries=Retries(on_exceed="Clamp")))


def rule(*codes: int, operator: str = "In", action: str = "Restart") -> Json:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


def restarting(*rules: Json, policy: str | None = "Never", init: bool = False, **spec: Any) -> Json:
    """Return a Job with a container that has these rules and its own restartPolicy."""
    own = {**container_of("again"), "restartPolicy": policy, "restartPolicyRules": list(rules)}
    fields = {"init_containers": (own,)} if init else {"containers": (own,)}
    return job(job_spec(backoffLimit=3, **fields, **spec))  # type: ignore[arg-type]


def container(root: Json) -> Json:
    found: Json = root["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("action", ["Restart", "RestartAllContainers"])
@pytest.mark.parametrize("init", [False, True])
def test_rules_on_codes_that_the_profile_retries_are_accepted_with_a_warning(action: str, *, init: bool) -> None:
    answer = validate(restarting(rule(143, action=action), init=init))
    assert answer.allowed
    name = "initContainers" if init else "containers"
    field = f"spec.template.spec.{name}[0].restartPolicyRules"
    assert answer.warnings == [f"{field}: costs no retry; the ledger fails the Job after 10 such restarts"]


def test_a_job_whose_restarts_the_api_counts_is_not_warned_that_they_are_free() -> None:
    assert validate(restarting(rule(143), restart_policy="OnFailure")).warnings == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (rule(1), "exit code 1, which profile 'default' does not retry"),
        (rule(1, 143, 42), "exit codes 1, 42, which profile 'default' does not retry"),
        (rule(0), "exit code 0, which profile 'default' does not retry"),
        (rule(3, operator="NotIn"), "all exit codes but 3"),
        (rule(operator="NotIn"), "all exit codes but none"),
    ],
)
def test_rules_that_restart_after_bugs_are_refused_and_the_codes_named(given: Json, what: str) -> None:
    assert validate(restarting(rule(143), given)).message == (
        f"spec.template.spec.containers[0].restartPolicyRules[1]: restarts the container in place after {what}; "
        "list only 143 with the operator In"
    )


def test_a_profile_that_retries_no_code_has_another_remedy() -> None:
    none = policy(default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=())))
    message = validate(restarting(rule(143)), under=none).message
    assert message.endswith("; remove the rule")


@pytest.mark.parametrize(("own", "init"), [("OnFailure", False), ("Always", False), ("OnFailure", True)])
def test_a_containers_own_restart_policy_stays_refused(own: str, *, init: bool) -> None:
    message = validate(restarting(rule(143), policy=own, init=init)).message
    assert "restarts the container in place without limit" in message


@pytest.mark.parametrize("spec", [{"managedBy": "example.test/another"}, {"manualSelector": True}])
def test_rules_are_refused_where_no_ledger_counts(spec: Json) -> None:
    assert "in place without limit" in validate(restarting(rule(143), **spec)).message


def test_rules_are_refused_in_a_skipped_job() -> None:
    root = restarting(rule(143))
    root["metadata"]["annotations"] = {names.SKIP: "true"}
    assert "in place without limit" in validate(root).message


def test_rules_are_refused_without_a_ledger() -> None:
    assert "in place without limit" in validate(restarting(rule(143)), LOST).message


def sidecar(*rules: Json) -> Json:
    own = {"name": "side", "restartPolicy": "Always", "restartPolicyRules": list(rules)}
    return job(job_spec(backoffLimit=3, init_containers=(own,)))


def test_a_sidecar_may_restart_the_pod_only_after_a_code_that_is_retried() -> None:
    assert validate(sidecar(rule(143, action="RestartAllContainers"))).allowed
    message = validate(sidecar(rule(1, action="RestartAllContainers"))).message
    assert message.startswith("spec.template.spec.initContainers[0].restartPolicyRules[0]: restarts")


def test_a_clamping_profile_removes_the_codes_that_disobey() -> None:
    answer = mutate(restarting(rule(1, 143), rule(42), rule(3, operator="NotIn")), under=CLAMP)
    assert container(answer.object)["restartPolicyRules"] == [rule(143), rule(143)]
    assert container(answer.object)["restartPolicy"] == "Never"
    assert "restarts in place only after exit codes 143, 143" in str(answer.warnings)
    assert validate(answer.object, under=CLAMP).allowed


def test_a_clamping_profile_keeps_rules_that_obey_and_makes_the_rest_never() -> None:
    answer = mutate(restarting(rule(143), policy="OnFailure"), under=CLAMP)
    assert (container(answer.object)["restartPolicy"], container(answer.object)["restartPolicyRules"]) == (
        "Never",
        [rule(143)],
    )
    unchanged = mutate(restarting(rule(143)), under=CLAMP)
    assert container(unchanged.object)["restartPolicyRules"] == [rule(143)]
    assert "in place" not in str(unchanged.warnings)


def test_a_clamping_profile_removes_the_rules_of_a_sidecar_but_not_that_it_restarts() -> None:
    root = mutate(sidecar(rule(1, action="RestartAllContainers")), under=CLAMP).object
    assert root["spec"]["template"]["spec"]["initContainers"] == [{"name": "side", "restartPolicy": "Always"}]


def test_a_clamping_profile_leaves_nothing_without_a_ledger() -> None:
    root = mutate(restarting(rule(143)), LOST, under=CLAMP).object
    assert container(root).keys() & {"restartPolicy", "restartPolicyRules"} == set()


def test_codes_that_on_failure_retries_are_retriable_and_fatal_ones_are_not() -> None:
    rules = (
        FailureRule(match=Match(exit_codes=(75, 143)), next=Next(cost="Free")),
        FailureRule(match=Match(exit_codes=(76,), containers=("main",)), next=Next(cost="Retry")),
        FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Fatal")),
        FailureRule(match=Match(exit_codes=(99,)), next=Next(cost="Fatal")),
    )
    assert retriable(Profile(on_failure=rules, failure_policy=FailurePolicy(retriable_exit_codes=(99,)))) == (75, 143)
    assert retriable(Profile()) == (143,)


def test_other_kinds_count_no_restarts_so_rules_are_refused_there() -> None:
    spec = {"containers": [{**container_of("main"), "restartPolicy": "Never", "restartPolicyRules": [rule(143)]}]}
    (problem,) = in_place.problems(("spec",), spec, resolve("default", Profile(), {}), counted=False)
    assert problem.what == in_place.UNBOUNDED


def test_a_refused_container_is_not_said_to_restart_at_no_cost() -> None:
    assert "costs no retry" not in str(validate(restarting(policy="Always")).warnings)
