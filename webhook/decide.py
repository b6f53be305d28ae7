"""The order of the rules: a request, the policy and what the shell looked up go in, a response comes out.

Pure: no clock, no I/O, no global state. `mutate` never denies: what it cannot read it leaves alone, with a warning.
`validate` sees the final object and denies.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from webhook import attempts, names
from webhook.capacity import Provider
from webhook.patch import Editor
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import Settings, annotation_problems, resolve
from webhook.problem import Json, Path, Problem
from webhook.review import Request, Response
from webhook.rules import failure_policy, lint, placement, reapply, retries, schema, timeouts
from webhook.shape import wrong_types
from webhook.workloads import WORKLOADS, EmbeddedJob, OwnerReference, Workload, batch, core
from webhook.workloads.row import controller_of

ANNOTATIONS: Final[Path] = ("metadata", "annotations")

# What a profile would inject into these passes the schema rule, or no Job could be created under it.
SAMPLE_JOBS: Final = (
    b'{"completions":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"},{"name":"side"}]}}}',
    b'{"suspend":true,"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"}]}}}',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the shell looked up before the rules run.

    `profile_name`: the namespace's label, None where it is not opted in. `owner`: the controller of a pod, None where
    it has none that a row knows, or it is gone. `recognised`: the cluster's capacity provider, None where none was.
    """

    profile_name: str | None
    owner: Json | None = None
    recognised: Provider | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object that the rules know: its kind's row, and the fields whose types are wrong.

    `old`: the object before an update, else None. `owner`: the controller that the shell is to look up for the rules;
    None where they need none.
    """

    request: Request
    row: Workload
    malformed: list[Problem]
    old: Json | None = None
    owner: OwnerReference | None = None

    @property
    def root(self) -> Json:
        """The raw object, which the rules edit in place."""
        root: Json = self.request.object
        return root


def subject_of(request: Request) -> Subject | None:
    """Return what the rules are to look at; None if no rule has a say, so that nothing needs to be looked up."""
    row = WORKLOADS.get((request.kind.group, request.kind.kind))
    if row is None or request.sub_resource or request.operation not in {"CREATE", "UPDATE"}:
        return None
    malformed = list(wrong_types(request.object, row.shape))
    if malformed:
        return Subject(request=request, row=row, malformed=malformed)
    metadata = request.object.get("metadata") or {}
    if metadata.get("deletionTimestamp") is not None:
        return None
    if row is not core.POD:
        if request.operation == "CREATE":
            return Subject(request=request, row=row, malformed=[])
        old = request.decode_old()
        return Subject(request=request, row=row, malformed=list(wrong_types(old, row.shape, ("oldObject",))), old=old)
    controller = controller_of(request.object)
    owner = controller if controller is not None and (controller.group, controller.kind) in WORKLOADS else None
    if request.operation != "CREATE" or not placement.takes_part(request.object, controller, owner):
        return None
    return Subject(request=request, row=row, malformed=[], owner=owner)


def mutate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Edit the object as the policy says."""
    if facts.profile_name is None:
        return Response()
    profile = policy.profiles.get(facts.profile_name)
    if profile is None:
        return unknown_profile(policy, facts.profile_name)
    if subject.malformed:
        return Response(warnings=[Problem(p.path, p.what, "not changed") for p in subject.malformed])
    editor = Editor(subject.root)
    if subject.row is core.POD:
        return mutate_pod(subject.root, facts.profile_name, profile, facts, editor)
    if subject.row.immutable and subject.old is not None:
        warnings = mutate_immutable(subject, subject.old, facts.profile_name, profile, editor)
    else:
        warnings = mutate_workload(subject, facts.profile_name, profile, editor)
    return Response(patch=editor.patch() if editor.edits else b"", warnings=warnings)


def validate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Deny what its author must mend: all problems at once; on UPDATE only those that this update brings."""
    if facts.profile_name is None:
        return Response()
    profile = policy.profiles.get(facts.profile_name)
    if profile is None:
        return unknown_profile(policy, facts.profile_name)
    if subject.malformed:
        return Response(problems=subject.malformed)
    if subject.row is core.POD:
        return validate_pod(subject, facts.profile_name, profile)
    root = subject.root
    old = subject.old
    problems = problems_of(subject.row, root, old, facts.profile_name, profile)
    warnings = [
        warning
        for job in subject.row.jobs(root)
        for warning in lint.warnings(job.spec, job.path, suspendable=failure_policy.may_be_suspended_or_scaled(job))
    ]
    if old is not None:
        before = problems_of(subject.row, old, None, facts.profile_name, profile)
        problems = [problem for problem in problems if problem not in before]
        warnings = []
    return Response(problems=problems, warnings=warnings)


def problems_of(row: Workload, root: Json, old: Json | None, profile_name: str, profile: Profile) -> list[Problem]:
    """Name everything wrong with a workload; `old` is the object before an update: what was too much may stay."""
    annotations = annotations_of(root)
    found = annotation_problems(profile_name, profile, annotations, ANNOTATIONS)
    old_jobs = {job.path: job.spec for job in row.jobs(old)} if old is not None else {}
    for job in row.jobs(root):
        if job.metadata_path != ("metadata",):
            own = job.metadata.get("annotations") or {}
            found += annotation_problems(profile_name, profile, own, (*job.metadata_path, "annotations"))
        template = (*job.path, "template", "metadata", "annotations")
        found += annotation_problems(profile_name, profile, job.pod_annotations, template)
        settings = job_settings(profile_name, profile, annotations, job)
        found += retries.problems(job, settings, old_jobs.get(job.path))
        found += schema.problems(job.spec, job.path)
    return found


def mutate_workload(subject: Subject, profile_name: str, profile: Profile, editor: Editor) -> list[Problem]:
    """Apply every rule to every JobSpec of a new object, or of one that may be changed."""
    root = subject.root
    annotations = annotations_of(root)
    warnings: list[Problem] = []
    skipped = False
    for job in subject.row.jobs(root):
        settings = job_settings(profile_name, profile, annotations, job)
        said = batch.says_backoff_limit(root, job) or reapply.has_set(root, (*job.path, "backoffLimit"))
        if not settings.skip:
            warnings += failure_policy.edit(job, settings, editor)
        warnings += retries.edit(job, settings, editor, said=said)
        if not settings.skip:
            timeouts.edit(job, settings, editor)
        copy_annotations(job, {**annotations, **(job.metadata.get("annotations") or {})}, settings, editor)
        skipped = settings.skip
    if subject.row is batch.JOB and (editor.edits or not skipped):
        reapply.write(root, profile_name, editor)
        if not skipped:
            editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return warnings


def mutate_immutable(subject: Subject, old: Json, profile_name: str, profile: Profile, editor: Editor) -> list[Problem]:
    """On UPDATE of a Job: put back what was injected at its creation, and hold what may be changed to today's limit."""
    root = subject.root
    reapply.put_back(editor, old, subject.request.decode_old)
    warnings: list[Problem] = []
    old_jobs = {job.path: job for job in subject.row.jobs(old)}
    for job in subject.row.jobs(root):
        old_job = old_jobs.get(job.path)
        if old_job is not None:
            settings = job_settings(profile_name, profile, annotations_of(root), job)
            old_settings = job_settings(profile_name, profile, annotations_of(old), old_job)
            warnings += retries.edit_update(job, settings, editor, old_job.spec, old_settings)
    return warnings


