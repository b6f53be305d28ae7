"""Copies the annotations of a TrainJob to the field from which its JobSet gets them; the CRD decides which one that is.

Reads:
    metadata.annotations, spec.suspend
    spec.{labels,podTemplateOverrides,runtimePatches}: whether they are present
Reads and writes:
    spec.annotations, of Kubeflow Trainer 2.0 and 2.1
    spec.runtimePatches: the entry of our manager, of Kubeflow Trainer 2.2 and later

The API server drops fields that a CRD does not have, without a message. Source: pkg/apis and pkg/runtime of Trainer
2.1.0 and 2.3.0. Entries of other managers are not changed. These fields may be changed only while a TrainJob is
suspended (checkRuntimePatchesImmutability). So an update of a running one gets the annotations that it has already.
"""

from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Path, Problem
from webhook.rules import annotations
from webhook.rules.rule import Rule
from webhook.systems.trainer.spec import TRAIN_JOB

if TYPE_CHECKING:
    from webhook.rules.contexts import WorkloadContext

MANAGER: Final = names.PREFIX + "webhook"
OLDER: Final[Path] = ("spec", "annotations")
PATCHES: Final[Path] = ("spec", "runtimePatches")
OF_JOB_SET: Final[Path] = ("trainingRuntimeSpec", "template", "metadata", "annotations")
MOST_PATCHES: Final = 16  # the most that the CRD allows
OLDER_FIELDS: Final = ("annotations", "labels", "podTemplateOverrides")


def _edit(context: "WorkloadContext") -> list[Problem]:
    """Copy the annotations of a TrainJob to the field from which its JobSet gets them; return warnings.

    Whether its CRD has runtimePatches may be unknown: then the TrainJob's own fields decide; if they do not show it
    either, the newer version is assumed.
    """
    root, settings, editor, old = context.root, context.settings, context.editor, context.old
    runtime_patches = context.facts.runtime_patches
    said, warnings = annotations.handed_down(annotations.of(root), settings, annotations.OWN)
    if not _has_patches(root, runtime_patches):
        annotations.copy_missing(names.COPIED_TO_JOBS, said, OLDER, editor)
        return warnings
    wanted = {key: said[key] for key in names.COPIED_TO_JOBS if key in said}
    if wanted and runtime_patches is None and at(root, PATCHES) is None:
        remedy = "for an older one set spec.annotations"
        warnings.append(Problem(PATCHES, "assumes Kubeflow Trainer 2.2 or later", remedy))
    if old is not None and not (_is_suspended(old) or _is_suspended(root)):
        before = _patched(old)
        if before != wanted:
            warnings.append(Problem(PATCHES, "cannot change while the TrainJob runs", "suspend the TrainJob first"))
        wanted = before
    return warnings + _put(root, wanted, editor)


def _has_patches(root: Json, runtime_patches: bool | None) -> bool:  # noqa: FBT001 - a fact
    if runtime_patches is None:
        return all(at(root, ("spec", name)) is None for name in OLDER_FIELDS)
    return runtime_patches


def _put(root: Json, wanted: Json, editor: Editor) -> list[Problem]:
    """Write these annotations into our entry, or remove it if there are none; warn if the list is full."""
    index, entries = _own_entry(root), at(root, PATCHES) or ()
    if not wanted:
        if index is not None:
            editor.remove((*PATCHES, index) if len(entries) > 1 else PATCHES)
    elif index is not None:
        editor.set((*PATCHES, index, *OF_JOB_SET), wanted)
    elif len(entries) < MOST_PATCHES:
        template = {"metadata": {"annotations": wanted}}
        editor.append(PATCHES, {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}})
    else:
        return [Problem(PATCHES, f"has {MOST_PATCHES} entries, so no annotations can be added", "merge some")]
    return []


def _patched(root: Json) -> Json:
    index = _own_entry(root)
    found: Json = {} if index is None else at(root, (*PATCHES, index, *OF_JOB_SET)) or {}
    return found


def _own_entry(root: Json) -> int | None:
    for index, patch in enumerate(at(root, PATCHES) or ()):
        if patch.get("manager") == MANAGER:
            return index
    return None


def _is_suspended(root: Json) -> bool:
    return at(root, ("spec", "suspend")) is True


RULE: Final[Rule["WorkloadContext"]] = Rule(
    name="annotations",
    applies_to="a TrainJob",
    even_if_skipped=True,
    edit=_edit,
    writes=lambda kind: (OLDER, PATCHES) if kind is TRAIN_JOB else (),
)
