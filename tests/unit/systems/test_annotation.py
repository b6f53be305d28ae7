"""The annotation `attempt`, which any user may write."""

import pytest

from tests.objects import job_spec, pod, stored_job
from tests.unit.systems.pods import NO_COUNTS, evidence, last_of_four_off_spot, off_spot, on_spot, place, read
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.systems.pod_source import Level
from webhook.systems.pods import said_attempt

FAILURES = "batch.kubernetes.io/job-index-failure-count"


def annotated(attempt: str) -> Json:
    return pod(annotations={names.ATTEMPT: attempt})


def test_the_annotation_wins_over_every_other_source() -> None:
    both = pod(annotations={names.ATTEMPT: "5", FAILURES: "1"})
    assert read(both, stored_job(job_spec(backoffLimit=7)))[0] == [Level("Annotation", 5, 7)]


def test_the_annotation_may_be_on_the_controller() -> None:
    owner = stored_job(job_spec(backoffLimit=7), annotations={names.ATTEMPT: "2"})
    assert read(pod(), owner)[0] == [Level("Annotation", 2, 7)]


def test_the_pods_own_annotation_wins_over_its_controllers() -> None:
    owner = stored_job(job_spec(backoffLimit=7), annotations={names.ATTEMPT: "2"})
    assert read(annotated("4"), owner)[0] == [Level("Annotation", 4, 7)]


def test_an_attempt_that_the_webhook_wrote_is_determined_again() -> None:
    own = pod(annotations={names.ATTEMPT: "0", names.ATTEMPT_SOURCE: "JobStatus"})
    assert read(own, stored_job(status={"failed": 3}))[0] == [Level("JobStatus", 3, 6)]


@pytest.mark.parametrize("nonsense", [*NO_COUNTS, "1.5", " 1", "+1", "\u0663", "null", "[]"])
def test_a_malformed_attempt_falls_back_to_the_next_source_with_a_warning(nonsense: str) -> None:
    found, warnings = read(annotated(nonsense), stored_job(status={"failed": 3}))
    assert found == [Level("JobStatus", 3, 6)]
    assert len(warnings) == 1


def test_malformed_annotations_on_pod_and_controller_cause_a_warning_each() -> None:
    owner = stored_job(status={"failed": 3}, annotations={names.ATTEMPT: "three"})
    found, warnings = read(annotated("two"), owner)
    assert found == [Level("JobStatus", 3, 6)]
    assert len(warnings) == 2


def test_a_malformed_annotation_is_cut_in_its_warning() -> None:
    found = evidence(annotated("x" * 400))
    assert said_attempt(found) is None
    assert [str(one) for one in found.warnings] == [
        f"metadata.annotations[{names.ATTEMPT}]: is 'xxxxxxxxxxxxxxxxxxxx'; must be a whole number, 0 or more"
    ]


def test_with_the_annotation_other_sources_cause_no_warnings() -> None:
    both = pod(annotations={names.ATTEMPT: "1", FAILURES: "x"})
    assert read(both, stored_job(job_spec(backoffLimitPerIndex=2)))[1] == []


def test_the_last_of_four_attempts_that_a_job_allows_leaves_spot() -> None:
    owner = stored_job(job_spec(backoffLimit=3))
    assert [place(annotated(str(attempt)), owner) for attempt in range(4)] == last_of_four_off_spot("Annotation")


def test_a_pod_without_a_controller_is_placed_by_the_annotation_and_the_profiles_default() -> None:
    bare = [pod(annotations={names.ATTEMPT: str(attempt)}, owner=None) for attempt in range(4)]
    assert [place(root) for root in bare] == last_of_four_off_spot("Annotation")


def test_an_annotated_budget_applies_to_an_annotated_attempt() -> None:
    both = {names.ATTEMPT: "3", names.MAX_RETRIES: "5"}
    assert place(pod(annotations=both, owner=None)) == on_spot("Annotation", 3, 5)
    assert place(pod(annotations={**both, names.ATTEMPT: "5"}, owner=None)) == off_spot("Annotation", 5, 5)