def copy_annotations(job: EmbeddedJob, said: Json, settings: Settings, editor: Editor) -> None:
    """Hand what an author said down where absent, a CronJob's to its Jobs, a workload's to its pods.

    A value that has a problem stays where it is, so that it is named once, and no update is refused for our copy of it.
    """
    wrong = {problem.path for problem in annotation_problems(settings.profile_name, settings.profile, said, ())}
    said = {key: value for key, value in said.items() if (key,) not in wrong}
    if job.metadata_path != ("metadata",):
        own = job.metadata.get("annotations") or {}
        missing = {key: said[key] for key in names.COPIED_TO_JOBS if key in said and key not in own}
        editor.update((*job.metadata_path, "annotations"), missing)
    if not settings.skip:
        missing = {key: said[key] for key in names.COPIED_TO_PODS if key in said and key not in job.pod_annotations}
        editor.update((*job.path, "template", "metadata", "annotations"), missing)


def mutate_pod(root: Json, profile_name: str, profile: Profile, facts: Facts, editor: Editor) -> Response:
    """Place a pod by the levels it stands under, and note on it what was decided and why."""
    annotations = annotations_of(root)
    owner_annotations = annotations_of(facts.owner) if facts.owner is not None else {}
    settings = resolve(profile_name, profile, {**owner_annotations, **annotations})
    if settings.skip:
        return Response()
    warnings: list[Problem] = []
    levels = attempts.levels(root, facts.owner, settings, warnings)
    decision = placement.decide(levels, settings)
    placed = placement.edit(root, decision, settings, facts.recognised, editor)
    level = decision.level
    notes = {names.PLACEMENT: placed, names.ATTEMPT: str(level.attempt), names.ATTEMPT_SOURCE: level.source}
    if names.MAX_RETRIES not in annotations:
        notes[names.MAX_RETRIES] = str(level.budget)
    editor.update(ANNOTATIONS, notes)
    editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return Response(patch=editor.patch() if editor.edits else b"", warnings=warnings, placement=placed)


def validate_pod(subject: Subject, profile_name: str, profile: Profile) -> Response:
    """Judge the annotations of a pod that a person made; a controller's were judged on its templates."""
    if controller_of(subject.root) is not None:
        return Response()
    return Response(problems=annotation_problems(profile_name, profile, annotations_of(subject.root), ANNOTATIONS))


def validate_policy(policy: Policy) -> list[Problem]:
    """Name what the API server would refuse of what a profile injects: it would refuse every Job with it."""
    found = []
    for name, profile in policy.profiles.items():
        for spec in SAMPLE_JOBS:
            root: Json = {"metadata": {}, "spec": msgspec.json.decode(spec)}
            job = next(batch.JOB.jobs(root))
            failure_policy.edit(job, Settings(profile_name=name, profile=profile), Editor(root))
            path = ("profiles", name, "failurePolicy")
            found += [
                Problem(path, f"injects {problem}", "change it") for problem in schema.problems(job.spec, job.path)
            ]
    return found


def unknown_profile(policy: Policy, profile_name: str) -> Response:
    """Leave an object alone whose namespace names a profile that the policy does not have (any more)."""
    near = get_close_matches(profile_name, policy.profiles, n=1)
    remedy = f"label it {near[0]}" if near else "label it with one of: " + ", ".join(sorted(policy.profiles))
    path = ("Namespace", "metadata", "labels", names.PROFILE)
    warning = Problem(path, f"no profile {profile_name!r}, nothing was done", remedy)
    return Response(warnings=[warning], unknown_profile=True)


def job_settings(profile_name: str, profile: Profile, annotations: Json, job: EmbeddedJob) -> Settings:
    """Combine a profile with a workload's annotations and, above them, those of one Job template in it."""
    return resolve(profile_name, profile, {**annotations, **(job.metadata.get("annotations") or {})})


def annotations_of(root: Json) -> Json:
    """Return an object's annotations."""
    annotations: Any = (root.get("metadata") or {}).get("annotations")
    return annotations or {}
