"""Mutates and validates one object, by the policy and the facts that were looked up; returns a response.

Pure: no clock, no I/O, no global state. `mutate` never denies: an object that it cannot read stays as it is, with a
warning. `validate` gets the final object and denies. The order of the rules is in webhook/rules/registry.py.
"""

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import Final

import msgspec
from msgspec.structs import replace

from webhook.admission import edit_immutable, edit_pod, edit_workload, modes
from webhook.admission.modes import ENFORCED
from webhook.admission.review import Response
from webhook.admission.subject import Subject, request_to_create, subject_of
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json, Problem
from webhook.policy import emergency
from webhook.policy.model import Policy
from webhook.policy.parse import parse
from webhook.policy.settings import NamedProfile
from webhook.rules import annotations, in_place, opt_in, registry, unknown_keys
from webhook.rules.contexts import ValidationContext
from webhook.rules.facts import Facts
from webhook.rules.pods import node_pools
from webhook.rules.rule import problems
from webhook.systems import core
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy, lint, schema
from webhook.systems.job_set.rules import free_restarts
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of, copied
from webhook.systems.kinds import embedded_in
from webhook.systems.tekton import spec as tekton

# JobSpecs to check a policy with: what a profile would inject into them must pass the schema rule.
SAMPLE_JOBS: Final = (
    b'{"completions":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"},{"name":"side"}]}}}',
    b'{"suspend":true,"completionMode":"Indexed","completions":2,"backoffLimitPerIndex":1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main"}]}}}',
)


def mutate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Edit the object in place as the policy says; return the response to `/mutate`."""
    editor = Editor(subject.root)
    restored = edit_immutable.put_back(subject, editor)
    profile = profile_for(policy, facts)
    if profile is None:
        response = response_without_profile(policy, facts)
        response.patch = restored
        return response
    if subject.malformed:
        left = [Problem(problem.path, problem.what, "not changed") for problem in subject.malformed]
        if facts.mode not in ENFORCED:
            return modes.would_change(facts.mode, [], left)
        if subject.is_of_batch:
            edit_pod.edit(subject, facts, profile, editor)
        return Response(warnings=left, patch=editor.patch() if editor.edits else b"")
    before = len(editor.edits)
    warnings, placed, growths = edit(subject, profile, facts, editor)
    if facts.mode not in ENFORCED:
        response = modes.would_change(facts.mode, editor.edits[before:], warnings)
        response.patch = restored
        return response
    patch = editor.patch() if editor.edits else b""
    edited = modes.rules_of(editor.edits)
    response = Response(patch=patch, edited=edited, warnings=warnings, warned=editor.warned, placement=placed)
    if growths:
        response.growths = tuple(one.result for one in growths)
    return response


def validate(subject: Subject, policy: Policy, facts: Facts) -> Response:
    """Return the response to `/validate`, with all problems at once; for an UPDATE only with those that it adds."""
    profile = profile_for(policy, facts)
    if profile is None:
        return response_without_profile(policy, facts)
    if subject.malformed:
        found = [("shape", problem) for problem in subject.malformed]
        return Response(found=found) if facts.mode in ENFORCED else modes.would_deny(facts.mode, found)
    if facts.mode not in ENFORCED:  # mutate has not made its edits: make them here, in a copy, and judge the result
        subject = replace(subject, root=copied(subject.root))
        edit(subject, profile, facts, Editor(subject.root))
    profile = NamedProfile(profile.name, emergency.profile_to_judge(policy, profile.name))
    context = ValidationContext(subject.kind, subject.root, subject.old, profile, facts, subject.owner)
    found = problems_of(context)
    unknown = unknown_keys.warnings(context)
    if subject.old is None:
        is_invalid = any(rule == "schema" for rule, _ in found)  # the API server itself would refuse the object
        warnings = [] if is_invalid else lint_warnings(subject, profile, facts)
    else:
        if found:
            before = set(problems_of(ValidationContext(subject.kind, subject.old, None, profile, facts, subject.owner)))
            found = [problem for problem in found if problem not in before]
        warnings = [*stopping_warnings(subject.kind, subject.old, subject.root), *unheard_warnings(subject, facts)]
    if facts.mode not in ENFORCED:
        return modes.would_deny(facts.mode, found, unknown)
    if not unknown and not warnings:
        return Response(found=found)
    warned = [*zip(repeat("unknown_keys"), unknown, strict=False), *zip(repeat("lint"), warnings, strict=False)]
    return Response(found=found, warnings=[*unknown, *warnings], warned=warned)


def profile_for(policy: Policy, facts: Facts) -> NamedProfile | None:
    """Return the profile of a namespace for edits; None if its labels name none, or an unknown profile or mode."""
    name = facts.profile_name
    if name is None or name not in policy.profiles or (facts.mode is not None and facts.mode not in opt_in.MODES):
        return None
    return NamedProfile(name, emergency.profile_to_edit(policy, name))


def response_without_profile(policy: Policy, facts: Facts) -> Response:
    """Return a response that leaves an object alone, with a warning if the namespace's labels are wrong."""
    if facts.profile_name is None:
        return Response()
    if facts.profile_name not in policy.profiles:
        return unknown_profile(policy, facts.profile_name)
    path = ("Namespace", "metadata", "labels", names.MODE)
    return Response(warnings=[Problem(path, f"no mode {facts.mode!r}: object left alone", opt_in.ALLOWED_MODES)])


