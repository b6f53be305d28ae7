"""The rule that gives each completion index its own back-off."""

from typing import Any

import msgspec
import pytest

from tests.admission import mutate, policy
from tests.objects import DISRUPTION, cron_job, exit_codes, job, job_spec, pod, stored_job
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.model import BackOff, Disruptions, FailurePolicy, Profile, Retries
from webhook.policy.settings import Settings
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy
from webhook.systems.job_set.rules import free_restarts
from webhook.systems.job_set.spec import JOB_SET

INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}
FIELDS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
IN_FILE = Facts(profile_name="default", defaulted=False)


def limits(spec: Json, profile: Profile | None = None, facts: Facts = IN_FILE) -> tuple[int | None, ...]:
    """Return backoffLimit, backoffLimitPerIndex and maxFailedIndexes of a Job after admission."""
    edited = mutate(job(spec), facts, policy(default=profile or Profile())).object["spec"]
    return tuple(edited.get(field) for field in FIELDS)


def test_each_index_gets_its_own_back_off_and_backoff_limit_stays() -> None:
    assert limits(job_spec(**INDEXED, backoffLimit=2)) == (2, 10, 0)
    assert limits(job_spec(**INDEXED, backoffLimit=1)) == (1, 10, 0)
    assert limits(job_spec(completionMode="Indexed", backoffLimit=2)) == (2, 10, 0)


def test_a_job_that_runs_once_gets_no_back_off_per_index() -> None:
    assert limits(job_spec(**INDEXED, backoffLimit=0)) == (0, None, None)


def test_an_absent_backoff_limit_becomes_the_default_and_is_written_in_templates_too() -> None:
    assert limits(job_spec(**INDEXED)) == (3, 10, 0)
    assert limits(job_spec(**INDEXED), Profile(retries=Retries(default=8))) == (6, 10, 0)
    stored = mutate(cron_job(job_spec(**INDEXED)), IN_FILE).object["spec"]["jobTemplate"]["spec"]
    assert [stored[field] for field in FIELDS] == [3, 10, 0]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(job_spec(completions=4, parallelism=2), id="not Indexed"),
        pytest.param(job_spec(completionMode="NonIndexed", completions=4), id="NonIndexed"),
        pytest.param(job_spec(completionMode="Indexed", parallelism=4), id="Indexed without completions"),
        pytest.param(job_spec(**INDEXED, restart_policy="OnFailure"), id="OnFailure"),
        pytest.param(job_spec(**INDEXED, restart_policy=None), id="no restartPolicy"),
        pytest.param(job_spec(**INDEXED, managedBy="example.com/other"), id="another controller"),
        pytest.param(job_spec(**INDEXED, maxFailedIndexes=1), id="maxFailedIndexes of its author"),
        pytest.param(job_spec(**INDEXED, rules=[exit_codes("FailIndex", "In", 3)]), id="FailIndex, which is refused"),
        pytest.param(job_spec(**{**INDEXED, "completions": 100_001, "parallelism": 10_001}), id="too many pods"),
        pytest.param(job_spec(**INDEXED, backoffLimit=11), id="too many retries, which is refused"),
        pytest.param({**INDEXED}, id="no template"),
    ],
)
def test_a_job_that_cannot_have_a_back_off_per_index_gets_none(spec: Json) -> None:
    assert limits(spec)[1:] == (None, spec.get("maxFailedIndexes"))


def test_the_largest_job_that_the_api_allows_gets_a_back_off_per_index() -> None:
    assert limits(job_spec(**{**INDEXED, "completions": 100_001, "parallelism": 10_000}))[1:] == (10, 0)
    assert limits(job_spec(**{**INDEXED, "completions": 100_000, "parallelism": 100_000}))[1:] == (10, 0)


def test_a_job_that_is_converted_from_on_failure_gets_a_back_off_per_index() -> None:
    never = Profile(failure_policy=FailurePolicy(on_failure_restart_policy="Never"))
    assert limits(job_spec(**INDEXED, restart_policy="OnFailure"), never)[1:] == (10, 0)


