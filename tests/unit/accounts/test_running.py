"""The pods of all workloads that have not ended."""

import pytest

from tests.unit.accounts.pods import job, running_pod
from webhook.accounts.tracked import RunningPods, workload_of
from webhook.pods.pods import Pod
from webhook.systems.argo import spec as argo

INDEXED = {"completionMode": "Indexed", "completions": 100_000, "parallelism": 5000}


def running(*pods: Pod) -> RunningPods:
    found = RunningPods()
    for pod in pods:
        found.put(pod, found.get(pod.uid))
    return found


def of_workflow(number: int, **fields: object) -> Pod:
    return running_pod(number, row=argo.WORKFLOW, scope=f"step-{number}", **fields)


def test_a_pod_is_returned_as_it_was_recorded_last() -> None:
    later = running_pod(1, deleting=True, created="2026-01-01T00:00:00Z", resources=(("cpu", 2.0),))
    found = running(running_pod(1), later)
    assert found.get(later.uid) == later
    assert found.pop(later.uid) == later
    assert found.get(later.uid) is None


@pytest.mark.parametrize("fields", [{}, {"index": "7"}, {"deleting": True}, {"row": argo.WORKFLOW, "scope": "a"}])
def test_nothing_is_left_of_a_pod_that_has_ended(fields: dict[str, object]) -> None:
    found = running(running_pod(1, **fields))
    found.pop(running_pod(1).uid)
    assert vars(found) == vars(RunningPods())


def test_two_pods_of_an_index_are_counted_apart() -> None:
    root = job(INDEXED)
    found = running(running_pod(1, index="7", deleting=True), running_pod(2, index="7"))
    found.pop(running_pod(2).uid)
    assert found.is_behind(root, "7")  # the Job replaces a pod once it has ended
    assert not found.is_behind(job({**INDEXED, "podReplacementPolicy": "TerminatingOrFailed"}), "7")
    assert not found.is_behind(root, "8")


def test_a_job_does_not_see_the_pods_of_another_one_with_its_name() -> None:
    found = running(running_pod(1))
    assert found.is_behind(job({"parallelism": 1}), "")
    assert not found.is_behind(job({"parallelism": 1}, uid="another"), "")
    assert not found.has_any("another")


def test_the_pods_of_a_workload_of_another_kind_are_known_by_its_name_and_by_their_scopes() -> None:
    first, second, other = of_workflow(1), of_workflow(2), of_workflow(3, job="another")
    found = running(first, second, other)
    assert list(found.of_workload(workload_of(first))) == [first, second]
    assert found.has_others(workload_of(first), "step-1")
    assert not found.has_others(workload_of(other), "step-3")
    assert found.newest_of("job-uid", "step-2") == second
