"""The rule that restarts a JobSet after a disruption, and fails it after a bug."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import Answer, mutate, policy, validate
from tests.merge_cases import bug
from tests.objects import DISRUPTION, exit_codes, job_spec
from webhook.kube import names
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Disruptions, FailurePolicy, JobSet, Policy, Profile
from webhook.rules.facts import Facts
from webhook.systems.job.spec import JOB
from webhook.systems.job_set.rules import job_set as rule
from webhook.systems.job_set.spec import JOB_SET

RESTART: Json = {
    "name": "retryPolicyDisruption",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob"],
}
BUG: Json = {"name": "retryPolicyBug", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
FAIL_ON_DISRUPTION: Json = {**DISRUPTION, "action": "FailJob"}
UNLIMITED = 2147483647
RESTART_POLICY = "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy"
WITHOUT_PATTERNS = Facts(profile_name="default", message_patterns=False)


def job_set(*specs: Json, failure_policy: Json | None = None, **fields: Any) -> Json:
    replicated = [{"name": f"r{index}", "template": {"spec": spec}} for index, spec in enumerate(specs)]
    own = {} if failure_policy is None else {"failurePolicy": failure_policy}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"replicatedJobs": replicated, **own, **fields},
    }


def under(**sections: Any) -> Policy:
    return policy(default=Profile(**sections))


def set_rules(answer: Answer) -> list[Json]:
    found: list[Json] = (answer.object["spec"].get("failurePolicy") or {}).get("rules") or []
    return found


def job_rules(answer: Answer, index: int = 0) -> list[Json]:
    spec = answer.object["spec"]["replicatedJobs"][index]["template"]["spec"]
    found: list[Json] = (spec.get("podFailurePolicy") or {}).get("rules") or []
    return found


def test_a_disruption_restarts_the_job_set_at_no_cost_and_a_bug_fails_it() -> None:
    answer = mutate(job_set(job_spec(backoffLimit=1)))
    assert job_rules(answer) == [FAIL_ON_DISRUPTION, bug()]
    assert set_rules(answer) == [RESTART, BUG]


def test_every_job_of_a_job_set_gets_its_own_rules() -> None:
    profile = under(failure_policy=FailurePolicy(coupled="FailJob"))
    answer = mutate(job_set(job_spec(), job_spec(containers=("a", "b"))), under=profile)
    assert job_rules(answer, 1) == [FAIL_ON_DISRUPTION, bug("a"), bug("b")]


def test_if_disruptions_count_a_disruption_costs_the_job_set_a_restart() -> None:
    answer = mutate(job_set(job_spec()), under=under(disruptions=Disruptions(action="Count")))
    assert set_rules(answer)[0] == {**RESTART, "action": "RestartJobSet"}
    assert job_rules(answer)[0] == FAIL_ON_DISRUPTION


@pytest.mark.parametrize("action", ["Ignore", "Count"])
def test_with_restart_pod_the_job_replaces_its_disrupted_pod(action: Any) -> None:
    profile = under(job_set=JobSet(on_disruption="RestartPod"), disruptions=Disruptions(action=action))
    answer = mutate(job_set(job_spec()), under=profile)
    assert job_rules(answer) == [{**DISRUPTION, "action": action}, bug()]
    assert set_rules(answer) == [BUG]


def test_without_message_patterns_the_job_replaces_its_disrupted_pod() -> None:
    answer = mutate(job_set(job_spec()), WITHOUT_PATTERNS)
    assert job_rules(answer) == [DISRUPTION, bug()]
    assert set_rules(answer) == [BUG]


CATCH_ALL: Json = {"name": "all", "action": "FailJobSet"}


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [
        ([CATCH_ALL], True),
        ([{**CATCH_ALL, "onJobFailureReasons": ["DeadlineExceeded", "PodFailurePolicy"]}], True),
        ([{**CATCH_ALL, "action": "RestartJobSet"}], True),
        ([{**CATCH_ALL, "targetReplicatedJobs": ["r0", "r1"]}], True),
        ([{**CATCH_ALL, "targetReplicatedJobs": ["r0"]}], False),
        ([{**CATCH_ALL, "targetReplicatedJobs": [name]} for name in ("r0", "r1")], True),
        ([{**CATCH_ALL, "onJobFailureReasons": ["DeadlineExceeded"]}], False),
        ([{**CATCH_ALL, "onJobFailureMessagePatterns": ["exit code 3"]}], False),
    ],
)
def test_the_rule_for_bugs_is_left_out_if_earlier_rules_match_all_that_it_would_match(
    rules: list[Json],
    left_out: bool,  # noqa: FBT001
) -> None:
    found = set_rules(mutate(job_set(job_spec(), job_spec(), failure_policy={"rules": rules})))
    assert found == [RESTART, *rules, *([] if left_out else [BUG])]


def restarting(action: str, **narrowed: Any) -> Json:
    return {"name": "own", "action": action, **narrowed}


JOB_ALONE: Json = {**RESTART, "action": "RestartJobAndIgnoreMaxRestarts"}


@pytest.mark.parametrize("action", ["RestartJob", "RestartJobAndIgnoreMaxRestarts"])
def test_a_disruption_restarts_a_job_alone_if_the_authors_rule_does(action: str) -> None:
    own = restarting(action, onJobFailureReasons=["PodFailurePolicy"])
    answer = mutate(job_set(job_spec(), job_spec(), failure_policy={"maxRestarts": 2, "rules": [own]}))
    assert set_rules(answer) == [JOB_ALONE, own]


def test_a_disruption_restarts_only_those_jobs_alone_that_the_author_restarts_alone() -> None:
    own = [
        restarting("RestartJobSet", targetReplicatedJobs=["r0"]),
        {**restarting("RestartJob", targetReplicatedJobs=["r1"]), "name": "worker"},
    ]
    answer = mutate(job_set(job_spec(), job_spec(), job_spec(), failure_policy={"maxRestarts": 2, "rules": own}))
    of_job = {**JOB_ALONE, "name": "retryPolicyJobDisruption", "targetReplicatedJobs": ["r1"]}
    assert set_rules(answer) == [of_job, RESTART, *own, BUG]
    assert [job_rules(answer, index)[0] for index in range(3)] == [FAIL_ON_DISRUPTION] * 3


def test_an_authors_rule_for_something_else_does_not_restart_a_disrupted_job_alone() -> None:
    deadline = restarting("RestartJob", onJobFailureReasons=["DeadlineExceeded"])
    code = {**restarting("RestartJob", onJobFailureMessagePatterns=["exit code 3"]), "name": "code"}
    answer = mutate(job_set(job_spec(), failure_policy={"maxRestarts": 2, "rules": [deadline, code]}))
    assert set_rules(answer)[0] == RESTART


ALONE_BY_PROFILE = under(job_set=JobSet(on_disruption="RestartJob"))


def test_a_profile_may_restart_the_disrupted_job_alone() -> None:
    answer = mutate(job_set(job_spec(), job_spec()), under=ALONE_BY_PROFILE)
    assert set_rules(answer) == [JOB_ALONE, BUG]
    assert job_rules(answer)[0] == FAIL_ON_DISRUPTION
    assert answer.warnings == []


def test_if_disruptions_count_a_job_that_is_restarted_alone_costs_a_restart() -> None:
    profile = under(job_set=JobSet(on_disruption="RestartJob"), disruptions=Disruptions(action="Count"))
    assert set_rules(mutate(job_set(job_spec()), under=profile))[0] == {**RESTART, "action": "RestartJob"}


@pytest.mark.parametrize(
    ("facts", "replicas", "why"),
    [
        (Facts(profile_name="default", restart_job=False), 1, "the CRD of JobSets has no action RestartJob"),
        (Facts(profile_name="default"), 1025, "no Job of more than 1024 can be restarted alone"),
    ],
)
def test_if_a_job_cannot_be_restarted_alone_the_whole_job_set_restarts_with_a_warning(
    facts: Facts, replicas: int, why: str
) -> None:
    root = job_set(job_spec())
    root["spec"]["replicatedJobs"][0]["replicas"] = replicas
    answer = mutate(root, facts, under=ALONE_BY_PROFILE)
    assert set_rules(answer) == [RESTART, BUG]
    assert answer.warnings == [f"spec.failurePolicy.rules: {why}; a disruption restarts the whole set"]


# Our rule for bugs in a JobSet whose author's rules restart it.


@pytest.mark.parametrize(
    "own",
    [
        restarting("RestartJobSet"),
        restarting("RestartJobSet", onJobFailureReasons=["PodFailurePolicy"]),
        restarting("RestartJob", targetReplicatedJobs=["r0"]),
        *(
            restarting("RestartJobSet", onJobFailureMessagePatterns=[pattern])
            for pattern in ("exit code 3", "DisruptionTarget|exit code 3", "Disruption.*", "")
        ),
    ],
)
def test_a_job_gets_no_rule_for_bugs_if_its_job_set_would_restart_after_a_bug(own: Json) -> None:
    ends = {"name": "ends", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}
    answer = mutate(job_set(job_spec(backoffLimit=1), failure_policy={"maxRestarts": 3, "rules": [own, ends]}))
    assert job_rules(answer) == [FAIL_ON_DISRUPTION]


@pytest.mark.parametrize(
    "own",
    [
        restarting("FailJobSet"),
        restarting("RestartJobSet", onJobFailureReasons=["BackoffLimitExceeded"]),
        restarting("RestartJobSet", targetReplicatedJobs=["r1"]),
        *(
            restarting("RestartJobSet", onJobFailureMessagePatterns=[pattern])
            for pattern in ("DisruptionTarget", "^.*has condition DisruptionTarget matching.*$")
        ),
    ],
)
def test_a_job_gets_a_rule_for_bugs_if_its_job_set_would_not_restart_after_a_bug(own: Json) -> None:
    answer = mutate(job_set(job_spec(backoffLimit=1), failure_policy={"maxRestarts": 3, "rules": [own]}))
    assert job_rules(answer) == [FAIL_ON_DISRUPTION, bug()]


def test_rules_of_a_job_keep_their_indexes_if_a_rule_of_the_job_set_reads_them() -> None:
    own = exit_codes("FailJob", "In", 42, container="main")
    at_index = restarting("RestartJobSet", onJobFailureMessagePatterns=["FailJob rule at index 0"])
    spec = job_spec(backoffLimit=1, rules=[own])
    assert job_rules(mutate(job_set(spec, failure_policy={"rules": [at_index]}))) == [own, FAIL_ON_DISRUPTION]
    assert job_rules(mutate(job_set(deepcopy(spec))))[:2] == [FAIL_ON_DISRUPTION, own]


def test_the_authors_rules_stand_between_ours() -> None:
    own = {"name": "host", "action": "RestartJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}
    assert set_rules(mutate(job_set(job_spec(), failure_policy={"rules": [own]}))) == [RESTART, own, BUG]


@pytest.mark.parametrize(("ours", "found"), [(RESTART, ["own", "bug"]), (BUG, ["disruption", "own"])])
def test_an_authors_rule_with_the_name_of_one_of_ours_is_kept(ours: Json, found: list[str]) -> None:
    own = {**ours, "action": "RestartJobSet"}
    rules = {"own": own, "bug": BUG, "disruption": RESTART}
    assert set_rules(mutate(job_set(job_spec(), failure_policy={"rules": [own]}))) == [rules[name] for name in found]


def test_with_inject_if_absent_the_authors_rules_are_left_alone() -> None:
    own = {"name": "host", "action": "RestartJobSet"}
    profile = under(failure_policy=FailurePolicy(inject="IfAbsent"))
    answer = mutate(job_set(job_spec(), failure_policy={"rules": [own]}), under=profile)
    assert set_rules(answer) == [own]
    assert job_rules(answer)[0] == DISRUPTION
    assert set_rules(mutate(job_set(job_spec()), under=profile)) == [RESTART, BUG]


def test_with_inject_never_the_job_set_is_left_alone() -> None:
    profile = under(failure_policy=FailurePolicy(inject="Never"))
    assert set_rules(mutate(job_set(job_spec()), under=profile)) == []


def test_a_job_set_whose_jobs_can_have_no_failure_policy_gets_a_warning_and_no_rules() -> None:
    answer = mutate(job_set(job_spec(restart_policy="OnFailure")))
    assert (set_rules(answer), job_rules(answer)) == ([], [])
    (warning,) = answer.warnings
    assert warning.startswith(f"{RESTART_POLICY}: OnFailure allows no failure policy")


def restart_policies(answer: Answer) -> list[str | None]:
    specs = [part["template"]["spec"]["template"]["spec"] for part in answer.object["spec"]["replicatedJobs"]]
    return [spec.get("restartPolicy") for spec in specs]


def managed_by_author(root: Json, *writing: str) -> Json:
    """Return a JobSet as it arrives after JobSet's own webhook; its author wrote the restartPolicy of `writing`."""
    for part in root["spec"]["replicatedJobs"]:
        part["template"]["spec"]["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    written: Json = {"f:template": {"f:spec": {"f:restartPolicy": {}, "f:containers": {}}}}
    unwritten: Json = {"f:template": {"f:spec": {"f:containers": {}}}}
    owned = {
        f'k:{{"name":"{part["name"]}"}}': {"f:template": {"f:spec": written if part["name"] in writing else unwritten}}
        for part in root["spec"]["replicatedJobs"]
    }
    fields = {"f:spec": {"f:replicatedJobs": owned}}
    root["metadata"]["managedFields"] = [{"manager": "kubectl-create", "operation": "Update", "fieldsV1": fields}]
    return root


def test_an_absent_restart_policy_becomes_never_with_a_warning() -> None:
    answer = mutate(job_set(job_spec(restart_policy=None)))
    assert restart_policies(answer) == ["Never"]
    assert job_rules(answer) == [FAIL_ON_DISRUPTION, bug()]
    (warning,) = answer.warnings
    assert warning.startswith(f"{RESTART_POLICY}: left out, becomes Never; write it")


def test_an_absent_restart_policy_that_the_job_set_webhook_made_on_failure_becomes_never() -> None:
    specs = [job_spec(restart_policy=None), job_spec(restart_policy="OnFailure"), job_spec(restart_policy=None)]
    answer = mutate(managed_by_author(job_set(*specs), "r1"))
    assert restart_policies(answer) == ["Never", "OnFailure", "Never"]
    assert [warning.partition(";")[0] for warning in answer.warnings] == [
        f"{RESTART_POLICY}: left out, becomes Never, in 2 of the set's Jobs",
        f"{RESTART_POLICY.replace('[0]', '[1]')}: OnFailure allows no failure policy",
    ]


@pytest.mark.parametrize("managed", [None, [], [None], [{"fieldsV1": {"f:spec": {"f:replicatedJobs": {}}}}], 5])
def test_on_failure_is_kept_if_managed_fields_do_not_show_who_wrote_it(managed: Any) -> None:
    root = job_set(job_spec(restart_policy="OnFailure"))
    root["metadata"]["managedFields"] = managed
    assert restart_policies(mutate(root)) == ["OnFailure"]


def test_an_absent_restart_policy_stays_absent_if_the_profile_says_keep() -> None:
    profile = under(failure_policy=FailurePolicy(absent_restart_policy="Keep"))
    answer = mutate(job_set(job_spec(restart_policy=None), job_spec(restart_policy=None)), under=profile)
    assert (restart_policies(answer), job_rules(answer)) == ([None, None], [])
    (warning,) = answer.warnings
    assert warning.startswith(f"{RESTART_POLICY}: left out, becomes OnFailure, which allows")


def test_on_failure_becomes_never_if_the_profile_converts_it() -> None:
    profile = under(failure_policy=FailurePolicy(on_failure_restart_policy="Never", absent_restart_policy="Keep"))
    answer = mutate(job_set(job_spec(restart_policy="OnFailure"), job_spec(restart_policy=None)), under=profile)
    assert restart_policies(answer) == ["Never", None]


@pytest.mark.parametrize("writing", [(), ("r0",)])
def test_a_job_set_that_is_admitted_again_keeps_its_injected_restart_policy(writing: tuple[str, ...]) -> None:
    once = mutate(managed_by_author(job_set(job_spec(restart_policy=None)), *writing)).object
    assert mutate(deepcopy(once)).object == once


def test_applying_a_manifest_without_a_restart_policy_again_keeps_the_injected_one() -> None:
    manifest = job_set(job_spec(restart_policy=None))
    stored = mutate(deepcopy(manifest)).object
    applied = {**deepcopy(manifest), "metadata": stored["metadata"]}
    assert mutate(applied, old=stored).object["spec"] == stored["spec"]


def test_problems_of_one_of_several_jobs_are_named_by_the_path_of_that_job() -> None:
    bad = job_spec(backoffLimit=11, rules=[exit_codes("FailJob", "In", 0)])
    message = validate(job_set(job_spec(backoffLimit=1), bad)).message
    assert [line.partition(":")[0] for line in message.splitlines()] == [
        "spec.replicatedJobs[1].template.spec.backoffLimit",
        "spec.replicatedJobs[1].template.spec.podFailurePolicy.rules[0].onExitCodes.values[0]",
    ]


def in_place() -> Json:
    again = {"name": "agent", "restartPolicy": "Always"}
    spec = job_spec(
        backoffLimit=UNLIMITED, podReplacementPolicy="Failed", completions=2, parallelism=2, init_containers=(again,)
    )
    spec["template"]["spec"]["containers"][0]["restartPolicy"] = "OnFailure"
    return job_set(spec, failure_policy={"restartStrategy": "InPlaceRestart", "maxRestarts": 3})


def test_the_unlimited_retries_that_in_place_restart_requires_are_accepted() -> None:
    answer = mutate(in_place())
    spec = answer.object["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["backoffLimit"] == UNLIMITED
    assert validate(answer.object).allowed


def test_a_job_set_that_restarts_in_place_is_still_held_to_the_limit_of_its_restarts() -> None:
    root = in_place()
    root["spec"]["failurePolicy"]["maxRestarts"] = 11
    assert validate(root).message.startswith("spec.failurePolicy.maxRestarts: 11 retries exceed")


def test_the_job_of_a_job_set_that_restarts_in_place_replaces_its_disrupted_pod() -> None:
    answer = mutate(in_place())
    assert job_rules(answer)[0] == DISRUPTION
    assert [rule["name"] for rule in set_rules(answer)] == ["retryPolicyBug"]


def test_unlimited_retries_are_refused_without_in_place_restart() -> None:
    assert not validate(job_set(job_spec(backoffLimit=UNLIMITED))).allowed


def test_max_retries_sets_restarts_and_the_retries_of_every_job() -> None:
    root = job_set(job_spec(backoffLimit=1), job_spec())
    root["metadata"]["annotations"] = {names.MAX_RETRIES: "2"}
    spec = mutate(root).object["spec"]
    assert spec["failurePolicy"]["maxRestarts"] == 2
    assert [part["template"]["spec"]["backoffLimit"] for part in spec["replicatedJobs"]] == [2, 2]


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({}, [143]),
        ({"suspend": True}, [137, 143]),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, [137, 143]),
        ({"managedBy": "jobset.sigs.k8s.io/jobset-controller"}, [143]),
    ],
)
def test_exit_code_137_is_retriable_in_a_job_set_that_others_may_suspend(fields: Json, codes: list[int]) -> None:
    assert job_rules(mutate(job_set(job_spec(), **fields)))[1]["onExitCodes"]["values"] == codes


