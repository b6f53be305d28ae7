"""Jobs of one pod, which become Indexed if the profile says so."""

from typing import Any

import msgspec
import pytest

from tests.admission import mutate, policy, validate
from tests.objects import cron_job, job, job_spec
from webhook.objects.problem import Json
from webhook.policy.model import BackOff, Profile
from webhook.rules.facts import Facts
from webhook.systems.job.rules import single_pod
from webhook.systems.job.spec import CRON_JOB, JOB
from webhook.systems.job_set.spec import JOB_SET

BY_INDEX = policy(default=Profile(back_off=BackOff(single_pod="Indexed")))
FILE = Facts(profile_name="default", defaulted=False)
API = Facts(profile_name="default")
# The values that the API server sets before admission.
STORED: dict[str, Any] = {"completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "backoffLimit": 6}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def becomes(root: Json, facts: Facts = FILE) -> tuple[Any, ...]:
    """Return completionMode, completions and backoffLimitPerIndex after admission."""
    edited = mutate(root, facts, BY_INDEX).object["spec"]
    spec = edited["jobTemplate"]["spec"] if root["kind"] == "CronJob" else edited
    return spec.get("completionMode"), spec.get("completions"), spec.get("backoffLimitPerIndex")


INDEXED = ("Indexed", 1, 10)


def test_a_job_of_one_pod_becomes_indexed_and_gets_a_back_off_per_index() -> None:
    assert becomes(job()) == INDEXED
    assert becomes(job(job_spec(completions=1))) == INDEXED
    assert becomes(job(job_spec(completions=1, parallelism=1))) == INDEXED
    assert becomes(cron_job()) == INDEXED


def test_a_job_of_one_pod_is_not_changed_by_default() -> None:
    assert "completionMode" not in mutate(job(), FILE).object["spec"]


def test_a_completion_mode_that_the_api_server_defaulted_becomes_indexed() -> None:
    assert becomes(job(job_spec(**STORED)), API) == INDEXED
    applied = msgspec.json.encode(job()).decode()
    assert becomes(job(job_spec(**STORED), annotations={APPLIED: applied}), API) == INDEXED


def test_a_completion_mode_that_the_author_wrote_stays() -> None:
    own = job_spec(completionMode="NonIndexed")
    assert becomes(job(own))[0] == "NonIndexed"
    assert becomes(cron_job(own), API)[0] == "NonIndexed"
    applied = msgspec.json.encode(job(own)).decode()
    assert becomes(job(job_spec(**STORED), annotations={APPLIED: applied}), API)[0] == "NonIndexed"
    fields = {"operation": "Apply", "fieldsV1": {"f:spec": {"f:completionMode": {}}}}
    assert becomes(job(job_spec(**STORED), managedFields=[fields]), API)[0] == "NonIndexed"


OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(job(job_spec(parallelism=1)), id="a work queue"),
        pytest.param(job(job_spec(completions=2)), id="two pods"),
        pytest.param(job(job_spec(completions=0)), id="no pod"),
        pytest.param(job(job_spec(completions=1, parallelism=0)), id="paused"),
        pytest.param(job(job_spec(completions=1, parallelism=2)), id="two at a time"),
        pytest.param(job(job_spec(restart_policy="OnFailure")), id="OnFailure"),
        pytest.param(job(job_spec(manualSelector=True)), id="adopted pods"),
        pytest.param(job(job_spec(managedBy="example.com/other")), id="another controller"),
        pytest.param(job(ownerReferences=[OWNER]), id="made by a controller"),
        pytest.param(job(name="nightly.train"), id="a dot"),
        pytest.param(job(name="a" * 62), id="a long name"),
        pytest.param(job(name=None, generateName="a" * 57), id="a long prefix"),
        pytest.param(job(name=None, generateName="nightly.train-"), id="a prefix with a dot"),
        pytest.param(cron_job(name="a" * 51), id="a CronJob of a long name"),
    ],
)
def test_a_job_that_an_index_would_break_is_not_changed(root: Json) -> None:
    assert becomes(root)[0] is None


def test_a_job_whose_author_set_a_hostname_is_not_changed() -> None:
    spec = job_spec()
    spec["template"]["spec"]["hostname"] = "leader"
    assert becomes(job(spec))[0] is None


@pytest.mark.parametrize(
    "root", [job(name="a" * 61), job(name=None, generateName="a" * 56), cron_job(name="a" * 50)], ids=str
)
def test_a_job_with_the_longest_name_that_the_api_allows_with_an_index_becomes_indexed(root: Json) -> None:
    assert becomes(root) == INDEXED


def test_a_job_that_becomes_indexed_has_the_rules_of_a_job_of_one_pod() -> None:
    edited = mutate(job(), FILE, BY_INDEX).object
    bug = edited["spec"]["podFailurePolicy"]["rules"][-1]["onExitCodes"]
    assert bug["values"] == [143]
    answer = validate(edited, FILE, BY_INDEX)
    assert (answer.allowed, answer.warnings) == (True, [])
    assert mutate(edited, FILE, BY_INDEX).object == edited


def test_the_rule_writes_only_jobs_and_cron_jobs() -> None:
    assert single_pod.RULE.writes(JOB) == (("spec", "completionMode"), ("spec", "completions"))
    assert single_pod.RULE.writes(CRON_JOB)[0][:3] == ("spec", "jobTemplate", "spec")
    assert single_pod.RULE.writes(JOB_SET) == ()
