"""The rule that ignores disruptions and fails Jobs with a bug."""

from copy import deepcopy

import pytest

from tests.merge_cases import CASES, bug, distinct
from tests.objects import DISRUPTION, exit_codes, job, job_spec
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Disruptions, Duration, FailurePolicy, Profile
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy, schema

DEFAULT = Profile()
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}


def edited(root: Json, profile: Profile = DEFAULT) -> tuple[Json, list[Problem]]:
    """Apply the rule to a Job; return its spec and the warnings."""
    embedded = next(batch.JOB.jobs(root))
    settings = Settings(profile_name="default", profile=profile)
    wanted = failure_policy.Wanted(profile.disruptions.action)
    warnings = failure_policy.edit(embedded, settings, Editor(root), wanted)
    return embedded.spec, warnings


def rules(spec: Json) -> list[Json] | None:
    policy = spec.get("podFailurePolicy")
    return None if policy is None else policy["rules"]


def with_failure_policy(**fields: object) -> Profile:
    return Profile(failure_policy=FailurePolicy(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(("author", "expected"), CASES.values(), ids=CASES)
def test_our_rules_are_merged_with_the_authors_into_a_valid_policy_that_a_second_edit_does_not_change(
    author: Json, expected: list[Json] | None
) -> None:
    root = job(deepcopy(author))
    for _ in range(2):
        spec, _ = edited(root)
        assert rules(spec) == expected
        assert schema.problems(spec, ("spec",)) == []


def test_pod_replacement_policy_terminating_or_failed_becomes_failed() -> None:
    spec, _ = edited(job(job_spec(podReplacementPolicy="TerminatingOrFailed")))
    assert spec["podReplacementPolicy"] == "Failed"


def test_an_absent_pod_replacement_policy_stays_absent() -> None:
    spec, _ = edited(job(job_spec()))
    assert "podReplacementPolicy" not in spec


def test_with_no_retriable_exit_codes_every_exit_code_fails_the_job() -> None:
    spec, _ = edited(job(), with_failure_policy(retriable_exit_codes=()))
    assert rules(spec) == [DISRUPTION, exit_codes("FailJob", "NotIn", 0, container="main")]


def test_retriable_exit_codes_are_sorted_as_the_api_requires() -> None:
    spec, _ = edited(job(), with_failure_policy(retriable_exit_codes=(143, 75, 130)))
    assert rules(spec) == [DISRUPTION, bug(values=(75, 130, 143))]


def test_with_action_count_a_disruption_counts_as_a_failure() -> None:
    spec, _ = edited(job(), Profile(disruptions=Disruptions(action="Count")))
    assert (rules(spec) or [])[0]["action"] == "Count"


def test_with_inject_never_every_job_is_left_alone() -> None:
    spec, warnings = edited(job(), with_failure_policy(inject="Never"))
    assert (rules(spec), warnings) == (None, [])


def test_with_inject_if_absent_even_an_empty_policy_is_left_alone() -> None:
    spec, _ = edited(job(job_spec(rules=[])), with_failure_policy(inject="IfAbsent"))
    assert rules(spec) == []


def test_with_inject_if_absent_a_job_without_a_policy_gets_one() -> None:
    spec, _ = edited(job(), with_failure_policy(inject="IfAbsent"))
    assert rules(spec) == [DISRUPTION, bug()]


def test_on_failure_is_kept_with_a_warning_that_says_what_to_do() -> None:
    spec, warnings = edited(job(job_spec(restart_policy="OnFailure")))
    assert "podFailurePolicy" not in spec
    assert str(warnings[0]) == (
        "spec.template.spec.restartPolicy: OnFailure allows no failure policy; use Never to fail at once on bugs"
    )


def test_on_failure_becomes_never_if_the_profile_converts_it() -> None:
    spec, warnings = edited(
        job(job_spec(restart_policy="OnFailure")), with_failure_policy(on_failure_restart_policy="Never")
    )
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert (rules(spec), warnings) == ([DISRUPTION, bug()], [])


@pytest.mark.parametrize("restart_policy", [None, "Always", "Sometimes"])
def test_a_restart_policy_that_the_api_refuses_is_left_to_the_api_server(restart_policy: str | None) -> None:
    spec, _ = edited(job(job_spec(restart_policy=restart_policy)))
    assert rules(spec) is None


@pytest.mark.parametrize("wrong", [distinct(21), [exit_codes("FailJob", "In", 0)], [{"action": "Count"}]])
def test_an_invalid_policy_gets_no_rules_so_that_the_authors_indexes_stay(wrong: list[Json]) -> None:
    spec, warnings = edited(job(job_spec(rules=wrong)))
    assert (rules(spec), warnings) == (wrong, [])


@pytest.mark.parametrize("name", ["nineteen rules", "twenty rules"])
def test_our_rules_are_left_out_with_a_warning_if_the_policy_would_have_more_than_20(name: str) -> None:
    _, warnings = edited(job(deepcopy(CASES[name][0])))
    assert [str(warning) for warning in warnings] == [
        "spec.podFailurePolicy.rules: more than 20 with those of the policy, which were left out; merge some of yours"
    ]


COUPLED = job_spec(completions=6, parallelism=3, completionMode="Indexed")


@pytest.mark.parametrize("coupled", ["Retry", "Settle"])
def test_coupled_pods_get_an_exit_code_rule_only_with_coupled_fail_job(coupled: str) -> None:
    spec, _ = edited(job(deepcopy(COUPLED)), with_failure_policy(coupled=coupled))
    assert rules(spec) == [DISRUPTION]
    spec, _ = edited(job(deepcopy(COUPLED)), with_failure_policy(coupled="FailJob"))
    assert rules(spec) == [DISRUPTION, bug()]


@pytest.mark.parametrize(
    ("policy", "spec", "settled"),
    [
        ({"coupled": "Settle"}, COUPLED, True),
        ({"coupled": "Settle"}, job_spec(), False),
        ({"coupled": "Retry"}, COUPLED, False),
        ({"coupled": "Settle", "inject": "Never"}, COUPLED, False),
        ({"coupled": "Settle", "inject": "IfAbsent"}, COUPLED, False),
        ({"coupled": "Settle"}, {**COUPLED, "backoffLimitPerIndex": 1}, False),
    ],
)
def test_crashes_of_coupled_pods_are_settled_if_the_profile_and_the_job_allow_it(
    policy: Json,
    spec: Json,
    settled: bool,  # noqa: FBT001
) -> None:
    (embedded,) = batch.JOB.jobs(job(deepcopy(spec)))
    under = Settings(profile_name="default", profile=with_failure_policy(**policy))
    assert failure_policy.is_settled(embedded, under) is settled


def test_a_crash_is_not_settled_if_a_pod_that_the_ledger_does_not_count_may_have_caused_it() -> None:
    reference = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "m", "uid": "u", "controller": True}
    (embedded,) = batch.JOB.jobs(job(deepcopy(COUPLED), ownerReferences=[reference]))
    under = Settings(profile_name="default", profile=with_failure_policy(coupled="Settle"))
    assert not failure_policy.is_settled(embedded, under)


def test_a_job_depends_on_the_other_jobs_of_its_job_set() -> None:
    reference = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "s",
        "uid": "u",
        "controller": True,
    }
    for others, coupled in (("2", True), ("1", False)):
        root = job(ownerReferences=[reference], labels={batch.JOBS_OF_SET: others})
        spec, _ = edited(root, with_failure_policy(coupled="Settle"))
        assert (rules(spec) == [DISRUPTION]) is coupled