def test_exit_code_137_is_retriable_in_a_queued_job_set() -> None:
    root = job_set(job_spec())
    root["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpu"}
    assert job_rules(mutate(root))[1]["onExitCodes"]["values"] == [137, 143]


def test_applying_an_unchanged_job_set_again_changes_nothing_under_a_changed_policy() -> None:
    manifest = job_set(job_spec(), failure_policy={"maxRestarts": 2})
    stored = mutate(deepcopy(manifest)).object
    applied = {**deepcopy(manifest), "metadata": stored["metadata"]}
    later = under(job_set=JobSet(on_disruption="RestartPod"))
    assert mutate(applied, under=later, old=stored).object["spec"] == stored["spec"]


def test_annotations_are_not_copied_into_an_absent_pod_template() -> None:
    manifest = job_set({"backoffLimit": 0})
    manifest["metadata"]["annotations"] = {names.MAX_RETRIES: "0"}
    template = mutate(manifest).object["spec"]["replicatedJobs"][0]["template"]
    assert template["metadata"]["annotations"] == {names.MAX_RETRIES: "0"}
    assert template["spec"] == {"backoffLimit": 0}


def test_a_job_set_records_the_profile_under_which_it_was_admitted() -> None:
    metadata = mutate(job_set(job_spec())).object["metadata"]
    assert metadata["labels"] == {names.PROFILE: "default"}
    assert names.POLICY in metadata["annotations"]


