"""The nodes that reject pods."""

from typing import Any

import pytest

from tests.unit.accounts.pods import failed, running_pod
from webhook.pods.pods import Pod
from webhook.pods.rejections import MOST, MOST_NODES, WINDOW, Rejections, the_worst, time_of_rejection

NOW = 1767225600.0 + 240  # 2026-01-01T00:04:00Z
DAY = 86_400


def rejected(number: int, node: str = "bad", reason: str = "UnexpectedAdmissionError", **fields: Any) -> Pod:
    return failed(number, **{"exits": (), "reason": reason, "node": node, **fields})


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
    late = rejected(9, ended="2026-01-01T00:15:10Z")
    assert [found.see(pod, NOW + WINDOW) for pod in (rejected(5), rejected(5), rejected(6), late)] == [1, 0, 2, 2]


def test_a_pod_that_is_delivered_again_after_many_others_is_no_news() -> None:
    pods = [rejected(number, ended=f"2026-01-01T00:03:{number:02}Z") for number in range(MOST + 5)]
    found = seen(*pods)
    assert [found.see(pod, NOW) for pod in pods] == [0] * len(pods)


@pytest.mark.parametrize(
    "pod",
    [
        running_pod(1, node="bad"),
        failed(1, 1, node="bad"),
        rejected(1, reason="Evicted"),
        rejected(1, node=""),
        rejected(1, ended="yesterday"),
        rejected(1, ended="2025-12-31T00:00:00Z"),
    ],
)
def test_what_is_no_rejection_of_the_last_ten_minutes_does_not_count(pod: Pod) -> None:
    assert seen(pod).nodes == {}


def test_a_pod_that_its_kubelet_rejected_says_when() -> None:
    assert time_of_rejection(rejected(3)) == 1767225600.0 + 180


def test_at_most_one_node_of_twenty_is_avoided_the_last_one_first() -> None:
    pods = [rejected(number, node=f"n-{number % 3}", ended=f"2026-01-01T00:03:{number:02}Z") for number in range(9)]
    found = seen(*pods)
    assert the_worst(found.avoided(3, DAY, NOW), 6) == ("n-2",)
    assert the_worst(found.avoided(3, DAY, NOW), 59) == ("n-2", "n-1")


def test_the_nodes_that_are_remembered_are_bounded_and_the_oldest_is_forgotten() -> None:
    others = (rejected(number, node=f"n-{number}", ended="2026-01-01T00:03:00Z") for number in range(MOST_NODES))
    found = seen(rejected(MOST_NODES, node="oldest", ended="2026-01-01T00:01:00Z"), *others)
    assert len(found.nodes) == MOST_NODES
    assert "oldest" not in found.nodes
