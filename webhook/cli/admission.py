"""Admission of one object without an API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

import msgspec

from webhook.admission import configuration, engine
from webhook.admission.subject import Subject, request_to_create, subject_of
from webhook.cli import next_pod
from webhook.cli.documents import Document, items
from webhook.cli.next_pod import After, NextPod
from webhook.cli.writing import as_yaml
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem, type_name
from webhook.objects.shape import wrong_types
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import NamedProfile
from webhook.rules import annotations, opt_in
from webhook.rules.facts import Facts
from webhook.systems.core import POD
from webhook.systems.job.spec import CRON_JOB, JOB, job_of_cron_job
from webhook.systems.kinds import KINDS, full_name

FIELDS: Final = ("apiVersion", "kind")
LABELS: Final[Path] = ("metadata", "labels")
LABEL_IT: Final = "a template of the whole cluster takes part by its own label"

OPT_IN: Final = "opt_in"  # the rule of what is said about Namespaces
LINT: Final = "lint"

MEBIBYTE: Final = 1024 * 1024
LARGEST_OBJECT: Final = 3 * MEBIBYTE  # what the API server reads of a request (MaxRequestBodyBytes)


@dataclass(slots=True)
class AdmissionVerdict:
    """The result of admitting one object; the paths of problems and warnings are relative to the object.

    `rules`: the name of the rule of each problem and warning; a key of RULES in webhook/cli/findings.py.
    `placed`: whether it is a Pod that is placed by its attempt. `before`: the object before admission as YAML, if a
    diff is wanted and admission may have edited it; else empty.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    rules: dict[Problem, str] = field(default_factory=dict)
    placed: bool = False
    before: str = ""

    def rule_of(self, problem: Problem) -> str:
        """Return the name of the rule of a problem or warning.

        The warnings of several Jobs of a set are summed up in one, which has the path of the first.
        """
        by_path = (rule for other, rule in self.rules.items() if other.path == problem.path)
        return self.rules.get(problem) or next(by_path, LINT)


def admit(  # noqa: PLR0913 - three of them have a default
    root: Json,
    policy: Policy,
    profile_name: str,
    attempt: int | None,
    *,
    compare: bool = False,
    after: After | None = None,
) -> AdmissionVerdict:
    """Mutate and then validate an object in place; `attempt` has the effect of the annotation on a Pod.

    With `after`, a Job becomes the pod that its controller creates next, and so does the Job of a CronJob; a Pod is
    created then.
    """
    if (root["apiVersion"], root["kind"]) == ("v1", "Namespace"):
        return _verdict_on_namespace(root, policy)
    admitted = _as_attempt(root, after.attempt_of_pod if attempt is None and after is not None else attempt)
    subject = subject_of(request_to_create(admitted), admitted)
    if subject is None:
        return AdmissionVerdict()
    if subject.kind is CRON_JOB and after is not None and not subject.malformed:
        job = job_of_cron_job(root)
        root.clear()
        root.update(job)
        return admit(root, policy, profile_name, attempt, compare=compare, after=after)
    too_large = _problem_of_size(root)
    if too_large is not None:
        return AdmissionVerdict(problems=[too_large], rules={too_large: "size"})
    before = as_yaml(root) if compare else ""
    if not subject.kind.namespaced:
        labelled = at(root, (*LABELS, names.PROFILE))
        if not isinstance(labelled, str):
            left_alone = Problem((*LABELS, names.PROFILE), "is missing, so it is left alone", LABEL_IT)
            return AdmissionVerdict(warnings=[left_alone], rules={left_alone: OPT_IN})
        profile_name = labelled  # the object has no namespace, to which --profile could apply
    facts = Facts(profile_name=profile_name, defaulted=_comes_from_the_api(root))
    profile = NamedProfile(profile_name, policy.profiles.get(profile_name) or Profile())
    if subject.kind is POD and after is not None and not subject.malformed:
        facts = next_pod.facts_of_pod(facts, admitted, after, profile.settings(annotations.of(admitted)))
    with labels_by_default(subject):
        mutated = engine.mutate(subject, policy, facts)
    validated = engine.validate(subject, policy, facts)
    sourced = [*validated.found, *mutated.warned, *validated.warned]
    rules = {problem: rule for rule, problem in reversed(sourced)}
    verdict = AdmissionVerdict(problems=validated.problems, rules=rules, before=before)
    if not subject.malformed:
        verdict.warnings = list(dict.fromkeys([*mutated.warnings, *validated.warnings]))
    verdict.placed = bool(mutated.placement)
    root.update(admitted if verdict.placed else {})  # a Pod that is not placed does not get `attempt` either
    if subject.kind is JOB and after is not None and not verdict.problems:
        _become_pod(root, next_pod.of_job(root, after, attempt, profile), policy, verdict)
    return verdict


def _problem_of_size(root: Json) -> Problem | None:
    size = len(msgspec.json.encode(root))
    what = f"is {size / MEBIBYTE:.1f} MiB as JSON, more than the {LARGEST_OBJECT // MEBIBYTE} MiB of a request"
    return Problem((), what, "make it smaller") if size > LARGEST_OBJECT else None