def test_a_job_that_the_job_set_controller_creates_is_not_changed() -> None:
    stored = mutate(job_set(job_spec(backoffLimit=6))).object
    made = made_of(stored)
    assert mutate(deepcopy(made)).object["spec"] == made["spec"]


def test_a_skipped_job_set_gets_no_rules_and_no_label() -> None:
    root = job_set(job_spec(backoffLimit=1))
    root["metadata"]["annotations"] = {names.SKIP: "true"}
    answer = mutate(root)
    assert (set_rules(answer), job_rules(answer)) == ([], [])
    assert "labels" not in answer.object["metadata"]
    assert answer.object["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"] == {names.SKIP: "true"}


def test_with_a_backoff_limit_per_index_a_disruption_does_not_fail_a_job_of_a_job_set() -> None:
    spec = job_spec(backoffLimitPerIndex=1, completionMode="Indexed", completions=4, parallelism=2)
    assert job_rules(mutate(job_set(spec)))[0] == DISRUPTION


def test_a_max_restarts_of_0_is_not_written_because_typed_clients_would_drop_it() -> None:
    root = job_set(job_spec(), failure_policy={})
    root["metadata"]["annotations"] = {names.MAX_RETRIES: "0"}
    assert "maxRestarts" not in mutate(root).object["spec"]["failurePolicy"]


