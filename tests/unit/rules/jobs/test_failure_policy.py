"""The rule that ignores disruptions and fails Jobs with a bug."""

from copy import deepcopy

import pytest

from tests.merge_cases import CASES, bug, distinct
from tests.objects import DISRUPTION, exit_codes, job, job_spec
from webhook.kinds import batch
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Disruptions, FailurePolicy, Profile
from webhook.policy.settings import Settings
from webhook.rules.jobs import failure_policy, schema

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
def test_merges_with_the_authors_policy(author: Json, expected: list[Json] | None) -> None:
    spec, _ = edited(job(deepcopy(author)))
    assert rules(spec) == expected


@pytest.mark.parametrize("author", [case[0] for case in CASES.values()], ids=CASES)
def test_what_is_injected_is_accepted_and_stays_when_applied_again(author: Json) -> None:
    root = job(deepcopy(author))
    spec, _ = edited(root)
    assert schema.problems(spec, ("spec",)) == []
    once = deepcopy(root)
    edited(root)
    assert root == once


def test_replacement_policy_becomes_failed_where_a_policy_forbids_the_default() -> None:
    spec, _ = edited(job(job_spec(podReplacementPolicy="TerminatingOrFailed")))
    assert spec["podReplacementPolicy"] == "Failed"


def test_replacement_policy_stays_absent_where_the_api_defaults_it_rightly() -> None:
    spec, _ = edited(job(job_spec()))
    assert "podReplacementPolicy" not in spec


def test_no_retriable_exit_codes_fails_the_job_on_every_code() -> None:
    spec, _ = edited(job(), with_failure_policy(retriable_exit_codes=()))
    assert rules(spec) == [DISRUPTION, exit_codes("FailJob", "NotIn", 0, container="main")]


def test_retriable_exit_codes_are_sorted_as_the_api_demands() -> None:
    spec, _ = edited(job(), with_failure_policy(retriable_exit_codes=(143, 75, 130)))
    assert rules(spec) == [DISRUPTION, bug(values=(75, 130, 143))]


def test_a_disruption_is_counted_where_the_profile_has_one_budget() -> None:
    spec, _ = edited(job(), Profile(disruptions=Disruptions(action="Count")))
    assert (rules(spec) or [])[0]["action"] == "Count"


def test_inject_never_leaves_every_job_alone() -> None:
    spec, warnings = edited(job(), with_failure_policy(inject="Never"))
    assert (rules(spec), warnings) == (None, [])


def test_inject_if_absent_leaves_even_an_empty_policy_alone() -> None:
    spec, _ = edited(job(job_spec(rules=[])), with_failure_policy(inject="IfAbsent"))
    assert rules(spec) == []


def test_inject_if_absent_gives_a_policy_to_a_job_without_one() -> None:
    spec, _ = edited(job(), with_failure_policy(inject="IfAbsent"))
    assert rules(spec) == [DISRUPTION, bug()]


def test_on_failure_is_kept_with_a_warning_that_says_what_to_do() -> None:
    spec, warnings = edited(job(job_spec(restart_policy="OnFailure")))
    assert "podFailurePolicy" not in spec
    assert str(warnings[0]) == (
        "spec.template.spec.restartPolicy: OnFailure allows no failure policy; use Never to fail at once on bugs"
    )


def test_on_failure_becomes_never_where_the_profile_converts() -> None:
    spec, warnings = edited(
        job(job_spec(restart_policy="OnFailure")), with_failure_policy(on_failure_restart_policy="Never")
    )
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert (rules(spec), warnings) == ([DISRUPTION, bug()], [])


@pytest.mark.parametrize("restart_policy", [None, "Always", "Sometimes"])
def test_a_restart_policy_that_the_api_refuses_is_left_to_the_api(restart_policy: str | None) -> None:
    spec, _ = edited(job(job_spec(restart_policy=restart_policy)))
    assert rules(spec) is None


