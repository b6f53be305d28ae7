"""Judges the annotations of ours that authors write, and copies them to a workload's pods and to workloads made of it.

Reads:
    metadata.annotations[retry-policy.dev/{attempt,interruptible,max-disruptions,max-retries,skip}], of the object, of
    the Job templates in it, and of what else the kind's kind names
    metadata.labels of a new Job with a deadline
Writes, if absent:
    interruptible and max-retries, in the annotations of pods
    these, max-disruptions and skip, in the annotations of Job templates and of workloads that are made of the object
    work and work-source, in those of a new Job whose author names a deadline alone, as earlier Jobs tell
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from webhook.kube import names
from webhook.objects.patch import Editor, Pattern, at
from webhook.objects.problem import Json, Path, Problem, field
from webhook.pods.work_history import LEAST
from webhook.policy.deadline import seconds_within
from webhook.policy.settings import Settings, annotation_problems, count
from webhook.rules.rule import Rule
from webhook.systems.job.spec import JOB
from webhook.systems.kind_spec import EmbeddedJob, Field, KindSpec

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext, ValidationContext, WorkloadContext

OWN: Final[Path] = ("metadata", "annotations")
NO_WORK: Final = "has no effect yet: nothing says how long the work takes"
SAY_WORK: Final = f"say it in {names.WORK}, such as 12h"


def writes_in_jobs(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in the JobSpecs of a kind, and in the metadata of their templates."""
    of_pods = [(*spec, "template", "metadata") for spec in kind.job_specs]
    of_jobs = [(*spec[:-1], "metadata") for spec in kind.job_specs if len(spec) > 1]
    return (*of_pods, *of_jobs)


