"""Makes a Job of one pod Indexed, if the profile says so, so that back_off applies to it too.

Reads, in a JobSpec:
    completions, parallelism, managedBy, manualSelector, template.spec.{hostname,restartPolicy}
in its metadata and those of the object that contains it:
    name, generateName, ownerReferences, managedFields, annotations[kubectl.kubernetes.io/last-applied-configuration]
Reads and writes:
    completionMode, completions

Its pod's name and hostname then contain the index, and it has the environment variable JOB_COMPLETION_INDEX. Jobs for
which the API would refuse this, or which it could break, stay as they are: those whose name with the index is no DNS
label, with a hostname of their author, or with a selector of their own. So do Jobs that a controller makes: they have
what their template says.
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.patch import Pattern
from webhook.objects.problem import Json, Problem
from webhook.rules.rule import Rule, Writes, below
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import back_off
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.kind_spec import EmbeddedJob, KindSpec, controller_of

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext

# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("completionMode",), ("completions",))

# Characters. A Job's name and its suffixes together must be a DNS label.
LONGEST_LABEL: Final = 63
INDEX: Final = len("-0")
GENERATED: Final = 5  # the suffix that the API server adds to generateName
SCHEDULED: Final = 11  # the room that the API leaves after a CronJob's name for the suffix of its Jobs' names


def writes_in_jobs(fields: tuple[Pattern, ...]) -> Writes:
    """Return the `writes` of a rule that edits fields of the JobSpec of Jobs and CronJobs alone."""
    return lambda kind: below(kind.job_specs, fields) if kind in {batch.JOB, CRON_JOB} else ()


def _edit(context: "JobContext") -> list[Problem]:
    """Make a Job of one pod Indexed, if its author did not write NonIndexed and nothing can break."""
    workload, job, editor, policy = context.workload, context.job, context.editor, context.settings.profile.back_off
    if policy.single_pod != "Indexed" or not policy.per_index:
        return []
    unsaid = not batch.says_completion_mode(job, defaulted=workload.facts.defaulted)
    if unsaid and is_of_one_pod(job.spec) and may_be_indexed(editor.root, workload.kind, job):
        editor.set((*job.path, "completionMode"), "Indexed")
        editor.set((*job.path, "completions"), 1)
    return []


def is_of_one_pod(spec: Json) -> bool:
    """Return True if a JobSpec has one pod; with parallelism and no completions it would be a work queue."""
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    return parallelism in {None, 1} and (completions == 1 or (completions is None and parallelism is None))


def may_be_indexed(root: Json, kind: KindSpec, job: EmbeddedJob) -> bool:
    """Return True if neither the API nor the program has a problem with an index in the pod's name."""
    if controller_of(root) is not None or job.spec.get("manualSelector") or job.pod_spec.get("hostname") is not None:
        return False
    return is_short(root.get("metadata") or {}, kind) and back_off.may_have_it(job)


def is_short(metadata: Json, kind: KindSpec) -> bool:
    """Return True if the name of a Job with these metadata, together with an index, is a DNS label."""
    name, behind = metadata.get("name"), 0
    if not name:
        name, behind = str(metadata.get("generateName") or ""), GENERATED
    if kind is CRON_JOB:
        behind = SCHEDULED
    return "." not in name and len(name) + behind + INDEX <= LONGEST_LABEL


# Before back_off for Indexed Jobs, so that it applies to these Jobs too; after the limit, which back_off reads.
RULE: Final[Rule["JobContext"]] = Rule(
    name="back_off",
    applies_to="a Job or CronJob of one pod",
    applies=lambda context: not context.runs_once,
    edit=_edit,
    writes=writes_in_jobs(WRITES),
)