@pytest.mark.parametrize("wrong", [distinct(21), [exit_codes("FailJob", "In", 0)], [{"action": "Count"}]])
def test_an_invalid_policy_keeps_its_authors_numbering(wrong: list[Json]) -> None:
    spec, warnings = edited(job(job_spec(rules=wrong)))
    assert (rules(spec), warnings) == (wrong, [])


@pytest.mark.parametrize("name", ["nineteen rules", "twenty rules"])
def test_rules_that_do_not_fit_are_left_out_with_a_warning(name: str) -> None:
    _, warnings = edited(job(deepcopy(CASES[name][0])))
    assert [str(warning) for warning in warnings] == [
        "spec.podFailurePolicy.rules: more than 20 with those of the policy, which were left out; merge some of yours"
    ]


COUPLED = job_spec(completions=6, parallelism=3, completionMode="Indexed")


@pytest.mark.parametrize("coupled", ["Retry", "Settle"])
def test_coupled_pods_get_no_exit_code_rule_unless_a_crash_is_to_be_a_bug_at_once(coupled: str) -> None:
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
def test_crashes_of_coupled_pods_are_settled_where_the_profile_and_the_author_let_them_be(
    policy: Json,
    spec: Json,
    settled: bool,  # noqa: FBT001
) -> None:
    (embedded,) = batch.JOB.jobs(job(deepcopy(spec)))
    under = Settings(profile_name="default", profile=with_failure_policy(**policy))
    assert failure_policy.is_settled(embedded, under) is settled


def test_a_crash_is_not_settled_where_it_may_be_the_echo_of_a_pod_that_the_ledger_does_not_count() -> None:
    reference = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "m", "uid": "u", "controller": True}
    (embedded,) = batch.JOB.jobs(job(deepcopy(COUPLED), ownerReferences=[reference]))
    under = Settings(profile_name="default", profile=with_failure_policy(coupled="Settle"))
    assert not failure_policy.is_settled(embedded, under)


def test_a_job_of_a_set_depends_on_the_sets_others() -> None:
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
def test_a_queued_job_may_be_killed_by_its_queue(field: str, coupled: str) -> None:
    spec, _ = edited(job(job_spec(), **{field: QUEUE}), with_failure_policy(coupled=coupled))
    assert rules(spec) == [DISRUPTION, bug(values=(137, 143))]


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_what_a_queued_jobs_pods_end_with_is_left_to_the_ledger(field: str) -> None:
    root = job(job_spec(), **{field: QUEUE})
    spec, _ = edited(root)
    assert rules(spec) == [DISRUPTION]
    (embedded,) = batch.JOB.jobs(root)
    assert failure_policy.is_settled(embedded, Settings(profile_name="default", profile=DEFAULT))


def test_a_queued_job_with_a_budget_for_each_index_keeps_its_rule() -> None:
    author = job_spec(completions=6, completionMode="Indexed", backoffLimitPerIndex=1)
    spec, _ = edited(job(author, labels=QUEUE))
    assert rules(spec) == [DISRUPTION, bug(values=(137, 143), action="FailIndex")]


def test_the_job_controller_by_its_own_name_is_not_foreign() -> None:
    spec, _ = edited(job(job_spec(managedBy="kubernetes.io/job-controller")))
    assert rules(spec) == [DISRUPTION, bug()]


def test_a_default_container_that_does_not_exist_judges_all_with_a_warning() -> None:
    author = job_spec(containers=("main", "log"), pod_annotations={"kubectl.kubernetes.io/default-container": "mian"})
    spec, warnings = edited(job(author))
    assert rules(spec) == [DISRUPTION, bug(), bug("log")]
    assert "mian" in str(warnings[0])


def test_where_an_author_lists_the_bugs_the_ledger_takes_no_other_crash_for_one() -> None:
    listed = deepcopy(COUPLED) | {"podFailurePolicy": {"rules": [exit_codes("FailJob", "In", 42)]}}
    (embedded,) = batch.JOB.jobs(job(listed))
    under = Settings(profile_name="default", profile=DEFAULT)
    assert failure_policy.bug_rules(embedded, under, listed["podFailurePolicy"]["rules"]) == ([], [])
