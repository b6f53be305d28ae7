"""Fits, model and pictures of the curve over the number of Jobs; the bench itself needs a control plane."""

from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.bench.curve import figures, model
from tests.bench.curve.figures import Cost, Direct, Growth, Rates, Run, Started, Through
from tests.bench.curve.fill import Size, copies, later, originals, replaced, stored_job, stored_pod, varint
from tests.bench.curve.model import Costs, Load, first_limit, measured, needs
from tests.bench.curve.stage import DISRUPTED, LEADING, PODS_AGE, of_another_job
from webhook import metrics
from webhook.kube import names

MEBIBYTE = 2**20
BASE, JOB, POD, NODE = 60, 400.0, 700.0, 90.0
MORE = 5  # MiB of the controller without any object


def run(jobs: int, pods: int, nodes: int = 1000, *, whole: bool = True, **fields: float) -> Run:
    """Return a run in which each object costs what the constants say."""
    memory = BASE + (jobs * JOB + pods * POD + nodes * NODE) / MEBIBYTE
    webhook = Started(1, 2, 3, memory, memory, 4, 5)
    controller = Started(1, 2, 3, memory + MORE, memory + MORE, 4, 5)
    found = Run(jobs, pods, nodes, 1000, webhook=webhook, controller=controller, plain=3)
    if whole:
        found.rest = [0.01, 0.01]
        found.p50 = 0.2
        found.disruption = Cost(fields.get("controller", 2000.0), 400, 9000, 19_000, 12_000)
        found.event, found.job_event = Cost(50, 60, 1, 5000, 6000), Cost(20, 10, 1, 4000, 4000)
        found.calls = {"PATCH pods/status": 1, "PATCH jobs": 1, "POST events": 1}
    return found


CURVE = [run(1000, 1500), run(10_000, 15_000), run(100_000, 150_000)]
NOTHING_STARTED = Run(10_000, 15_000, 1000, 1)
ALL_FAILED = Run(1000, 1500, 1000, 1000, failed=True, webhook=Started(1, 2, 3, 900, 900, 4, 5))
OTHERS = [run(10_000, 60_000, whole=False), run(10_000, 15_000, 15_000, whole=False), NOTHING_STARTED, ALL_FAILED]
RATES = Rates(
    [
        Through("none", 300, 200, 300, {"kube-apiserver": 4000, "etcd": 1000}),
        Through("this one", 200, 300, 400, {"kube-apiserver": 5000, "etcd": 1000, "webhook-0": 500}),
    ],
    [Direct(1000, 1000, 1, 2, 300, 50), Direct(2000, 2000, 1, 9, 250, 40), Direct(5000, 4100, 90, 900, 200, 30)],
)


def test_the_memory_of_each_object_follows_from_runs_in_different_proportions() -> None:
    for program, more in (("webhook", 0), ("controller", MORE)):
        grown = figures.growth([*CURVE, *OTHERS], program)
        assert (grown.base, grown.job, grown.pod, grown.node) == pytest.approx((BASE + more, JOB, POD, NODE), rel=1e-6)


def test_runs_in_one_proportion_do_not_say_what_a_pod_costs() -> None:
    with pytest.raises(ValueError, match="do not determine"):
        figures.growth([*CURVE, run(50_000, 75_000)], "webhook")


@pytest.mark.parametrize(
    ("values", "linear"),
    [
        ([1.0, 10.0, 100.0], True),
        ([1.0, 1.0, 1.0], True),
        ([5.0, 10.0, 12.0], True),  # ever flatter
        ([1.0, 10.0, 200.0], False),
        ([0.2, 0.2, 0.21], True),  # noise
        ([0.2, 0.2, 0.4], False),
    ],
)
def test_a_line_may_not_become_steeper_with_the_number_of_jobs(values: list[float], *, linear: bool) -> None:
    assert figures.is_linear([1000, 10_000, 100_000], values) is linear


def test_lines_that_grow_faster_than_the_number_of_jobs_are_named() -> None:
    assert figures.faster_than_linear(CURVE) == []
    steep = [*CURVE[:2], run(100_000, 150_000, controller=200_000)]
    assert figures.faster_than_linear(steep) == ["the controller's CPU for a disruption"]


def test_two_sizes_do_not_say_whether_a_line_is_straight() -> None:
    assert figures.verdict(CURVE) == "No line grows faster than linear."
    assert figures.verdict([*CURVE[:2], *OTHERS]).endswith("takes 3 sizes of the curve; 2 are measured.")


def test_runs_of_a_start_alone_are_no_points_of_the_curve() -> None:
    assert figures.curve([*OTHERS, *reversed(CURVE)]) == CURVE


GROWN = {"webhook": Growth(BASE, JOB, POD, NODE), "controller": Growth(BASE + MORE, JOB, POD, NODE)}
COSTS = Costs(GROWN, 50, 20, 2000, 400, 250, 6000, 4000, 2, 9000, 5000, 1000)


def test_costs_are_those_of_the_largest_cluster_and_of_the_highest_rate_that_was_reached() -> None:
    found = measured([*CURVE, *OTHERS], RATES)
    assert found._replace(memory=COSTS.memory) == COSTS._replace(pod_event=60)


def test_without_any_rate_within_the_bound_the_lowest_rate_says_what_a_review_costs() -> None:
    slow = Rates(RATES.through, [Direct(2000, 2000, 1, 99, 250, 40), Direct(1000, 1000, 1, 50, 300, 50)])
    assert model.fastest(slow).asked == 1000


