"""The order of the rules: a request, the policy and what the shell looked up go in, a response comes out.

Pure: no clock, no I/O, no global state. `mutate` never denies: what it cannot read it leaves alone, with a warning.
`validate` sees the final object and denies.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import msgspec

from webhook import attempts, modes, names
from webhook.modes import ENFORCED
from webhook.patch import Editor, at
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import Settings, annotation_problems, count, resolve
from webhook.problem import Json, Path, Problem
from webhook.review import Response
from webhook.rules import failure_policy, job_set, lint, opt_in, placement, reapply, retries, schema, timeouts
from webhook.subject import Facts, Subject
from webhook.workloads import Budget, EmbeddedJob, OwnerReference, Workload, batch, core, row_of
from webhook.workloads.job_set import JOB_SET
from webhook.workloads.row import Field, controller_of

ANNOTATIONS: Final[Path] = ("metadata", "annotations")

# What a profile would inject into these passes the schema rule, or no Job could be created under it.
SAMPLE_JOBS: Final = (
    b'{"completions":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"},{"name":"side"}]}}}',
    b'{"suspend":true,"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"}]}}}',
)


def mutate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Edit the object as the policy says."""
    editor = Editor(subject.root)
    restored = put_back(subject, editor)
    profile = profile_for(policy, facts)
    if not isinstance(profile, Profile):
        profile.patch = restored
        return profile
    if subject.malformed:
        left = [Problem(problem.path, problem.what, "not changed") for problem in subject.malformed]
        return Response(warnings=left) if facts.mode in ENFORCED else modes.would_change(facts.mode, [], left)
    before = len(editor.edits)
    warnings, placed = edit(subject, profile, facts, editor)
    if facts.mode not in ENFORCED:
        response = modes.would_change(facts.mode, editor.edits[before:], warnings)
        response.patch = restored
        return response
    patch = editor.patch() if editor.edits else b""
    return Response(patch=patch, edited=modes.rules_of(editor.edits), warnings=warnings, placement=placed)


def put_back(subject: Subject, editor: Editor) -> bytes:
    """Put back what was injected into a Job at its creation, whatever has become of profile and mode; return the patch.

    It enforces nothing, and without it no update of the Job would be accepted.
    """
    if subject.malformed or subject.old is None or not subject.row.immutable:
        return b""
    editor.rule = "reapply"
    reapply.put_back(editor, subject.row, subject.old, subject.request.decode_old)
    return editor.patch() if editor.edits else b""


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
        before = set(problems_of(subject.row, subject.old, None, facts.profile_name or "", profile))
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
        return edit_pod(subject, profile_name, profile, facts, editor)
    if subject.row.immutable and subject.old is not None:
        return edit_immutable(subject, subject.old, profile_name, profile, editor), ""
    return edit_workload(subject, facts, profile, editor), ""


def problems_of(
    row: Workload, root: Json, old: Json | None, profile_name: str, profile: Profile
) -> list[tuple[str, Problem]]:
    """Name everything wrong with an object, each with its rule; `old` is the object before an update."""
    annotations = annotations_of(root)
    if row is core.POD and controller_of(root) is not None:
        return []  # judged on the workload's templates, so that no controller loops on refused pods
    wrong = annotation_problems(profile_name, profile, annotations, ANNOTATIONS)
    for where in (*annotations_for_pods(row, root), *found_at(row.judged_annotations, root)):
        wrong += annotation_problems(profile_name, profile, at(root, where) or {}, where)
    limits: list[Problem] = []
    invalid: list[Problem] = []
    settings = resolve(profile_name, profile, annotations)
    old_budgets = {} if old is None else {budget.path: budget for budget in all_budgets(row, old, settings)}
    for budget in all_budgets(row, root, settings):
        limits += retries.problems(budget, settings, old_budgets.get(budget.path))
    for path, template in row.templates(root):
        limits += retries.template_problems((*path, "spec"), template.get("spec") or {})
    if row is JOB_SET:
        limits += job_set.problems(root, old)
    for job in row.jobs(root):
        if job.metadata_path != ("metadata",):
            own = job.metadata.get("annotations") or {}
            wrong += annotation_problems(profile_name, profile, own, (*job.metadata_path, "annotations"))
        wrong += annotation_problems(profile_name, profile, job.pod_annotations, at_template((*job.path, "template")))
        if not job.traits.restarts_in_place:
            limits += retries.template_problems((*job.path, "template", "spec"), job.pod_spec)
        invalid += schema.problems(job.spec, job.path)
    found = {"annotations": wrong, "retries": limits, "schema": invalid}
    return [(rule, problem) for rule, problems in found.items() for problem in problems]


