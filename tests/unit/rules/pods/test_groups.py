"""Pods that are scheduled together with others."""

import pytest

from tests.objects import pod
from webhook.objects.problem import Json
from webhook.rules.pods import groups
from webhook.systems.argo import pods as argo
from webhook.systems.job import pods as of_jobs
from webhook.systems.job_set import pods as job_set
from webhook.systems.job_set.spec import JOB_RESTART
from webhook.systems.volcano import pods as volcano


@pytest.mark.parametrize("label", sorted(groups.LABELS))
def test_a_pod_with_the_label_of_a_group_is_grouped(label: str) -> None:
    assert groups.is_grouped(pod(labels={label: "workers"}))


@pytest.mark.parametrize("annotation", sorted(groups.ANNOTATIONS))
def test_a_pod_with_the_annotation_of_a_group_is_grouped(annotation: str) -> None:
    assert groups.is_grouped(pod(annotations={annotation: "workers"}))


@pytest.mark.parametrize("spec", [{"schedulingGroup": {"podGroupName": "a"}}, {"workloadRef": {"name": "a"}}])
def test_a_pod_that_names_a_group_of_the_workload_api_is_grouped(spec: Json) -> None:
    assert groups.is_grouped(pod(spec))


def test_a_pod_without_a_group_is_not_grouped() -> None:
    assert not groups.is_grouped(pod(labels={"app": "train"}, annotations={"a": "b"}))
    assert not groups.is_grouped({})


@pytest.mark.parametrize(
    ("source", "as_one"),
    [(job_set.NAME, True), (volcano.NAME, True), (of_jobs.OF_JOB, False), (argo.NAME, False)],
)
def test_a_group_moves_as_one_if_its_system_restarts_all_pods_together(source: str, *, as_one: bool) -> None:
    assert groups.moves_as_one(pod(), source) is as_one


@pytest.mark.parametrize(("restarts", "as_one"), [("0", True), ("1", False)])
def test_a_job_set_that_restarted_one_job_alone_no_longer_moves_as_one(restarts: str, *, as_one: bool) -> None:
    restarted = pod(labels={JOB_RESTART: restarts})
    assert groups.moves_as_one(restarted, job_set.NAME) is as_one


def test_a_resource_claim_by_name_binds_a_pod_and_a_claim_template_does_not() -> None:
    assert groups.has_named_claim({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]})
    assert not groups.has_named_claim({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "each"}]})
    assert not groups.has_named_claim({})
