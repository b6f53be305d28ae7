"""What a report counts: what was used, lost and saved, where, and when."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.insight.report.facts import HOUR, MONDAY, a_dollar_an_hour, at, attempt, reported, workload
from webhook.history.record import AttemptRecord, Capacity
from webhook.insight.report.build import MOST_BUCKETS
from webhook.insight.report.known import Counted, Known, Price, Window
from webhook.insight.report.model import MOST_ATTEMPTS, Usage
from webhook.insight.report.sums import importance_by, unpriced
from webhook.objects.times import written
from webhook.pods.hardware import GONE
from webhook.policy.causes import Cause

SPOT: dict[str, Any] = {"capacity": "Spot", "node": "spot-1", "zone": "z1"}


def test_what_succeeded_is_used_and_what_did_not_is_lost_to_its_cause() -> None:
    total = reported(
        workload(
            attempt("Disruption", reason="PreemptionByScheduler", number=1, hours=1),
            attempt("Disruption", reason="SpotUnavailable", number=2, hours=0, start=""),
            attempt("OOMKilled", reason="main", number=3, hours=2),
            attempt("ExitCode", reason="main 1", number=4, hours=3),
            attempt("DeadlineExceeded", number=5, hours=4),
            attempt("Other", reason="Stopped", cost="none", number=6, hours=5),
            attempt(number=7, hours=6),
            attempt("NeverStarted", reason="ErrImagePull", number=8, hours=7),
            state="Complete",
        )
    ).total
    assert (total.workloads, total.complete, total.failed) == (1, 1, 0)
    assert (total.used.attempts, total.used.seconds) == (8, 28 * HOUR)
    assert (total.lost.attempts, total.lost.seconds) == (7, 22 * HOUR)
    assert {loss: (one.attempts, one.seconds / HOUR) for loss, one in total.lost_to.items()} == {
        "Bugs": (3, 9),
        "Disruptions": (1, 1),
        "Capacity": (1, 0),
        "NeverStarted": (1, 7),
        "Other": (1, 5),
    }
    assert total.causes == {
        "NeverStarted": 1,
        "Disruption": 2,
        "OOMKilled": 1,
        "ExitCode": 1,
        "DeadlineExceeded": 1,
        "Other": 1,
        "Succeeded": 1,
    }


ATTEMPTS = st.builds(
    attempt,
    st.sampled_from(get_args(Cause)),
    reason=st.sampled_from(["", "Stopped", "SpotUnavailable", "PreemptionByScheduler", "ErrImagePull"]),
    capacity=st.sampled_from(get_args(Capacity)),
    hours=st.integers(0, 9),
    resources=st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 8).map(float)),
)


@given(st.lists(ATTEMPTS, max_size=12), st.booleans())
def test_what_was_used_and_what_was_lost_are_the_sums_of_their_parts(
    attempts: list[AttemptRecord],
    priced: bool,  # noqa: FBT001 - drawn
) -> None:
    made = reported(
        *(workload(one, name=str(number)) for number, one in enumerate(attempts)),
        price_of=a_dollar_an_hour if priced else unpriced,
    )
    share = importance_by(made.total.used)
    for figures in (made.total, *(row.figures for row in made.workloads)):
        adds_up(figures.used, [figures.spot, figures.on_demand, figures.elsewhere], share)
        adds_up(figures.lost, figures.lost_to.values(), share)
    for bucket in made.series:
        adds_up(bucket.lost, bucket.lost_to.values(), share)


def adds_up(whole: Usage, parts: Iterable[Usage], share: Callable[[Usage], float]) -> None:
    found = list(parts)
    assert whole.attempts == sum(one.attempts for one in found)
    assert whole.seconds == sum(one.seconds for one in found)
    assert share(whole) == pytest.approx(sum(map(share, found)))
    for name, amount in whole.resources.items():
        assert amount == pytest.approx(sum(one.resources.get(name, 0.0) for one in found))
    if whole.price is not None:
        assert whole.price == pytest.approx(sum(one.price or 0.0 for one in found))


def test_resources_are_core_seconds_and_gib_seconds_and_units_times_seconds() -> None:
    gpus = attempt(resources={"cpu": 0.5, "memory": 2.0 * 2**30, "nvidia.com/gpu": 8.0}, hours=2)
    assert reported(workload(gpus)).total.used.resources == {
        "cpu": 0.5 * 2 * HOUR,
        "memory": 2 * 2 * HOUR,
        "nvidia.com/gpu": 8 * 2 * HOUR,
    }


def test_spot_and_on_demand_are_the_parts_on_nodes_of_that_capacity() -> None:
    total = reported(
        workload(attempt(number=1, **SPOT), attempt(number=2, capacity="OnDemand"), attempt(number=3))
    ).total
    assert (total.spot.attempts, total.on_demand.attempts, total.used.attempts) == (1, 1, 3)


def test_money_is_what_was_paid_and_spot_saved_what_on_demand_would_have_cost_more() -> None:
    total = reported(
        workload(attempt("Disruption", number=1, hours=4, **SPOT), attempt(number=2, hours=2, capacity="OnDemand")),
        price_of=a_dollar_an_hour,
    ).total
    assert (total.used.price, total.lost.price, total.spot.price, total.on_demand.price) == (3.0, 1.0, 1.0, 2.0)
    assert total.saved_on_spot == 3.0


def test_a_sum_with_an_attempt_whose_price_is_not_known_has_no_price_and_a_note_says_how_many() -> None:
    def only_spot(record: AttemptRecord) -> Price:
        return Price(1.0 if record.capacity == "Spot" else None, None)

    made = reported(workload(attempt(number=1, **SPOT), attempt(number=2)), price_of=only_spot)
    assert (made.total.used.price, made.total.spot.price, made.total.saved_on_spot) == (None, 1.0, None)
    assert [note.partition(":")[0] for note in made.notes] == [
        "the price of 1 attempt is not known; sums with them have no price"
    ]


def test_without_prices_there_is_no_money_and_no_note() -> None:
    made = reported(workload(attempt()))
    assert (made.total.used.price, made.total.lost.price, made.total.saved_on_spot) == (None, None, None)
    assert (made.currency, made.notes) == ("", [])


def test_the_retries_that_a_bug_did_not_have_are_saved_once_for_each_workload() -> None:
    """Two pods of one Job may both be fatal: the retries that were left are those of the Job."""
    fatal: dict[str, Any] = {"cost": "fatal", "retries_left": 3, "hours": 2.0}
    one = workload(attempt("ExitCode", number=1, **fatal), attempt("ExitCode", number=2, **fatal))
    saved = reported(one, price_of=a_dollar_an_hour).total.saved_retries
    assert (saved.attempts, saved.seconds, saved.price) == (3, 6 * HOUR, 6.0)


def test_what_a_lost_attempt_has_saved_is_kept_by_its_hours_and_its_money() -> None:
    lost = attempt("Disruption", number=1, hours=2.0, cost="disruption")
    made = reported(workload(structs.replace(lost, saved=HOUR), attempt(number=2)), price_of=a_dollar_an_hour).total
    assert (made.lost.seconds, made.kept.seconds, made.kept.price) == (2 * HOUR, HOUR, 1.0)
    wrong = structs.replace(lost, saved=9 * HOUR)
    assert reported(workload(wrong)).total.kept.seconds == 2 * HOUR


def test_with_retries_of_each_index_they_are_saved_for_each_index() -> None:
    fatal: dict[str, Any] = {"cost": "fatal", "retries_left": 2}
    attempts = [attempt("ExitCode", number=number, scope=str(number), **fatal) for number in range(3)]
    assert reported(workload(*attempts, per_index=True)).total.saved_retries.attempts == 6
    assert reported(workload(*attempts)).total.saved_retries.attempts == 2


def test_a_workload_that_used_all_its_retries_saved_none() -> None:
    last = attempt("ExitCode", cost="fatal", retries_left=0)
    assert reported(workload(last)).total.saved_retries == Usage()


def test_an_attempt_that_runs_has_used_what_it_requests_until_now_and_lost_nothing() -> None:
    running = structs.replace(attempt("Other", start=at(22)), end="", seconds=0.0)
    made = reported(workload(running, state="Running"), price_of=a_dollar_an_hour)
    assert (made.total.used.attempts, made.total.used.seconds, made.total.used.price) == (1, 2 * HOUR, 2.0)
    assert (made.total.lost, made.total.causes) == (Usage(price=0.0), {})
    (row,) = made.workloads[0].attempts
    assert (row.cause, row.end, row.seconds) == (None, "", 2 * HOUR)


def test_groups_and_workloads_that_lost_most_money_come_first() -> None:
    cheap = workload(attempt("ExitCode", number=1, workload="cheap", hours=9, **SPOT), name="cheap", namespace="etl")
    dear = workload(attempt("ExitCode", number=2, workload="dear", hours=3), name="dear", profile="strict")
    made = reported(cheap, dear, price_of=a_dollar_an_hour)
    assert [row.name for row in made.workloads] == ["dear", "cheap"]
    assert [row.name for row in made.namespaces] == ["ml", "etl"]
    assert [row.name for row in made.profiles] == ["strict", "default"]


def test_without_prices_the_largest_share_of_any_resource_comes_first() -> None:
    cores = workload(attempt("ExitCode", number=1, hours=9), attempt(number=2, hours=90), name="cores")
    gpu = workload(attempt("ExitCode", number=3, hours=1, resources={"cpu": 1.0, "nvidia.com/gpu": 1.0}), name="gpu")
    assert [row.name for row in reported(cores, gpu).workloads] == ["gpu", "cores"]


def test_a_workload_lists_its_newest_attempts_and_counts_all() -> None:
    attempts = [attempt("ExitCode", number=number, end=number + 1) for number in range(60)]
    (row,) = reported(workload(*reversed(attempts))).workloads
    assert [one.pod for one in row.attempts] == [f"train-{number}" for number in range(10, 60)]
    assert (len(row.attempts), row.attempts_not_listed, row.figures.used.attempts) == (MOST_ATTEMPTS, 10, 60)


def test_the_last_attempt_says_what_is_left_and_a_workload_that_runs_without_any_is_near_its_limit() -> None:
    left: dict[str, Any] = {"retries_left": 0, "disruptions_left": 2}
    attempts = (attempt("ExitCode", number=1, end=1, retries_left=1), attempt("ExitCode", number=2, end=2, **left))
    made = reported(workload(*attempts, state="Running"))
    assert (made.workloads[0].retries_left, made.workloads[0].disruptions_left) == (0, 2)
    assert made.near_limit == ["uid-of-train"]
    assert reported(workload(*attempts, state="Failed")).near_limit == []
    assert reported(workload(attempts[0], state="Running")).near_limit == []


def test_a_rule_of_on_failure_is_named_and_other_rules_if_they_are_known() -> None:
    by_profile, by_author = attempt("ExitCode", number=1, on_failure=2), attempt("ExitCode", number=2)
    known = workload(by_profile, by_author, rules={"train-2": "podFailurePolicy rule 0: FailJob"})
    assert [one.rule for one in reported(known).workloads[0].attempts] == [
        "onFailure rule 2",
        "podFailurePolicy rule 0: FailJob",
    ]


def test_nodes_and_zones_count_failures_and_disruptions_apart() -> None:
    known = [
        workload(attempt("ExitCode", number=1, workload="a", **SPOT), name="a"),
        workload(attempt("Disruption", number=2, workload="b", **SPOT), name="b"),
        workload(attempt(number=3, workload="c", **SPOT), name="c"),
        workload(attempt("Other", reason="Stopped", number=4, workload="d", **SPOT), name="d"),
        workload(attempt("WorkloadEvicted", reason="Preempted", number=5, workload="e", **SPOT), name="e"),
    ]
    made = reported(*known)
    for place in (*made.nodes, *made.zones):
        assert (place.attempts, place.failures, place.disruptions, place.workloads) == (5, 1, 1, 5)
        assert (place.lost.attempts, place.capacity, place.suspect) == (4, "Spot", False)
    assert [(node.name, node.zone) for node in made.nodes] == [("spot-1", "z1")]


def many_at(node: str, cause: str, owner: str = "") -> list[Known]:
    """Return ten workloads that end so at a node and succeed at another, and a hundred that succeed at others."""
    found = []
    for number in range(110):
        name = f"w{number}"
        where: dict[str, Any] = {"workload": name, "capacity": "Spot"}
        attempts = [attempt(number=2 * number, node=f"good-{number % 10}", zone="z1", **where)]
        if number < 10:
            attempts.append(attempt(cause, number=2 * number + 1, node=node, zone="z2", **where))
        found.append(workload(*attempts, name=name, owner=owner))
    return found


def test_that_a_node_was_gone_or_not_ready_is_no_fault_of_its_hardware() -> None:
    reasons = (GONE, "condition Ready is Unknown (NodeStatusUnknown)", "condition GPUMissing is True")
    made = reported(*(workload(attempt("Hardware", node="n", reason=reason)) for reason in reasons))
    assert [(node.faults, node.disruptions) for node in made.nodes] == [(1, 3)]


def test_a_lemon_comes_first_and_incriminates_no_zone() -> None:
    made = reported(*many_at("lemon", "ExitCode"))
    assert (made.nodes[0].name, made.nodes[0].suspect, made.nodes[0].failing) == ("lemon", True, 10)
    assert not any(node.suspect for node in made.nodes[1:])
    assert not any(zone.suspect for zone in made.zones)


def test_interruptions_of_spot_nodes_incriminate_no_node() -> None:
    assert not any(node.suspect for node in reported(*many_at("spot-7", "Disruption")).nodes)


def test_the_jobs_of_one_cron_job_are_one_workload_when_nodes_are_judged() -> None:
    made = reported(*many_at("lemon", "ExitCode", owner="CronJob/nightly"))
    assert not any(node.suspect for node in made.nodes)
    assert {node.workloads for node in made.nodes} == {1}


def test_the_series_has_at_most_two_hundred_parts_without_gaps_and_every_attempt_is_in_one() -> None:
    attempts = [
        attempt("ExitCode" if number % 2 else "Succeeded", number=number, end=7 * number) for number in range(100)
    ]
    made = reported(workload(*attempts), now=700)
    starts = [bucket.start for bucket in made.series]
    assert 100 < len(starts) <= MOST_BUCKETS
    assert made.bucket == 6 * HOUR
    assert starts[1] == at(6)
    assert sum(sum(bucket.causes.values()) for bucket in made.series) == 100
    assert sum(bucket.lost.attempts for bucket in made.series) == 50
    assert sum(bucket.lost_to["Bugs"].attempts for bucket in made.series) == 50


@pytest.mark.parametrize("hours", [0.001, 1, 200, 24 * 365 * 30])
def test_the_series_of_any_time_is_bounded(hours: float) -> None:
    made = reported(workload(attempt(number=1, end=0), attempt(number=2, end=hours)), now=hours)
    assert 1 <= len(made.series) <= MOST_BUCKETS


def test_the_series_of_a_window_covers_all_of_it() -> None:
    monday = MONDAY.timestamp()
    window = Window(monday, monday + 10 * HOUR)
    made = reported(workload(attempt(end=5)), window=window)
    assert (made.since, made.until) == (at(0), at(10))
    assert (made.series[0].start, made.series[-1].start, made.bucket) == (at(0), at(9.9166666666666), 300)


IMPOSSIBLE = [
    *("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1986-11-16T00:00:00Z", "2199-12-31T23:59:59Z"),
    *("9999-12-31T23:59:59Z", "2026-11-16T10:00:00", "yesterday"),
]


@pytest.mark.parametrize("end", IMPOSSIBLE)
def test_an_attempt_with_an_impossible_end_counts_but_is_in_no_part_of_the_time(end: str) -> None:
    forged = structs.replace(attempt("ExitCode", number=1, **SPOT), end=end)
    made = reported(workload(forged, attempt(number=2), created=at(0)))
    assert (made.total.used.attempts, made.total.lost.attempts, made.nodes[0].failures) == (2, 1, 1)
    assert [bucket.causes for bucket in made.series] == [{"Succeeded": 1}]
    assert made.bucket == 60
    assert made.notes == ["an end before the creation or after now cannot be: 1 attempt with one in the sums alone"]


def test_an_attempt_cannot_have_run_longer_than_since_it_was_created() -> None:
    forty_years = structs.replace(attempt(number=1, start="1986-11-16T00:00:00Z"), seconds=40 * 365 * 24 * HOUR)
    running = structs.replace(attempt("Other", number=2, start="1986-11-16T00:00:00Z"), end="")
    made = reported(workload(forty_years, running, created=at(0)))
    assert made.total.used.seconds <= 2 * (24 + 48) * HOUR


def test_a_history_of_years_has_the_parts_that_it_needs() -> None:
    old, new = (attempt(number=number, end=24 * 365 * number, created=at(24 * 365 * number - 2)) for number in (0, 3))
    made = reported(workload(old, new), now=24 * 365 * 3)
    assert sum(sum(bucket.causes.values()) for bucket in made.series) == 2
    assert made.notes == []


def test_times_that_no_report_can_write_become_the_nearest_that_it_can() -> None:
    assert written(-62135596800.0) == "1970-01-01T00:00:00Z"
    assert written(1e12) == "9999-12-31T23:59:59Z"


def test_an_attempt_in_the_last_second_of_a_window_is_in_its_last_part() -> None:
    monday = MONDAY.timestamp()
    ended = structs.replace(attempt(), end="2026-11-16T01:00:00.200Z")
    made = reported(workload(ended), window=Window(monday, monday + HOUR + 0.5))
    assert (made.series[-1].start, made.series[-1].causes) == (at(1), {"Succeeded": 1})


def test_nothing_makes_an_empty_report() -> None:
    made = reported()
    assert (made.total.used, made.workloads, made.series, made.nodes) == (Usage(), [], [], [])


def test_attempts_that_are_only_known_as_a_sum_count_and_those_that_are_told_are_listed_but_not_counted_twice() -> None:
    told = attempt("Disruption", number=1, **SPOT, resources={})
    counted = Counted(3, "Disruption", "Disruptions", "Spot", 3 * HOUR, {"cpu": 12 * HOUR}, Price(0.75, 3.0))
    known = replace(
        workload(),
        told=[told],
        counted=[counted],
        saved=[Counted(2, "ExitCode", "Bugs", "", HOUR, {}, Price(1.0, None))],
    )
    made = reported(known, price_of=a_dollar_an_hour)
    assert (made.total.used.attempts, made.total.lost.seconds, made.total.spot.price) == (3, 3 * HOUR, 0.75)
    assert (made.total.causes, made.total.saved_on_spot) == ({"Disruption": 3}, 2.25)
    assert (made.total.saved_retries.attempts, made.total.saved_retries.price) == (2, 1.0)
    assert (len(made.workloads[0].attempts), made.workloads[0].attempts_not_listed) == (1, 2)
    assert [node.disruptions for node in made.nodes] == [1]