def _become_pod(root: Json, made: NextPod, policy: Policy, verdict: AdmissionVerdict) -> None:
    """Put the next pod of a Job, as admitted, in the place of the Job; add to its verdict."""
    verdict.before = as_yaml(made.pod) if verdict.before else ""
    response = next_pod.admit(made, policy)
    verdict.rules |= {problem: rule for rule, problem in response.warned}
    verdict.warnings = list(dict.fromkeys([*verdict.warnings, *response.warnings]))
    verdict.placed = bool(response.placement)
    root.clear()
    root.update(made.pod)


def _verdict_on_namespace(root: Json, policy: Policy) -> AdmissionVerdict:
    """Judge the keys and the mode of a Namespace, but not its profile: only its cluster's policy can tell."""
    malformed = wrong_types(root, configuration.SHAPES[configuration.NAMESPACE])
    if malformed:
        return AdmissionVerdict(problems=malformed, rules=dict.fromkeys(malformed, "shape"))
    labels = opt_in.labels_of(root)
    problems = opt_in.mode_problems(labels) if names.PROFILE in labels else []
    warnings = [*opt_in.warnings(root, None), *_unknown_profile(labels, policy)]
    return AdmissionVerdict(problems=problems, warnings=warnings, rules=dict.fromkeys([*problems, *warnings], OPT_IN))


def _unknown_profile(labels: Json, policy: Policy) -> Iterator[Problem]:
    """Warn that the objects in a Namespace are not judged under the profile that it names."""
    profile_name = labels.get(names.PROFILE)
    if profile_name is not None and profile_name not in policy.profiles:
        what = f"the policy has no profile {profile_name!r}: objects in this namespace are judged as if it had none"
        yield Problem((*LABELS, names.PROFILE), what, "name the policy of the cluster with --policy")


def full_name_of(root: Json) -> str:
    """Return how the command line names an object: NAMESPACE/KIND/NAME, without what it does not have."""
    kind = KINDS.get((root["apiVersion"].rpartition("/")[0], root["kind"]))
    namespace, name = (at(root, ("metadata", key)) for key in ("namespace", "name"))
    generated = at(root, ("metadata", "generateName"))
    if not isinstance(name, str):
        name = f"{generated}*" if isinstance(generated, str) else ""
    namespace = namespace if isinstance(namespace, str) else ""
    return f"{root['kind'].lower()}/{name}" if kind is None else full_name(kind, namespace, name)


def warnings(document: Document) -> Iterator[tuple[str, Problem]]:
    """Yield the warnings about a document that do not depend on the policy, each with the name of its rule."""
    yield from zip(repeat("duplicate_key"), document.warnings, strict=False)
    yield from zip(repeat("incomplete_object"), _half_objects(document.value, ()), strict=False)


def _half_objects(value: Any, path: Path) -> Iterator[Problem]:
    """Yield a warning for each value that has only one of kind and apiVersion, and so is not admitted."""
    entries = items(value)
    if entries is not None:
        for index, item in enumerate(entries):
            yield from _half_objects(item, (*path, "items", index))
    elif isinstance(value, dict) and any(key in value for key in FIELDS):
        for key in FIELDS:
            if not isinstance(value.get(key), str):
                what = f"is {type_name(value[key])}" if key in value else "is missing"
                yield Problem((*path, key), f"{what}, so nothing was looked at", "must be a string")


def _comes_from_the_api(root: Json) -> bool:
    """Return True if an API server has set the object's defaults; in other objects the author wrote every field."""
    metadata = root.get("metadata")
    return isinstance(metadata, dict) and ("uid" in metadata or "managedFields" in metadata)


@contextmanager
def labels_by_default(subject: Subject) -> Iterator[None]:
    """Set the labels of a Job that has none to those of its pod template; at the end remove them if none was added.

    The API does so before admission (SetDefaults_Job, pkg/apis/batch/v1/defaults.go). It does not do so if the manifest
    has a label, such as one that `render` adds.
    """
    metadata = subject.root.get("metadata")
    labels = None
    if subject.kind is JOB and not subject.malformed:
        labels = at(subject.root, ("spec", "template", "metadata", "labels"))
    are_labels = isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
    if not (labels and are_labels and metadata) or metadata.get("labels"):
        yield
        return
    absent, before = "labels" not in metadata, metadata.get("labels")
    metadata["labels"] = dict(labels)
    yield
    if metadata["labels"] == labels:
        metadata["labels"] = before
        if absent:
            del metadata["labels"]


def _as_attempt(root: Json, attempt: int | None) -> Json:
    """Return a Pod as if its author had written the annotation `attempt`; anything else, and with None, as it is."""
    if attempt is None or root["kind"] != "Pod":
        return root
    return {**root, "metadata": _with_attempt(root.get("metadata"), attempt)}


def _with_attempt(metadata: Any, attempt: int) -> Any:
    """Return a Pod's metadata with the annotation `attempt` as if its author had written it, in place of any other."""
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else metadata
    if not isinstance(annotations, dict | None):
        return metadata  # of a wrong type, which admission reports
    said = {names.ATTEMPT: str(attempt), names.ATTEMPT_SOURCE: "Annotation"}
    return {**(metadata or {}), "annotations": {**(annotations or {}), **said}}


def prefixed(path: Path, problems: list[Problem]) -> list[Problem]:
    """Return problems of an object with the object's path in its document put before their paths."""
    return [Problem((*path, *problem.path), problem.what, problem.remedy) for problem in problems] if path else problems