def made_of(stored: Json, owner: str = "JobSet") -> Json:
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": owner, "name": "train", "controller": True}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train-r0-0", "ownerReferences": [reference]},
        "spec": deepcopy(stored["spec"]["replicatedJobs"][0]["template"]["spec"]),
    }


def test_jobs_of_a_job_set_that_restarts_in_place_may_have_the_unlimited_retries_it_requires() -> None:
    made = made_of(mutate(in_place()).object)
    assert mutate(deepcopy(made)).object["spec"] == made["spec"]
    assert validate(made).allowed
    assert not validate(made_of(mutate(in_place()).object, owner="Other")).allowed


def test_suspending_a_job_set_brings_a_warning_if_that_may_fail_one_of_its_jobs() -> None:
    stored = job_set(job_spec(), job_spec(rules=[exit_codes("FailJob", "NotIn", 143, container="main")]))
    (warning,) = validate({**stored, "spec": {**stored["spec"], "suspend": True}}, old=stored).warnings
    assert warning.startswith("spec.suspend: pods that this ends may fail the Job")


def test_a_job_without_a_pod_template_is_left_to_the_api_server() -> None:
    (part,) = mutate(job_set({})).object["spec"]["replicatedJobs"]
    assert not {"podFailurePolicy", "template"} & part["template"]["spec"].keys()