def test_indexes_with_their_own_budget_are_not_coupled() -> None:
    author = job_spec(completions=6, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
    spec, _ = edited(job(author), with_failure_policy(coupled="Retry"))
    assert rules(spec) == [DISRUPTION, bug(action="FailIndex")]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("coupled", ["FailJob", "Retry"])
def test_exit_code_137_is_retriable_in_a_queued_job(field: str, coupled: str) -> None:
    spec, _ = edited(job(job_spec(), **{field: QUEUE}), with_failure_policy(coupled=coupled))
    assert rules(spec) == [DISRUPTION, bug(values=(137, 143))]


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_the_exit_codes_of_a_queued_job_are_left_to_the_ledger(field: str) -> None:
    root = job(job_spec(), **{field: QUEUE})
    spec, _ = edited(root)
    assert rules(spec) == [DISRUPTION]
    (embedded,) = batch.JOB.jobs(root)
    assert failure_policy.is_settled(embedded, Settings(profile_name="default", profile=DEFAULT))


def test_a_queued_job_with_a_budget_per_index_gets_an_exit_code_rule() -> None:
    author = job_spec(completions=6, completionMode="Indexed", backoffLimitPerIndex=1)
    spec, _ = edited(job(author, labels=QUEUE))
    assert rules(spec) == [DISRUPTION, bug(values=(137, 143), action="FailIndex")]


def test_a_job_that_names_the_job_controller_in_managed_by_gets_the_usual_rules() -> None:
    spec, _ = edited(job(job_spec(managedBy="kubernetes.io/job-controller")))
    assert rules(spec) == [DISRUPTION, bug()]


def test_if_the_default_container_does_not_exist_all_containers_get_a_rule_and_a_warning_is_given() -> None:
    author = job_spec(containers=("main", "log"), pod_annotations={"kubectl.kubernetes.io/default-container": "mian"})
    spec, warnings = edited(job(author))
    assert rules(spec) == [DISRUPTION, bug(), bug("log")]
    assert "mian" in str(warnings[0])


def test_if_the_author_lists_the_bugs_the_ledger_judges_no_other_crash_as_a_bug() -> None:
    listed = deepcopy(COUPLED) | {"podFailurePolicy": {"rules": [exit_codes("FailJob", "In", 42)]}}
    (embedded,) = batch.JOB.jobs(job(listed))
    under = Settings(profile_name="default", profile=DEFAULT)
    assert failure_policy.bug_rules(embedded, under, listed["podFailurePolicy"]["rules"]) == ([], [])


def test_with_stall_timeout_a_stalled_pod_costs_a_retry_before_its_exit_code_is_judged() -> None:
    profile = Profile(stall_timeout=Duration(600))
    spec, _ = edited(job(job_spec()), profile)
    actions = [(rule["action"], [one["type"] for one in rule.get("onPodConditions", ())]) for rule in rules(spec) or ()]
    assert actions == [("Ignore", ["DisruptionTarget"]), ("Count", [names.STALLED]), ("FailJob", [])]
    assert "podFailurePolicy" not in edited(job(job_spec(restart_policy="OnFailure")), profile)[0]


def test_an_author_with_many_rules_gets_the_one_for_disruptions_first() -> None:
    author = [exit_codes("Count", "In", code, container="main") for code in range(1, bounds.MAX_RULES)]
    spec, _ = edited(job(job_spec(rules=[*author])), Profile(stall_timeout=Duration(600)))
    assert rules(spec) == [DISRUPTION, *author]
