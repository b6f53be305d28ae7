"""Restarts that cost no retry: intended after a disruption, limited after any other failure."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import Answer, mutate, policy, validate
from tests.objects import DISRUPTION, cron_job, exit_codes, job, job_spec
from tests.unit.systems.job_set.rules.test_job_set import RESTART, job_rules, job_set, set_rules
from webhook.admission.review import PROBLEM_LENGTH
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, FailurePolicy, Policy, Profile, Retries
from webhook.rules.facts import Facts

WITHOUT_LEDGER = Facts(profile_name="default", ledger=False)
WITH_BOUND = "ignore only the few that are worth a retry, use Count, or set activeDeadlineSeconds to 3600 or less"


def condition(kind: str, status: str = "True", action: str = "Ignore") -> Json:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def judged(*rules: Json, facts: Facts | None = None, **fields: Any) -> Answer:
    root = job(job_spec(rules=list(rules), **fields))
    return validate(root, facts or Facts(profile_name="default"))


def every_code(*actions: str) -> list[Json]:
    """Return rules that together have each exit code from 1 to 255."""
    return [
        exit_codes(actions[0], "In", *range(1, 128)),
        exit_codes(actions[-1], "In", *range(128, 256)),
    ]


# Pods


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(exit_codes("Ignore", "NotIn", 0), id="all codes"),
        pytest.param(exit_codes("Ignore", "NotIn", 254), id="all codes but an unused one"),
        pytest.param(exit_codes("Ignore", "NotIn", 0, container="main"), id="all codes of the only container"),
        pytest.param(exit_codes("Ignore", "In", *range(1, 200)), id="most codes, one by one"),
    ],
)
def test_a_rule_that_ignores_most_exit_codes_is_denied_even_if_the_ledger_counts_them(rule: Json) -> None:
    message = judged(rule).message
    assert message.startswith("spec.podFailurePolicy.rules[0]: ignores ")
    assert message.endswith(f" of the 255 exit codes, so failures without limit cost no retry; {WITH_BOUND}")


def test_rules_that_ignore_most_exit_codes_together_are_denied() -> None:
    assert judged(*every_code("Ignore")).message == (
        "spec.podFailurePolicy.rules[0]: ignores 255 of the 255 exit codes, so failures without limit cost no retry; "
        + WITH_BOUND
    )


def test_a_rule_is_judged_by_the_exit_codes_that_earlier_rules_leave() -> None:
    assert judged(exit_codes("FailJob", "NotIn", 75, container="main"), exit_codes("Ignore", "NotIn", 0)).allowed
    assert judged(exit_codes("Count", "NotIn", 75), exit_codes("Ignore", "NotIn", 0)).allowed


def test_exit_codes_of_a_container_that_no_earlier_rule_names_are_judged_too() -> None:
    rules = (exit_codes("FailJob", "NotIn", 75, container="main"), exit_codes("Ignore", "NotIn", 0))
    assert not judged(*rules, containers=("main", "side")).allowed


@pytest.mark.parametrize(
    ("kind", "status"),
    [("PodScheduled", "True"), ("Ready", "False"), ("ContainersReady", "False"), ("Initialized", "True")],
)
def test_a_rule_that_ignores_a_condition_of_nearly_every_failed_pod_is_denied(kind: str, status: str) -> None:
    rule = condition(kind, status)
    rule["onPodConditions"].append({"type": "DisruptionTarget", "status": "True"})
    assert judged(rule).message == (
        f"spec.podFailurePolicy.rules[0]: ignores {kind}={status}, as nearly every failed pod has it, "
        f"so failures without limit cost no retry; {WITH_BOUND}"
    )


NARROW = [
    pytest.param(exit_codes("Ignore", "In", 143), id="SIGTERM"),
    pytest.param(exit_codes("Ignore", "In", 75), id="EX_TEMPFAIL"),
    pytest.param(exit_codes("Ignore", "In", 137, 143, container="side"), id="a sidecar's own codes"),
    pytest.param(condition("ConfigIssue"), id="a condition of its own"),
    pytest.param(condition("PodScheduled", "False"), id="a pod that was never scheduled"),
    pytest.param(condition("DisruptionTarget", "False"), id="no disruption"),
]


@pytest.mark.parametrize("rule", NARROW)
def test_a_rule_that_ignores_few_failures_is_allowed_with_a_warning_if_the_ledger_counts_them(rule: Json) -> None:
    answer = judged(rule, containers=("main", "side"))
    assert answer.allowed
    warning = "spec.podFailurePolicy.rules[0]: costs no retry; the ledger fails the Job after 10 such failures"
    assert warning in answer.warnings
    assert len(warning) <= PROBLEM_LENGTH


def test_the_warning_names_the_retry_limit_of_the_profile() -> None:
    root = job(job_spec(rules=[exit_codes("Ignore", "In", 75)], backoffLimit=2))
    few = policy(default=Profile(retries=Retries(limit=2)))
    assert validate(root, under=few).warnings == [
        "spec.podFailurePolicy.rules[0]: costs no retry; the ledger fails the Job after 2 such failures"
    ]


@pytest.mark.parametrize("rule", NARROW)
def test_a_rule_that_ignores_few_failures_is_denied_without_a_ledger(rule: Json) -> None:
    assert judged(rule, containers=("main", "side"), facts=WITHOUT_LEDGER).message == (
        "spec.podFailurePolicy.rules[0]: failures cost no retry, and no ledger counts them; "
        "use Count, or set activeDeadlineSeconds to 3600 or less"
    )


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, id="pods in another cluster"),
        pytest.param({"manualSelector": True}, id="pods without the Job controller's labels"),
    ],
)
def test_a_rule_that_ignores_few_failures_is_denied_if_the_ledger_cannot_see_the_pods(fields: Json) -> None:
    assert not judged(exit_codes("Ignore", "In", 75), **fields).allowed
    assert judged(DISRUPTION, **fields).allowed


def test_a_rule_that_ignores_few_failures_is_denied_in_a_skipped_job() -> None:
    root = job(job_spec(rules=[exit_codes("Ignore", "In", 75)]), annotations={names.SKIP: "true"})
    assert not validate(root).allowed


@pytest.mark.parametrize("rule", [exit_codes("Ignore", "NotIn", 0), condition("Ready", "False"), *every_code("Ignore")])
def test_a_job_with_a_deadline_may_ignore_all_failures(rule: Json) -> None:
    answer = judged(rule, activeDeadlineSeconds=3600, facts=WITHOUT_LEDGER)
    assert (answer.allowed, answer.warnings) == (True, [])


@pytest.mark.parametrize("deadline", [3601, 9223372036854775807])
def test_a_deadline_that_leaves_time_for_more_restarts_than_ten_bounds_nothing(deadline: int) -> None:
    assert not judged(exit_codes("Ignore", "NotIn", 0), activeDeadlineSeconds=deadline, facts=WITHOUT_LEDGER).allowed
    assert not judged(exit_codes("Ignore", "In", 75), activeDeadlineSeconds=deadline, manualSelector=True).allowed


@pytest.mark.parametrize("rule", [DISRUPTION, exit_codes("Count", "In", 42), exit_codes("FailJob", "NotIn", 143)])
def test_a_rule_that_counts_or_fails_or_ignores_disruptions_is_allowed_without_a_ledger(rule: Json) -> None:
    assert judged(rule, facts=WITHOUT_LEDGER).allowed


def test_rules_in_a_cron_job_and_in_a_job_set_are_judged_and_named_by_their_path() -> None:
    bad = job_spec(rules=[exit_codes("Ignore", "NotIn", 0)])
    assert validate(cron_job(bad)).message.startswith("spec.jobTemplate.spec.podFailurePolicy.rules[0]: ")
    assert validate(job_set(bad)).message.startswith("spec.replicatedJobs[0].template.spec.podFailurePolicy.rules[0]: ")


def test_an_existing_job_may_keep_a_rule_that_ignores_most_exit_codes() -> None:
    old = job(job_spec(rules=[exit_codes("Ignore", "NotIn", 0)]))
    assert validate({**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old=old).allowed


def clamping(**sections: Any) -> Policy:
    return policy(default=Profile(retries=Retries(on_exceed="Clamp"), **sections))


def test_a_clamping_profile_changes_a_rule_that_ignores_most_exit_codes_to_count() -> None:
    root = job(job_spec(rules=[exit_codes("Ignore", "NotIn", 0), exit_codes("Ignore", "In", 3)]))
    answer = mutate(root, under=clamping())
    rules = answer.object["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules][1:3] == ["Count", "Ignore"]
    assert answer.warnings == [
        "spec.podFailurePolicy.rules[1].action: changed to Count; profile 'default' allows no unlimited retries"
    ]
    assert validate(answer.object, under=clamping()).allowed


# JobSets


def restarting(action: str = "RestartJobSetAndIgnoreMaxRestarts", **narrowed: Any) -> Json:
    return {"name": "again", "action": action, **narrowed}


BUG_RULE = exit_codes("FailJob", "NotIn", 143)


@pytest.mark.parametrize("action", ["RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts"])
@pytest.mark.parametrize(
    "narrowed",
    [
        pytest.param({}, id="any failure"),
        pytest.param({"onJobFailureReasons": ["BackoffLimitExceeded"]}, id="no retry left"),
        pytest.param(
            {"onJobFailureReasons": ["PodFailurePolicy", "BackoffLimitExceeded"]},
            id="no retry left, among other reasons",
        ),
        pytest.param({"onJobFailureMessagePatterns": [".*"]}, id="any message"),
        pytest.param({"onJobFailureMessagePatterns": ["x^", "backoff limit"]}, id="the message of no retry left"),
    ],
)
def test_a_job_set_that_restarts_at_no_cost_after_bugs_is_denied(action: str, narrowed: Json) -> None:
    root = job_set(job_spec(backoffLimit=1), failure_policy={"rules": [restarting(action, **narrowed)]})
    assert validate(root).message == (
        "spec.failurePolicy.rules[0].action: restarts without limit and at no cost after BackoffLimitExceeded: "
        f"Job has reached the specified backoff limit; use {action.removesuffix('AndIgnoreMaxRestarts')}, "
        "which maxRestarts limits"
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"activeDeadlineSeconds": 60}, "DeadlineExceeded"),
        ({"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}, "FailedIndexes"),
        ({"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}, "MaxFailedIndexesExceeded"),
        ({"rules": [BUG_RULE]}, "PodFailurePolicy"),
    ],
)
def test_a_free_restart_rule_is_denied_only_for_failure_reasons_that_its_jobs_can_have(
    fields: Json, reason: str
) -> None:
    rules = [restarting(onJobFailureReasons=[reason])]
    assert not validate(job_set(job_spec(backoffLimit=1, **fields), failure_policy={"rules": rules})).allowed
    assert validate(job_set(job_spec(backoffLimit=1), failure_policy={"rules": rules})).allowed


def test_message_patterns_are_matched_against_the_messages_of_the_job_controller() -> None:
    failing = job_spec(backoffLimit=1, rules=[BUG_RULE])
    wide = restarting(onJobFailureReasons=["PodFailurePolicy"], onJobFailureMessagePatterns=["exit code 1 "])
    narrow = restarting(onJobFailureReasons=["PodFailurePolicy"], onJobFailureMessagePatterns=["exit code 75 "])
    assert not validate(job_set(failing, failure_policy={"rules": [wide]})).allowed
    assert validate(job_set(failing, failure_policy={"rules": [narrow]})).allowed


@pytest.mark.parametrize("pattern", ["(", "[[:alpha:]]{0,1000}" * 3, "x?" * 1024])
def test_a_pattern_beyond_the_bounds_does_not_prevent_a_denial(pattern: str) -> None:
    free = restarting(onJobFailureMessagePatterns=[pattern])
    assert not validate(job_set(job_spec(backoffLimit=1), failure_policy={"rules": [free]})).allowed
    ends = {"name": "bug", "action": "FailJobSet", "onJobFailureMessagePatterns": [pattern]}
    assert not validate(job_set(job_spec(backoffLimit=1), failure_policy={"rules": [ends, restarting()]})).allowed


def test_a_job_set_with_more_patterns_than_can_be_judged_is_denied() -> None:
    patterns = [f"(a?){{{100 + number}}}b" for number in range(100)]
    rules = [restarting(onJobFailureReasons=["PodFailurePolicy"], onJobFailureMessagePatterns=patterns)]
    assert not validate(job_set(job_spec(backoffLimit=1, rules=[BUG_RULE]), failure_policy={"rules": rules})).allowed


def test_a_free_restart_rule_is_allowed_after_a_rule_that_fails_the_job_set_on_bugs() -> None:
    ends = {"name": "bug", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded", "PodFailurePolicy"]}
    rules = [ends, restarting()]
    assert validate(job_set(job_spec(backoffLimit=1, rules=[BUG_RULE]), failure_policy={"rules": rules})).allowed


def test_a_rule_for_some_replicated_jobs_is_judged_by_those_jobs_alone() -> None:
    rules = [restarting(onJobFailureReasons=["PodFailurePolicy"], targetReplicatedJobs=["r1"])]
    jobs = (job_spec(backoffLimit=1, rules=[BUG_RULE]), job_spec(backoffLimit=1))
    assert validate(job_set(*jobs, failure_policy={"rules": rules})).allowed
    assert not validate(job_set(*reversed(jobs), failure_policy={"rules": rules})).allowed


MAINTENANCE = restarting(onJobFailureReasons=["PodFailurePolicy"])
ON_MAINTENANCE = {**DISRUPTION, "action": "FailJob"}


def test_the_usual_rule_for_host_maintenance_is_allowed_and_no_rule_for_bugs_is_added() -> None:
    root = job_set(
        job_spec(backoffLimit=0, rules=[ON_MAINTENANCE]), failure_policy={"maxRestarts": 3, "rules": [MAINTENANCE]}
    )
    answer = mutate(root)
    assert job_rules(answer) == [ON_MAINTENANCE]  # a rule for bugs would let bugs restart the JobSet at no cost
    assert validate(answer.object).allowed


def test_a_job_that_is_created_for_a_job_set_with_a_free_restart_rule_gets_no_rule_for_bugs() -> None:
    made = mutate(job_set(job_spec(), failure_policy={"maxRestarts": 3, "rules": [MAINTENANCE]})).object
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "u"}
    under = policy(default=Profile(failure_policy=FailurePolicy(coupled="FailJob")))
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "r0"}
    root = job(job_spec(), labels=labels, ownerReferences=[{**reference, "controller": True}])
    actions = [
        [rule["action"] for rule in mutate(deepcopy(root), facts, under).object["spec"]["podFailurePolicy"]["rules"]]
        for facts in (Facts(profile_name="default", owner=made, owners_known=True), Facts(profile_name="default"))
    ]
    assert actions == [["Ignore"], ["Ignore", "FailJob"]]


def test_null_labels_count_as_no_labels() -> None:
    assert mutate(job(job_spec(backoffLimit=3), labels=None)).patch


@pytest.mark.parametrize(
    "root",
    [
        job(job_spec(rules=[exit_codes("Ignore", "NotIn", 0)])),
        job_set(job_spec(backoffLimit=1), failure_policy={"rules": [restarting()]}),
    ],
)
def test_the_denial_of_a_new_object_names_its_rules_by_the_authors_indexes(root: Json) -> None:
    assert ".rules[0]" in validate(mutate(root).object).message


def test_the_denial_of_a_job_set_names_the_rules_of_its_jobs_by_the_authors_indexes() -> None:
    root = job_set(job_spec(backoffLimit=1, rules=[BUG_RULE]), failure_policy={"rules": [MAINTENANCE]})
    assert "matching FailJob rule at index 0" in validate(mutate(root).object).message


def test_our_own_free_restart_rule_for_disruptions_is_allowed() -> None:
    answer = mutate(job_set(job_spec(backoffLimit=1)))
    assert set_rules(answer)[0] == RESTART
    assert validate(answer.object).allowed


def test_an_existing_job_set_may_keep_a_free_restart_rule() -> None:
    old = job_set(job_spec(backoffLimit=1), failure_policy={"rules": [restarting()]})
    new = deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert validate(new, old=old).allowed


@pytest.mark.parametrize("action", ["RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts"])
def test_a_clamping_profile_makes_a_free_restart_rule_count_towards_max_restarts(action: str) -> None:
    root = job_set(job_spec(backoffLimit=1), failure_policy={"rules": [restarting(action)]})
    answer = mutate(root, under=clamping(disruptions=Disruptions(limit=5)))
    counting = action.removesuffix("AndIgnoreMaxRestarts")
    assert [rule["action"] for rule in set_rules(answer)][1] == counting
    assert any(warning.startswith("spec.failurePolicy.rules[1].action: changed to") for warning in answer.warnings)
    assert validate(answer.object, under=clamping()).allowed
