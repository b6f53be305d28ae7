"""The zones that lose their spot pods."""

import pytest
from msgspec.structs import replace

from tests.costs import lines_of
from tests.unit.accounts.pods import disrupted, failed, running_pod
from webhook.pods.pods import Condition, Pod
from webhook.pods.waves import FEWEST, MOST_AVOIDED, MOST_ZONES, WINDOW, Waves, Zone, time_of_loss

LOST_AT = 1767225630.0  # 2026-01-01T00:00:30Z, when `disrupted` pods are disrupted
NOW = LOST_AT + 10


def running(numbers: range, zone: str = "a") -> list[Pod]:
    return [running_pod(number, zone=zone) for number in numbers]


def lost(numbers: range, zone: str = "a", reason: str = "EvictionByEvictionAPI") -> list[Pod]:
    return [disrupted(number, reason, zone=zone) for number in numbers]


def seen(*pods: Pod) -> Waves:
    waves = Waves()
    for pod in pods:
        waves.see(pod, NOW)
    return waves


def test_a_zone_that_lost_a_share_of_its_spot_pods_is_avoided() -> None:
    waves = seen(*running(range(10)), *running(range(10, 20), "b"), *lost(range(3)))
    assert waves.avoided(30, 900, NOW) == ("a",)
    assert waves.avoided(31, 900, NOW) == ()


def test_a_zone_is_avoided_for_a_time_although_its_pods_are_replaced() -> None:
    waves = seen(*running(range(10)), *lost(range(3)), *running(range(20, 40)))
    assert waves.avoided(30, 900, NOW + 899) == ("a",)
    assert waves.avoided(30, 900, NOW + 900) == ()


def test_the_share_falls_as_pods_are_replaced_and_time_passes() -> None:
    zone = seen(*running(range(6)), *lost(range(3))).zones["a"]
    assert zone.ratio(NOW) == 0.5
    zone.running.update("new")
    assert zone.ratio(NOW) == pytest.approx(1 / 3)
    assert zone.ratio(LOST_AT + WINDOW + 1) == 0


def test_a_few_lost_pods_are_no_wave_whatever_their_share() -> None:
    waves = seen(*lost(range(FEWEST - 1)))
    assert (waves.zones["a"].ratio(NOW), waves.avoided(1, 900, NOW)) == (1, ())


def test_a_loss_is_counted_once_however_often_the_pod_is_seen() -> None:
    pods = lost(range(3))
    waves = seen(*running(range(10)), *pods, *pods)
    for pod in pods:
        waves.see(pod, NOW, gone=True)
    assert waves.zones["a"].ratio(NOW) == 0.3


@pytest.mark.parametrize(
    "pods",
    [
        lost(range(3), reason="PreemptionByScheduler"),
        [failed(number, zone="a") for number in range(3)],
        [replace(pod, placement="OnDemand") for pod in lost(range(3))],
        [replace(pod, node="") for pod in lost(range(3))],
        [replace(pod, zone="") for pod in lost(range(3))],
    ],
    ids=["preempted by other pods", "crashed", "on on-demand nodes", "never scheduled", "in no zone"],
)
def test_other_ends_and_other_pods_do_not_count(pods: list[Pod]) -> None:
    assert seen(*pods).avoided(1, 900, NOW) == ()


def test_pods_that_end_without_a_disruption_leave_the_zone() -> None:
    waves = seen(*running(range(3)), failed(0, zone="a"))
    waves.see(running_pod(1, zone="a"), NOW, gone=True)
    assert len(waves.zones["a"].running) == 1


def test_after_a_start_a_zone_is_judged_once_all_pods_were_seen() -> None:
    waves = Waves()
    pods = [*lost(range(3)), *running(range(3, 20))]
    for pod in pods:
        waves.see(pod, NOW, news=False)
    waves.look({pod.uid for pod in pods}, NOW)
    assert (waves.avoided(16, 900, NOW), waves.avoided(15, 900, NOW)) == ((), ("a",))


def test_pods_that_vanished_while_nobody_watched_count_neither_as_running_nor_as_lost() -> None:
    waves = seen(*running(range(5)))
    waves.look({running_pod(1).uid}, NOW)
    assert (len(waves.zones["a"].running), waves.zones["a"].ratio(NOW)) == (1, 0)


def test_pods_that_were_lost_before_the_last_ten_minutes_do_not_count() -> None:
    waves = Waves()
    for pod in lost(range(3)):
        waves.see(pod, LOST_AT + WINDOW + 1)
    assert waves.zones["a"].lost == {}


def test_a_disruption_without_a_time_does_not_count() -> None:
    timeless = replace(disrupted(), conditions=(Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", ""),))
    assert time_of_loss(timeless) is None
    assert time_of_loss(disrupted()) == LOST_AT


def test_users_who_invent_zones_use_no_more_memory() -> None:
    waves = seen(*(running_pod(number, zone=f"zone-{number}") for number in range(2 * MOST_ZONES)))
    assert len(waves.zones) == MOST_ZONES


def test_at_most_ten_zones_are_avoided() -> None:
    pods = [pod for zone in range(20) for pod in lost(range(3 * zone, 3 * zone + 3), f"zone-{zone}")]
    assert len(seen(*pods).avoided(1, 900, NOW)) == MOST_AVOIDED


def test_each_loss_costs_the_same_however_many_were_lost_before() -> None:
    """And what is remembered of them stays small."""
    zone, costs = Zone(), []
    for already in (100, 2_000):
        for number in range(already):
            zone.lose(f"{already}-{number}", NOW)
        costs.append(lines_of(lambda: zone.remember(NOW)))
    assert costs[1] <= 2 * costs[0]
    assert len(zone.losses) == 1


def test_a_pod_that_was_lost_long_ago_does_not_count_because_newer_ones_were_seen_before_it() -> None:
    waves = seen(*running(range(10)), *lost(range(2)))
    long_ago = Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "2025-12-31T00:00:00Z")
    waves.see(disrupted(20, zone="a", conditions=(long_ago,)), NOW)
    assert (waves.zones["a"].ratio(NOW), waves.avoided(1, 900, NOW)) == (0.2, ())
