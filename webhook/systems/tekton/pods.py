"""The pods of a TaskRun: counted for its PipelineRun; the attempt is in the name: TASKRUN-pod, TASKRUN-pod-retryN.

Tekton shortens a name that is too long at its start, never at this end (pkg/pod/pod.go of Tekton 1.9).
"""

import re
from typing import Final

from webhook.objects.problem import Json
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Evidence, Level, Place, PodSource, number_at
from webhook.systems.tekton import spec as tekton

NAME: Final = "Tekton"
PIPELINE_RUN: Final = "tekton.dev/pipelineRun"
PIPELINE_RUN_UID: Final = "tekton.dev/pipelineRunUID"
PIPELINE_TASK: Final = "tekton.dev/pipelineTask"
LABELS: Final = (PIPELINE_RUN, PIPELINE_RUN_UID, PIPELINE_TASK)
COMBINATION: Final = re.compile(r"-(0|[1-9][0-9]{0,8})\Z")  # of a matrix, at the end of a TaskRun's name
SUFFIX: Final = re.compile(r"-pod(?:-retry([0-9]{1,9}))?\Z")


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the number at the end of the pod's name."""
    name = (evidence.pod.get("metadata") or {}).get("name")
    if not isinstance(name, str):
        return []
    found = SUFFIX.search(name)
    if found is None:
        evidence.warn(("metadata", "name"), name[-20:])
        return []
    budget = evidence.settings_budget
    if evidence.owner is not None:
        budget = number_at(evidence.owner, ("spec", "retries")) or 0
    return [Level(NAME, int(found[1] or 0), budget)]


def _place_of(metadata: Json, controller: OwnerReference) -> Place:
    """Return the place of a pod of a TaskRun: its PipelineRun, with the task as scope; the TaskRun if it has none."""
    labels = metadata.get("labels") or {}
    run, uid, task = (labels.get(key) or "" for key in LABELS)
    if not (run and uid):
        return Place(tekton.TASK_RUN, controller.name, controller.uid, "")
    return Place(tekton.PIPELINE_RUN, run, uid, scope_of_task(task, controller.name))


def scope_of_task(task: str, task_run: str) -> str:
    """Return the scope of a task of a PipelineRun, by the name of its TaskRun: TASK, or TASK/NUMBER with a matrix.

    Each combination of a matrix is a TaskRun of its own, with its number at the end of its name (getNewRunNames in
    pkg/reconciler/pipelinerun/resources of Tekton 1.9).
    """
    combination = None if task_run.endswith(f"-{task}") else COMBINATION.search(task_run)
    return task if combination is None else f"{task}/{combination[1]}"


PODS: Final = (PodSource(tekton.TASK_RUN, NAME, levels, _place_of),)