def test_an_authors_own_backoff_limit_per_index_stays() -> None:
    assert limits(job_spec(**INDEXED, backoffLimitPerIndex=1)) == (None, 1, None)
    assert limits(job_spec(**INDEXED, backoffLimit=4, backoffLimitPerIndex=5, maxFailedIndexes=0)) == (4, 5, 0)


def test_a_profile_may_turn_off_the_back_off_per_index() -> None:
    assert limits(job_spec(**INDEXED, backoffLimit=2), Profile(back_off=BackOff(per_index=False))) == (2, None, None)


def test_in_a_job_set_an_absent_completion_mode_is_indexed() -> None:
    spec = {**job_spec(backoffLimit=2), "parallelism": 2, "completions": 2}
    assert limits_in_set(spec) == [2, 10, 0]
    assert limits_in_set({**spec, "completionMode": "NonIndexed"}) == [2, None, None]
    in_place = limits_in_set({**spec, "backoffLimit": batch.UNLIMITED}, restartStrategy="InPlaceRestart")
    assert in_place[1:] == [None, None]


def limits_in_set(spec: Json, **failure_policy_of_set: Any) -> list[int | None]:
    root = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {
            "failurePolicy": {"maxRestarts": 1, **failure_policy_of_set},
            "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": spec}}],
        },
    }
    edited = mutate(root, IN_FILE).object["spec"]["replicatedJobs"][0]["template"]["spec"]
    return [edited.get(field) for field in FIELDS]


def test_a_second_admission_changes_nothing() -> None:
    once = mutate(cron_job(job_spec(**INDEXED)), IN_FILE).object
    assert mutate(once, IN_FILE).object == once
    assert mutate(mutate(job(job_spec(**INDEXED)), IN_FILE).object, IN_FILE).patch == []


def test_a_template_that_becomes_non_indexed_loses_the_injected_back_off() -> None:
    stored = mutate(cron_job(job_spec(**INDEXED)), IN_FILE).object
    stored["spec"]["jobTemplate"]["spec"]["completionMode"] = "NonIndexed"
    edited = mutate(stored, IN_FILE, old=stored).object["spec"]["jobTemplate"]["spec"]
    assert [edited.get(field) for field in FIELDS[1:]] == [None, None]


# The difference between indexes with their own retry budgets and indexes with only their own back-off.

SUM = job_spec(**INDEXED, backoffLimit=3, backoffLimitPerIndex=10, maxFailedIndexes=0)


@pytest.mark.parametrize(
    ("changed", "has_them"),
    [
        ({}, False),
        ({"backoffLimit": 10}, False),
        ({"backoffLimit": 11}, True),
        ({"backoffLimit": None}, True),
        ({"backoffLimit": batch.UNLIMITED}, True),
        ({"maxFailedIndexes": 1}, True),
        ({"maxFailedIndexes": None}, True),
        ({"backoffLimitPerIndex": 2}, True),
        ({"backoffLimitPerIndex": None}, False),
        ({"podFailurePolicy": {"rules": [exit_codes("FailIndex", "In", 3)]}}, True),
        ({"podFailurePolicy": {"rules": [exit_codes("FailJob", "In", 3)]}}, False),
    ],
)
def test_indexes_have_budgets_of_their_own_unless_backoff_limit_ends_the_job_earlier(
    changed: Json, *, has_them: bool
) -> None:
    assert batch.has_index_budgets({**SUM, **changed}) is has_them


