"""The limits of a workload, and what is left of them."""

import pytest

from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import disrupted, failed, job, job_set, running_pod
from tests.unit.accounts.test_account import counted
from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import count
from webhook.accounts.limits import budgets_of, is_exceeded, scope_of
from webhook.accounts.stored import SpentBudget, status_of
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.model import Disruptions, Profile
from webhook.policy.settings import Settings, resolve

PER_INDEX = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 2}


def settings(limit: int = 20) -> Settings:
    return resolve("default", Profile(disruptions=Disruptions(limit=limit)), {})


@pytest.mark.parametrize(
    ("spec", "disruptions"),
    [
        ({}, 5),
        ({"parallelism": 8}, 40),
        ({"parallelism": 8, "completions": 3}, 15),
        ({"parallelism": 0}, 5),
        ({"parallelism": 8, "completions": 8, "completionMode": "Indexed"}, 5),
    ],
)
def test_the_disruption_limit_is_per_index_or_else_times_the_pods_that_run_at_once(
    spec: Json, disruptions: int
) -> None:
    assert budgets_of(job(spec), None, settings(5)).disruptions == disruptions


def test_a_scope_is_an_index_and_in_a_job_set_it_names_the_job_too() -> None:
    assert scope_of(running_pod()) == ""
    assert scope_of(running_pod(index="3")) == "3"
    assert scope_of(running_pod(job="set-workers-0", job_set="set", index="3")) == "workers-0/3"
    assert scope_of(running_pod(job="set-workers-0", job_set="set")) == "workers-0/"


def test_one_disruption_more_than_the_limit_is_too_many() -> None:
    budgets = budgets_of(job(), None, settings(2))
    assert not is_exceeded(counted(disrupted(1), disrupted(2)), budgets, "")
    assert is_exceeded(counted(disrupted(1), disrupted(2), disrupted(3)), budgets, "")


def after(account: Account, pod: Pod, root: Json, above: Json | None = None) -> tuple[int, Left]:
    """Count a pod; return the number of its attempt, and what is left after it."""
    detail = count(account, pod, PodsOfJob(root, above, settings()))
    assert detail.left is not None
    return detail.attempt, detail.left


def test_a_job_has_the_retries_that_its_backoff_limit_leaves() -> None:
    account = Account()
    assert after(account, failed(1), job()) == (0, Left(retries=2, disruptions=20))
    assert after(account, disrupted(2), job()) == (1, Left(retries=2, disruptions=19))
    assert after(account, failed(3), job()) == (1, Left(retries=1, disruptions=19))
    assert after(account, failed(4), job()) == (2, Left(retries=0, disruptions=19))
    assert after(account, failed(5), job()) == (3, Left(retries=0, disruptions=19))


def test_the_number_of_an_attempt_is_the_one_in_the_annotation_of_its_pod() -> None:
    account = counted(failed(1), failed(2))
    assert after(account, failed(3, attempt=0), job())[0] == 0
    assert after(account, disrupted(4, attempt=3), job())[0] == 3


def test_with_a_backoff_limit_per_index_each_index_has_its_own_retries() -> None:
    account = Account()
    assert after(account, failed(1, index="0", index_failures=0), job(PER_INDEX)) == (
        0,
        Left(retries=1, disruptions=20),
    )
    assert after(account, failed(2, index="1", index_failures=1), job(PER_INDEX)) == (
        1,
        Left(retries=0, disruptions=20),
    )
    assert after(account, disrupted(3, index="0", index_failures=1), job(PER_INDEX)) == (
        1,
        Left(retries=1, disruptions=19),
    )


def test_a_job_set_has_the_restarts_that_its_status_leaves() -> None:
    root = job()
    root["spec"]["podFailurePolicy"] = {"rules": [{**DISRUPTION, "action": "FailJob"}, exit_codes("FailJob", "In", 1)]}
    status = {"restarts": 2, "restartsCountTowardsMax": 1}
    account = Account()
    pod = disrupted(1, job_set="set", job="set-workers-0", restart=2)
    assert after(account, pod, root, job_set(status=status)) == (2, Left(retries=1, disruptions=20))
    already = {"restarts": 3, "restartsCountTowardsMax": 2}
    assert after(account, disrupted(2, job_set="set", restart=2), root, job_set(status=already))[1].retries == 1


def test_pods_of_a_job_set_that_fail_in_one_run_are_as_many_attempts_and_spend_one_restart() -> None:
    root = job({"completionMode": "Indexed", "completions": 2, "parallelism": 2})
    root["spec"]["podFailurePolicy"] = {"rules": [exit_codes("FailJob", "In", 1)]}
    account, above = Account(), job_set(status={"restarts": 0}, maxRestarts=3)
    for index in range(2):
        pod = failed(index, 1, job_set="set", job="set-workers-0", index=str(index), restart=0)
        assert after(account, pod, root, above) == (0, Left(retries=2, disruptions=20))
    assert status_of(account).retries == SpentBudget(2, 2)


def test_a_job_that_is_restarted_alone_spends_restarts_of_its_job_set() -> None:
    root = job()
    root["spec"]["podFailurePolicy"] = {"rules": [{**DISRUPTION, "action": "FailJob"}]}
    rules = {"failurePolicy": {"maxRestarts": 3, "rules": [{"action": "RestartJob"}]}}
    of_jobs = [{"name": "workers", "jobRestarts": [1], "jobRestartsCountTowardsMax": [1]}]
    above = {**job_set(status={"replicatedJobsStatus": of_jobs}), "spec": rules}
    pod = disrupted(1, job_set="set", job="set-workers-0", replicated_job="workers", restart=1)
    assert after(Account(), pod, root, above)[1].retries == 1
    of_jobs[0] |= {"jobRestarts": [2], "jobRestartsCountTowardsMax": [2]}
    assert after(Account(), pod, root, above)[1].retries == 1


@pytest.mark.parametrize(
    ("restarts", "costly", "cost"), [(0, 0, "retry"), (1, 1, "fatal"), (2, 1, "retry"), (3, 1, "retry")]
)
def test_a_failure_that_a_rule_makes_final_is_fatal_if_its_job_set_has_no_restart_left(
    restarts: int, costly: int, cost: str
) -> None:
    root = job()
    root["spec"]["podFailurePolicy"] = {"rules": [exit_codes("FailJob", "In", 1)]}
    above = job_set(status={"restarts": restarts, "restartsCountTowardsMax": costly}, maxRestarts=1)
    account, pod = Account(), failed(1, 1, job_set="set", job="set-workers-0", restart=1)
    assert after(account, pod, root, above)[1].retries == 0
    assert account.cost == {cost: 1}


def test_a_retry_of_a_job_in_a_job_set_costs_no_restart_of_the_job_set() -> None:
    pod = failed(1, job_set="set", job="set-workers-0", restart=0)
    detail = Attempt(attempt=0, pod="p", cause="ExitCode", cost="retry")
    assert PodsOfJob(job(), job_set(), settings()).left_of(Account(), pod, detail).retries == 3