def edit_workload(subject: Subject, facts: Facts, profile: Profile, editor: Editor) -> list[Problem]:
    """Apply every rule to a new object, or one that may be changed; what was injected before is worked out anew."""
    row, root = subject.row, subject.root
    profile_name = facts.profile_name or ""
    record = reapply.read(root)
    if record is not None:
        trial = Editor(deepcopy(root))  # seldom: a second round of admission, or an update of a CronJob
        reapply.take_out(trial, row, record)
        warnings = apply_rules(row, trial, profile, facts)
        if {**trial.root, "metadata": None} == {**root, "metadata": None} and record.profile == profile_name:
            return warnings
        editor.rule = "reapply"
        reapply.take_out(editor, row, record)
    before = len(editor.edits)
    warnings = apply_rules(row, editor, profile, facts)
    edits = editor.edits[before:]
    marked = row.labelled and not skipped(row, root, profile_name, profile)
    if edits or marked:
        reapply.write(editor, profile_name, edits)
    elif record is not None:
        editor.remove(reapply.ANNOTATION)
    if marked:
        editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return warnings


def skipped(row: Workload, root: Json, profile_name: str, profile: Profile) -> bool:
    """Tell whether an object's author wants it left alone, or all of the Jobs in it."""
    annotations = annotations_of(root)
    if resolve(profile_name, profile, annotations).skip:
        return True
    settings = [job_settings(profile_name, profile, annotations, job) for job in row.jobs(root)]
    return bool(settings) and all(one.skip for one in settings)


def apply_rules(row: Workload, editor: Editor, profile: Profile, facts: Facts) -> list[Problem]:
    """Apply every rule to an object: to each JobSpec in it, then to what stands beside them."""
    root = editor.root
    annotations = annotations_of(root)
    settings = resolve(facts.profile_name or "", profile, annotations)
    warnings: list[Problem] = []
    disruption: str = profile.disruptions.action
    if row is JOB_SET:
        disruption = job_set.disruption_action(root, settings, message_patterns=facts.message_patterns)
    jobs = list(row.jobs(root))
    for job in jobs:
        warnings += edit_job(row, job, editor, profile, facts, disruption)
    if row is JOB_SET and not settings.skip:
        editor.rule = "failure_policy"
        job_set.edit(root, jobs, settings, editor, disruption=disruption)
    editor.rule = "retries"
    if row is JOB_SET:
        warnings += job_set.clamp(root, settings, editor)
    for budget in list(row.budgets(root)):
        warnings += retries.edit(budget, settings, editor)
    for path, template in row.templates(root):
        warnings += retries.edit_template((*path, "spec"), template.get("spec") or {}, settings, editor)
    if not settings.skip:
        editor.rule = "timeouts"
        timeouts.edit_fields(row, root, settings, editor)
        editor.rule = "annotations"
        said, lowered = handed_down(annotations, settings, ANNOTATIONS)
        warnings += lowered
        for path in list(annotations_for_pods(row, root)):
            copy_missing(names.COPIED_TO_PODS, said, path, editor)
        for path in list(found_at(row.made_annotations, root)):
            copy_missing(names.COPIED_TO_JOBS, said, path, editor)
    return list(dict.fromkeys(warnings))


def edit_job(  # noqa: PLR0913, PLR0917 - what a request has, and one Job of it
    row: Workload, job: EmbeddedJob, editor: Editor, profile: Profile, facts: Facts, disruption: str
) -> list[Problem]:
    """Apply every rule to one JobSpec."""
    root = editor.root
    annotations = annotations_of(root)
    settings = job_settings(facts.profile_name or "", profile, annotations, job)
    budget = batch.budget_of(root, job, profile.retries.limit, defaulted=facts.defaulted)
    warnings: list[Problem] = []
    if row.failure_policy and not settings.skip:
        editor.rule = "failure_policy"
        warnings += failure_policy.edit(job, settings, editor, disruption_action=disruption)
    editor.rule = "retries"
    if budget is not None:
        warnings += retries.edit(budget, settings, editor)
        warnings += retries.edit_template((*job.path, "template", "spec"), job.pod_spec, settings, editor)
    if row.failure_policy and not settings.skip:
        editor.rule = "timeouts"
        timeouts.edit(job, settings, editor)
    editor.rule = "annotations"
    own = job.metadata.get("annotations") or {}
    where = (*(job.metadata_path if names.MAX_RETRIES in own else ("metadata",)), "annotations")
    said, lowered = handed_down({**annotations, **own}, settings, where)
    if job.metadata_path != ("metadata",):
        copy_missing(names.COPIED_TO_JOBS, said, (*job.metadata_path, "annotations"), editor)
    if not settings.skip:
        copy_missing(names.COPIED_TO_PODS, said, at_template((*job.path, "template")), editor)
    return [*warnings, *lowered]


def edit_immutable(subject: Subject, old: Json, profile_name: str, profile: Profile, editor: Editor) -> list[Problem]:
    """On UPDATE of what may not be changed: hold a Job's backoffLimit, which may, to today's limit."""
    if subject.row is not batch.JOB:
        return []
    root = subject.root
    editor.rule = "retries"
    limit = profile.retries.limit
    warnings: list[Problem] = []
    old_jobs = {job.path: job for job in subject.row.jobs(old)}
    for job in subject.row.jobs(root):
        old_job = old_jobs.get(job.path)
        budget = batch.budget_of(root, job, limit, defaulted=True)
        old_budget = None if old_job is None else batch.budget_of(old, old_job, limit, defaulted=True)
        if old_job is not None and budget is not None and old_budget is not None:
            settings = job_settings(profile_name, profile, annotations_of(root), job)
            old_settings = job_settings(profile_name, profile, annotations_of(old), old_job)
            warnings += retries.edit_update(budget, settings, editor, old_budget, old_settings)
    return warnings


