"""Objects that are embedded in another, from which a controller creates them, are validated as when created."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import mutate, policy, validate
from tests.objects import job, job_spec
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.policy.model import Profile, Retries
from webhook.systems.app_wrapper import RETRY_LIMIT

CLAMPING = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
STRICT = policy(default=Profile(retries=Retries(limit=2, default=2)))
IN_WRAPPER = "spec.components[0].template"


def app_wrapper(*objects: Any, **annotations: str) -> Json:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrapped", "annotations": annotations},
        "spec": {"components": [{"template": one} for one in objects]},
    }


def trigger_template(*objects: Any, **annotations: str) -> Json:
    return {
        "apiVersion": "triggers.tekton.dev/v1beta1",
        "kind": "TriggerTemplate",
        "metadata": {"name": "on-push", "annotations": annotations},
        "spec": {"resourcetemplates": list(objects)},
    }


def pipeline_run(retries: Any, **annotations: str) -> Json:
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {"generateName": "push-", "annotations": annotations},
        "spec": {"pipelineSpec": {"tasks": [{"name": "build", "retries": retries}]}},
    }


def workflow() -> Json:
    """Return a Workflow with unlimited retries."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "flow"},
        "spec": {"retryStrategy": {}},
    }


def test_the_limit_applies_to_the_objects_in_an_app_wrapper() -> None:
    message = validate(app_wrapper(job(job_spec(backoffLimit=11)))).message
    assert message.startswith(f"{IN_WRAPPER}.spec.backoffLimit: 11 retries exceed the limit of 10")


def test_unlimited_retries_that_the_default_will_replace_are_not_denied() -> None:
    assert validate(workflow()).message.startswith("spec.retryStrategy.limit: unlimited retries")
    assert validate(app_wrapper(workflow())).allowed


def test_retries_that_the_profile_will_clamp_are_not_denied() -> None:
    assert validate(app_wrapper(job(job_spec(backoffLimit=11))), under=CLAMPING).allowed


def test_objects_in_an_app_wrapper_are_edited_only_when_they_are_created() -> None:
    assert mutate(app_wrapper(job(job_spec(backoffLimit=11)), workflow()), under=CLAMPING).patch == []


def test_validating_an_app_wrapper_edits_nothing_in_it() -> None:
    root = app_wrapper(workflow())
    before = deepcopy(root)
    validate(root)
    assert root == before


def test_a_wrong_type_and_a_malformed_annotation_in_an_app_wrapper_are_reported_with_their_paths() -> None:
    message = validate(app_wrapper(job({"backoffLimit": "three"}))).message
    assert message.startswith(f"{IN_WRAPPER}.spec.backoffLimit: is a string")
    message = validate(app_wrapper(job(annotations={names.MAX_RETRIES: "many"}))).message
    assert message.startswith(f"{IN_WRAPPER}.metadata.annotations[{names.MAX_RETRIES}]: is 'many'")


@pytest.mark.parametrize("value", [{}, {"kind": "Job"}, {"apiVersion": "v1", "kind": "Service", "spec": []}])
def test_embedded_objects_of_other_kinds_are_not_judged(value: Json) -> None:
    assert validate(app_wrapper(value)).allowed


def test_an_app_wrapper_that_was_admitted_under_another_limit_can_be_suspended() -> None:
    old = app_wrapper(job(job_spec(backoffLimit=3)))
    new = deepcopy(old)
    new["spec"]["suspend"] = True
    assert not validate(new, under=STRICT).allowed
    assert validate(new, under=STRICT, old=old).allowed


def test_more_retries_than_before_are_denied_in_an_update() -> None:
    old = app_wrapper(job(job_spec(backoffLimit=11)))
    assert not validate(app_wrapper(job(job_spec(backoffLimit=12))), old=old).allowed


