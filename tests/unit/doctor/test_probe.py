"""In which namespace the dry run is made, and what it sends."""

import asyncio
from typing import cast

import pytest

from tests.unit.doctor.answers import Answer, Answers
from tests.unit.doctor.healthy import healthy, namespace, stored_job
from webhook.doctor.probe import chosen, tried
from webhook.doctor.snapshot import Probe
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json

JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def name_of(*namespaces: Json, asked: str | None = None) -> str | None:
    found = chosen(healthy(namespaces=list(namespaces), asked=asked))
    return None if found is None else str(found["metadata"]["name"])


def test_a_namespace_that_enforces_is_preferred() -> None:
    warned, enforced = namespace("a", profile="default", mode="Warn"), namespace("b", profile="default")
    assert name_of(warned, enforced) == "b"
    assert name_of(warned) == "a"


def test_the_namespace_that_the_user_asks_about_is_chosen_if_it_is_opted_in() -> None:
    opted_in = [namespace(name, profile="default") for name in ("a", "b")]
    assert name_of(*opted_in, asked="b") == "b"
    assert name_of(*opted_in, namespace("c"), asked="c") == "a"


@pytest.mark.parametrize(
    "root",
    [
        namespace(),
        namespace(profile="gone"),
        namespace(profile="default", mode="Audit"),
        namespace(profile="default", mode="warn"),
        namespace("kube-system", profile="default"),
        {"metadata": {**namespace(profile="default")["metadata"], "deletionTimestamp": "now"}},
    ],
    ids=["not opted in", "unknown profile", "Audit", "unknown mode", "never called", "being deleted"],
)
def test_a_namespace_in_which_the_answer_would_show_nothing_is_not_chosen(root: Json) -> None:
    assert name_of(root) is None


def answer(jobs: Answer) -> tuple[Probe, Answers]:
    api = Answers({JOBS: jobs})
    return asyncio.run(tried(cast("Api", api), namespace(profile="default"), [])), api


def test_two_suspended_jobs_are_created_in_a_dry_run() -> None:
    probe, api = answer(stored_job(profile="default"))
    assert probe.stored is not None
    assert [(path, one["dryRun"], one["spec"]["suspend"]) for path, one in api.created] == [(JOBS, True, True)] * 2
    assert api.created[1][1]["metadata"]["annotations"] == {names.INTERRUPTIBLE: "doctor"}


def test_a_refusal_of_the_first_job_is_kept_and_the_second_one_is_not_sent() -> None:
    probe, api = answer(ApiError(500, 'failed calling webhook "x"'))
    assert (probe.stored, probe.refusal) == (None, '500 failed calling webhook "x"')
    assert len(api.created) == 1


def test_a_user_who_may_not_create_jobs_gets_the_error() -> None:
    with pytest.raises(ApiError):
        answer(ApiError(403, 'jobs.batch is forbidden: User "x" cannot create resource "jobs" in API group "batch"'))


def test_a_refusal_by_admission_is_not_a_missing_right() -> None:
    assert answer(ApiError(403, "jobs.batch is forbidden: exceeded quota"))[0].refusal.endswith("exceeded quota")