def all_budgets(row: Workload, root: Json, settings: Settings) -> Iterator[Budget]:
    """Yield every budget that an object names, of its Jobs and beside them."""
    for job in row.jobs(root):
        budget = batch.budget_of(root, job, settings.profile.retries.limit, defaulted=False)
        if budget is not None:
            yield budget
    yield from row.budgets(root)


def annotations_for_pods(row: Workload, root: Json) -> Iterator[Path]:
    """Yield where the pods of an object take annotations from, other than the templates of its Jobs."""
    for path, _ in row.templates(root):
        yield at_template(path)
    yield from found_at(row.pod_annotations, root)


def found_at(fields: tuple[Field, ...], root: Json) -> Iterator[Path]:
    """Yield the paths of fields, whether they are there or may be made."""
    for field in fields:
        for path, _ in field.find(root):
            yield path


def at_template(path: Path) -> Path:
    """Return where the annotations of the pod template at a path stand."""
    return (*path, "metadata", "annotations")


def handed_down(annotations: Json, settings: Settings, where: Path) -> tuple[Json, list[Problem]]:
    """Return what of annotations is handed down, a CronJob's to its Jobs, a workload's to its pods; and warnings.

    A value that has a problem stays where it is, so that it is named once, and no update is refused for our copy of it.
    A budget that the profile clamps is handed down clamped, with a warning.
    """
    wrong = {problem.path for problem in annotation_problems(settings.profile_name, settings.profile, annotations, ())}
    said = {key: value for key, value in annotations.items() if (key,) not in wrong}
    if settings.max_retries is None or count(said.get(names.MAX_RETRIES)) == settings.max_retries:
        return said, []
    what = f"{said[names.MAX_RETRIES]} lowered to {settings.max_retries}"
    remedy = f"profile {settings.profile_name!r} allows no more"
    said[names.MAX_RETRIES] = str(settings.max_retries)
    return said, [Problem((*where, names.MAX_RETRIES), what, remedy)]


def copy_missing(keys: tuple[str, ...], said: Json, where: Path, editor: Editor) -> None:
    """Copy annotations to where they are absent."""
    there = at(editor.root, where) or {}
    editor.update(where, {key: said[key] for key in keys if key in said and key not in there})


def edit_pod(
    subject: Subject, profile_name: str, profile: Profile, facts: Facts, editor: Editor
) -> tuple[list[Problem], str]:
    """Place a pod by the levels it stands under, and note on it what was decided and why."""
    root = subject.root
    annotations = annotations_of(root)
    owner_annotations = annotations_of(facts.owner) if facts.owner is not None else {}
    settings = resolve(profile_name, profile, {**owner_annotations, **annotations})
    if settings.skip or not subject.takes_part or is_no_batch(subject.owner, facts, annotations):
        return [], ""
    if controller_of(root) is None and annotation_problems(profile_name, profile, annotations, ANNOTATIONS):
        return [], ""  # it will be refused for them, as they stand
    evidence = attempts.Evidence(
        pod=root, controller=subject.owner, owner=facts.owner, above=facts.above, settings=settings
    )
    levels = attempts.levels(evidence)
    decision = placement.decide(levels, settings)
    editor.rule = "placement"
    placed = placement.edit(root, decision, settings, facts.recognised, editor)
    level = decision.level
    notes = {names.PLACEMENT: placed, names.ATTEMPT_SOURCE: level.source}
    if count(annotations.get(names.ATTEMPT)) != level.attempt:
        notes[names.ATTEMPT] = str(level.attempt)
    if names.MAX_RETRIES not in annotations:
        notes[names.MAX_RETRIES] = str(level.budget)
    editor.rule = "annotations"
    editor.update(ANNOTATIONS, notes)
    editor.update(("metadata", "labels"), {names.PROFILE: profile_name})
    return evidence.warnings, placed


def is_no_batch(owner: OwnerReference | None, facts: Facts, annotations: Json) -> bool:
    """Tell whether a pod's controller is batch only under another, which it has not got, as a RayCluster of nobody."""
    row = None if owner is None else row_of(owner)
    said = names.ATTEMPT in annotations or names.INTERRUPTIBLE in annotations
    return row is not None and row.counted_above and facts.above is None and not said


def validate_policy(policy: Policy) -> list[Problem]:
    """Name what the API server would refuse of what a profile injects: it would refuse every Job with it."""
    found = []
    for name, profile in policy.profiles.items():
        for spec in SAMPLE_JOBS:
            root: Json = {"metadata": {}, "spec": msgspec.json.decode(spec)}
            job = next(batch.JOB.jobs(root))
            settings = Settings(profile_name=name, profile=profile)
            failure_policy.edit(job, settings, Editor(root), disruption_action=profile.disruptions.action)
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
