"""The order of the rules: a request, the policy and what the shell looked up go in, a response comes out.

Pure: no clock, no I/O, no global state. `mutate` never denies: what it cannot read it leaves alone, with a warning.
`validate` sees the final object and denies.
"""

from typing import Any, Final

import msgspec

from webhook import attempts, modes, names
from webhook.modes import ENFORCED
from webhook.patch import Editor
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import Settings, annotation_problems, resolve
from webhook.problem import Json, Path, Problem
from webhook.review import Response
from webhook.rules import failure_policy, lint, opt_in, placement, reapply, retries, schema, timeouts
from webhook.subject import Facts, Subject
from webhook.workloads import EmbeddedJob, Workload, batch, core
from webhook.workloads.row import controller_of

ANNOTATIONS: Final[Path] = ("metadata", "annotations")

# What a profile would inject into these passes the schema rule, or no Job could be created under it.
SAMPLE_JOBS: Final = (
    b'{"completions":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"},{"name":"side"}]}}}',
    b'{"suspend":true,"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"}]}}}',
)


def mutate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Edit the object as the policy says."""
    profile = profile_for(policy, facts)
    if not isinstance(profile, Profile):
        return profile
    if subject.malformed:
        left = [Problem(problem.path, problem.what, "not changed") for problem in subject.malformed]
        return Response(warnings=left) if facts.mode in ENFORCED else modes.would_change(facts.mode, [], left)
    editor = Editor(subject.root)
    warnings, placed = edit(subject, profile, facts, editor)
    if facts.mode not in ENFORCED:
        return modes.would_change(facts.mode, editor.edits, warnings)
    patch = editor.patch() if editor.edits else b""
    return Response(patch=patch, edited=modes.rules_of(editor.edits), warnings=warnings, placement=placed)


def validate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Deny what its author must mend: all problems at once; on UPDATE only those that this update brings."""
    profile = profile_for(policy, facts)
    if not isinstance(profile, Profile):
        return profile
    if subject.malformed:
        found = [("shape", problem) for problem in subject.malformed]
        return Response(found=found) if facts.mode in ENFORCED else modes.would_deny(facts.mode, found)
    if facts.mode not in ENFORCED:
        edit(subject, profile, facts, Editor(subject.root))  # which mutate has only announced
    found = problems_of(subject.row, subject.root, subject.old, facts.profile_name or "", profile)
    if subject.old is None:
        warnings = [warning for job in subject.row.jobs(subject.root) for warning in lint_warnings(job)]
    else:
        before = problems_of(subject.row, subject.old, None, facts.profile_name or "", profile)
        found = [problem for problem in found if problem not in before]
        warnings = []
    if facts.mode not in ENFORCED:
        return modes.would_deny(facts.mode, found)
    return Response(found=found, warnings=warnings)


def profile_for(policy: Policy, facts: Facts) -> Profile | Response:
    """Return the profile of an opted-in namespace; else the response that leaves its objects alone."""
    if facts.profile_name is None:
        return Response()
    profile = policy.profiles.get(facts.profile_name)
    if profile is None:
        return unknown_profile(policy, facts.profile_name)
    if facts.mode is not None and facts.mode not in opt_in.MODES:
        path = ("Namespace", "metadata", "labels", names.MODE)
        return Response(warnings=[Problem(path, f"no mode {facts.mode!r}, nothing done", opt_in.ALLOWED_MODES)])
    return profile


def lint_warnings(job: EmbeddedJob) -> list[Problem]:
    """Warn about what the API server accepts and that does not do what its author wants."""
    return lint.warnings(job.spec, job.path, suspendable=failure_policy.may_be_suspended_or_scaled(job))


def edit(subject: Subject, profile: Profile, facts: Facts, editor: Editor) -> tuple[list[Problem], str]:
    """Edit the object in place; return warnings, and what was decided for a pod."""
    profile_name = facts.profile_name or ""
    if subject.row is core.POD:
        return edit_pod(subject.root, profile_name, profile, facts, editor)
    if subject.row.immutable and subject.old is not None:
        return edit_immutable(subject, subject.old, profile_name, profile, editor), ""
    return edit_workload(subject, profile_name, profile, editor, defaulted=facts.defaulted), ""


