"""The back-off of the real Job controller before it replaces pods; all other behaviour stays the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import exits, job, job_set, replicated_job
from tests.cluster.objects import account, condition, disruptions, ended, is_running, noted
from webhook.systems.job.spec import INDEX_FAILURES, INDEX_IGNORED_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

INDEX = "batch.kubernetes.io/job-completion-index"
FIELDS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=10)


def indexed(pods: int, annotations: Mapping[str, str] | None = None, /, **spec: object) -> Object:
    """Return an Indexed Job with this number of pods at a time."""
    return job("train", annotations, completionMode="Indexed", completions=pods, parallelism=pods, **spec)


def limits(found: Object) -> list[int | None]:
    return [found["spec"].get(field) for field in FIELDS]


def index_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][INDEX])


def counts(pod: Object) -> tuple[str | None, str | None]:
    """Return the counts of the Job controller for a pod's index: failures that cost a retry, and ignored failures."""
    annotations = pod["metadata"]["annotations"]
    return annotations.get(INDEX_FAILURES), annotations.get(INDEX_IGNORED_FAILURES)


def running_of_index(pods: list[Object], index: str, but: Object | None = None) -> list[Object]:
    found = [pod for pod in pods if is_running(pod) and index_of(pod) == index]
    return [pod for pod in found if but is None or pod["metadata"]["uid"] != but["metadata"]["uid"]]


def pod_of_index(team: Namespace, index: int, but: Object | None = None) -> Object:
    """Return the running pod of an index; `but` is an older pod."""
    (pod,) = running_of_index(
        team.pods_of("train", lambda pods: running_of_index(pods, str(index), but)), str(index), but
    )
    return pod


def new_pods(team: Namespace, known: Iterable[Object], number: int) -> list[Object]:
    """Return the running pods except `known` ones, as soon as there are `number` of them."""
    uids = {pod["metadata"]["uid"] for pod in known}

    def others(pods: list[Object]) -> list[Object]:
        return [pod for pod in pods if is_running(pod) and pod["metadata"]["uid"] not in uids]

    return others(team.pods_of("train", lambda pods: len(others(pods)) == number))


def waited(team: Namespace, before: Object, after: Object) -> timedelta:
    """Return the time from the end of one pod to the creation of another one."""
    name = before["metadata"]["name"]
    found = team.wait_for(
        "jobs", "train", lambda found: any(one["pod"] == name for one in account(found).get("last", ()))
    )
    (end,) = [one["end"] for one in account(found)["last"] if one["pod"] == name]
    return parsed_time(after["metadata"]["creationTimestamp"]) - parsed_time(end)


def usual_back_off(failures: int) -> timedelta:
    """Return the usual back-off after this number of counted failures, which doubles with each of them."""
    doubled: timedelta = FIRST_WAIT * 2 ** (failures - 1)
    return min(doubled, LONGEST_WAIT)


