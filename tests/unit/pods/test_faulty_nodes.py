"""The nodes whose hardware ends pods."""

from webhook.pods.faulty_nodes import MOST, WEEK, FaultyNodes
from webhook.pods.rejections import MOST_NODES, Rejections, the_worst

DAY = 86_400
NOW = 1_767_225_600.0


def test_a_node_is_avoided_after_faults_that_ended_pods_of_two_workloads_in_a_week() -> None:
    found = FaultyNodes()
    assert [found.see("bad", one, NOW - DAY, NOW) for one in ("a", "a", "b")] == [1, 0, 2]
    assert found.avoided(2, 2 * DAY, NOW) == [(NOW - DAY, "bad")]
    assert found.avoided(3, 2 * DAY, NOW) == []
    assert found.avoided(2, DAY, NOW) == []
    assert (found.number(NOW), found.number(NOW + WEEK)) == (1, 0)


def test_faults_that_are_more_than_a_week_apart_do_not_add_up() -> None:
    found = FaultyNodes()
    found.see("bad", "a", NOW - WEEK + 1, NOW)
    found.see("bad", "b", NOW + 2, NOW + 2)
    assert found.avoided(2, DAY, NOW + 2) == []


def test_a_fault_of_long_ago_or_without_a_node_or_by_a_wrong_clock_says_nothing() -> None:
    found = FaultyNodes()
    times = (("", NOW), ("bad", NOW - WEEK), ("bad", NOW + DAY))
    assert [found.see(node, "a", time, NOW) for node, time in times] == [0, 0, 0]
    assert found.nodes == {}


def test_faults_of_another_node_of_the_same_name_do_not_count() -> None:
    created = 0.0
    found = FaultyNodes(lambda _: created)
    for number, workload in enumerate("ab"):
        found.see("bad", workload, NOW + number, NOW + 10)
    assert found.avoided(2, DAY, NOW + 10)
    created = NOW + 1
    assert not found.avoided(2, DAY, NOW + 10)
    assert [found.see("bad", one, time, NOW + 20) for one, time in (("a", NOW), ("c", NOW + 15))] == [0, 2]
    assert (found.number(NOW + 20), found.number(NOW + WEEK + 20)) == (1, 0)


def test_a_fault_in_the_second_in_which_its_node_was_created_counts() -> None:
    found = FaultyNodes(lambda _: NOW)
    assert [found.see("bad", one, NOW, NOW) for one in "ab"] == [1, 2]
    assert found.avoided(2, DAY, NOW) == [(NOW, "bad")]


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten() -> None:
    found = FaultyNodes()
    for number in range(MOST + 5):
        found.see("bad", f"workload-{number}", NOW + number, NOW)
    assert len(found.nodes["bad"]) == MOST
    assert f"workload-{MOST + 4}" in found.nodes["bad"]
    for number in range(MOST_NODES):
        found.see(f"node-{number}", "a", NOW + 100, NOW)
    assert len(found.nodes) == MOST_NODES
    assert "bad" not in found.nodes


def test_nodes_that_reject_and_nodes_that_break_pods_share_the_bound_of_one_in_twenty() -> None:
    found = FaultyNodes()
    for node, time in (("old", NOW - 2), ("new", NOW - 1)):
        for workload in "ab":
            found.see(node, workload, time, NOW)
    both = Rejections().avoided(3, DAY, NOW) + found.avoided(2, DAY, NOW)
    assert the_worst(both, 10) == ("new",)
    assert the_worst(both + both, 40) == ("new", "old")
