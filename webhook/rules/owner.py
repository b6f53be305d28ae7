"""Denies a Job that names a controller which does not control it, to avoid a rule or the ledger's count.

Reads, of a Job:
    metadata.ownerReferences, spec.{backoffLimit,backoffLimitPerIndex}
    spec.template.metadata.labels[jobset.sigs.k8s.io/jobset-name]
of the JobSet that they name:
    spec.failurePolicy.restartStrategy

Any user may write ownerReferences. A Job of a JobSet whose strategy is InPlaceRestart has no bound of its own, and a
Job of an operator that may run other pods beside it gets no exit-code rules. Both hold only if an owner with that uid
exists, and the first one only if the ledger counts its pods for the JobSet, which it ends: for the JobSet that the
pods' label names. An operator of an unknown kind cannot be looked up, and is trusted: the Job's author could avoid the
exit-code rules by a rule of their own too.
"""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.rules.rule import Rule
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET, SET_NAME
from webhook.systems.kind_spec import EmbeddedJob, OwnerReference, controller_of
from webhook.systems.kinds import kind_of_controller

if TYPE_CHECKING:
    from webhook.rules.contexts import ValidationContext

REFERENCES: Final[Path] = ("metadata", "ownerReferences")
BACKOFF_LIMIT: Final[Path] = ("spec", "backoffLimit")
LABEL: Final[Path] = ("template", "metadata", "labels", SET_NAME)  # in a JobSpec
PER_INDEX: Final[Path] = ("spec", "backoffLimitPerIndex")


def exempting_controller(job: Json) -> OwnerReference | None:
    """Return the controller of a Job because of which some rules do not apply to it; None if there is none."""
    controller = controller_of(job)
    if controller is None or kind_of_controller(controller) is None:
        return None
    return None if (controller.group, controller.kind) in batch.STARTS_JOBS else controller


def problems(job: Json, reference: OwnerReference, owner: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with the controller of a Job; `owner`: the object that `reference` names, None if missing."""
    if exempting_controller(job) != reference:
        return  # the Job before an update, which had another controller
    if owner is None:
        what = f"the controller is {reference.kind} {reference.name!r} with uid {reference.uid!r}, which does not exist"
        yield Problem(REFERENCES, what, "remove it: a controller writes it into the Jobs that it creates")
        return
    if (reference.group, reference.kind) != batch.JOB_SET:
        return
    if at(job, BACKOFF_LIMIT) != batch.UNLIMITED or at(job, PER_INDEX) is not None:
        return
    if at(owner, ("spec", "failurePolicy", "restartStrategy")) != "InPlaceRestart":
        what = f"is unlimited, and {reference.kind} {reference.name!r} has no restartStrategy InPlaceRestart"
        yield Problem(BACKOFF_LIMIT, what, "set as many retries as the JobSet's template")
    elif at(job, ("spec", *LABEL)) != reference.name:
        what = f"is unlimited, and its pods do not count for {reference.kind} {reference.name!r}"
        yield Problem(BACKOFF_LIMIT, what, f"label them as the JobSet controller does: {SET_NAME}")


def label_problems(job: EmbeddedJob) -> Iterator[Problem]:
    """Yield a problem if the pods of a Job have a JobSet's label, but that JobSet does not control the Job."""
    value = at(job.spec, LABEL)
    if not isinstance(value, str):
        return  # no label, or a value that the API server refuses
    controller = exempting_controller({"metadata": job.metadata})
    if controller is None or (controller.group, controller.kind, controller.name) != (*batch.JOB_SET, value):
        remedy = "remove it: the JobSet controller writes it into the Jobs that it creates"
        yield Problem((*job.path, *LABEL), f"is {value[:40]!r}, and no such JobSet controls the Job", remedy)


OF_LABELS: Final[Rule["ValidationContext"]] = Rule(
    name="owner",
    applies_to="each Job, but for those of a JobSet",
    applies=lambda context: context.kind is not JOB_SET,
    problems=lambda context: chain.from_iterable(map(label_problems, context.jobs)),
)
# Not for embedded objects: they have no controller yet.
OF_CONTROLLER: Final[Rule["ValidationContext"]] = Rule(
    name="owner",
    applies_to="a Job that a controller has created",
    applies=lambda context: context.kind is batch.JOB and context.facts.owners_known,
    problems=lambda context: (
        () if context.owner is None else problems(context.root, context.owner, context.facts.owner)
    ),
)