def parsed_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def test_pods_that_are_evicted_together_are_all_replaced_after_the_first_wait(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    assert limits(team.create(indexed(20, backoffLimit=3))) == [3, 10, 0]
    pods = {index_of(pod): pod for pod in team.running("train", 20)}
    evicted = [str(index) for index in range(10)]
    for index in evicted:
        team.evict(pods[index]["metadata"]["name"])
    new = {index_of(one): one for one in new_pods(team, pods.values(), 10)}
    assert sorted(new, key=int) == evicted
    assert max(waited(team, pods[index], new[index]) for index in evicted) < usual_back_off(len(evicted))
    assert account(team.get("job", "train"))["cost"] == {"disruption": 10}


@pytest.mark.first
def test_repeated_disruptions_of_one_index_neither_lengthen_the_wait_nor_cost_a_retry(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(indexed(2, backoffLimit=1))
    pod = pod_of_index(team, 0)
    for number in range(1, 7):
        before = pod
        team.evict(before["metadata"]["name"])
        pod = pod_of_index(team, 0, but=before)
        wait = waited(team, before, pod)
        assert counts(pod) == ("0", "0")
        assert (noted(pod)["attempt"], disruptions(pod)) == ("0", str(number))
    assert wait < usual_back_off(6)
    team.ends(pod, 143)
    last = pod_of_index(team, 0, but=pod)
    assert counts(last)[0] == "1"
    found = team.wait_for("jobs", "train", lambda found: ended(found, 7))
    assert account(found)["cost"] == {"disruption": 6, "retry": 1}


@pytest.mark.first
def test_the_job_controller_counts_disruptions_beyond_the_limit(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "limited")
    team.create(indexed(1, backoffLimit=3))
    found: list[Object] = []
    for _ in range(3):
        pod = pod_of_index(team, 0, but=found[-1] if found else None)
        found.append(pod)
        team.evict(pod["metadata"]["name"])
    assert [counts(pod) for pod in found] == [("0", None), ("0", "0"), ("0", "1")]


def test_if_pods_that_fail_together_use_up_the_retries_all_their_replacements_run_on_demand(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "require")
    team.create(indexed(3, backoffLimit=3))
    pods = team.running("train", 3)
    team.all_end(pods, 143)
    new = new_pods(team, pods, 3)
    assert {noted(one)["placement"] for one in new} == {"OnDemand"}
    assert {(noted(one)["attempt"], noted(one)["max-retries"]) for one in new} == {("3", "3")}


def test_failures_of_all_indexes_beyond_backoff_limit_fail_the_job_with_backoff_limit_exceeded(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(indexed(4, backoffLimit=2))
    team.all_end([pod for pod in team.running("train", 4) if index_of(pod) != "3"], 143)
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
    assert found["status"]["failed"] >= 3


def test_a_failure_beyond_backoff_limit_and_the_limit_of_its_index_has_reason_backoff_limit_exceeded(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(indexed(1, exits(143), backoffLimit=1, backoffLimitPerIndex=1, maxFailedIndexes=0))
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed") and ended(found, 2))
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
    assert account(found)["cost"] == {"retry": 1, "fatal": 1}


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("spec", [{}, {"backoffLimit": 2}], ids=["without backoffLimit", "with backoffLimit"])
def test_an_unchanged_manifest_can_be_applied_again(
    namespace: NewNamespace, options: tuple[str, ...], spec: Object
) -> None:
    team = opted_in(namespace)
    manifest = indexed(2, **spec)
    for _ in range(2):
        applied = team.run("apply", *options, "--filename=-", stdin=manifest)
        assert applied.returncode == 0, applied.stderr
        assert limits(team.get("job", "train")) == [spec.get("backoffLimit", 3), 10, 0]


def test_an_update_to_more_retries_than_the_limit_is_denied(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(indexed(2, backoffLimit=2))
    refused = team.patched("job/train", {"spec": {"backoffLimit": 11}})
    assert "spec.backoffLimit: 11 retries exceed the limit of 10" in refused
    team.patch("job/train", {"spec": {"backoffLimit": 10}})


def test_the_template_of_a_cron_job_and_its_jobs_get_limits_for_each_index_and_for_the_job(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    template = {"spec": indexed(2)["spec"]}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
    }
    for _ in range(2):
        assert team.run("apply", "--filename=-", stdin=cron_job).returncode == 0
        assert limits(team.get("cronjob", "nightly")["spec"]["jobTemplate"]) == [3, 10, 0]
    team.run("create", "job", "train", "--from=cronjob/nightly")
    assert limits(team.get("job", "train")) == [3, 10, 0]


def test_an_elastic_job_can_be_scaled_down_and_up_while_a_failed_index_waits(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(indexed(3, backoffLimit=3))
    gone, stays = pod_of_index(team, 2), pod_of_index(team, 0)
    team.all_end([gone, stays], 143)
    team.wait_for("jobs", "train", lambda found: ended(found, 2))
    scale(team, 2)
    team.pods_of("train", lambda pods: running_of_index(pods, "0", stays) and not running_of_index(pods, "2"))
    scale(team, 3)
    pods = team.running("train", 3)
    assert [index_of(pod) for pod in sorted(pods, key=index_of)] == ["0", "1", "2"]
    found = team.get("job", "train")
    assert not condition(found, "Failed")
    assert account(found)["cost"] == {"retry": 2}


def scale(team: Namespace, pods: int) -> None:
    team.patch("job/train", {"spec": {"completions": pods, "parallelism": pods}})


def suspend(team: Namespace, *, suspended: bool = True) -> None:
    team.patch("job/train", {"spec": {"suspend": suspended}})


def test_suspending_and_resuming_a_job_does_not_reset_its_retries(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(indexed(2, backoffLimit=1))
    first = pod_of_index(team, 0)
    team.ends(first, 143)
    second = pod_of_index(team, 0, but=first)
    suspend(team)
    team.pods_of("train", lambda pods: not [pod for pod in pods if is_running(pod)])
    suspend(team, suspended=False)
    third = pod_of_index(team, 0, but=second)
    team.ends(third, 143)
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"


def test_a_success_policy_completes_the_job_while_a_failed_index_waits(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(indexed(2, backoffLimit=3, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    leader, worker = pod_of_index(team, 0), pod_of_index(team, 1)
    team.ends(worker, 143)
    team.wait_for("jobs", "train", lambda found: ended(found, 1))
    team.ends(leader, 0)
    found = team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))
    assert condition(found, "Complete")["reason"] == "SuccessPolicy"


@pytest.mark.first
@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_disruptions_of_a_single_pod_job_that_became_indexed_do_not_lengthen_its_back_off(
    namespace: NewNamespace, options: tuple[str, ...]
) -> None:
    team = opted_in(namespace, "single-pod")
    manifest = job("train", backoffLimit=2)
    assert team.run("apply", *options, "--filename=-", stdin=manifest).returncode == 0
    assert limits(team.get("job", "train")) == [2, 10, 0]
    pod = pod_of_index(team, 0)
    for _ in range(3):
        before = pod
        team.evict(before["metadata"]["name"])
        pod = pod_of_index(team, 0, but=before)
        assert counts(pod) == ("0", "0")
    applied = team.run("apply", *options, "--filename=-", stdin=manifest)
    assert applied.returncode == 0, applied.stderr
    team.ends(pod, 0)
    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_a_job_with_explicit_completion_mode_non_indexed_is_not_changed(
    namespace: NewNamespace, options: tuple[str, ...]
) -> None:
    team = opted_in(namespace, "single-pod")
    manifest = job("train", completionMode="NonIndexed")
    assert team.run("apply", *options, "--filename=-", stdin=manifest).returncode == 0
    assert team.get("job", "train")["spec"]["completionMode"] == "NonIndexed"


@pytest.mark.parametrize(
    "metadata",
    [{"name": "a" * 61}, {"name": "a" * 62}, {"generateName": "a" * 56}, {"generateName": "a" * 58}, {"name": "a.b"}],
    ids=str,
)
def test_the_api_server_accepts_single_pod_jobs_with_any_name(namespace: NewNamespace, metadata: Object) -> None:
    team = opted_in(namespace, "single-pod")
    manifest = {**job("train"), "metadata": metadata}
    team.create(manifest)


@pytest.mark.first
def test_a_cron_job_with_the_longest_name_creates_jobs_that_become_indexed(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "single-pod")
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a" * 50},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job("train")["spec"]}},
    }
    assert team.create(cron_job)["spec"]["jobTemplate"]["spec"]["completionMode"] == "Indexed"
    pods = team.wait_for_all("pods", lambda pods: [pod for pod in pods if is_running(pod)])
    assert index_of(pods[0]) == "0"


@with_operators
def test_the_jobs_of_a_job_set_get_both_limits_and_fail_with_the_reason_that_its_rules_match(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    rule = {"name": "again", "action": "RestartJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}
    worker = replicated_job(
        "w", exits(143, 143, 0), completionMode="Indexed", completions=2, parallelism=2, backoffLimit=0
    )
    manifest = job_set("train", worker, failurePolicy={"maxRestarts": 3, "rules": [rule]})
    for _ in range(2):
        assert team.run("apply", "--filename=-", stdin=manifest).returncode == 0
    assert limits(team.wait_for("jobs", "train-w-0", bool)) == [0, 10, 0]
    team.wait_for("jobsets", "train", lambda found: found.get("status", {}).get("restarts"))
