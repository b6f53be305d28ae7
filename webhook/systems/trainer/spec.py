"""trainer.kubeflow.org/v1alpha1: TrainJobs, and the runtimes with the templates of their JobSets.

Source: pkg/apis/trainer/v1alpha1 of Kubeflow Trainer 2.1.0 and 2.3.0. A TrainJob has no retry field. The template of a
runtime is a JobSetSpec, and the JobSet that is created from it is admitted like any other.
"""

from dataclasses import replace
from typing import Final

from webhook.objects.patch import EVERY, at
from webhook.objects.problem import Json, Path
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA
from webhook.systems.job_set.spec import JOB_SET_SPEC, job_spec_of, max_restarts_of, traits_of
from webhook.systems.kind_spec import Field, KindSpec, RetryField, Traits

GROUP: Final = "trainer.kubeflow.org"
VERSIONS: Final = ("v1alpha1",)
TEMPLATE: Final[Path] = ("spec", "template", "spec")
RUNTIME: Final[Shape] = {
    "metadata": METADATA,
    "spec": {
        "mlPolicy": {"torch": {"elasticPolicy": {"maxRestarts": int}}},
        "template": {"metadata": METADATA, "spec": JOB_SET_SPEC},
    },
}
ANNOTATED: Final[Shape] = {"annotations": {ANY_KEY: str}}
JOB_PATCH: Final[Shape] = {"metadata": ANNOTATED, "spec": {"template": {"metadata": ANNOTATED}}}
PATCHED_TEMPLATE: Final[Path] = ("spec", "runtimePatches", EVERY, "trainingRuntimeSpec", "template")
PATCHED_JOB: Final[Path] = (*PATCHED_TEMPLATE, "spec", "replicatedJobs", EVERY, "template")
_RUNTIME_PATCHES: Final = ("schema", "openAPIV3Schema", "properties", "spec", "properties", "runtimePatches")
RETRY_FIELDS: Final = (
    max_restarts_of(TEMPLATE),
    RetryField(within=("spec", "mlPolicy", "torch", "elasticPolicy"), name=("maxRestarts",), may_be_added=False),
)


def _traits(root: Json) -> Traits:
    template = (root.get("spec") or {}).get("template") or {}
    return traits_of(template.get("spec") or {}, template.get("metadata") or {})


TRAIN_JOB: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="TrainJob",
    shape={
        "metadata": METADATA,
        "spec": {
            "annotations": {ANY_KEY: str},
            "podTemplateOverrides": [{"metadata": ANNOTATED}],
            "runtimePatches": [
                {
                    "manager": str,
                    "trainingRuntimeSpec": {
                        "template": {"metadata": ANNOTATED, "spec": {"replicatedJobs": [{"template": JOB_PATCH}]}}
                    },
                }
            ],
            "suspend": bool,
        },
    },
    pod_annotations=(Field(within=("spec", "podTemplateOverrides", EVERY), name=("metadata", "annotations")),),
    judged_annotations=(
        Field(within=("spec",), name=("annotations",)),
        Field(within=PATCHED_TEMPLATE, name=("metadata", "annotations")),
        Field(within=PATCHED_JOB, name=("metadata", "annotations")),
        Field(within=(*PATCHED_JOB, "spec", "template"), name=("metadata", "annotations")),
    ),
)

TRAINING_RUNTIME: Final = KindSpec(
    group=GROUP,
    versions=VERSIONS,
    kind="TrainingRuntime",
    shape=RUNTIME,
    job_specs=(job_spec_of(TEMPLATE),),
    retry_fields=RETRY_FIELDS,
    traits=_traits,
    failure_policy=False,
)

CLUSTER_TRAINING_RUNTIME: Final = replace(
    TRAINING_RUNTIME, kind="ClusterTrainingRuntime", resource="clustertrainingruntimes", namespaced=False
)

KINDS: Final = (TRAIN_JOB, TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)


def has_runtime_patches(crd: Json) -> bool:
    """Return True if the CRD of TrainJobs has the field runtimePatches."""
    return any(
        at(version, _RUNTIME_PATCHES) is not None
        for version in crd["spec"]["versions"]
        if version["name"] in TRAIN_JOB.versions
    )
