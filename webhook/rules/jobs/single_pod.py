"""Gives a Job of one pod a completion index, where the profile says so: then back_off holds for it too.

Reads, in a JobSpec:
    completions, parallelism, managedBy, manualSelector, template.spec.{hostname,restartPolicy}
in its metadata and that of what it is in:
    name, generateName, ownerReferences, managedFields, annotations[kubectl.kubernetes.io/last-applied-configuration]
Reads and writes:
    completionMode, completions

Its pod gets a name and a hostname by the index then, and an environment variable JOB_COMPLETION_INDEX. Left alone is
what the API or the program would not bear that in: a name that is no DNS label with the index behind it, a hostname of
its author, pods that a selector of its own adopts. A Job that a controller makes has what its template says.
"""

from typing import Final

from webhook.kinds import EmbeddedJob, KindSpec, batch
from webhook.kinds.kind_spec import controller_of
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Json
from webhook.policy.settings import Settings
from webhook.rules.jobs import back_off
from webhook.rules.rule import below

# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("completionMode",), ("completions",))

# Characters of a name, so that with what is put behind it it is a DNS label, of at most 63.
LONGEST_LABEL: Final = 63
INDEX: Final = len("-0")
GENERATED: Final = 5  # what the API server puts behind generateName
SCHEDULED: Final = 11  # what the API keeps free behind a CronJob's name, for that of its Jobs


def writes(row: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind: in Jobs and CronJobs, and in no other."""
    return below(row.job_specs, WRITES) if row in {batch.JOB, batch.CRON_JOB} else ()


def edit(row: KindSpec, job: EmbeddedJob, settings: Settings, editor: Editor, *, defaulted: bool) -> None:
    """Make a Job of one pod Indexed, if its author did not say NonIndexed and nothing breaks by it.

    `defaulted`: whether the API has written what its author left out.
    """
    policy = settings.profile.back_off
    if policy.single_pod != "Indexed" or not policy.per_index:
        return
    unsaid = not batch.says_completion_mode(job, defaulted=defaulted)
    if unsaid and is_of_one_pod(job.spec) and may_be_indexed(editor.root, row, job):
        editor.set((*job.path, "completionMode"), "Indexed")
        editor.set((*job.path, "completions"), 1)


def is_of_one_pod(spec: Json) -> bool:
    """Return True if a JobSpec has one pod; with parallelism alone it is a work queue."""
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    return parallelism in {None, 1} and (completions == 1 or (completions is None and parallelism is None))


def may_be_indexed(root: Json, row: KindSpec, job: EmbeddedJob) -> bool:
    """Return True if the API and the program bear an index behind the Job's name."""
    if controller_of(root) is not None or job.spec.get("manualSelector") or job.pod_spec.get("hostname") is not None:
        return False
    return is_short(root.get("metadata") or {}, row) and back_off.may_have_it(job)


def is_short(metadata: Json, row: KindSpec) -> bool:
    """Return True if the name of a Job, made of these metadata, is a DNS label with an index behind it."""
    name, behind = metadata.get("name"), 0
    if not name:
        name, behind = str(metadata.get("generateName") or ""), GENERATED
    if row is batch.CRON_JOB:
        behind = SCHEDULED
    return "." not in name and len(name) + behind + INDEX <= LONGEST_LABEL
