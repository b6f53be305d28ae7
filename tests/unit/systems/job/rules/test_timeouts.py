"""The rule that limits the time of an attempt."""

from tests.objects import job, job_spec
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.model import Duration, Profile
from webhook.policy.settings import Settings
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import timeouts


def edited(spec: Json, timeout: int | None) -> Json:
    root = job(spec)
    profile = Profile(attempt_timeout=None if timeout is None else Duration(timeout))
    timeouts.edit(next(batch.JOB.jobs(root)), Settings(profile_name="default", profile=profile), Editor(root))
    edited_spec: Json = root["spec"]
    return edited_spec


def test_the_timeout_limits_each_attempt_and_not_all_attempts_together() -> None:
    spec = edited(job_spec(), 3600)
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 3600
    assert "activeDeadlineSeconds" not in spec


def test_an_authors_own_deadline_stays() -> None:
    author = job_spec()
    author["template"]["spec"]["activeDeadlineSeconds"] = 60
    assert edited(author, 3600)["template"]["spec"]["activeDeadlineSeconds"] == 60


def test_a_policy_without_a_timeout_sets_none() -> None:
    assert "activeDeadlineSeconds" not in edited(job_spec(), None)["template"]["spec"]


def test_a_job_without_a_pod_template_is_left_to_the_api_server() -> None:
    assert edited({}, 3600) == {}
