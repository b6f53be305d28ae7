"""The verdict of an audit on one stored object."""

import pytest

from tests.admission import lacking
from tests.objects import cron_job, job, job_spec, pod, stored_job
from webhook.admission import engine
from webhook.admission.judge import Judgement, judge
from webhook.admission.subject import request_to_create, subject_of
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import load_default
from webhook.rules.facts import Facts

POLICY: Policy = load_default()


def judged(root: Json) -> Judgement | None:
    return judge(root, POLICY, "default", Facts(profile_name=None))


def test_an_object_that_would_be_denied_is_reported_with_only_its_problems() -> None:
    said = "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
    assert judged(stored_job(job_spec(backoffLimit=25))) == Judgement("denied", (said,))


def test_an_object_with_a_wrong_type_would_be_denied() -> None:
    found = judged(stored_job(job_spec(backoffLimit="three")))
    assert found is not None
    assert found.verdict == "denied"


def test_an_object_that_would_be_changed_is_reported_with_its_fields_in_one_line() -> None:
    root = lacking(cron_job(job_spec(backoffLimit=3)), ("spec", "jobTemplate", "spec", "podFailurePolicy"))
    assert judged(root) == Judgement("changed", ("spec.jobTemplate.spec.podFailurePolicy would be added",))


def test_an_object_that_was_admitted_is_not_reported_as_changed_again() -> None:
    root = stored_job(job_spec())
    facts = Facts(profile_name="default")
    subject = subject_of(request_to_create(root), root)
    assert subject is not None
    engine.mutate(subject, POLICY, facts)
    found = judged(root)
    assert found is not None
    assert found.verdict in {"warned", "unchanged"}


def test_an_object_that_would_only_get_warnings_is_reported_with_them() -> None:
    found = judged(lacking(stored_job(job_spec(restart_policy="OnFailure", backoffLimit=3))))
    said = "spec.template.spec.restartPolicy: OnFailure allows no failure policy; use Never to fail at once on bugs"
    assert found == Judgement("warned", (said,))


def test_the_first_ten_problems_are_listed_and_the_rest_are_counted() -> None:
    found = judged(stored_job(job_spec(rules=[{"action": "Ignore"}] * 20)))
    assert found is not None
    assert len(found.findings) == 11
    assert found.findings[-1] == "and 10 more"


def test_a_pod_is_reported_only_if_it_would_be_denied() -> None:
    assert judged(pod(owner=None, annotations={names.INTERRUPTIBLE: "true"})) == Judgement("unchanged")
    found = judged(pod(owner=None, annotations={names.INTERRUPTIBLE: "maybe"}))
    assert found is not None
    assert found.verdict == "denied"


@pytest.mark.parametrize("root", [pod(owner=None), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}])
def test_an_object_that_admission_ignores_is_not_reported(root: Json) -> None:
    assert judged(root) is None


def test_the_annotations_and_labels_of_the_webhook_are_not_reported_as_changes() -> None:
    found = judged(lacking(job(job_spec(rules=[], backoffLimit=0))))
    assert found is not None
    assert "metadata" not in "".join(found.findings)
