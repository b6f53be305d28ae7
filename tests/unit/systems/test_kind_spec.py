"""The fields of an object that a KindSpec finds."""

from dataclasses import replace
from typing import Any

import pytest

from webhook.objects.problem import Json
from webhook.systems.kind_spec import EmbeddedJob, KindSpec, OwnerReference, controller_of
from webhook.systems.kinds import KINDS, kind_of_controller

TWO_JOBS = KindSpec(
    group="example.test",
    versions=("v1",),
    kind="Pair",
    resource="pairs",
    shape={"spec": {"first": {"spec": {}}, "others": [{"spec": {}}]}},
    job_specs=(("spec", "first", "spec"), ("spec", "others", 1, "spec")),
)


def test_a_kind_yields_every_job_spec_with_its_path_and_metadata() -> None:
    first: Json = {"suspend": True}
    second: Json = {"suspend": False}
    root: Json = {
        "metadata": {"name": "pair"},
        "spec": {"first": {"spec": first, "metadata": {"name": "one"}}, "others": [None, {"spec": second}]},
    }
    one, other = TWO_JOBS.jobs(root)
    assert (one.path, one.metadata_path) == (("spec", "first", "spec"), ("spec", "first", "metadata"))
    assert (other.path, other.metadata_path) == (("spec", "others", 1, "spec"), ("spec", "others", 1, "metadata"))
    assert one.spec is first
    assert other.spec is second
    assert (one.metadata, other.metadata) == ({"name": "one"}, {})


def test_a_kind_does_not_import_whose_shape_lacks_a_field_that_is_read() -> None:
    with pytest.raises(ImportError, match=r"^example.test/v1 Pair: add \('spec', 'others', 1, 'spec'\) to its shape$"):
        replace(TWO_JOBS, shape={"spec": {"first": {"spec": {}}}})


@pytest.mark.parametrize(
    "root", [{}, {"spec": None}, {"spec": {"first": None, "others": []}}, {"spec": {"first": {"spec": None}}}]
)
def test_a_kind_yields_no_job_spec_if_there_is_none(root: Json) -> None:
    assert list(TWO_JOBS.jobs(root)) == []


def test_an_embedded_job_reads_its_template() -> None:
    template = {"metadata": {"annotations": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}
    job = EmbeddedJob(("spec",), {"template": template}, {})
    assert (job.template, job.pod_spec, job.pod_annotations) == (template, {"restartPolicy": "Never"}, {"a": "b"})


@pytest.mark.parametrize("spec", [{}, {"template": None}, {"template": {"metadata": None, "spec": None}}])
def test_a_template_that_is_absent_or_null_is_empty(spec: Json) -> None:
    job = EmbeddedJob(("spec",), spec, {})
    assert (job.pod_spec, job.pod_annotations) == ({}, {})


def reference(**fields: Any) -> Json:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True, **fields}


def owned(*references: Json) -> Json:
    return {"metadata": {"ownerReferences": list(references)}}


def test_the_controller_is_the_owner_with_controller_true() -> None:
    other = reference(name="other", controller=False)
    unmarked = reference(name="unmarked")
    del unmarked["controller"]
    assert controller_of(owned(other, unmarked, reference())) == OwnerReference("batch", "v1", "Job", "train", "u")


def test_a_controller_of_the_core_group_has_an_empty_group() -> None:
    found = controller_of(owned(reference(apiVersion="v1", kind="ReplicationController")))
    assert found == OwnerReference("", "v1", "ReplicationController", "train", "u")


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"ownerReferences": None}},
        owned(),
        owned(reference(controller=False)),
        owned(reference(controller=None)),
    ],
)
def test_an_object_without_an_owner_that_controls_it_has_no_controller(root: Json) -> None:
    assert controller_of(root) is None


def test_a_reference_without_its_fields_has_no_known_kind() -> None:
    found = controller_of(owned({"controller": True, "apiVersion": None}))
    assert found == OwnerReference("", "", "", "", "")
    assert kind_of_controller(found) is None


def test_a_controllers_kind_may_be_in_lower_case_as_flyte_writes_it() -> None:
    found = controller_of(owned(reference(apiVersion="flyte.lyft.com/v1alpha1", kind="flyteworkflow")))
    assert found is not None
    assert kind_of_controller(found) is KINDS["flyte.lyft.com", "FlyteWorkflow"]


@pytest.mark.parametrize("kind", ["CronJob", "Pod"])
def test_a_kind_that_controls_no_pods_is_not_found_as_a_controller(kind: str) -> None:
    group = "batch" if kind == "CronJob" else ""
    assert kind_of_controller(OwnerReference(group, "v1", kind, "n", "u")) is None


def test_the_table_has_each_row_under_its_group_and_kind() -> None:
    assert all((kind.group, kind.kind) == key for key, kind in KINDS.items())
