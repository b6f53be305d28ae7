"""What the doctor says about an object that was left alone."""

from typing import Any

from tests.objects import job, job_spec
from tests.unit.doctor.healthy import healthy, namespace, told, wrong
from webhook.doctor.checks.asked_object import check
from webhook.doctor.snapshot import Stored
from webhook.kube import names
from webhook.objects.problem import Json


def asked(root: Json | None, **changes: Any) -> Any:
    return healthy(asked="ml", stored=[Stored(("batch", "Job"), "ml/job/train", root)], **changes)


def stored(annotations: dict[str, str] | None = None, backoff_limit: int = 3) -> Json:
    root = job(job_spec(backoffLimit=backoff_limit), annotations=annotations or {})
    root["metadata"]["creationTimestamp"] = "2026-10-01T00:00:00Z"
    return root


def test_without_a_question_about_an_object_nothing_is_said() -> None:
    assert list(check(healthy())) == []


def test_an_object_that_does_not_exist_is_a_problem() -> None:
    assert told(check, asked(None)) == ("problem", "ml/job/train: does not exist", "kubectl -n ml get jobs")


def test_an_object_that_was_changed_was_not_left_alone() -> None:
    root = stored({names.POLICY: '{"profile": "default"}'})
    (found,) = check(asked(root))
    assert (found.status, found.what) == ("ok", f"was not left alone: it has the annotation {names.POLICY}")
    root["metadata"]["labels"] = {names.PROFILE: "gpu"}
    (found,) = check(asked(root))
    assert found.what.endswith(f"it has the label {names.PROFILE}: gpu and the annotation {names.POLICY}")


def test_of_a_pod_the_placement_is_shown() -> None:
    (found,) = check(asked(stored({names.PLACEMENT: "OnDemand"})))
    assert found.what == f"was not left alone: it has the annotation {names.PLACEMENT}: OnDemand"


def test_a_name_that_no_kind_has_is_a_problem() -> None:
    found = told(check, healthy(asked="ml", stored=[Stored(None, "ml/train", None)]))
    what = "ml/train: does not exist, in any kind that the webhook handles"
    assert found == ("problem", what, "kubectl -n ml get jobs,cronjobs,pods")


def test_an_object_that_its_author_exempted_is_a_warning() -> None:
    status, text, fix = told(check, asked(stored({names.SKIP: "true"})))
    assert status == "warning"
    assert f"has the annotation {names.SKIP}" in text
    assert fix == f"kubectl -n ml annotate jobs train {names.SKIP}-"


def test_an_object_from_before_the_opt_in_is_a_problem_with_its_time() -> None:
    status, text, _ = told(check, asked(stored(backoff_limit=25)))
    assert status == "problem"
    assert "would be denied if it were created now (spec.backoffLimit: 25 retries exceed" in text
    assert "it was created at 2026-10-01T00:00:00Z, before the namespace was opted in" in text
    assert "while the webhook configurations were absent" in text


def test_the_finding_about_the_namespace_is_enough_if_it_is_not_opted_in() -> None:
    assert wrong(check, asked(stored(), namespaces=[namespace()])) == []
