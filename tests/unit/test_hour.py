"""The draw and the figures of the simulated hour; the bench itself needs a control plane."""

from collections import Counter
from pathlib import Path

from tests.bench import kubelet
from tests.bench.hour.draw import KINDS, DrawnJob, jobs
from tests.bench.hour.figures import Cell, table
from tests.bench.hour.policies import CRASH, POLICIES, WITH, manifest, nodes, policy_file
from tests.bench.hour.rounds import program
from tests.bench.hour.witness import JOB_NAME, Witness
from tests.bench.simulation import name_of
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse

GIBIBYTE = 2**30
SHORT = DrawnJob("job-1", "short of memory", created=0, minutes=10, killed=4)


def test_a_fifth_of_the_jobs_is_short_of_memory_and_a_tenth_runs_on_accelerated_nodes() -> None:
    assert Counter(job.kind for job in jobs(1)) == {"good": 140, "short of memory": 40, "on bad nodes": 20}


def test_the_same_seed_draws_the_same_hour_and_another_seed_another_one() -> None:
    assert jobs(1) == jobs(1)
    assert [job.kind for job in jobs(1)] != [job.kind for job in jobs(2)]
    assert [job.minutes for job in jobs(1)] != [job.minutes for job in jobs(2)]


def test_the_policies_that_are_compared_are_accepted() -> None:
    policy = parse(policy_file())
    assert isinstance(policy, Policy)
    assert len(policy.profiles[name_of(WITH)].on_failure) == 3


def test_an_attempt_without_enough_memory_is_killed_and_one_with_twice_as_much_succeeds() -> None:
    assert program(SHORT, "spot-a-0", 4 * GIBIBYTE) == (4, kubelet.OUT_OF_MEMORY)
    assert program(SHORT, "spot-a-0", 8 * GIBIBYTE) == (10, kubelet.SUCCESS)


def test_a_job_asks_for_less_memory_than_it_needs() -> None:
    pod = manifest(WITH, SHORT)["spec"]["template"]
    assert kubelet.memory_of(pod) == 4 * GIBIBYTE


def test_two_of_four_accelerated_nodes_of_each_policy_are_bad() -> None:
    for policy in POLICIES:
        found = [node["metadata"]["name"] for node in nodes(policy) if "accelerated" in node["metadata"]["name"]]
        crashed = [node for node in found if program(SHORT, node, 8 * GIBIBYTE)[1] == CRASH]
        assert (len(found), len(crashed)) == (4, 2)


def test_the_author_asks_for_spot_where_no_webhook_does() -> None:
    stock, ours = (manifest(policy, SHORT)["spec"]["template"]["spec"] for policy in (POLICIES[0], WITH))
    assert "affinity" in stock
    assert "affinity" not in ours


def pod(uid: str, phase: str, **status: object) -> Json:
    metadata = {"uid": uid, "name": uid, "labels": {JOB_NAME: "job-1"}}
    return {"metadata": metadata, "spec": {"nodeName": "x-spot-a-0"}, "status": {"phase": phase, **status}}


def job(kind: str) -> Json:
    return {"metadata": {"name": "job-1"}, "status": {"conditions": [{"type": kind, "status": "True"}]}}


def seen() -> Witness:
    """Return a witness of a Job whose first pod was interrupted, and whose second one succeeded."""
    found = Witness({"job-1": SHORT})
    assert not found.see_pod(pod("first", "Pending"), 0, deleted=False)
    assert found.see_pod(pod("first", "Running"), 1, deleted=False)
    interrupted = pod("first", "Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}])
    found.see_pod(interrupted, 5, deleted=False)
    found.see_pod(interrupted, 6, deleted=True)
    found.see_pod(pod("second", "Running"), 6, deleted=False)
    found.see_pod(pod("second", "Succeeded"), 16, deleted=False)
    found.see_job(job("Complete"), 16.1)
    return found


def test_the_time_of_an_attempt_that_did_not_succeed_is_wasted() -> None:
    cell = seen().cell(WITH, 1)
    assert (cell.useful, cell.wasted, cell.spot) == (600, 240, 840)
    assert (cell.attempts, cell.interruptions, cell.again, cell.complete) == (2, 1, 0, 1)


def test_a_job_that_ends_after_the_hour_does_not_count() -> None:
    found = Witness({"job-1": SHORT})
    found.see_job(job("Complete"), 60.1)
    assert not found.over
    found.see_job(job("Failed"), 59)
    assert found.over


CELLS = [
    Cell(
        policy=policy,
        jobs=dict.fromkeys(KINDS, 2),
        finished={kind: [7.0, 9.0] for kind in KINDS},
        failed=dict.fromkeys(KINDS, 0),
        attempts=8,
        interruptions=2,
        again=1,
        useful=6000,
        wasted=60,
        spot=9,
        load=1,
    )
    for policy in POLICIES
]


def test_the_table_has_a_line_for_each_policy() -> None:
    *_, last = table(CELLS).splitlines()
    assert last == "| with onFailure | 6 of 6 | 2 of 2 | 2 of 2 | 2 of 2 | 0 | 8 | 2 | 1 | 6,060 | 60 | 10 |"


def test_the_picture_is_drawn_alike_each_time(tmp_path: Path) -> None:
    from tests.bench.hour.picture import draw  # noqa: PLC0415 - matplotlib takes a second

    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(CELLS, one)
    draw(CELLS, other)
    assert one.read_bytes() == other.read_bytes()