@pytest.mark.parametrize("limit", ["11", "+11", "9" * 30])
def test_the_limit_applies_to_the_resets_of_an_app_wrapper(limit: str) -> None:
    message = validate(app_wrapper(workflow(), **{RETRY_LIMIT: limit})).message
    assert message.startswith(f"metadata.annotations[{RETRY_LIMIT}]: {int(limit)} retries exceed the limit of 10"[:400])


@pytest.mark.parametrize("limit", ["many", "", "-1", "10"])
def test_a_limit_that_is_not_a_number_is_the_operators_default(limit: str) -> None:
    assert validate(app_wrapper(workflow(), **{RETRY_LIMIT: limit})).allowed


def test_an_unchanged_manifest_can_be_applied_after_its_resets_were_lowered() -> None:
    manifest = app_wrapper(workflow(), **{RETRY_LIMIT: "25"})
    stored = mutate(deepcopy(manifest), under=CLAMPING).object
    assert stored["metadata"]["annotations"][RETRY_LIMIT] == "10"
    applied = deepcopy(stored)
    applied["metadata"]["annotations"][RETRY_LIMIT] = "25"
    assert mutate(applied, under=CLAMPING, old=stored).object == stored


@pytest.mark.parametrize("metadata", [{}, {"annotations": None}, {"annotations": {}}])
def test_clamping_an_absent_limit_twice_changes_nothing_more(metadata: Json) -> None:
    none = policy(default=Profile(retries=Retries(limit=0, on_exceed="Clamp")))
    once = mutate({**app_wrapper(workflow()), "metadata": metadata}, under=none).object
    assert once["metadata"]["annotations"][RETRY_LIMIT] == "0"
    assert mutate(once, under=none).patch == []


def test_removing_the_annotation_max_retries_restores_the_field() -> None:
    stored = mutate(app_wrapper(workflow(), **{names.MAX_RETRIES: "2"})).object
    assert stored["metadata"]["annotations"][RETRY_LIMIT] == "2"
    changed = deepcopy(stored)
    del changed["metadata"]["annotations"][names.MAX_RETRIES]
    assert RETRY_LIMIT not in (mutate(changed, old=stored).object["metadata"].get("annotations") or {})


def test_the_limit_applies_to_the_runs_of_a_trigger_template() -> None:
    message = validate(trigger_template(workflow(), pipeline_run(11))).message
    path = "spec.resourcetemplates[1].spec.pipelineSpec.tasks[0].retries"
    assert message.startswith(f"{path}: 11 retries exceed the limit of 10")


def test_values_with_event_parameters_are_not_judged() -> None:
    said = {names.MAX_RETRIES: "$(tt.params.retries)"}
    assert validate(trigger_template(pipeline_run("$(tt.params.retries)"), pipeline_run(2, **said))).allowed
    assert not validate(trigger_template(pipeline_run("three"))).allowed


def test_annotations_of_a_trigger_template_are_copied_to_its_runs() -> None:
    said = {names.MAX_RETRIES: "2", names.INTERRUPTIBLE: "false"}
    made = mutate(trigger_template(pipeline_run(0), **said)).object
    assert made["spec"]["resourcetemplates"][0]["metadata"]["annotations"] == said
    assert mutate(made).patch == []


def test_a_job_in_an_app_wrapper_in_a_trigger_template_is_validated() -> None:
    inner = app_wrapper(job(job_spec(backoffLimit=11)))
    message = validate(trigger_template(inner)).message
    assert message.startswith(f"spec.resourcetemplates[0].{IN_WRAPPER}.spec.backoffLimit: 11 retries")
    assert message.count("11 retries") == 1
    assert validate(trigger_template(trigger_template(inner))).allowed


def test_all_embedded_objects_together_have_the_limit_of_one_object() -> None:
    tasks = [{"name": f"task-{index}"} for index in range(bounds.MOST_ENTRIES // 3)]
    run = pipeline_run(0)
    run["spec"]["pipelineSpec"]["tasks"] = tasks
    assert validate(trigger_template(run)).allowed
    assert "too many with those of other lists and maps" in validate(trigger_template(run, run)).message