def test_if_backoff_limit_bounds_the_retries_the_rules_are_those_of_a_job_without_index_budgets() -> None:
    found = next(batch.JOB.jobs(job(SUM)))
    assert failure_policy.traits_of(found).coupled
    assert failure_policy.is_settled(found, Settings(profile_name="default", profile=Profile()))
    fail_job = policy(default=Profile(failure_policy=FailurePolicy(coupled="FailJob")))
    edited = mutate(job(SUM), IN_FILE, fail_job).object["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in edited] == ["Ignore", "FailJob"]


def test_a_free_restart_rule_for_failed_indexes_is_not_denied_because_of_an_injected_back_off() -> None:
    free = {"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["FailedIndexes"]}
    root: Json = {"metadata": {"name": "s"}, "spec": {"failurePolicy": {"rules": [free]}, "replicatedJobs": []}}
    root["spec"]["replicatedJobs"] = [{"name": "w", "template": {"spec": SUM}}]
    assert list(free_restarts.set_problems(root, list(JOB_SET.jobs(root)))) == []


def test_an_update_that_raises_backoff_limit_is_held_to_the_limit_whatever_each_index_has() -> None:
    old = job(SUM)
    raised = job({**SUM, "backoffLimit": 20})
    answer = mutate(raised, IN_FILE, policy(default=Profile(retries=Retries(on_exceed="Clamp"))), old=old)
    assert at(answer.object, ("spec", "backoffLimit")) == 10


# The count of ignored failures in a pod, by which the Job controller makes its index wait.


LIMITED = Profile(disruptions=Disruptions(limit=3))


def ignored(
    before: str | None, disruptions: int | None, profile: Profile = LIMITED, spec: Json = SUM, *, ledger: bool = True
) -> str | None:
    """Return the count of ignored failures of a pod after admission."""
    counts = {FAILURES: "1"} if before is None else {FAILURES: "1", IGNORED: before}
    rules = [DISRUPTION, exit_codes("FailJob", "In", 3)]
    owner = stored_job({"podFailurePolicy": {"rules": rules}, **spec}, {})
    facts = Facts(profile_name="default", owner=owner, disruptions=disruptions, ledger=ledger)
    policies = policy(default=profile)
    stored = mutate(pod(annotations=counts), facts, policies).object
    assert mutate(stored, facts, policies).object == stored
    found: str | None = stored["metadata"]["annotations"].get(IGNORED)
    return found


def test_a_disruption_does_not_make_its_index_wait_longer() -> None:
    assert ignored("1", 1) == "0"
    assert ignored("1", 3) == "0"


def test_disruptions_beyond_the_limit_make_their_index_wait_longer() -> None:
    assert ignored("1", 4) == "1"
    assert ignored("2", 5) == "2"


def test_the_count_of_ignored_failures_is_lowered_by_only_one() -> None:
    assert ignored("2", 3) == "1"


def test_the_count_stays_if_the_ledger_does_not_know_the_disruption() -> None:
    assert ignored("1", None) == "1"
    assert ignored("1", 0) == "1"
    assert ignored("3", 2) == "3"
    assert ignored("1", 1, ledger=False) == "1"
    assert ignored(None, 2) is None


def test_a_number_of_disruptions_that_lacks_those_that_were_subtracted_is_not_written() -> None:
    facts = Facts(profile_name="default", owner=stored_job({**SUM, "podFailurePolicy": {"rules": [DISRUPTION]}}, {}))
    for ledger, counts, number in (
        (True, {FAILURES: "0", IGNORED: "1"}, None),
        (True, {FAILURES: "0"}, "0"),
        (False, {FAILURES: "0", IGNORED: "1"}, "1"),
    ):
        known = msgspec.structs.replace(facts, ledger=ledger)
        for said in (counts, {**counts, names.DISRUPTIONS: "0"}):
            stored = mutate(pod(annotations=said), known, policy(default=LIMITED)).object
            assert stored["metadata"]["annotations"].get(names.DISRUPTIONS) == number


def test_a_malformed_count_stays() -> None:
    assert ignored("x", 1) == "x"


def test_the_count_stays_if_other_failures_are_ignored_too() -> None:
    other = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}
    assert ignored("1", 1, spec={**SUM, "podFailurePolicy": {"rules": [DISRUPTION, other]}}) == "1"


def test_a_profile_may_keep_the_back_off_of_the_job_controller() -> None:
    assert ignored("1", 1, Profile(back_off=BackOff(disruptions="Exponential"))) == "1"


def test_the_count_is_lowered_with_an_authors_own_backoff_limit_per_index_too() -> None:
    assert ignored("1", 1, spec=job_spec(**INDEXED, backoffLimitPerIndex=2)) == "0"
