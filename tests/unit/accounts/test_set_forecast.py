"""What a JobSet does when a pod of one of its Jobs has failed."""

from typing import Any

import pytest

from tests.objects import exit_codes, job_spec
from tests.unit.accounts.pods import failed, job_set
from webhook.accounts.forecast import action_of, end_of_job, labels_of_pod, restarted
from webhook.objects.problem import Json
from webhook.pods.matching import POD_FAILURE_POLICY, JobEnd
from webhook.systems.job_set.spec import costly_restarts, job_restarts

PER_INDEX = {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}
FAIL_INDEX = [exit_codes("FailIndex", "In", 1)]


@pytest.mark.parametrize(
    ("spec", "failures", "failed_indexes", "reason"),
    [
        ({"backoffLimit": 2}, 1, 0, ""),
        ({"backoffLimit": 2}, 2, 0, "BackoffLimitExceeded"),
        ({"backoffLimit": 2, "rules": [exit_codes("FailJob", "In", 1)]}, 0, 0, POD_FAILURE_POLICY),
        ({"backoffLimit": 0, "rules": [exit_codes("Ignore", "In", 1)]}, 0, 0, ""),
        ({**PER_INDEX, "rules": FAIL_INDEX}, 0, 0, ""),
        ({**PER_INDEX, "rules": FAIL_INDEX}, 1, 1, "FailedIndexes"),
        ({**PER_INDEX, "rules": FAIL_INDEX, "maxFailedIndexes": 0}, 0, 0, "MaxFailedIndexesExceeded"),
        ({**PER_INDEX, "backoffLimit": 1}, 1, 0, "BackoffLimitExceeded"),
    ],
)
def test_a_job_ends_as_its_limits_and_rules_say(
    spec: dict[str, Any], failures: int, failed_indexes: int, reason: str
) -> None:
    job: Json = {"spec": job_spec(**spec), "status": {"failed": failures}}
    end = end_of_job(job, failed(1, 1, index_failures=0), failed_indexes)
    assert ("" if end is None else end.reason) == reason


@pytest.mark.parametrize(
    ("action", "spent", "does"),
    [
        ("RestartJobSet", 2, "RestartJobSet"),
        ("RestartJobSet", 3, "FailJobSet"),
        ("RestartJob", 3, "FailJobSet"),
        ("RestartJobAndIgnoreMaxRestarts", 3, "RestartJobAndIgnoreMaxRestarts"),
    ],
)
def test_a_set_without_a_restart_left_fails_but_for_actions_that_cost_none(action: str, spent: int, does: str) -> None:
    root = job_set({"action": action}, status={"restarts": 9, "restartsCountTowardsMax": spent})
    assert action_of(root, "a", JobEnd(POD_FAILURE_POLICY, "")) == does


def test_a_restart_is_counted_where_the_controller_counts_it() -> None:
    root = restarted(job_set(status={"restarts": 1}), "a", 0, "RestartJobSet")
    again = restarted(root, "a", 2, "RestartJob")
    alone = restarted(again, "a", 0, "RestartJobAndIgnoreMaxRestarts")
    free = restarted(alone, "a", 0, "RestartJobSetAndIgnoreMaxRestarts")
    assert (free["status"]["restarts"], costly_restarts(free)) == (3, 2)
    assert [tuple(job_restarts(free, "a", index)) for index in range(3)] == [(1, 0), (0, 0), (1, 1)]
    assert labels_of_pod(free, {"team": "a"}, "a", 2) == {
        "team": "a",
        "jobset.sigs.k8s.io/restart-attempt": "3",
        "jobset.sigs.k8s.io/job-restart-attempt": "1",
    }
