"""The counts of a pod's index, in a Job with backoffLimitPerIndex."""

from functools import partial
from typing import Any

import pytest

from tests.objects import DISRUPTION, exit_codes, job_spec, pod, stored_job
from tests.unit.systems.pods import NO_COUNTS, last_of_four_off_spot, of_disruptions, off_spot, on_spot, place, read
from webhook.systems.job import pods as of_jobs
from webhook.systems.pod_source import Level

failures_of_index = partial(read, of=of_jobs.of_index)
ignored_of_index = partial(read, of=of_jobs.ignored_of_index)

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
OWNER = stored_job(job_spec(backoffLimitPerIndex=3, backoffLimit=2147483647), {"failed": 40})


def test_an_index_counts_its_own_failures_and_its_own_disruptions() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=2, backoffLimit=2147483647), {"failed": 40})
    indexed = pod(annotations={FAILURES: "1", IGNORED: "3"})
    assert read(indexed, owner)[0] == [Level("JobIndex", 1, 2), of_disruptions("JobIndex", 3)]


def test_an_index_without_the_count_of_ignored_failures_has_no_disruptions() -> None:
    indexed = pod(annotations={FAILURES: "1"})
    assert read(indexed, stored_job(job_spec(backoffLimitPerIndex=2)))[0][1] == of_disruptions("JobIndex", 0)


SUM: dict[str, Any] = {
    "backoffLimitPerIndex": 10,
    "maxFailedIndexes": 0,
}  # beside backoffLimit: only the sum limits the retries


def test_if_only_backoff_limit_counts_the_higher_count_of_job_status_and_ledger_is_used() -> None:
    owner = stored_job(job_spec(**SUM, backoffLimit=3), {"failed": 1})
    first, third = pod(annotations={FAILURES: "0"}), pod(annotations={FAILURES: "1", IGNORED: "2"})
    assert read(first, owner, failures=1)[0] == [Level("JobStatus", 1, 3), of_disruptions("JobIndex", 0)]
    assert read(third, owner, failures=3)[0] == [Level("JobStatus", 3, 3), of_disruptions("JobIndex", 2)]
    assert read(third, owner, failures=0)[0][0] == Level("JobStatus", 1, 3)


def test_without_a_ledger_the_failure_of_the_replaced_pod_is_added() -> None:
    owner = stored_job(job_spec(**SUM, backoffLimit=3), {"failed": 2})
    assert read(pod(annotations={FAILURES: "0"}), owner)[0][0] == Level("JobStatus", 2, 3)
    assert read(pod(annotations={FAILURES: "1"}), owner)[0][0] == Level("JobStatus", 3, 3)


def test_a_malformed_index_count_falls_back_to_the_next_source_with_a_warning() -> None:
    owner = stored_job(job_spec(backoffLimitPerIndex=2), {"failed": 1})
    found, warnings = read(pod(annotations={FAILURES: "x", IGNORED: "y"}), owner)
    assert [level.source for level in found] == ["JobStatus"]
    assert len(warnings) == 2


@pytest.mark.parametrize("nonsense", NO_COUNTS)
def test_if_one_of_two_counts_is_malformed_the_other_is_used_with_a_warning(nonsense: str) -> None:
    found, warnings = read(pod(annotations={FAILURES: "1", IGNORED: nonsense}), OWNER)
    assert found == [Level("JobIndex", 1, 3)]
    assert [warning.path[-1] for warning in warnings] == [IGNORED]
    found, warnings = read(pod(annotations={FAILURES: nonsense, IGNORED: "2"}), OWNER)
    assert found == [Level("JobStatus", 40, 3), of_disruptions("JobIndex", 2)]
    assert [warning.path[-1] for warning in warnings] == [FAILURES]


def test_the_last_of_an_indexs_four_attempts_leaves_spot_independently_of_other_indexes() -> None:
    pods = [pod(annotations={FAILURES: str(failed)}) for failed in range(4)]
    assert [place(root, OWNER) for root in pods] == last_of_four_off_spot("JobIndex")


def test_disruptions_leave_spot_when_their_own_budget_is_spent() -> None:
    disrupted = {ignored: pod(annotations={FAILURES: "0", IGNORED: str(ignored)}) for ignored in (1, 19, 20)}
    assert place(disrupted[1], OWNER) == on_spot("JobIndex", 0, 3)
    assert place(disrupted[19], OWNER) == on_spot("JobIndex", 0, 3)
    assert place(disrupted[20], OWNER) == off_spot("JobIndex", 0, 3)


def test_the_failures_decide_even_if_there_are_more_disruptions() -> None:
    both = pod(annotations={FAILURES: "3", IGNORED: "7"})
    assert place(both, OWNER) == off_spot("JobIndex", 3, 3)


def test_failures_that_a_rule_makes_free_are_no_disruptions_if_the_ledger_tells_them_apart() -> None:
    owner = stored_job(job_spec(rules=[DISRUPTION, exit_codes("Ignore", "In", 75)], backoffLimitPerIndex=3))
    indexed = pod(annotations={FAILURES: "0", IGNORED: "2"})
    assert read(indexed, owner, disruptions=0)[0] == [Level("JobIndex", 0, 3), of_disruptions("Ledger", 0)]
    assert read(indexed, owner)[0] == [Level("JobIndex", 0, 3), of_disruptions("JobIndex", 2)]


def test_a_pod_without_the_count_of_its_indexs_failures_has_neither_level() -> None:
    """A pod of a Job without indexes, on which a user has written the other annotation."""
    written = pod(annotations={IGNORED: "3"})
    assert failures_of_index(written, OWNER) == ([], [])
    assert ignored_of_index(written, OWNER) == ([], [])


def test_if_the_job_does_not_exist_the_budget_is_that_of_the_settings() -> None:
    assert failures_of_index(pod(annotations={FAILURES: "1"})) == ([Level("JobIndex", 1, 3)], [])
