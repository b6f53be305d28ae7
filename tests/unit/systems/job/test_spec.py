"""Where Jobs and CronJobs have their JobSpecs and retries, and whether an author set a backoffLimit."""

import json
from typing import Any

import pytest

from tests.objects import cron_job, job, job_spec
from webhook.objects.problem import Json
from webhook.systems.job.spec import CRON_JOB, JOB, retry_budget, retry_field, says_backoff_limit
from webhook.systems.kind_spec import KindSpec


def test_a_job_has_one_job_spec_with_its_own_metadata() -> None:
    root = job(labels={"a": "b"})
    (found,) = JOB.jobs(root)
    assert (found.path, found.metadata_path) == (("spec",), ("metadata",))
    assert found.spec is root["spec"]
    assert found.metadata is root["metadata"]


def test_a_cron_job_has_the_job_spec_and_the_metadata_of_its_template() -> None:
    root = cron_job(template_metadata={"labels": {"a": "b"}})
    (found,) = CRON_JOB.jobs(root)
    assert found.path == ("spec", "jobTemplate", "spec")
    assert found.metadata_path == ("spec", "jobTemplate", "metadata")
    assert found.metadata == {"labels": {"a": "b"}}


@pytest.mark.parametrize("root", [{}, {"spec": None}, {"spec": {"jobTemplate": None}}, {"spec": {"jobTemplate": {}}}])
def test_a_cron_job_without_a_job_spec_has_none(root: Json) -> None:
    assert list(CRON_JOB.jobs(root)) == []


@pytest.mark.parametrize("root", [{}, {"spec": None}])
def test_a_job_without_a_spec_has_no_job_spec(root: Json) -> None:
    assert list(JOB.jobs(root)) == []


@pytest.mark.parametrize(
    ("spec", "name", "budget"),
    [
        ({}, "backoffLimit", 6),
        ({"backoffLimit": None}, "backoffLimit", 6),
        ({"backoffLimit": 0}, "backoffLimit", 0),
        ({"backoffLimit": 4}, "backoffLimit", 4),
        ({"backoffLimitPerIndex": None, "backoffLimit": 4}, "backoffLimit", 4),
        ({"backoffLimitPerIndex": 2}, "backoffLimitPerIndex", 2),
        ({"backoffLimitPerIndex": 0}, "backoffLimitPerIndex", 0),
        ({"backoffLimitPerIndex": 2, "backoffLimit": 2147483647}, "backoffLimitPerIndex", 2),
    ],
)
def test_the_retries_of_a_job_are_in_one_field(spec: Json, name: str, budget: int) -> None:
    assert retry_field(spec) == name
    assert retry_budget(spec) == budget


def author_wrote_limit(root: Json, kind: KindSpec = JOB) -> bool:
    (found,) = kind.jobs(root)
    return says_backoff_limit(root, found, 10)


def managed(operation: str, spec: Any) -> Json:
    return {"managedFields": [{"manager": "m", "operation": operation, "fieldsV1": {"f:spec": spec}}]}


def last_applied(text: str) -> Json:
    return {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": text}}


CONTROLLED = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "controller": True}]}


@pytest.mark.parametrize("limit", [0, 3, 5, 7, 25])
def test_a_limit_other_than_six_was_written_by_the_author(limit: int) -> None:
    assert author_wrote_limit(job(job_spec(backoffLimit=limit)))


@pytest.mark.parametrize("spec", [job_spec(), job_spec(backoffLimit=None)])
@pytest.mark.parametrize("metadata", [{}, CONTROLLED, last_applied('{"spec": {"backoffLimit": 6}}')])
def test_an_absent_limit_was_not_written_by_the_author(spec: Json, metadata: Json) -> None:
    assert not author_wrote_limit(job(spec, **metadata))


@pytest.mark.parametrize(
    "metadata",
    [
        last_applied(json.dumps(job(job_spec(backoffLimit=6)))),
        managed("Apply", {"f:backoffLimit": {}}),
        {
            "managedFields": [
                *managed("Update", {})["managedFields"],
                *managed("Apply", {"f:backoffLimit": {}})["managedFields"],
            ]
        },
        CONTROLLED,
    ],
    ids=["kubectl apply", "server-side apply", "server-side apply after another", "a controller's template"],
)
def test_six_was_written_by_the_author_if_the_applied_manifest_contains_it(metadata: Json) -> None:
    assert author_wrote_limit(job(job_spec(backoffLimit=6), **metadata))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"annotations": None, "managedFields": None},
        last_applied(json.dumps(job())),
        last_applied("nonsense"),
        last_applied("[" * 100_000),
        last_applied("[]"),
        last_applied('{"spec": null}'),
        managed("Update", {"f:backoffLimit": {}}),
        managed("Apply", {"f:suspend": {}}),
        managed("Apply", None),
        {"managedFields": "nonsense"},
        {"managedFields": [None, 5, {"operation": "Apply"}]},
        {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n"}]},
    ],
)
def test_six_is_the_apis_default_if_no_metadata_show_the_author(metadata: Json) -> None:
    assert not author_wrote_limit(job(job_spec(backoffLimit=6), **metadata))


def test_a_limit_in_a_template_was_written_by_the_author_as_templates_get_no_defaults() -> None:
    assert author_wrote_limit(cron_job(job_spec(backoffLimit=6)), CRON_JOB)
    assert not author_wrote_limit(cron_job(), CRON_JOB)