def problems_of(
    row: Workload, root: Json, old: Json | None, profile_name: str, profile: Profile
) -> list[tuple[str, Problem]]:
    """Name everything wrong with an object, each with its rule; `old` is the object before an update."""
    annotations = annotations_of(root)
    if row is core.POD and controller_of(root) is not None:
        return []  # judged on the workload's templates, so that no controller loops on refused pods
    wrong = annotation_problems(profile_name, profile, annotations, ANNOTATIONS)
    limits: list[Problem] = []
    invalid: list[Problem] = []
    old_jobs = {job.path: job.spec for job in row.jobs(old)} if old is not None else {}
    for job in row.jobs(root):
        if job.metadata_path != ("metadata",):
            own = job.metadata.get("annotations") or {}
            wrong += annotation_problems(profile_name, profile, own, (*job.metadata_path, "annotations"))
        template = (*job.path, "template", "metadata", "annotations")
        wrong += annotation_problems(profile_name, profile, job.pod_annotations, template)
        settings = job_settings(profile_name, profile, annotations, job)
        limits += retries.problems(job, settings, old_jobs.get(job.path))
        invalid += schema.problems(job.spec, job.path)
    found = {"annotations": wrong, "retries": limits, "schema": invalid}
    return [(rule, problem) for rule, problems in found.items() for problem in problems]


def edit_workload(
    subject: Subject, profile_name: str, profile: Profile, editor: Editor, *, defaulted: bool
) -> list[Problem]:
    """Apply every rule to every JobSpec of a new object, or of one that may be changed."""
    root = subject.root
    annotations = annotations_of(root)
    warnings: list[Problem] = []
    skipped = False
    for job in subject.row.jobs(root):
        settings = job_settings(profile_name, profile, annotations, job)
        said = says_backoff_limit(root, job, defaulted=defaulted)
        if not settings.skip:
            editor.rule = "failure_policy"
            warnings += failure_policy.edit(job, settings, editor)
        editor.rule = "retries"
        warnings += retries.edit(job, settings, editor, said=said)
        if not settings.skip:
            editor.rule = "timeouts"
            timeouts.edit(job, settings, editor)
        editor.rule = "annotations"
        copy_annotations(job, {**annotations, **(job.metadata.get("annotations") or {})}, settings, editor)
        skipped = settings.skip
    if subject.row is batch.JOB and (editor.edits or not skipped):
        reapply.write(root, profile_name, editor)
        if not skipped:
            editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return warnings


def says_backoff_limit(root: Json, job: EmbeddedJob, *, defaulted: bool) -> bool:
    """Tell whether somebody said a backoffLimit: the author, or an earlier round of admission."""
    if not defaulted:
        return job.spec.get("backoffLimit") is not None
    return batch.says_backoff_limit(root, job) or reapply.has_set(root, (*job.path, "backoffLimit"))


def edit_immutable(subject: Subject, old: Json, profile_name: str, profile: Profile, editor: Editor) -> list[Problem]:
    """On UPDATE of a Job: put back what was injected at its creation, and hold what may be changed to today's limit."""
    root = subject.root
    editor.rule = "reapply"
    reapply.put_back(editor, old, subject.request.decode_old)
    editor.rule = "retries"
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


def edit_pod(
    root: Json, profile_name: str, profile: Profile, facts: Facts, editor: Editor
) -> tuple[list[Problem], str]:
    """Place a pod by the levels it stands under, and note on it what was decided and why."""
    annotations = annotations_of(root)
    owner_annotations = annotations_of(facts.owner) if facts.owner is not None else {}
    settings = resolve(profile_name, profile, {**owner_annotations, **annotations})
    if settings.skip:
        return [], ""
    warnings: list[Problem] = []
    levels = attempts.levels(root, facts.owner, settings, warnings)
    decision = placement.decide(levels, settings)
    editor.rule = "placement"
    placed = placement.edit(root, decision, settings, facts.recognised, editor)
    level = decision.level
    notes = {names.PLACEMENT: placed, names.ATTEMPT: str(level.attempt), names.ATTEMPT_SOURCE: level.source}
    if names.MAX_RETRIES not in annotations:
        notes[names.MAX_RETRIES] = str(level.budget)
    editor.rule = "annotations"
    editor.update(ANNOTATIONS, notes)
    editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return warnings, placed


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
    path = ("Namespace", "metadata", "labels", names.PROFILE)
    remedy = opt_in.nearest_profile(profile_name, policy)
    warning = Problem(path, f"no profile {profile_name!r}, nothing was done", remedy)
    return Response(warnings=[warning], unknown_profile=True)


def job_settings(profile_name: str, profile: Profile, annotations: Json, job: EmbeddedJob) -> Settings:
    """Combine a profile with a workload's annotations and, above them, those of one Job template in it."""
    return resolve(profile_name, profile, {**annotations, **(job.metadata.get("annotations") or {})})


def annotations_of(root: Json) -> Json:
    """Return an object's annotations."""
    annotations: Any = (root.get("metadata") or {}).get("annotations")
    return annotations or {}