def test_rules_for_other_failure_reasons_than_pod_failure_policy_are_not_read() -> None:
    rules = [
        {"action": "RestartJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        {"action": "FailJobSet", "targetReplicatedJobs": ["r0"]},
        {"onJobFailureReasons": None, "onJobFailureMessagePatterns": ["exit code 3"]},
    ]
    assert rule.rules_of(job_set(job_spec(), failure_policy={"rules": rules})) == [
        rule.FailurePolicyRule("FailJobSet", frozenset({"r0"}), ()),
        rule.FailurePolicyRule("", frozenset(), ("exit code 3",)),
    ]


@pytest.mark.parametrize(
    ("failure_policy", "adds_rule", "action"),
    [
        (None, True, "FailJobSet"),
        (None, False, "FailJobSet"),
        ({"maxRestarts": 3}, True, "FailJobSet"),
        ({"maxRestarts": 3}, False, "RestartJobSet"),
        ({"rules": [CATCH_ALL] * 101}, True, "RestartJobSet"),
    ],
)
def test_a_bug_that_no_rule_matches_restarts_a_job_set_that_has_restarts_and_gets_no_rule(
    failure_policy: Json | None,
    adds_rule: bool,  # noqa: FBT001
    action: str,
) -> None:
    root = job_set(job_spec(), failure_policy=failure_policy)
    assert rule.action_by_default(root, adds_rule=adds_rule) == action


def test_a_warning_that_several_jobs_of_a_job_set_share_is_given_once_with_their_number() -> None:
    def of_job(index: int, what: str) -> Problem:
        return Problem(("spec", "replicatedJobs", index, "template", "spec"), what, "correct it")

    of_set = Problem(("spec", "suspend"), "is odd", "correct it")
    warnings = [of_job(0, "is odd"), of_set, of_job(1, "is odd"), of_job(2, "is even"), of_job(3, "is odd")]
    found = rule.said_once(warnings)
    assert [str(warning) for warning in found] == [
        "spec.replicatedJobs[0].template.spec: is odd, in 3 of the set's Jobs; correct it",
        "spec.suspend: is odd; correct it",
        "spec.replicatedJobs[2].template.spec: is even; correct it",
    ]


def test_the_rule_writes_only_job_sets() -> None:
    assert rule.writes(JOB_SET) == (("spec", "failurePolicy"),)
    assert rule.writes(JOB) == ()