def lint_warnings(subject: Subject, profile: NamedProfile, facts: Facts) -> list[Problem]:
    """Return warnings about fields that the API server accepts but that do not do what their author wants."""
    found: list[Problem] = []
    root = subject.root
    jobs = [(job, profile.settings(annotations.of_job(root, job))) for job in subject.kind.jobs(root)]
    for job, settings in jobs:
        found += lint.warnings(job.spec, job.path, suspendable=failure_policy.traits_of(job).may_be_killed)
        found += free_restarts.warnings(job, settings)
        found += annotations.unread_in_pods(root, job)
        found += in_place.warnings((*job.path, "template", "spec"), job, settings)
    found += node_pools.warnings(jobs, facts.recognised, facts.pools)
    system = SYSTEMS.get(subject.kind)
    by_leader = system is not None and not system.bounded
    if not by_leader or not facts.bounds_retries(profile.settings(annotations.of(root))):
        found += subject.kind.unbounded(root)
    return found


def unheard_warnings(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Warn about a new request for a retry if requested retries are not enabled."""
    asks = annotations.of(subject.root).get(names.RETRY_REQUESTED_AT)
    before = annotations.of(subject.old or {}).get(names.RETRY_REQUESTED_AT)
    if facts.requested_retries or asks in {None, before}:
        return
    path = (*annotations.OWN, names.RETRY_REQUESTED_AT)
    yield Problem(path, "ignored: not enabled here", "run: retry-policy retry")


def stopping_warnings(kind: KindSpec, old: Json, root: Json) -> Iterator[Problem]:
    """Warn about an update that ends pods and so may fail their Job, whose failure policy is immutable."""
    if kind not in {batch.JOB, JOB_SET}:
        return
    spec, before = root.get("spec") or {}, old.get("spec") or {}
    if spec.get("suspend") and not before.get("suspend"):
        field = "suspend"
    elif kind is batch.JOB and batch.active_pods(spec) < batch.active_pods(before):
        field = "parallelism"
    else:
        return
    if any(lint.fails_by_killing(job.spec) for job in kind.jobs(root)):
        remedy = "safe if they exit with 143 on SIGTERM"
        yield Problem(("spec", field), "pods that this ends may fail the Job", remedy)


def edit(subject: Subject, profile: NamedProfile, facts: Facts, editor: Editor) -> edit_pod.Edited:
    """Edit the object in place; return the warnings, and what is known only of a pod."""
    if subject.kind is core.POD:
        return edit_pod.edit(subject, facts, profile, editor)
    if subject.kind.immutable and subject.old is not None:
        return edit_immutable.edit(subject, subject.old, profile, editor), "", ()
    return edit_workload.edit(subject, facts, profile, editor), "", ()


def problems_of(context: ValidationContext) -> list[tuple[str, Problem]]:
    """Return the problems of an object, each with the name of its rule.

    At most bounds.MOST_PROBLEMS, and those about its controller.
    """
    if context.kind is core.POD and controller_of(context.root) is not None:
        return []  # judged on the workload's templates, so that no controller loops on refused pods
    own = problems(registry.VALIDATING_RULES, context)
    found = islice(chain(own, embedded_problems(context)), bounds.MOST_PROBLEMS)
    return [*found, *problems((registry.CONTROLLED,), context)]


def embedded_problems(context: ValidationContext) -> Iterator[tuple[str, Problem]]:
    """Yield the problems that embedded objects will have when they are created, each with the name of its rule.

    Values with parameters of an event are not judged: they are known only when the event happens.
    """
    for path, found, _ in embedded_in(context.kind, context.root):
        for rule, problem in problems_once_created(found, context.profile, context.facts):
            value = at(found, problem.path)
            if not (isinstance(value, str) and tekton.EVENT_PARAMETER in value):
                yield rule, Problem((*path, *problem.path), problem.what, problem.remedy)


def problems_once_created(found: Json, profile: NamedProfile, facts: Facts) -> Iterator[tuple[str, Problem]]:
    """Yield the problems that an object would have after its admission, each with its rule; `found` stays unchanged."""
    root = copied(found)
    subject = subject_of(request_to_create(root), root)
    if subject is None:
        return
    if subject.malformed:
        yield from zip(repeat("shape"), subject.malformed, strict=False)
        return
    known = replace(facts, owner=None, owners_known=False, above=None, defaulted=False)
    edit(subject, profile, known, Editor(root))
    yield from problems(registry.VALIDATING_RULES, ValidationContext(subject.kind, root, None, profile, known))


def read_policy(text: str) -> tuple[Policy | None, list[Problem]]:
    """Return the policy in a text and no problems, or None and the problems of the text or of what it would inject."""
    parsed = parse(text)
    problems = validate_policy(parsed) if isinstance(parsed, Policy) else parsed
    return (parsed, []) if isinstance(parsed, Policy) and not problems else (None, problems)


def validate_policy(policy: Policy) -> list[Problem]:
    """Return a problem for each profile that would inject something that the API server refuses, in every Job."""
    found = []
    for name, profile in policy.profiles.items():
        for spec in SAMPLE_JOBS:
            root: Json = {"metadata": {}, "spec": msgspec.json.decode(spec)}
            job = next(batch.JOB.jobs(root))
            settings = NamedProfile(name, profile).settings({})
            wanted = failure_policy.Wanted(settings.disruption_action, counted=True)
            failure_policy.edit(job, settings, Editor(root), wanted)
            path = ("profiles", name, "failurePolicy")
            found += [
                Problem(path, f"would inject what the API server rejects: {problem}", "change failurePolicy")
                for problem in schema.problems(job.spec, job.path)
            ]
    return found


def unknown_profile(policy: Policy, profile_name: str) -> Response:
    """Return a response that leaves the object alone, and warns that the policy lacks the namespace's profile."""
    path = ("Namespace", "metadata", "labels", names.PROFILE)
    remedy = opt_in.nearest_profile(profile_name, policy)
    warning = Problem(path, f"no profile {profile_name!r}: object left alone", remedy)
    return Response(warnings=[warning], unknown_profile=True)
