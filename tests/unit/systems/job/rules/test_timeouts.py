"""The rule that limits the time of an attempt."""

from tests.admission import mutate, policy
from tests.objects import job, job_spec
from webhook.objects.problem import Json
from webhook.policy.model import Duration, Profile


def edited(spec: Json) -> Json:
    found: Json = mutate(job(spec), under=policy(default=Profile(attempt_timeout=Duration(3600)))).object["spec"]
    return found


def test_the_timeout_limits_each_attempt_and_not_all_attempts_together() -> None:
    spec = edited(job_spec())
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 3600
    assert "activeDeadlineSeconds" not in spec


def test_an_authors_own_deadline_stays() -> None:
    author = job_spec()
    author["template"]["spec"]["activeDeadlineSeconds"] = 60
    assert edited(author)["template"]["spec"]["activeDeadlineSeconds"] == 60


def test_a_job_without_a_pod_template_is_left_to_the_api_server() -> None:
    assert "template" not in edited({})
