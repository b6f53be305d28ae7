"""Finds the optional fields of the installed CRDs of JobSets and TrainJobs: the API server drops fields that they lack.

Reads, of a CustomResourceDefinition:
    spec.versions
"""

from typing import Final, NamedTuple

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.job_set.rules.job_set import RESTART_JOB
from webhook.systems.job_set.spec import JOB_SET, SPEC
from webhook.systems.trainer.spec import TRAIN_JOB

RULE_SCHEMA: Final = (
    *("schema", "openAPIV3Schema"),
    *(step for field in (*SPEC, "failurePolicy", "rules") for step in ("properties", field)),
    *("items", "properties"),
)
TRAIN_JOB_SCHEMA: Final = ("schema", "openAPIV3Schema", "properties", "spec", "properties", "runtimePatches")


class JobSetFeatures(NamedTuple):
    """Which features the CRD of JobSets has for failurePolicy rules: message patterns, and the action RestartJob."""

    message_patterns: bool
    restart_job: bool


def of_job_sets(crd: Json) -> JobSetFeatures:
    """Return the features in the CRD of JobSets."""
    served = [version for version in crd["spec"]["versions"] if version["name"] in JOB_SET.versions]
    rules = [at(version, RULE_SCHEMA) or {} for version in served]
    return JobSetFeatures(
        message_patterns=any("onJobFailureMessagePatterns" in rule for rule in rules),
        restart_job=any(RESTART_JOB in (at(rule, ("action", "enum")) or ()) for rule in rules),
    )


def has_runtime_patches(crd: Json) -> bool:
    """Return True if the CRD of TrainJobs has the field runtimePatches."""
    return any(
        at(version, TRAIN_JOB_SCHEMA) is not None
        for version in crd["spec"]["versions"]
        if version["name"] in TRAIN_JOB.versions
    )
