"""The nodes that reject pods."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.accounts.pods import failed, running_pod
from webhook.history.amounts import Amounts
from webhook.objects.times import written
from webhook.pods.pods import Condition, Pod
from webhook.pods.rejections import APART, MOST, MOST_NODES, WINDOW, Rejections, the_worst, time_of_rejection

NOW = 1767225600.0 + 240  # 2026-01-01T00:04:00Z
DAY = 86_400


def rejected(number: int, node: str = "bad", reason: str = "UnexpectedAdmissionError", **fields: Any) -> Pod:
    time = fields.pop("at", f"2026-01-01T00:{number % 60:02}:00Z")
    return failed(number, **{"exits": (), "reason": reason, "node": node, "started": time, **fields})


def seen(*pods: Pod) -> Rejections:
    found = Rejections()
    for pod in pods:
        found.see(pod, NOW)
    return found


def test_a_node_that_rejected_as_many_pods_in_ten_minutes_is_avoided_for_the_time() -> None:
    found = seen(rejected(1), rejected(2), rejected(3, reason="OutOfnvidia.com/gpu"))
    last = 1767225600.0 + 180
    assert the_worst(found.avoided(3, DAY, last + DAY - 1), 6) == ("bad",)
    assert the_worst(found.avoided(3, DAY, last + DAY), 6) == ()
    assert the_worst(found.avoided(4, DAY, NOW), 6) == ()
    assert (found.number(last + DAY - 1), found.number(last + DAY)) == (1, 0)


def test_each_pod_counts_once_and_only_those_of_ten_minutes_together() -> None:
    found = Rejections()
    late = rejected(9, at="2026-01-01T00:15:10Z")
    assert [len(found.see(pod, NOW + WINDOW)) for pod in (rejected(5), rejected(5), rejected(6), late)] == [1, 0, 2, 2]


def test_a_pod_that_is_delivered_again_after_many_others_is_no_news() -> None:
    pods = [rejected(number, at=written(NOW - 240 + APART * number)) for number in range(MOST + 5)]
    found = seen(*pods)
    assert [found.see(pod, NOW) for pod in pods] == [()] * len(pods)


@pytest.mark.parametrize(
    "pod",
    [
        running_pod(1, node="bad"),
        failed(1, 1, node="bad"),
        rejected(1, reason="Evicted"),
        rejected(1, node=""),
        rejected(1, at="yesterday"),
        rejected(1, at="2025-12-31T00:00:00Z"),
    ],
)
def test_what_is_no_rejection_of_the_last_ten_minutes_does_not_count(pod: Pod) -> None:
    assert seen(pod).nodes == {}


def test_a_pod_that_its_kubelet_rejected_says_when() -> None:
    assert time_of_rejection(rejected(3)) == 1767225600.0 + 180


def test_at_most_one_node_of_twenty_is_avoided_the_last_one_first() -> None:
    pods = [rejected(number, node=f"n-{number % 3}", at=written(NOW - 60 + 4 * number)) for number in range(9)]
    found = seen(*pods)
    assert the_worst(found.avoided(3, DAY, NOW), 6) == ("n-2",)
    assert the_worst(found.avoided(3, DAY, NOW), 59) == ("n-2", "n-1")


def test_the_nodes_that_are_remembered_are_bounded_and_the_oldest_is_forgotten() -> None:
    others = (rejected(number, node=f"n-{number}", at="2026-01-01T00:03:00Z") for number in range(MOST_NODES))
    found = seen(rejected(MOST_NODES, node="oldest", at="2026-01-01T00:01:00Z"), *others)
    assert len(found.nodes) == MOST_NODES
    assert "oldest" not in found.nodes


def after(seconds: float) -> str:
    return written(NOW - 200 + seconds)


def test_a_pod_that_is_deleted_later_counts_no_more_for_that() -> None:
    scheduled = Condition("PodScheduled", "True", "", after(0))
    found, pod = Rejections(), rejected(1, at=after(-500), conditions=(scheduled,))
    gone = Condition("DisruptionTarget", "True", "DeletionByPodGC", after(60))
    later = replace(pod, conditions=(scheduled, gone), ended=after(60), deleted=after(60), deleting=True)
    assert [len(found.see(one, NOW)) for one in (pod, later)] == [1, 0]


def test_pods_that_are_rejected_together_count_once() -> None:
    together = [rejected(number, at=after(number)) for number in range(int(APART))]
    found = seen(*together, rejected(20, at=after(20)))
    assert the_worst(found.avoided(2, DAY, NOW), 6) == ("bad",)
    assert the_worst(found.avoided(3, DAY, NOW), 6) == ()


GPU = (("cpu", 1.0), ("nvidia.com/gpu", 1.0))


@pytest.mark.parametrize(
    ("asked", "had", "avoided"), [((), (), 0), ((), GPU, 0), (GPU, GPU, 0), (GPU, (("cpu", 1.0),), 1)]
)
def test_the_count_begins_anew_after_the_end_of_a_pod_that_had_what_the_rejected_ones_asked_for(
    asked: Amounts, had: Amounts, avoided: int
) -> None:
    first, second, third = (rejected(number, resources=asked, at=after(20 * number)) for number in range(3))
    ended = running_pod(9, node="bad", phase="Succeeded", ended=after(30), resources=had)
    found = seen(first, second, ended, third)
    assert len(found.avoided(3, DAY, NOW)) == avoided


@pytest.mark.parametrize(("start", "avoided"), [(39, 1), (41, 0)])
def test_a_node_is_well_again_once_a_pod_has_ended_that_it_took_after_the_last_one_that_it_rejected(
    start: float, avoided: int
) -> None:
    pods = (rejected(number, at=after(20 * number)) for number in range(3))
    found = seen(*pods, failed(9, 1, node="bad", started=after(start), ended=after(90)))
    assert len(found.avoided(3, DAY, NOW)) == avoided
    assert found.number(NOW) == avoided


def test_what_another_node_of_the_same_name_did_does_not_count() -> None:
    created = NOW - 1000
    found = Rejections(lambda _: created)
    for number in range(3):
        found.see(rejected(number, at=after(20 * number)), NOW)
    assert found.avoided(3, DAY, NOW)
    created = NOW - 100
    assert not found.avoided(3, DAY, NOW)
    assert found.see(rejected(4, at=after(80)), NOW) == ()
