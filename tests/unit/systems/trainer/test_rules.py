"""Annotations of a TrainJob are copied to its JobSet, by the field of the installed CRD."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import Answer, mutate, validate
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.rules.facts import Facts
from webhook.systems.trainer.rules import MANAGER, MOST_PATCHES, PATCHES

OLDER = Facts(profile_name="default", runtime_patches=False)
NEWER = Facts(profile_name="default", runtime_patches=True)
ANNOTATIONS = {names.INTERRUPTIBLE: "false", names.MAX_RETRIES: "2"}
OURS: Json = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"metadata": {"annotations": ANNOTATIONS}}}}
OTHERS: Json = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}


def train_job(own_annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "one", "annotations": dict(ANNOTATIONS if own_annotations is None else own_annotations)},
        "spec": {"runtimeRef": {"name": "torch"}, **deepcopy(spec)},
    }


def patches(answer: Answer) -> Any:
    return at(answer.object, PATCHES)


def test_with_an_older_crd_our_annotations_are_copied_to_spec_annotations() -> None:
    made = mutate(train_job(), OLDER).object
    assert made["spec"] == {"runtimeRef": {"name": "torch"}, "annotations": ANNOTATIONS}
    assert mutate(made, OLDER).patch == []


def test_an_annotation_that_the_author_wrote_into_spec_annotations_stays() -> None:
    spec = {"annotations": {names.MAX_RETRIES: "1"}}
    found = at(mutate(train_job(**spec), OLDER).object, ("spec", "annotations"))
    assert found == {**ANNOTATIONS, names.MAX_RETRIES: "1"}


def test_with_a_newer_crd_a_runtime_patch_is_added_and_other_patches_stay() -> None:
    made = mutate(train_job(runtimePatches=[OTHERS]), NEWER)
    assert (patches(made), made.warnings) == ([OTHERS, OURS], [])
    assert mutate(made.object, NEWER).patch == []


def test_a_train_job_without_our_annotations_is_not_changed() -> None:
    for facts in (OLDER, NEWER, Facts(profile_name="default")):
        assert mutate(train_job({}), facts).patch == []


def test_our_runtime_patch_follows_the_annotations_and_keeps_the_time_that_trainer_set() -> None:
    stored = train_job(runtimePatches=[{**OURS, "time": "2026-01-01T00:00:00Z"}], suspend=True)
    changed = deepcopy(stored)
    changed["metadata"]["annotations"][names.MAX_RETRIES] = "1"
    (entry,) = patches(mutate(changed, NEWER, old=stored))
    assert at(entry, ("trainingRuntimeSpec", "template", "metadata", "annotations", names.MAX_RETRIES)) == "1"
    assert entry["time"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(("entries", "left"), [([OURS], None), ([OTHERS, OURS], [OTHERS])])
def test_our_runtime_patch_is_removed_with_the_annotations(entries: list[Json], left: list[Json] | None) -> None:
    stored = train_job(runtimePatches=entries, suspend=True)
    assert patches(mutate(train_job({}, runtimePatches=entries, suspend=True), NEWER, old=stored)) == left


def test_a_running_train_job_keeps_its_runtime_patch_and_a_changed_annotation_brings_a_warning() -> None:
    stored = mutate(train_job(), NEWER).object
    changed = train_job({names.INTERRUPTIBLE: "true"}, runtimePatches=[OURS])
    answer = mutate(changed, NEWER, old=stored)
    assert patches(answer) == [OURS]
    assert [warning.partition(";")[0] for warning in answer.warnings] == [
        "spec.runtimePatches: cannot change while the TrainJob runs"
    ]


def test_an_unchanged_manifest_with_other_runtime_patches_can_be_applied_again() -> None:
    manifest = train_job(runtimePatches=[OTHERS])
    stored = mutate(manifest, NEWER).object
    answer = mutate(manifest, NEWER, old=stored)
    assert (patches(answer), answer.warnings) == (patches(mutate(manifest, NEWER)), [])


def test_a_train_job_with_no_room_for_our_runtime_patch_gets_a_warning() -> None:
    many = [{**OTHERS, "manager": f"example.test/{number}"} for number in range(MOST_PATCHES)]
    answer = mutate(train_job(runtimePatches=many), NEWER)
    assert (patches(answer), len(answer.warnings)) == (many, 1)


@pytest.mark.parametrize("spec", [{"annotations": {}}, {"labels": {}}, {"podTemplateOverrides": []}])
def test_offline_a_train_job_with_older_fields_is_assumed_to_have_the_older_crd(spec: Json) -> None:
    answer = mutate(train_job(**spec))
    assert (at(answer.object, ("spec", "annotations")), patches(answer), answer.warnings) == (ANNOTATIONS, None, [])


def test_offline_any_other_train_job_is_assumed_to_have_the_newer_crd_with_a_warning() -> None:
    answer = mutate(train_job())
    assert patches(answer) == [OURS]
    assert [warning.partition(";")[0] for warning in answer.warnings] == [
        "spec.runtimePatches: assumes Kubeflow Trainer 2.2 or later"
    ]
    assert mutate(train_job(runtimePatches=[])).warnings == []


def test_a_malformed_annotation_is_named_at_each_place_in_a_runtime_patch() -> None:
    wrong = {"metadata": {"annotations": {names.MAX_RETRIES: "many"}}}
    job = {"name": "node", "template": {**wrong, "spec": {"template": wrong}}}
    entry = {"manager": "a.test/b", "trainingRuntimeSpec": {"template": {**wrong, "spec": {"replicatedJobs": [job]}}}}
    assert validate(train_job({}, runtimePatches=[entry])).message.count("is 'many'") == 3
