"""Which kinds `explain` explains, and what it says about the others."""

from collections.abc import Iterator

import pytest

from webhook.explain.roots import MADE, MAKERS, OTHERS, ROOTS, instead
from webhook.systems import app_wrapper, core
from webhook.systems.accounts import SYSTEMS
from webhook.systems.argo import spec as argo
from webhook.systems.flyte import spec as flyte
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS
from webhook.systems.ray import spec as ray
from webhook.systems.tekton import spec as tekton


def test_every_kind_is_explained_or_has_a_remedy() -> None:
    assert {*ROOTS, *OTHERS, core.POD} == {*KINDS.values()}
    assert {*SYSTEMS, batch.JOB, JOB_SET, CRON_JOB, tekton.PIPELINE_RUN} == set(ROOTS)


def related() -> Iterator[KindSpec]:
    """Yield the kinds whose attempts belong to a kind that is explained."""
    for row, other in (*MADE.items(), *MAKERS.items()):
        if other in ROOTS:
            yield row


@pytest.mark.parametrize("kind", [*related()], ids=lambda row: row.kind)
def test_for_a_template_the_remedy_names_a_kind_that_is_explained(kind: KindSpec) -> None:
    assert "retry-policy explain ml/" in instead(kind, "ml", "train").remedy


def test_for_a_cron_workflow_the_remedy_is_one_of_its_workflows() -> None:
    problem = instead(argo.CRON_WORKFLOW, "ml", "nightly")
    assert str(problem) == (
        "CronWorkflow nightly has no attempts of its own; explain a Workflow that is made from it: "
        "retry-policy explain ml/workflow/NAME; list them: kubectl get -n ml workflows.argoproj.io"
    )


def test_for_an_app_wrapper_the_remedy_is_the_workload_in_it() -> None:
    assert instead(app_wrapper.APP_WRAPPER, "ml", "box").remedy == "explain the workload in it"


@pytest.mark.parametrize("kind", [flyte.TASK_ACTION])
def test_for_a_kind_that_is_not_counted_the_remedy_is_to_look_at_its_pods(kind: KindSpec) -> None:
    assert str(instead(kind, "ml", "run")) == (
        "the attempts of a TaskAction are not counted; see how its pods ended: kubectl get pods -n ml"
    )


def test_an_object_that_is_a_part_of_a_workload_belongs_to_it() -> None:
    problem = instead(tekton.CUSTOM_RUN, "ml", "build-a")
    assert problem.remedy.startswith("explain the PipelineRun that it belongs to: retry-policy explain ml/pipelinerun/")
    assert instead(ray.RAY_CLUSTER, "ml", "train-x").what