def test_each_program_pays_for_all_events_and_a_webhook_for_its_share_of_the_reviews() -> None:
    load = Load("", nodes=1000, pods=15_000, created=300, disrupted=10)
    found = needs(load, COSTS, webhooks=2)
    assert load.reviews == pytest.approx(700)
    assert found.reviewing == pytest.approx(700 * 250e-6)
    assert found.watching == pytest.approx(7 * 300 * 50e-6 + 7 * 200 * 20e-6)
    assert found.controller == pytest.approx(found.watching + 10 * 2000e-6)
    assert found.webhook == pytest.approx(found.watching + found.reviewing / 2 + 10 * 400e-6)
    assert found.memory == pytest.approx({name: CURVE[1].started(name).memory for name in GROWN})
    assert (found.calls, found.api, found.calling, found.ending) == pytest.approx((20, 1.5, 0.3, 0.09))
    more = needs(load, COSTS, webhooks=4)
    assert (more.watching, more.reviewing) == (found.watching, found.reviewing)
    assert more.webhook < found.webhook


def test_the_first_limit_is_the_bound_of_which_most_is_used() -> None:
    busy = Load("", nodes=1000, pods=1500, created=0, disrupted=1000)
    assert first_limit(needs(busy, COSTS)) == "the controller's core"
    full = Load("", nodes=1000, pods=1_500_000, created=0, disrupted=0)
    assert first_limit(needs(full, COSTS)) == "the memory of the manifests"


def test_the_picture_is_drawn_alike_each_time(tmp_path: Path) -> None:
    from tests.bench.curve.picture import draw  # noqa: PLC0415 - matplotlib takes a second

    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(CURVE, one)
    draw(CURVE, other)
    assert one.read_bytes() == other.read_bytes()


SIZE = Size(jobs=4, pods=6, nodes=3, namespaces=2)


def test_pods_are_dealt_out_to_the_jobs_in_turn() -> None:
    owners = [stored_pod(SIZE, number).job for number in range(SIZE.pods)]
    assert owners == [stored_job(SIZE, number) for number in (0, 1, 2, 3, 0, 1)]
    assert {owner.namespace for owner in owners} == {"team-0000", "team-0001"}


def test_the_stored_objects_are_as_the_webhook_makes_them() -> None:
    found = originals()
    assert names.POLICY in found["job"]["metadata"]["annotations"]
    assert found["pod"]["metadata"]["annotations"][names.PLACEMENT] == "Spot"
    assert {found[kind]["metadata"]["labels"][names.PROFILE] for kind in ("namespace", "job", "pod")} == {"default"}


def test_every_object_is_written_once_and_with_its_own_names() -> None:
    first, uid = stored_pod(SIZE, 0), "00000000-0000-0000-0000-000000000001"
    created = {
        kind: {"metadata": {"uid": uid[:-1] + str(place), "creationTimestamp": "2026-11-23T00:00:00Z"}}
        for place, kind in enumerate(("namespace", "node", "job", "pod"))
    }
    uids = {kind: root["metadata"]["uid"] for kind, root in created.items()}
    texts = {
        "namespace": f"{first.job.namespace} {uids['namespace']}",
        "node": f"{first.node} {uids['node']}",
        "job": f"{first.job.namespace} {first.job.name} {uids['job']}",
        "pod": f"{first.job.namespace} {first.name} {uids['job']} {uids['pod']} {first.node}",
    }
    found = dict(copies(SIZE, {kind: text.encode() for kind, text in texts.items()}, created))
    assert len(found) == SIZE.jobs + SIZE.pods + SIZE.nodes + SIZE.namespaces
    last = stored_pod(SIZE, 5)
    expected = f"{last.job.namespace} {last.name} {last.job.uid} {last.uid} {last.node}"
    assert found[f"/registry/pods/{last.job.namespace}/{last.name}"].decode() == expected
    assert len(set(found.values())) == len(found)


def test_a_text_of_another_length_would_damage_a_stored_object() -> None:
    with pytest.raises(ValueError, match="not as long as"):
        replaced(b"name", {"name": "longer"})


def test_a_time_in_stored_bytes_is_moved() -> None:
    now = 1_800_000_000
    assert later(b"\x08" + varint(now) + b"\x10\x00", now, 60) == b"\x08" + varint(now - 60) + b"\x10\x00"


def test_a_varint_has_seven_bits_in_each_byte() -> None:
    assert [varint(number) for number in (1, 127, 128, 300)] == [b"\x01", b"\x7f", b"\x80\x01", b"\xac\x02"]


def test_a_replayed_review_is_about_another_job() -> None:
    first, other = stored_job(SIZE, 0), stored_job(SIZE, 3)
    body = f'{{"namespace":"{first.namespace}","name":"{first.name}","uid":"{first.uid}"}}'.encode()
    expected = f'{{"namespace":"{other.namespace}","name":"{other.name}","uid":"{other.uid}"}}'
    assert of_another_job(body, first, other).decode() == expected


def test_the_metrics_that_the_bench_waits_for_exist() -> None:
    metrics.CACHE_AGE.labels("pods").set(0)
    metrics.LEDGER_DISRUPTIONS.labels("TerminationByKubelet")
    lines = generate_latest(metrics.REGISTRY).decode().splitlines()
    for name in (PODS_AGE, LEADING, DISRUPTED):
        assert any(line.startswith(name) for line in lines), name


def test_the_tables_have_as_many_cells_in_each_line() -> None:
    tables = (figures.table(), figures.looks_table(), figures.through_table(), figures.direct_table(), model.table())
    for table in tables:
        lines = table.splitlines()
        assert len(lines) > 2
        assert all(one.count("|") == other.count("|") for one, other in pairwise(lines))