def writes_beside(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind outside JobSpecs."""
    of_pods = [(*template, "metadata") for template in kind.pod_templates]
    fields = [one.written for one in (*kind.pod_annotations, *kind.made_annotations)]
    return (*of_pods, *fields, *([(*OWN, names.RETRYABLE)] if kind.may_begin_anew else []))


def of(root: Json) -> Json:
    """Return an object's annotations."""
    annotations: Any = (root.get("metadata") or {}).get("annotations")
    return annotations or {}


def of_job(root: Json, job: EmbeddedJob) -> Json:
    """Return the annotations for one Job in an object: those of the object, overridden by those of the Job's template.

    For a Job in another object, only the annotations that authors write.
    """
    if job.metadata_path == ("metadata",):
        return of(root)
    return {**said_in(of(root)), **said_in(own_of(job))}  # a copy of the object's whole map for each Job costs too much


def said_in(annotations: Json) -> Json:
    """Return the annotations of ours that authors write."""
    return {key: annotations[key] for key in names.SAID_BY_AUTHORS if key in annotations}


def own_of(job: EmbeddedJob) -> Json:
    """Return the annotations of a Job, or of its template."""
    return job.metadata.get("annotations") or {}


def _problems(context: "ValidationContext") -> list[Problem]:
    """Return a problem for each malformed or forbidden value of our keys, in an object and in each of its Jobs."""
    kind, root, profile = context.kind, context.root, context.profile
    found = profile.problems(of(root), OWN)
    for where in (*of_pods(kind, root), *at_fields(kind.judged_annotations, root)):
        found += profile.problems(at(root, where) or {}, where)
    for job in context.jobs:
        if job.metadata_path != ("metadata",):
            found += profile.problems(own_of(job), (*job.metadata_path, "annotations"))
        found += profile.problems(job.pod_annotations, of_template((*job.path, "template")))
    return found


def unread_in_pods(root: Json, job: EmbeddedJob) -> Iterator[Problem]:
    """Warn about what only the pods of a Job say of its retries or its deadline: these follow from the Job."""
    if names.SAID.isdisjoint(job.pod_annotations):
        return
    said = of_job(root, job)
    for key in (names.MAX_RETRIES, names.WORK, names.DEADLINE, names.CHECKPOINT):
        if key in job.pod_annotations and key not in said:
            path = (*of_template((*job.path, "template")), key)
            remedy = f"write it in {field((*job.metadata_path, 'annotations'))}"
            yield Problem(path, "ignored: not the annotation of a Job", remedy)


def _edit_job(context: "JobContext") -> list[Problem]:
    """Copy annotations: those of an object to the Jobs in it, and those of a Job to its pods; return warnings."""
    root, job, settings, editor = context.workload.root, context.job, context.settings, context.editor
    own = own_of(job)
    where = (*(job.metadata_path if names.MAX_RETRIES in own else ("metadata",)), "annotations")
    said, warnings = handed_down(of_job(root, job), settings, where)
    if said and context.workload.kind is JOB and lacks_work(said):
        warnings += _say_work(context, editor, said[names.DEADLINE])
    if job.metadata_path != ("metadata",):
        copy_missing(names.COPIED_TO_JOBS, said, (*job.metadata_path, "annotations"), editor)
    if not settings.skip and job.spec.get("template") is not None:
        copy_missing(names.COPIED_TO_PODS, said, of_template((*job.path, "template")), editor)
    return warnings


def lacks_work(said: Json) -> bool:
    """Return True if an author names a deadline, and does not say how long the work takes."""
    return names.DEADLINE in said and names.WORK not in said


def _say_work(context: "JobContext", editor: Editor, allowed: str) -> list[Problem]:
    """Write how long the work of a new Job takes, as earlier Jobs tell; return a warning if too few do.

    `allowed`: the deadline. One that leaves less time than that refuses no Job, because its author has not said that.
    """
    if context.settings.skip:
        return []
    history = context.workload.facts.work_history
    usual = None if history is None else history.usual_of(context.job.metadata)
    if usual is None:
        remedy = f"{SAY_WORK}, or wait until {LEAST} Jobs of the same name have succeeded"
        return [Problem((*OWN, names.DEADLINE), NO_WORK, remedy)]
    within = seconds_within(allowed)
    work, source, warnings = usual.seconds, usual.source, []
    if within is not None and within < work:
        what = f"{allowed} is less than the {work}s of {source}"
        warnings = [Problem((*OWN, names.DEADLINE), what, "set as much or more")]
        work, source = within, f"the deadline allows: less than the {work}s of {source}"
    editor.update(OWN, {names.WORK: f"{work}s", names.WORK_SOURCE: source})
    return warnings


def _edit_workload(context: "WorkloadContext") -> list[Problem]:
    """Copy annotations of an object to its pods outside Jobs, and to workloads that are made of it; return warnings.

    If its author does not say whether it may run twice, write what the profile says.
    """
    kind, root, settings = context.kind, context.root, context.settings
    if kind.may_begin_anew and settings.profile.requested_retry.retryable and not settings.skip:
        copy_missing((names.RETRYABLE,), {names.RETRYABLE: "true"}, OWN, context.editor)
    to_pods = [] if settings.skip else list(of_pods(kind, root))
    to_workloads = list(at_fields(kind.made_annotations, root))
    if not to_pods and not to_workloads:
        return []
    said, warnings = handed_down(of(root), settings, OWN)
    for path in to_pods:
        copy_missing(names.COPIED_TO_PODS, said, path, context.editor)
    for path in to_workloads:
        copy_missing(names.COPIED_TO_JOBS, said, path, context.editor)
    if names.WORK in said and not kind.job_specs:
        warnings.append(Problem((*OWN, names.WORK), f"has no effect on a {kind.kind}", "write it on a Job or a JobSet"))
    return warnings


def handed_down(annotations: Json, settings: Settings, where: Path) -> tuple[Json, list[Problem]]:
    """Return the annotations to copy, and warnings; `where` is the path of the annotations.

    A value with a problem is not copied: it is reported once, and no update is refused because of our copy. A number
    that the profile clamps is copied clamped, with a warning.
    """
    if names.SAID.isdisjoint(annotations):
        return {}, []
    wrong = {problem.path for problem in annotation_problems(settings.profile_name, settings.profile, annotations, ())}
    said = {key: value for key, value in said_in(annotations).items() if (key,) not in wrong}
    if settings.max_retries is None or count(said.get(names.MAX_RETRIES)) == settings.max_retries:
        return said, []
    what = f"{said[names.MAX_RETRIES]} lowered to {settings.max_retries}"
    remedy = f"profile {settings.profile_name!r} allows no more"
    said[names.MAX_RETRIES] = str(settings.max_retries)
    return said, [Problem((*where, names.MAX_RETRIES), what, remedy)]


def copy_missing(keys: tuple[str, ...], said: Json, where: Path, editor: Editor) -> None:
    """Copy the annotations of these keys into the map at the path `where`, if they are absent there."""
    if not said:
        return  # the fast path: most objects have none of these annotations
    there = at(editor.root, where) or {}
    editor.update(where, {key: said[key] for key in keys if key in said and key not in there})


def of_pods(kind: KindSpec, root: Json) -> Iterator[Path]:
    """Yield the paths of the maps from which an object's pods get annotations, except those of its Jobs' templates."""
    for path, _ in kind.templates(root):
        yield of_template(path)
    yield from at_fields(kind.pod_annotations, root)


def at_fields(fields: tuple[Field, ...], root: Json) -> Iterator[Path]:
    """Yield the paths of fields that exist or may be created."""
    for one in fields:
        for path, _ in one.find(root):
            yield path


def of_template(path: Path) -> Path:
    """Return the path of the annotations of the pod template at `path`."""
    return (*path, "metadata", "annotations")


IN_JOB: Final[Rule["JobContext"]] = Rule(
    name="annotations", applies_to="each Job", even_if_skipped=True, edit=_edit_job, writes=writes_in_jobs
)
IN_WORKLOAD: Final[Rule["WorkloadContext"]] = Rule(
    name="annotations",
    applies_to="the pod templates of a kind, and workloads made of it",
    edit=_edit_workload,
    even_if_skipped=True,
    writes=writes_beside,
)
JUDGED: Final[Rule["ValidationContext"]] = Rule(name="annotations", applies_to="each object", problems=_problems)
