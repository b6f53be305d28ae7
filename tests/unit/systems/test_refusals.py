"""The refusals that all kinds share."""

import pytest

from webhook.kube import names
from webhook.objects.problem import Json, Problem
from webhook.systems import refusals

NAME = "Job ml/train"
ROOT: Json = {"metadata": {"name": "train", "namespace": "ml"}}


def test_an_object_is_named_by_kind_namespace_and_name() -> None:
    assert refusals.kind_and_name("JobSet", ROOT) == "JobSet ml/train"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (refusals.is_being_deleted(NAME), "is being deleted; create it again once it is gone"),
        (
            refusals.is_run_by(NAME, "RayJob ray"),
            "is managed by RayJob ray, which decides on retries; use the retries of RayJob ray",
        ),
        (refusals.has_succeeded(NAME), "has succeeded; create another one to run it again"),
        (refusals.has_not_ended(NAME), "has not ended; request the retry again once it has failed"),
        (
            refusals.has_not_ended(NAME, "it was cancelled"),
            "has not ended; request the retry again once it was cancelled",
        ),
        (refusals.is_gone(NAME), "no longer exists; create it again"),
        (refusals.is_queued(NAME), "is in a Kueue queue, which decides when it runs; set spec.active in its Workload"),
    ],
)
def test_each_refusal_has_a_reason_and_a_remedy(problem: Problem, text: str) -> None:
    assert str(problem) == f"{NAME} {text}"


def test_the_remedy_for_missing_consent_is_a_command_that_can_be_run() -> None:
    problem = refusals.may_not_run_twice(NAME, "job/train", ROOT)
    assert problem.what == f"{NAME} does not say that it may run twice"
    assert problem.remedy == f"if it may: kubectl annotate -n ml job/train {names.RETRYABLE}=true"


def test_parts_without_consent_are_named_and_many_are_counted() -> None:
    two = refusals.may_not_run_twice(NAME, "jobset/train", ROOT, ["driver", "workers"])
    assert two.what == f"{NAME} does not say of driver, workers that it may run twice"
    many = refusals.may_not_run_twice(NAME, "jobset/train", ROOT, [f"part-{number:02}" for number in range(12)])
    assert many.what.endswith("part-09 and 2 more that it may run twice")
