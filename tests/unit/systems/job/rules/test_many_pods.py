"""Jobs of many pods, of which each index gets retries of its own."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import mutate, policy, validate
from tests.objects import cron_job, job, job_spec
from tests.unit.systems.job_set.rules.test_job_set import job_set
from webhook.kube.names import INDEPENDENT_PODS, MAX_RETRIES
from webhook.objects.problem import Json
from webhook.policy.model import BackOff, FailurePolicy, Profile, Retries
from webhook.rules.facts import Facts
from webhook.systems.job.rules import many_pods
from webhook.systems.job_set.spec import JOB_SET

FILE = Facts(profile_name="default", defaulted=False)
SHARDS: dict[str, Any] = {"completionMode": "Indexed", "completions": 20, "parallelism": 5}


def admitted(root: Json, many_pods: Any = "Auto", facts: Facts = FILE, **sections: Any) -> Json:
    profile = Profile(failure_policy=FailurePolicy(many_pods=many_pods), **sections)
    spec: Json = mutate(root, facts, policy(default=profile)).object["spec"]
    return spec["jobTemplate"]["spec"] if root["kind"] == "CronJob" else spec


def budgets(spec: Json) -> tuple[int | None, int | None]:
    """Return the retries of each index, and the failures that they may have together."""
    if spec.get("maxFailedIndexes") == 0:  # for the back-off alone
        return None, spec.get("backoffLimit")
    return spec.get("backoffLimitPerIndex"), spec.get("backoffLimit")


def actions(spec: Json) -> list[str]:
    return [rule["action"] for rule in spec["podFailurePolicy"]["rules"]]


def test_a_bug_ends_only_its_index_if_the_pods_cannot_all_run_at_once() -> None:
    for root in (job(job_spec(**SHARDS)), cron_job(job_spec(**SHARDS))):
        spec = admitted(root)
        assert budgets(spec) == (3, 60)
        assert actions(spec) == ["Ignore", "FailIndex"]


def test_by_default_a_bug_ends_the_job() -> None:
    spec = mutate(job(job_spec(**SHARDS)), FILE).object["spec"]
    assert budgets(spec)[0] is None
    assert "FailIndex" not in actions(spec)


def test_without_a_number_of_their_author_all_indexes_together_have_the_total_of_the_profile() -> None:
    many = job(job_spec(**{**SHARDS, "completions": 5000}))
    assert budgets(admitted(many)) == (3, 1000)
    assert validate(many, FILE, policy(default=Profile(failure_policy=FailurePolicy(many_pods="Auto")))).allowed
    assert budgets(admitted(many, retries=Retries(default=1, total=20))) == (1, 20)


def test_a_number_of_their_author_still_bounds_all_failures_together() -> None:
    assert budgets(admitted(job(job_spec(**SHARDS, backoffLimit=4)))) == (4, 4)
    defaulted = job(job_spec(**SHARDS, backoffLimit=6))
    assert budgets(admitted(defaulted, facts=Facts(profile_name="default"))) == (3, 60)  # the API's own 6


def test_the_annotation_max_retries_is_for_each_index() -> None:
    asked = job(job_spec(**SHARDS, backoffLimit=4), annotations={MAX_RETRIES: "2"})
    assert budgets(admitted(asked)) == (2, 40)


@pytest.mark.parametrize(
    "spec",
    [
        {"completionMode": "Indexed", "completions": 5, "parallelism": 5},  # a gang
        {"completionMode": "Indexed", "completions": 1},
        {"completions": 20, "parallelism": 5},  # its pods would get other names
        {"parallelism": 5},  # a work queue
        {**SHARDS, "backoffLimit": 0},  # it runs once
        {**SHARDS, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        {**SHARDS, "managedBy": "example.dev/other"},
        {**SHARDS, "maxFailedIndexes": 3},
    ],
)
def test_any_other_job_stays_as_it_is(spec: dict[str, Any]) -> None:
    for what in ("Auto", "Job"):
        found = admitted(job(job_spec(**spec)), what)
        assert budgets(found)[0] is None
        assert found.get("completionMode") == spec.get("completionMode")


@pytest.mark.parametrize("field", [{"subdomain": "peers"}, {"schedulingGroup": {}}, {"workloadRef": {"name": "gang"}}])
def test_pods_that_find_each_other_or_are_scheduled_together_depend_on_each_other(field: Json) -> None:
    root = job(job_spec(**SHARDS))
    root["spec"]["template"]["spec"] |= field
    assert budgets(admitted(root))[0] is None
    root["metadata"]["annotations"] = {INDEPENDENT_PODS: "true"}
    assert budgets(admitted(root)) == (3, 60)


def test_their_author_says_whether_pods_are_independent() -> None:
    together = job_spec(completionMode="Indexed", completions=5, parallelism=5)
    assert budgets(admitted(job(together, annotations={INDEPENDENT_PODS: "true"}))) == (3, 15)
    assert budgets(admitted(job(job_spec(**SHARDS), annotations={INDEPENDENT_PODS: "false"})))[0] is None
    wrong = validate(job(annotations={INDEPENDENT_PODS: "yes"}), FILE)
    assert 'must be "true" or "false"' in wrong.message


def test_an_independent_job_without_indexes_becomes_indexed_if_its_author_did_not_refuse_it() -> None:
    spec = admitted(job(job_spec(completions=20, parallelism=5), annotations={INDEPENDENT_PODS: "true"}))
    assert (spec["completionMode"], *budgets(spec)) == ("Indexed", 3, 60)
    said = job_spec(completions=20, parallelism=5, completionMode="NonIndexed")
    assert budgets(admitted(job(said, annotations={INDEPENDENT_PODS: "true"})))[0] is None


def test_with_index_every_job_of_several_completions_is_treated_so_but_none_of_a_job_set() -> None:
    for spec in (job_spec(completions=20), job_spec(completionMode="Indexed", completions=5, parallelism=5)):
        assert budgets(admitted(job(spec), "Index"))[0] == 3
    children = admitted(job_set(job_spec(completions=20)), "Index")["replicatedJobs"]
    assert [budgets(child["template"]["spec"])[0] for child in children] == [None]
    assert many_pods.RULE.writes(JOB_SET) == ()


def test_an_authors_rules_stay_before_ours() -> None:
    own = {"action": "Count", "onExitCodes": {"operator": "In", "values": [42]}}
    spec = admitted(job(job_spec(**SHARDS, podFailurePolicy={"rules": [own]})))
    assert actions(spec) == ["Ignore", "Count", "FailIndex"]


def test_without_a_back_off_per_index_bugs_end_their_index_all_the_same() -> None:
    assert budgets(admitted(job(job_spec(**SHARDS)), back_off=BackOff(per_index=False))) == (3, 60)


def test_a_second_round_of_the_same_admission_changes_nothing() -> None:
    profile = policy(default=Profile(failure_policy=FailurePolicy(many_pods="Index")))
    once = mutate(job(job_spec(completions=20)), FILE, profile).object
    assert mutate(once, FILE, profile).object == once


def test_to_confirm_a_bug_each_index_has_one_retry_whatever_ended_it() -> None:
    profile = Profile(failure_policy=FailurePolicy(many_pods="Auto", unknown_exit="Confirm"))
    spec = mutate(job(job_spec(**SHARDS)), FILE, policy(default=profile)).object["spec"]
    assert (budgets(spec), actions(spec)) == ((1, 20), ["Ignore"])


def test_restarts_in_place_are_bounded_as_in_any_other_job() -> None:
    restarting = {"name": "main", "image": "x", "restartPolicy": "OnFailure"}
    root = job(job_spec(containers=(restarting,), **SHARDS))
    templates = [
        admitted(deepcopy(root), way, retries=Retries(on_exceed="Clamp"))["template"] for way in ("Job", "Auto")
    ]
    assert templates[0] == templates[1]
    assert templates[0]["spec"]["containers"] != [restarting]


def test_too_many_retries_of_an_author_are_denied_and_not_spread_over_the_indexes() -> None:
    under = policy(default=Profile(failure_policy=FailurePolicy(many_pods="Auto")))
    made = mutate(job(job_spec(**SHARDS, backoffLimit=25)), FILE, under).object
    answer = validate(made, FILE, under)
    assert "spec.backoffLimit: 25 retries exceed the limit of 10" in answer.message
