"""The pods of one workload that have failed."""

from tests.unit.accounts.pods import failed, job
from webhook.accounts.account import id_of
from webhook.accounts.tracked import FailedPods
from webhook.pods.pods import Pod


def failing(*pods: Pod) -> FailedPods:
    found = FailedPods()
    for pod in pods:
        found.put(pod, 0.0, job(), is_open=True)
    return found


def test_a_job_is_held_until_all_of_its_pods_are_counted() -> None:
    found = failing(failed(1), failed(2))
    found.see_job_gone("job-uid")
    found.see_counted([id_of(failed(1))])
    assert found.jobs["job-uid"]["metadata"]["deletionTimestamp"]
    found.see_counted([id_of(failed(2))])
    assert found.jobs == {}


def test_the_job_that_a_cache_returned_is_not_changed() -> None:
    found, root = FailedPods(), job()
    found.put(failed(1), 0.0, root, is_open=True)
    found.see_job_gone("job-uid")
    assert root == job()


def test_nothing_is_left_of_pods_that_are_counted_and_deleted() -> None:
    found = failing(failed(1), failed(2))
    found.costs[failed(1).uid] = "retry"
    for pod in (failed(1), failed(2)):
        found.see_counted([id_of(pod)])
        found.see_gone(pod.uid, is_countable=True)
    assert found == FailedPods()
