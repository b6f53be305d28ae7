"""The rules and warnings that follow from the number of retries that an author wrote, 0 included."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import mutate, policy
from tests.objects import DISRUPTION, cron_job, exit_codes, job, job_spec
from tests.unit.systems.job_set.rules.test_job_set import FAIL_ON_DISRUPTION, job_rules, job_set, set_rules
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, FailurePolicy, Profile, Retries
from webhook.policy.parse import load_default
from webhook.rules.facts import Facts

ONCE = "0: disruptions fail the Job too; max-disruptions allows some"
ONLY_143 = "only exit code 143 is retried; add a podFailurePolicy rule Count In [CODES]"
WRITTEN = Facts(profile_name="default", defaulted=False)
COUPLED: Json = {"completions": 8, "parallelism": 4, "completionMode": "Indexed"}
PER_INDEX: Json = {"completions": 4, "completionMode": "Indexed"}
ABOUT_RETRIES = {"back_off", "failure_policy", "free_restarts", "many_pods", "retries", "single_pod"}  # rules
FREE_RESTART: Json = {
    "name": "host",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
}


def rules_of(root: Json) -> list[Json]:
    found: list[Json] = (root["spec"].get("podFailurePolicy") or {}).get("rules") or []
    return found


def warned(root: Json, facts: Facts = WRITTEN, **more: Any) -> list[str]:
    return mutate(deepcopy(root), facts, **more).warnings


@pytest.mark.parametrize(
    "spec",
    [
        job_spec(backoffLimit=0),
        job_spec(backoffLimit=0, restart_policy="OnFailure"),
        job_spec(backoffLimit=0, **COUPLED),
        job_spec(backoffLimitPerIndex=0, **PER_INDEX),
    ],
    ids=["one pod", "OnFailure", "coupled", "each index"],
)
def test_a_job_that_runs_once_gets_no_failure_policy_and_a_warning(spec: Json) -> None:
    answer = mutate(job(deepcopy(spec)))
    assert ABOUT_RETRIES.isdisjoint(answer.edited)
    assert not {"podFailurePolicy", "podReplacementPolicy"} & answer.object["spec"].keys()
    (warning,) = answer.warnings
    assert warning.endswith(ONCE)


def test_the_rules_of_a_job_that_runs_once_stay_as_they_are() -> None:
    own = [exit_codes("Ignore", "In", 75)]
    assert rules_of(mutate(job(job_spec(backoffLimit=0, rules=deepcopy(own)))).object) == own


def test_a_job_that_runs_once_and_has_a_rule_for_disruptions_gets_no_warning() -> None:
    answer = mutate(job(job_spec(backoffLimit=0, rules=[deepcopy(DISRUPTION)])))
    assert (rules_of(answer.object), answer.warnings) == ([DISRUPTION], [])


@pytest.mark.parametrize(
    "profile",
    [Profile(disruptions=Disruptions(action="Count")), Profile(failure_policy=FailurePolicy(inject="Never"))],
)
def test_a_job_that_runs_once_gets_no_warning_if_the_profile_makes_no_disruption_free(profile: Profile) -> None:
    assert warned(job(job_spec(backoffLimit=0)), under=policy(default=profile)) == []


@pytest.mark.parametrize(
    ("annotations", "free"),
    [
        ({names.MAX_DISRUPTIONS: "1"}, True),
        ({names.MAX_DISRUPTIONS: "0"}, False),
        ({names.MAX_RETRIES: "0"}, False),
        ({names.MAX_RETRIES: "2"}, True),
        ({names.MAX_RETRIES: "0", names.MAX_DISRUPTIONS: "2"}, True),
    ],
)
def test_annotations_can_make_disruptions_free_in_a_job_that_runs_once(
    annotations: Json,
    free: bool,  # noqa: FBT001
) -> None:
    for own in (0, 3) if names.MAX_RETRIES in annotations else (0,):
        found = rules_of(mutate(job(job_spec(backoffLimit=own), annotations=annotations)).object)
        assert (DISRUPTION in found) is free


def test_disruptions_are_free_if_the_profile_and_not_the_author_sets_0_retries() -> None:
    none = policy(default=Profile(retries=Retries(default=0)))
    root = job(job_spec(backoffLimit=6), annotations={})
    answer = mutate(root, under=none)
    assert answer.object["spec"]["backoffLimit"] == 0
    assert rules_of(answer.object)[0] == DISRUPTION


def test_the_jobs_of_a_cron_job_run_once_if_its_template_says_so() -> None:
    answer = mutate(cron_job(job_spec(backoffLimit=0)))
    (warning,) = answer.warnings
    assert warning == f"spec.jobTemplate.spec.backoffLimit: {ONCE}"
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    made = job(answer.object["spec"]["jobTemplate"]["spec"], ownerReferences=[reference])
    answer = mutate(made)
    assert (rules_of(answer.object), answer.warnings) == ([], [])


def test_a_job_set_without_restarts_whose_jobs_run_once_gets_no_rule() -> None:
    answer = mutate(job_set(job_spec(backoffLimit=0), job_spec(backoffLimit=0)))
    assert (job_rules(answer), job_rules(answer, 1), set_rules(answer)) == ([], [], [])
    (warning,) = answer.warnings
    assert warning == f"spec.replicatedJobs[0].template.spec.backoffLimit: {ONCE}"


@pytest.mark.parametrize(
    "failure_policy", [{"maxRestarts": 1}, {"rules": [FREE_RESTART]}], ids=["restarts", "a rule that restarts"]
)
def test_a_job_set_with_restarts_restarts_after_disruptions_even_if_its_jobs_run_once(failure_policy: Json) -> None:
    answer = mutate(job_set(job_spec(backoffLimit=0), failure_policy=failure_policy))
    assert job_rules(answer)[0] == FAIL_ON_DISRUPTION
    assert answer.warnings == []


def test_a_job_that_runs_once_gets_no_rule_even_if_its_job_set_restarts_for_another_job() -> None:
    stored = mutate(job_set(job_spec(backoffLimit=0), job_spec())).object
    assert stored["spec"]["failurePolicy"]["rules"][0]["name"] == "retryPolicyDisruption"
    spec = stored["spec"]["replicatedJobs"][0]["template"]["spec"]
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "u"}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "r0"}
    made = job(spec, labels=labels, ownerReferences=[{**reference, "controller": True}])
    answer = mutate(made, Facts(profile_name="default", owner=stored, owners_known=True))
    assert rules_of(answer.object) == []


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (job(job_spec(backoffLimit=4)), [f"spec.backoffLimit: {ONLY_143}"]),
        (job(job_spec(backoffLimit=6)), [f"spec.backoffLimit: {ONLY_143}"]),
        (job(job_spec()), []),
        (job(job_spec(backoffLimit=4, rules=[])), []),
        (job(job_spec(backoffLimit=4, rules=[exit_codes("Count", "In", 1)])), []),
        (job(job_spec(backoffLimit=4, restart_policy="OnFailure")), ["OnFailure allows no failure policy"]),
        (job(job_spec(backoffLimit=4, parallelism=3)), []),
        (job(job_spec(backoffLimit=25)), []),
        (job(job_spec(backoffLimit=4), annotations={names.MAX_RETRIES: "2"}), []),
        (job(job_spec(backoffLimit=4), annotations={names.SKIP: "true"}), []),
        (job(job_spec(backoffLimit=4, suspend=True)), ["only 137, 143 are retried; add a podFailurePolicy rule"]),
        (job(job_spec(backoffLimitPerIndex=2, **PER_INDEX)), [f"spec.backoffLimitPerIndex: {ONLY_143}"]),
        (job(job_spec(backoffLimit=4, **COUPLED)), [f"spec.backoffLimit: {ONLY_143}"]),
        (cron_job(job_spec(backoffLimit=4)), [f"spec.jobTemplate.spec.backoffLimit: {ONLY_143}"]),
        (
            job_set(job_spec(), job_spec(backoffLimit=4), job_spec(backoffLimit=4)),
            [f"spec.replicatedJobs[1].template.spec.backoffLimit: {ONLY_143}"],
        ),
    ],
    ids=[
        "backoffLimit",
        "6 in a file",
        "no backoffLimit",
        "an empty policy",
        "a policy",
        "OnFailure",
        "a work queue",
        "refused",
        "max-retries",
        "skipped",
        "suspended",
        "per index",
        "settled by the ledger",
        "a CronJob",
        "a JobSet",
    ],
)
def test_one_warning_says_for_which_exit_codes_the_retries_are(root: Json, expected: list[str]) -> None:
    found = warned(root)
    assert len(found) == len(expected)
    assert all(text in line for text, line in zip(expected, found, strict=True))


def test_a_number_of_retries_that_the_api_defaulted_brings_no_warning() -> None:
    assert warned(job(job_spec(backoffLimit=6)), Facts(profile_name="default")) == []


def test_retries_of_coupled_pods_bring_no_warning_without_a_ledger() -> None:
    facts = Facts(profile_name="default", defaulted=False, ledger=False)
    assert warned(job(job_spec(backoffLimit=4, **COUPLED)), facts) == []


@pytest.mark.parametrize(
    "failure_policy", ["text", [], None, 5, {"maxRestarts": 0}, {"rules": [{"action": "FailJobSet"}]}]
)
def test_a_failure_policy_of_an_owner_that_is_malformed_or_without_restarts_restarts_nothing(
    failure_policy: Any,
) -> None:
    facts = Facts(profile_name="default", owner={"spec": {"failurePolicy": failure_policy}})
    assert rules_of(mutate(job(job_spec(backoffLimit=0)), facts).object) == []


def test_a_job_that_a_controller_creates_brings_no_warning() -> None:
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    assert warned(job(job_spec(backoffLimit=4), ownerReferences=[reference])) == []


@pytest.mark.parametrize("retries", [0, 4])
def test_an_update_brings_a_warning_only_if_it_changes_the_retries(retries: int) -> None:
    stored = mutate(cron_job(job_spec(backoffLimit=retries)), WRITTEN).object
    unchanged = cron_job(job_spec(backoffLimit=retries), labels={"team": "a"})
    assert warned(unchanged, Facts(profile_name="default"), old=stored) == []
    changed = cron_job(job_spec(backoffLimit=retries + 1))
    assert len(warned(changed, Facts(profile_name="default"), old=stored)) == 1


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), "no exit code is retried"),
        ((75, 143), "only 75, 143 are retried"),
        ((1, 2, 3), "only 1, 2, 3 are retried"),
        ((1, 2, 3, 4), "only 4 exit codes are retried"),
    ],
)
def test_the_warning_names_the_retriable_exit_codes_of_the_profile(codes: tuple[int, ...], expected: str) -> None:
    profile = policy(default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=codes)))
    (warning,) = warned(job(job_spec(backoffLimit=4)), under=profile)
    assert expected in warning


def test_under_confirm_the_warning_does_not_say_that_other_exit_codes_are_not_retried() -> None:
    confirming = policy(default=load_default().profiles["confirm"])
    (warning,) = warned(job(job_spec(backoffLimit=4)), under=confirming)
    assert "only exit code 143 is retried more than once;" in warning


def test_both_warnings_fit_into_the_length_that_the_api_server_passes_on() -> None:
    (codes,) = warned(job_set(*(job_spec() for _ in range(100)), job_spec(backoffLimit=1)))
    (once,) = warned(job_set(*(job_spec() for _ in range(100)), job_spec(backoffLimit=0)))
    assert codes.endswith("[CODES]")
    assert once.endswith("allows some")
