"""The draw, the market, the witness and the records of the simulated week; the bench itself needs a control plane."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.bench import kubelet
from tests.bench.simulation import name_of
from tests.bench.week import keep
from tests.bench.week.compare import compared, summary, truth_of
from tests.bench.week.compare import table as compare_table
from tests.bench.week.draw import KINDS, LONGEST, MEMORY, SHORTEST, DrawnJob, Kind, jobs
from tests.bench.week.figures import Cell, headline, table
from tests.bench.week.history import differences, goodput_of, server_records
from tests.bench.week.market import LIFE, SPOT_IN_ZONE, ZONES, Market
from tests.bench.week.policies import (
    DEFAULT,
    FASTER,
    GIB,
    LIMIT_3,
    OURS,
    POLICIES,
    REQUIRE,
    RULES,
    STOCK,
    file_of,
    manifest,
    market_of,
    nodes,
    policy_file,
    simulated,
)
from tests.bench.week.records import records
from tests.bench.week.witness import INDEX, JOB_NAME, Witness
from webhook.history.record import AttemptRecord, Record, WorkloadRecord, decode, encode
from webhook.history.usage import price
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse

MARKET = market_of(seed=1, days=7)
GOOD = DrawnJob(1, "job-1", "good", created=0, hours=(2,), needs=MEMORY, crash=0.5)


def of(kind: Kind, hours: tuple[float, ...] = (2,), needs: float = MEMORY) -> DrawnJob:
    return replace(GOOD, kind=kind, hours=hours, needs=needs)


def test_the_same_seed_draws_the_same_week_and_another_seed_another_one() -> None:
    assert jobs(1) == jobs(1)
    assert [job.hours for job in jobs(1)] != [job.hours for job in jobs(2)]
    assert MARKET.losses("a", 0) == market_of(1, 7).losses("a", 0)
    assert MARKET.losses("a", 0) != market_of(2, 7).losses("a", 0)
    assert MARKET.shares("a") != market_of(2, 7).shares("a")


def test_a_week_has_jobs_of_each_kind_of_minutes_to_many_hours_in_the_order_of_their_creation() -> None:
    found = jobs(1)
    kinds = Counter(job.kind for job in found)
    assert len(found) == 420
    assert kinds["good"] == pytest.approx(0.72 * 420, rel=0.1)
    assert all(kinds[kind] > 5 for kind in KINDS)
    lengths = [hours for job in found for hours in job.hours]
    assert (min(lengths), max(lengths)) == (SHORTEST, LONGEST)
    assert all(one.created <= other.created for one, other in pairwise(found))
    assert {len(job.hours) for job in found} == {1, 6}


def test_most_jobs_of_a_workday_are_created_in_working_hours_and_a_burst_each_night() -> None:
    hours = [job.created % 24 for job in jobs(1) if job.created < 5 * 24]
    assert sum(8 <= hour <= 18 for hour in hours) > len(hours) / 2
    assert sum(1 <= hour <= 2 for hour in hours) > len(hours) / 6


def test_a_job_with_a_bug_crashes_at_the_same_time_in_each_attempt() -> None:
    found = {of("bug").attempt(0, number, MEMORY)[1] for number in range(9)}
    assert found == {kubelet.End(1, "Error")}
    assert of("bug", hours=(2, 2)).attempt(1, 0, MEMORY)[1] == kubelet.SUCCESS


def test_a_flaky_job_crashes_in_some_attempts_and_succeeds_in_others() -> None:
    ends = Counter(of("flaky").attempt(0, number, MEMORY)[1].code for number in range(100))
    assert ends.keys() == {0, 143}
    assert ends[143] == pytest.approx(50, abs=15)


def test_a_program_with_less_memory_than_it_needs_is_killed_and_with_enough_succeeds() -> None:
    short = of("short of memory", needs=48.0)
    assert short.attempt(0, 0, 32)[1] == kubelet.OUT_OF_MEMORY
    assert short.attempt(0, 1, 64)[1] == kubelet.SUCCESS


def test_a_few_attempts_take_twice_as_long() -> None:
    lengths = Counter(round(GOOD.attempt(0, number, MEMORY)[0], 3) for number in range(1000))
    assert lengths.keys() == {2, 4}
    assert 20 < lengths[4] < 60


def test_a_wave_takes_most_nodes_of_its_zone_and_no_node_is_lost_while_it_is_not_there() -> None:
    for zone in ZONES:
        for number in range(SPOT_IN_ZONE):
            found = MARKET.losses(zone, number)
            assert all(one.end < other.start for one, other in pairwise(found))
    wave = MARKET.waves("a")[0]
    taken = [any(loss.end == wave.end for loss in MARKET.losses("a", number)) for number in range(SPOT_IN_ZONE)]
    assert sum(taken) >= SPOT_IN_ZONE / 2


def test_nodes_live_as_long_as_the_market_says_outside_of_waves() -> None:
    calm = Market(1, 40_000)
    waves = {wave.end for wave in calm.waves("a")}
    alone = [loss for loss in calm.losses("a", 0) if loss.end not in waves]
    assert 40_000 / len(alone) == pytest.approx(LIFE, rel=0.2)


def test_spot_is_dearer_in_a_wave_and_money_follows_the_price_of_each_hour() -> None:
    wave = max(MARKET.waves("b"), key=lambda one: one.end - one.start)
    resources = {"cpu": 10.0, "memory": 20.0 * GIB}
    in_wave = MARKET.money("b", spot=True, start=wave.start, end=wave.end, resources=resources)
    hours = wave.end - wave.start
    assert in_wave / hours > 1.2 * MARKET.mean_share("b") * 0.5
    assert MARKET.money("b", spot=False, start=3, end=5, resources=resources) == pytest.approx(2 * 0.5)
    parts = [MARKET.spot_hours("b", start, start + 0.1) for start in (1.0, 1.1, 1.2, 1.3)]
    assert sum(parts) == pytest.approx(MARKET.spot_hours("b", 1.0, 1.4))


def test_the_policies_are_accepted_in_the_time_of_the_run_and_in_simulated_time() -> None:
    run = parse(file_of(policy_file(MARKET)))
    assert isinstance(run, Policy)
    for policy in OURS:
        stretched = parse(file_of(simulated(policy, MARKET)))
        assert isinstance(stretched, Policy)
        ran, found = run.profiles[name_of(policy)], stretched.profiles["default"]
        assert found.failure_policy.settle_within == FASTER * ran.failure_policy.settle_within
        assert found.placement.spot_wait == (ran.placement.spot_wait and FASTER * ran.placement.spot_wait)
    assert len(run.profiles[name_of(RULES)].on_failure) == 3
    assert run.profiles[name_of(REQUIRE)].placement.spot == "Require"


def test_the_price_table_of_a_policy_has_the_mean_spot_price_of_each_zone() -> None:
    policy = parse(file_of(simulated(DEFAULT, MARKET)))
    assert isinstance(policy, Policy)
    assert policy.prices is not None
    resources = {"cpu": 16.0, "memory": 32.0 * GIB}
    labels = {"topology.kubernetes.io/zone": "europe-west1-b"}
    spot = price(policy.prices.rates, "Spot", labels, resources, 3600)
    assert spot == pytest.approx(0.8 * MARKET.mean_share("b"), rel=0.001)
    assert price(policy.prices.rates, "OnDemand", labels, resources, 3600) == pytest.approx(0.8)


def test_each_policy_has_nodes_of_its_own_and_the_author_asks_for_spot_where_no_webhook_does() -> None:
    names = [node["metadata"]["name"] for policy in POLICIES for node in nodes(policy)]
    assert len(names) == len(set(names)) == 15 * len(POLICIES)
    stock, ours = (manifest(policy, GOOD)["spec"]["template"]["spec"] for policy in (STOCK, DEFAULT))
    assert "affinity" in stock
    assert "affinity" not in ours


def pod(uid: str, phase: str, node: str = "limit-3-spot-b-0", index: int = 0, **status: object) -> Json:
    amount = {"cpu": "16", "memory": "32Gi"}
    return {
        "metadata": {
            "uid": uid,
            "name": uid,
            "namespace": "limit-3",
            "labels": {JOB_NAME: "job-1"},
            "annotations": {INDEX: str(index)},
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": amount}}]},
        "status": {"phase": phase, **status},
    }


def ended(code: int, reason: str) -> list[Json]:
    return [{"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason}}}]


def job(kind: str) -> Json:
    conditions = [{"type": kind, "status": "True", "reason": "CompletionsReached"}]
    metadata = {"name": "job-1", "uid": "u", "namespace": "limit-3"}
    return {"metadata": metadata, "spec": {"backoffLimit": 3}, "status": {"conditions": conditions}}


def seen() -> Witness:
    """Return a witness of a Job whose first pod was interrupted, and whose second one succeeded on-demand."""
    found = Witness({"job-1": GOOD}, MARKET)
    found.see_job({**job("Complete"), "status": {}}, 1)
    assert found.see_pod(pod("first", "Pending", node=""), 1, deleted=False) is None
    begun = found.see_pod(pod("first", "Running"), 1, deleted=False)
    assert begun is not None
    assert (begun.number, begun.zone, begun.spot) == (0, "b", True)
    disrupted = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    found.see_pod(pod("first", "Failed", conditions=disrupted), 2, deleted=False)
    found.see_pod(pod("first", "Failed", conditions=disrupted), 2.5, deleted=True)
    again = found.see_pod(pod("second", "Running", node="limit-3-on-demand-a"), 3, deleted=False)
    assert again is not None
    assert (again.number, again.zone, again.spot) == (1, "a", False)
    found.see_pod(pod("second", "Succeeded", node="limit-3-on-demand-a"), 5, deleted=False)
    found.see_job(job("Complete"), 5)
    return found


def test_the_witness_adds_up_seconds_money_and_what_was_lost() -> None:
    cell = seen().cell("limit 3", 7, 1)
    assert (cell.attempts, cell.started, cell.disruptions, cell.completed) == (2, 2, 1, 1)
    assert (cell.spot_seconds, cell.on_demand_seconds) == (3600, 7200)
    assert cell.lost == {"disruption": 3600}
    assert cell.mean_time_to_finish == 4 * 3600
    assert cell.on_demand_money == pytest.approx(2 * 0.8)
    assert cell.spot_money == pytest.approx(0.8 * MARKET.spot_hours("b", 1, 2), abs=0.01)


@pytest.mark.parametrize(
    ("code", "reason", "lost_to"),
    [(1, "Error", "bug"), (143, "Error", "flaky"), (75, "Error", "temporary"), (137, "OOMKilled", "memory")],
)
def test_what_a_failed_attempt_was_lost_to(code: int, reason: str, lost_to: str) -> None:
    found = Witness({"job-1": GOOD}, MARKET)
    found.see_pod(pod("first", "Running"), 1, deleted=False)
    found.see_pod(pod("first", "Failed", containerStatuses=ended(code, reason)), 2, deleted=False)
    assert found.cell("limit 3", 7, 1).lost == {lost_to: 3600}


def test_the_hours_of_good_jobs_and_of_those_with_a_bug_are_kept_apart() -> None:
    found = Witness({"job-1": GOOD, "job-2": of("bug"), "job-3": of("flaky")}, MARKET)
    for name, end, kind in (("job-1", 4, "Complete"), ("job-2", 9, "Failed"), ("job-3", 10, "Complete")):
        one = job(kind)
        one["metadata"]["name"] = name
        found.see_job({**one, "status": {}}, 1)
        found.see_job(one, end)
        found.see_job(one, end + 1)
    cell = found.cell("limit 3", 7, 1)
    assert (cell.times, cell.bug_times, cell.finished) == ([3], [8], [4, 10])
    assert (cell.complete["good"], cell.failed["bug"]) == (1, 1)


def test_a_pod_that_still_runs_has_no_end_and_counts_nothing() -> None:
    found = Witness({"job-1": GOOD}, MARKET)
    found.see_pod(pod("first", "Running"), 1, deleted=False)
    cell = found.cell("limit 3", 7, 1)
    assert (cell.attempts, cell.seconds, cell.money) == (0, 0, 0)
    assert not found.over


def test_the_attempts_of_each_index_are_counted_apart() -> None:
    found = Witness({"job-1": of("good", hours=(2, 2))}, MARKET)
    numbers = []
    for number, index in enumerate((0, 1, 0)):
        begun = found.see_pod(pod(f"{number}", "Running", index=index), 1, deleted=False)
        assert begun is not None
        numbers.append(begun.number)
    assert numbers == [0, 0, 1]


def test_the_records_are_those_of_the_server_in_simulated_time() -> None:
    first, second, last = (decode(encode(record)) for record in records(seen(), "limit-3", ()))
    assert isinstance(first, AttemptRecord)
    assert (first.cause, first.reason) == ("Disruption", "DeletionByTaintManager")
    assert (first.capacity, first.zone, first.seconds) == ("Spot", "europe-west1-b", 3600)
    assert (first.start, first.end) == ("2026-11-16T01:00:00Z", "2026-11-16T02:00:00Z")
    assert first.price == pytest.approx(0.8 * MARKET.spot_hours("b", 1, 2), abs=0.001)
    assert isinstance(second, AttemptRecord)
    assert (second.cause, second.capacity) == ("Succeeded", "OnDemand")
    assert second.price == pytest.approx(1.6)
    assert isinstance(last, WorkloadRecord)
    assert (last.outcome, last.reason, last.retries) == ("Complete", "CompletionsReached", 3)


def test_the_retries_of_an_indexed_job_are_those_of_all_its_indexes_unless_each_has_its_own() -> None:
    found = Witness({"job-1": of("good", hours=(2, 2))}, MARKET)
    one = job("Complete")
    one["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": 10, "maxFailedIndexes": 0}
    found.see_job(one, 4)
    (record,) = records(found, "limit-3", ())
    assert isinstance(record, WorkloadRecord)
    assert (record.retries, record.per_index, record.indexed) == (3, False, True)


def test_the_records_are_in_the_order_in_which_pods_and_jobs_ended() -> None:
    found = seen()
    other = job("Failed")
    other["metadata"] |= {"name": "job-0", "uid": "v"}
    found.see_job(other, 4)
    ends = [record.end for record in records(found, "limit-3", ())]
    assert ends == [f"2026-11-16T0{hour}:00:00Z" for hour in (2, 4, 5, 5)]


def test_the_sums_of_the_records_are_those_of_the_witness() -> None:
    attempts = [record for record in records(seen(), "limit-3", ()) if isinstance(record, AttemptRecord)]
    cell = seen().cell("limit 3", 7, 1)
    assert sum(record.seconds for record in attempts) == pytest.approx(cell.seconds)
    assert sum(record.price or 0 for record in attempts) == pytest.approx(cell.money, abs=0.01)


def test_the_records_of_the_server_are_read_in_simulated_time_and_the_last_one_of_a_pod_counts(tmp_path: Path) -> None:
    begin = datetime(2026, 1, 5, 12, tzinfo=UTC)
    first, *_ = records(seen(), "limit-3", ())
    assert isinstance(first, AttemptRecord)
    times = {"created": "2026-01-05T12:00:00Z", "start": "2026-01-05T12:00:36Z", "end": "2026-01-05T12:01:12Z"}
    run = msgspec.structs.replace(first, **times, seconds=36.0, profile="limit-3", cost="disruption")
    lines = (msgspec.structs.replace(run, cost=""), run)
    (tmp_path / "history-a-1.ndjson").write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    (found,) = server_records(tmp_path, begin)
    assert isinstance(found, AttemptRecord)
    assert (found.start, found.end) == ("2026-11-16T05:00:00Z", "2026-11-16T10:00:00Z")
    assert (found.seconds, found.cost, found.profile) == (5 * 3600, "disruption", "default")


def test_what_the_server_wrote_and_what_the_witness_saw_are_compared_by_field() -> None:
    first, second, last = records(seen(), "limit-3", ())
    assert isinstance(first, AttemptRecord)
    other = msgspec.structs.replace(first, cause="Other", seconds=3500.0)
    found = differences([first, second, last], [other, last])
    assert (found["both"], found["only the witness"], found["only the server"], found["cause"]) == (2, 1, 0, 1)
    assert (found["seconds of the witness"], found["seconds of the server"]) == (10_800, 3500)


def test_the_goodput_of_a_report_is_what_the_witness_saw() -> None:
    by_report = goodput_of(records(seen(), "limit-3", ()))
    assert [by_report, seen().cell("limit 3", 7, 1).goodput] == pytest.approx([2 / 3, 2 / 3])


def cell(policy: str, seed: int) -> Cell:
    return msgspec.structs.replace(seen().cell(policy, 7, 1), seed=seed)


CELLS = [cell(policy, seed) for seed in (1, 2) for policy in POLICIES]


def test_the_table_has_a_line_for_each_policy_with_the_means_of_all_seeds() -> None:
    *_, last = table(CELLS).splitlines()
    assert last == "| onFailure | 1 of 1 | 0 | 2 | 1 | 3 | 33% | 1 | 0 | 0 | 2 | 1.86 | 4.0 | 4.0 | 0.0 |"


def test_the_headline_compares_the_rules_with_no_webhook() -> None:
    with_bugs = [msgspec.structs.replace(one, bug_times=[1.0 if one.policy == RULES else 8.0]) for one in CELLS]
    assert headline("a week", with_bugs) == (
        "In a week of 1 Jobs on a spot market, 1 are complete with `disruptions.limit: 3` and three rules of "
        "`onFailure`,\n"
        "1 without a webhook, 1 under the default policy, which takes exit code 75 for a bug.\n"
        "With the rules they cost 2 USD instead of 2 on spot and 2 on-demand. Attempts that lead to nothing\n"
        "take 1 node-hours instead of 1. A bug has failed its Job after 1.0 hours instead of 8.0.\n"
    )


def test_what_is_kept_of_a_week_is_read_back(tmp_path: Path) -> None:
    keep.write_truth(tmp_path, CELLS[:6])
    assert keep.truth_in(tmp_path) == {one.policy: one for one in CELLS[:6]}
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        keep.write_truth(tmp_path / str(number), CELLS[6 * number - 6 : 6 * number])
    assert keep.cells_in(tmp_path) == CELLS


def test_the_picture_is_drawn_alike_each_time(tmp_path: Path) -> None:
    from tests.bench.week.picture import draw  # noqa: PLC0415 - matplotlib takes a second

    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(CELLS, one)
    draw(CELLS, other)
    assert one.read_bytes() == other.read_bytes()


def test_a_prediction_is_compared_with_what_happened_and_a_miss_of_more_than_a_tenth_is_marked(tmp_path: Path) -> None:
    keep.write_truth(tmp_path, CELLS[:6])
    for policy in OURS:
        (tmp_path / f"{name_of(policy)}.yaml").write_text(file_of(simulated(policy, MARKET)))
        lines = (encode(record) + b"\n" for record in records(seen(), name_of(policy), ()))
        (tmp_path / f"{name_of(policy)}.ndjson").write_bytes(b"".join(lines))

    def predict(found: list[Record], before: Policy, after: Policy, *, seed: int) -> object:
        assert (len(found), seed) == (3, 1)
        assert (before.profiles["default"].disruptions.limit, after.profiles["default"].disruptions.limit) == (1, 3)
        one = SimpleNamespace(mean=2.1, low=2.0, high=2.2)
        return SimpleNamespace(**dict.fromkeys(truth_of(CELLS[0]), one))

    found = [*compared(tmp_path, DEFAULT, LIMIT_3, predict)]
    attempts, money = (one for one in found if one.figure in {"attempts", "money"})
    assert attempts.truth == 2
    assert attempts.error == pytest.approx(0.05)
    assert summary([attempts, money]).splitlines()[2] == "| default policy | limit 3 | +5.0% | +12.9% |"
    assert [line.endswith("MISS") for line in compare_table([attempts, money]).splitlines()] == [False, False, True]
