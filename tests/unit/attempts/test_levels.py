"""Which attempt a pod is, and who says so."""

import pytest

from tests.objects import job_spec, pod, stored_job
from webhook import names
from webhook.attempts import Level, levels
from webhook.policy.model import Profile
from webhook.policy.settings import Settings, resolve
from webhook.problem import Json, Problem

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def read(pod: Json, owner: Json | None, settings: Settings | None = None) -> tuple[list[Level], list[Problem]]:
    warnings: list[Problem] = []
    return levels(pod, owner, settings or resolve("default", Profile(), {}), warnings), warnings


def test_a_job_counts_its_failures_against_its_backoff_limit() -> None:
    owner = stored_job(job_spec(backoffLimit=4), {"failed": 2})
    assert read(pod(), owner) == ([Level("JobStatus", 2, 4)], [])


def test_a_job_without_failures_is_at_its_first_attempt() -> None:
    assert read(pod(), stored_job()) == ([Level("JobStatus", 0, 6)], [])


def test_failures_that_the_job_controller_has_yet_to_count_are_counted() -> None:
    owner = stored_job(job_spec(backoffLimit=4), {"failed": 1, "uncountedTerminatedPods": {"failed": ["a", "b"]}})
    assert read(pod(), owner)[0] == [Level("JobStatus", 3, 4)]


def test_an_index_counts_its_own_failures_and_its_own_disruptions() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=2, backoffLimit=2147483647), {"failed": 40})
    indexed = pod(annotations={FAILURES: "1", IGNORED: "3"})
    assert read(indexed, owner)[0] == [Level("JobIndex", 1, 2), Level("JobIndex", 3, 20)]


def test_an_index_without_disruptions_is_at_none() -> None:
    indexed = pod(annotations={FAILURES: "1"})
    assert read(indexed, stored_job(job_spec(backoffLimitPerIndex=2)))[0][1] == Level("JobIndex", 0, 20)


def test_the_annotation_wins_over_every_other_source() -> None:
    annotated = pod(annotations={names.ATTEMPT: "5", FAILURES: "1"})
    assert read(annotated, stored_job(job_spec(backoffLimit=7)))[0] == [Level("Annotation", 5, 7)]


def test_the_annotation_may_stand_on_the_controller() -> None:
    owner = stored_job(job_spec(backoffLimit=7), annotations={names.ATTEMPT: "2"})
    assert read(pod(), owner)[0] == [Level("Annotation", 2, 7)]


def test_the_pods_own_annotation_wins_over_its_controllers() -> None:
    owner = stored_job(job_spec(backoffLimit=7), annotations={names.ATTEMPT: "2"})
    assert read(pod(annotations={names.ATTEMPT: "4"}), owner)[0] == [Level("Annotation", 4, 7)]


def test_an_attempt_that_the_webhook_wrote_itself_is_worked_out_anew() -> None:
    own = pod(annotations={names.ATTEMPT: "0", names.ATTEMPT_SOURCE: "JobStatus"})
    assert read(own, stored_job(status={"failed": 3}))[0] == [Level("JobStatus", 3, 6)]


@pytest.mark.parametrize("nonsense", ["-1", "two", "", "9" * 400])
def test_a_malformed_attempt_falls_back_to_the_next_source_with_a_warning(nonsense: str) -> None:
    found, warnings = read(pod(annotations={names.ATTEMPT: nonsense}), stored_job(status={"failed": 3}))
    assert found == [Level("JobStatus", 3, 6)]
    assert len(warnings) == 1


def test_a_malformed_index_count_falls_back_to_the_next_source_with_a_warning() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=2), {"failed": 1})
    found, warnings = read(pod(annotations={FAILURES: "x", IGNORED: "y"}), owner)
    assert [level.source for level in found] == ["JobStatus"]
    assert len(warnings) == 2


def test_nothing_tells_where_the_controller_is_gone() -> None:
    assert read(pod(), None) == ([], [])


def test_a_budget_is_the_owners_else_max_retries_else_the_default() -> None:
    annotated = pod(annotations={names.ATTEMPT: "1"}, owner=None)
    own = resolve("default", Profile(), {names.MAX_RETRIES: "8"})
    assert read(annotated, stored_job(job_spec(backoffLimit=5)), own)[0][0].budget == 5
    assert read(annotated, None, own)[0][0].budget == 8
    assert read(annotated, None)[0][0].budget == 3
