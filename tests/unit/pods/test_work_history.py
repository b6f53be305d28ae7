"""How long the work of a new Job usually takes: what pods of earlier Jobs of its name have worked undisturbed."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.accounts.pods import running_pod
from webhook.objects.problem import Json
from webhook.pods.pods import Condition, Pod
from webhook.pods.restarts import Restarts
from webhook.pods.work_history import MOST_NAMES, UsualWork, WorkHistory


def worked(name: str, seconds: float, **fields: Any) -> Pod:
    """Return a pod of a Job that has succeeded at its first attempt."""
    said = {"job": name, "job_uid": f"uid-of-{name}", "worked": seconds, "attempt": 0, **fields}
    return replace(running_pod(), **{"phase": "Succeeded", **said})


def history(*pods: Pod) -> WorkHistory:
    found = WorkHistory()
    for pod in pods:
        found.seen(pod)
    return found


def seconds_of(known: WorkHistory, name: str) -> int | None:
    """Return how long the work of a new Job takes; None if that is not known."""
    found = known.usual_of(new(name))
    return None if found is None else found.seconds


def new(name: str, **labels: str) -> Json:
    """Return the metadata of a Job."""
    return {"namespace": "ml", "name": name, "labels": {f"jobset.sigs.k8s.io/{key}": labels[key] for key in labels}}


@pytest.mark.parametrize(
    ("name", "of_same_name"),
    [
        ("etl-29400420", True),  # a CronJob's: the minute
        ("etl-x7k2p", True),  # generateName
        ("etl-20261128-3", True),
        ("etl-4f2a9c1b", True),
        ("etl-", True),  # generateName itself: admission comes before the name
        ("etl", True),
        ("etl-7b", False),  # a size
        ("etl-small", False),
        ("etl-defaced", False),
        ("load-29400420", False),
    ],
)
def test_jobs_whose_names_differ_in_a_number_alone_are_of_the_same_name(name: str, of_same_name: bool) -> None:  # noqa: FBT001
    known = history(*(worked(f"etl-2940000{number}", 600) for number in range(3)))
    assert seconds_of(known, name) == (600 if of_same_name else None)


def test_a_job_made_anew_with_its_old_name_follows_the_ones_before_it() -> None:
    known = history(*(worked("etl", 600, job_uid=f"uid-{number}") for number in range(3)))
    assert known.usual_of(new("etl")) == UsualWork(600, "95 % of the last 3 Jobs named etl")


def test_the_longest_pod_of_each_job_counts_and_the_longest_of_twenty_jobs_does_not() -> None:
    jobs = [worked(f"etl-{number}", 100 + number, uid=f"first-{number}") for number in range(1, 21)]
    jobs += [worked("etl-19", 1000, uid="slow"), worked("etl-20", 5000.2, uid="slowest")]
    assert seconds_of(history(*jobs), "etl-21") == 1000
    assert seconds_of(history(*jobs, worked("etl-21", 7)), "etl-22") == 1000


def test_a_job_that_runs_on_or_has_failed_does_not_tell_how_long_its_longest_pod_works() -> None:
    conditions = {"etl-1": "Complete", "etl-2": "Failed"}

    def job_at(namespace: str, name: str) -> Json | None:
        if (namespace, name) == ("ml", "etl-4"):
            return None  # it is gone
        uid = "of-the-next-one" if name == "etl-5" else f"uid-of-{name}"
        status = {"conditions": [{"type": conditions[name], "status": "True"}]} if name in conditions else {}
        return {"metadata": {"uid": uid}, "status": status}

    known = WorkHistory(job_at)
    for number, seconds in enumerate([100, 9000, 8000, 104], start=1):
        known.seen(worked(f"etl-{number}", seconds))
    assert known.usual_of(new("etl-6")) is None
    known.seen(worked("etl-5", 105))
    assert known.usual_of(new("etl-6")) == UsualWork(105, "95 % of the last 3 Jobs named etl")


def test_a_list_in_the_order_of_names_replaces_no_newer_job_by_an_older_one() -> None:
    def ended(number: int) -> Pod:
        return worked(f"etl-{number}", 100 + number, last_end=f"2026-01-{number:02}T00:00:00Z")

    known = history(*map(ended, range(1, 31)))
    assert seconds_of(known, "etl-31") == 129
    for pod in sorted(map(ended, range(1, 31)), key=lambda pod: pod.job):
        known.listed(pod)
    assert sorted(one.seconds for one in known.worked["ml"]["etl", ""].values()) == list(range(111, 131))


def test_a_name_that_the_api_server_has_cut_for_its_five_characters_follows_its_prefix() -> None:
    prefix = f"{'long-' * 14}name-"
    known = history(*(worked(f"{prefix[:58]}{end}", 600) for end in ("x7k2p", "bcdfg", "24568")))
    assert known.usual_of({"namespace": "ml", "generateName": prefix}) is not None
    assert known.usual_of({"namespace": "ml", "generateName": f"{'other-' * 12}"}) is None


def test_two_jobs_are_too_few() -> None:
    assert history(worked("etl-1", 600), worked("etl-2", 600)).usual_of(new("etl-3")) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": "Failed"},
        {"attempt": 1},
        {"attempt": None},  # not proved
        {"disruptions": 1},
        {"restart": 1},
        {"restarts": Restarts(number=1, by_api=1)},
        {"group": "argoproj.io", "kind_name": "Workflow"},
        {"worked": 0.0},
        {"conditions": (Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", ""),)},  # and it exited with 0
        {"deleting": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_pod_that_may_not_have_done_all_of_its_work_at_once_says_nothing(fields: dict[str, Any]) -> None:
    known = history(*(worked(f"etl-{number}", 600, **fields) for number in range(3)))
    assert known.usual_of(new("etl-4")) is None


def test_the_jobs_of_a_job_set_follow_those_of_the_same_replicated_job() -> None:
    in_set = {"jobset-name": "llm-7", "replicatedjob-name": "workers"}
    of_set = {"job_set": "llm-5", "replicated_job": "workers"}
    known = history(*(worked(f"llm-5-workers-{number}", 600, **of_set) for number in range(3)))
    assert known.usual_of(new("llm-7-workers-0", **in_set)) == UsualWork(
        600, "95 % of the last 3 Jobs named llm/workers"
    )
    assert known.usual_of(new("llm-7-workers-0")) is None
    assert known.usual_of(new("llm-7-driver-0", **{**in_set, "replicatedjob-name": "driver"})) is None


def test_each_namespace_has_a_history_of_its_own_which_ends_with_its_opt_in() -> None:
    known = history(*(worked(f"etl-{number}", 600) for number in range(3)))
    assert known.usual_of({**new("etl-4"), "namespace": "web"}) is None
    asyncio.run(known.forget_namespaces({"ml"}))
    assert known.usual_of(new("etl-4")) is None


def test_of_more_names_than_a_namespace_may_have_those_seen_last_are_kept() -> None:
    known = history(*(worked(f"etl-{number}", 600) for number in range(3)))
    for number in range(MOST_NAMES):
        known.seen(worked(f"run{'x' * number}", 1))
        known.seen(worked("etl-2", 600))
    assert seconds_of(known, "etl-4") == 600
    assert len(known.worked["ml"]) == MOST_NAMES
    assert known.usual_of(new("run")) is None
