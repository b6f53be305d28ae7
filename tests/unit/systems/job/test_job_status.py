"""The failures in a Job's status."""

from tests.objects import job_spec, pod, stored_job
from tests.unit.systems.pods import last_of_four_off_spot, off_spot, on_spot, only_the_first_on_spot, place, read
from webhook.objects.problem import Json
from webhook.systems.pod_source import Level


def test_a_job_without_failures_is_at_its_first_attempt() -> None:
    assert read(pod(), stored_job()) == ([Level("JobStatus", 0, 6)], [])


def test_the_last_of_four_attempts_leaves_spot() -> None:
    spec = job_spec(backoffLimit=3)
    pods = [place(pod(), stored_job(spec, {"failed": failed})) for failed in range(4)]
    assert pods == last_of_four_off_spot("JobStatus")


def test_with_one_retry_every_attempt_after_the_first_leaves_spot() -> None:
    spec = job_spec(backoffLimit=1)
    pods = [place(pod(), stored_job(spec, {"failed": failed})) for failed in range(4)]
    assert pods == only_the_first_on_spot("JobStatus", 1)


def test_a_failure_that_is_not_counted_yet_leaves_spot_too() -> None:
    spec = job_spec(backoffLimit=3)
    uncounted = {"failed": 2, "uncountedTerminatedPods": {"failed": ["a"], "succeeded": ["b"]}}
    assert place(pod(), stored_job(spec, {"failed": 2})) == on_spot("JobStatus", 2, 3)
    assert place(pod(), stored_job(spec, uncounted)) == off_spot("JobStatus", 3, 3)


def test_a_failure_that_the_ledger_has_counted_before_the_job_status_leaves_spot_too() -> None:
    owner = stored_job(job_spec(backoffLimit=3), {"failed": 2})
    for counted, attempt in ((3, 3), (1, 2)):
        assert read(pod(), owner, failures=counted)[0] == [Level("JobStatus", attempt, 3)]


def test_a_job_without_a_status_or_with_null_in_it_is_at_its_first_attempt() -> None:
    nulls: list[Json] = [{}, {"failed": None, "uncountedTerminatedPods": None}, {"uncountedTerminatedPods": {}}]
    for status in nulls:
        assert read(pod(), stored_job(job_spec(backoffLimit=3), status)) == ([Level("JobStatus", 0, 3)], [])


def test_a_job_that_does_not_exist_gives_no_level_so_that_its_pod_counts_as_a_first_attempt() -> None:
    assert place(pod()) == on_spot("Unknown", 0, 3)
