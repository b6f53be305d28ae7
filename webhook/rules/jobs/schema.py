"""Names everything about a podFailurePolicy that kube-apiserver would refuse, all at once.

Reads, in the JobSpec, and what is allowed there:
    podFailurePolicy.rules                                 absent, or at most 20
    podFailurePolicy.rules[*]                              exactly one of onExitCodes and onPodConditions
    podFailurePolicy.rules[*].action                       Count, FailIndex, FailJob, Ignore
    podFailurePolicy.rules[*].onExitCodes.containerName    absent, or a container or init container of the template
    podFailurePolicy.rules[*].onExitCodes.operator         In, NotIn
    podFailurePolicy.rules[*].onExitCodes.values           1 to 255 of 32 bits, ascending, none twice; In: no 0
    podFailurePolicy.rules[*].onPodConditions              at most 20; an empty list counts as absent
    podFailurePolicy.rules[*].onPodConditions[*].type      a qualified name
    podFailurePolicy.rules[*].onPodConditions[*].status    absent or empty (True), False, True, Unknown
    podReplacementPolicy                                   absent, Failed; without a policy TerminatingOrFailed
    backoffLimitPerIndex                                   not absent where an action is FailIndex
    template.spec.restartPolicy                            Never, where there is a podFailurePolicy
    template.spec.{containers,initContainers}[*].name      whatever it is

Source: pkg/apis/batch/validation/validation.go of Kubernetes 1.36.3, after the decoding and defaulting that the API
server does before; 1.34.4 says the same. Not ours: restartPolicy where there is no podFailurePolicy, and which values
backoffLimitPerIndex may have.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from webhook.kube.paths import SUBDOMAIN
from webhook.objects.bounds import MAX_CONDITIONS, MAX_RULES, MAX_VALUES
from webhook.objects.problem import Json, Path, Problem, listed

ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")
REPLACEMENT_POLICIES: Final = ("Failed", "TerminatingOrFailed")
LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1

# A qualified name is a label key: a name, before it a DNS subdomain and a slash if need be.
NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def problems(job_spec: Json, path: Path) -> list[Problem]:
    """Name what the API server would refuse in the JobSpec that stands at `path`; its field types must fit SHAPE.

    The verdict is that on a Job or a CronJob's template, whether the API server has defaulted it already or not.
    """
    return [
        *policy_problems(job_spec, (*path, "podFailurePolicy")),
        *replacement_problems(job_spec, (*path, "podReplacementPolicy")),
        *restart_problems(job_spec, (*path, "template", "spec", "restartPolicy")),
    ]


def policy_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    """Judge the policy itself.

    A policy without rules is allowed; one with more than 20 is not, and no more is said of it. So it is with values and
    conditions.
    """
    rules = (job_spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(rules) > MAX_RULES:
        yield Problem((*path, "rules"), f"has {len(rules)} rules", f"must have at most {MAX_RULES}")
        return
    if not rules:
        return
    containers = container_names(job_spec)
    for index, rule in enumerate(rules):
        place = (*path, "rules", index)
        yield from action_problems(rule or {}, job_spec, (*place, "action"))
        yield from requirement_problems(rule or {}, containers, place)


def action_problems(rule: Json, job_spec: Json, path: Path) -> Iterator[Problem]:
    """Judge what a rule does.

    The action is required and one of four; FailIndex needs the Job to count failures by index.
    """
    action = rule.get("action")
    yield from unless_one_of(ACTIONS, action, path)
    if action == "FailIndex" and job_spec.get("backoffLimitPerIndex") is None:
        yield Problem(path, "is FailIndex without a backoffLimitPerIndex", "use FailJob, or set backoffLimitPerIndex")


def requirement_problems(rule: Json, containers: dict[str, None], path: Path) -> Iterator[Problem]:
    """Judge when a rule matches.

    Exactly one of the two requirements is there. An empty onExitCodes is there, an empty list of conditions is not.
    """
    exit_codes = rule.get("onExitCodes")
    conditions = rule.get("onPodConditions") or ()
    if exit_codes is not None:
        yield from exit_code_problems(exit_codes, containers, (*path, "onExitCodes"))
    if conditions:
        yield from pod_condition_problems(conditions, (*path, "onPodConditions"))
    if exit_codes is not None and conditions:
        yield Problem(path, "has both onExitCodes and onPodConditions", "split it into two rules")
    if exit_codes is None and not conditions:
        yield Problem(path, "has neither onExitCodes nor onPodConditions", "must have one of them")


def exit_code_problems(requirement: Json, containers: dict[str, None], path: Path) -> Iterator[Problem]:
    """Judge a requirement on exit codes.

    The operator is required. A containerName that is there, even empty, names a container or init container.
    """
    operator = requirement.get("operator")
    yield from unless_one_of(OPERATORS, operator, (*path, "operator"))
    container = requirement.get("containerName")
    if container is not None and container not in containers:
        known = listed([name for name in containers if name])
        remedy = "must name a container or init container of the pod template" + (f": {known}" if known else "")
        yield Problem((*path, "containerName"), f"is {container[:40]!r}", remedy)
    values = [value or 0 for value in requirement.get("values") or ()]
    yield from value_problems(values, operator, (*path, "values"))


def value_problems(values: list[int], operator: str | None, path: Path) -> Iterator[Problem]:
    """Judge the exit codes.

    Between 1 and 255 of them, ascending, none twice. No container fails with 0, so In may not ask for it; NotIn may
    exclude it. Any other number is allowed, negative ones too, as long as it can be decoded into 32 bits.
    """
    if not values:
        yield Problem(path, "has no exit code", f"must have 1 to {MAX_VALUES}")
    if len(values) > MAX_VALUES:
        yield Problem(path, f"has {len(values)} exit codes", f"must have 1 to {MAX_VALUES}")
        return
    if are_right(values, operator):
        return
    seen = set()
    for index, value in enumerate(values):
        place = (*path, index)
        if not LOWEST <= value <= HIGHEST:
            yield Problem(place, "does not fit into 32 bits", f"must be between {LOWEST} and {HIGHEST}")
        if value == 0 and operator == "In":
            yield Problem(place, "is 0, which is no failure", "must not be 0 for the operator In")
        if value in seen:
            yield Problem(place, "is listed twice", "remove one")
        seen.add(value)
    for index, (before, after) in enumerate(pairwise(values)):
        if before > after:
            yield Problem(path, f"entry {index + 1} is less than entry {index}", "must be in ascending order")
            return


def are_right(values: list[int], operator: str | None) -> bool:
    """Return True if nothing is wrong with exit codes, as with most, at less cost than to name what is."""
    if not values or values != sorted(set(values)):
        return False
    return values[0] >= LOWEST and values[-1] <= HIGHEST and not (operator == "In" and 0 in values)


def pod_condition_problems(patterns: list[Json], path: Path) -> Iterator[Problem]:
    """Judge a requirement on pod conditions.

    At most 20 patterns, each with a type that is a qualified name; a status left out or empty is defaulted to True.
    """
    if len(patterns) > MAX_CONDITIONS:
        yield Problem(path, f"has {len(patterns)} patterns", f"must have at most {MAX_CONDITIONS}")
        return
    for index, pattern in enumerate(patterns):
        yield from type_problems((pattern or {}).get("type"), (*path, index, "type"))
        yield from unless_one_of(STATUSES, (pattern or {}).get("status") or "True", (*path, index, "status"))


def type_problems(condition: str | None, path: Path) -> Iterator[Problem]:
    """Judge the type of a pod condition: a name of at most 63 characters, before it a DNS subdomain if need be."""
    prefix, slash, name = (condition or "").rpartition("/")
    if not NAME.fullmatch(name) or (slash and not SUBDOMAIN.fullmatch(prefix)):
        remedy = "must be a qualified name, such as DisruptionTarget or example.com/MyCondition"
        yield Problem(path, described(condition), remedy)


def replacement_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    """Judge podReplacementPolicy.

    Beside a podFailurePolicy only Failed is allowed, and what an absent one is defaulted to. It may come already
    defaulted for a Job that had no podFailurePolicy, and is refused then.
    """
    replacement = job_spec.get("podReplacementPolicy")
    if replacement is None:
        return
    if job_spec.get("podFailurePolicy") is None:
        yield from unless_one_of(REPLACEMENT_POLICIES, replacement, path)
    elif replacement != "Failed":
        yield Problem(path, described(replacement), "must be Failed, or left out, where there is a podFailurePolicy")


def restart_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    """Judge restartPolicy.

    A Job's pods may be restarted Never or OnFailure, beside a podFailurePolicy only Never; one left out is not
    defaulted to that.
    """
    restart = ((job_spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if job_spec.get("podFailurePolicy") is not None and restart != "Never":
        yield Problem(path, described(restart), "must be Never where there is a podFailurePolicy")


def container_names(job_spec: Json) -> dict[str, None]:
    """Name all containers that a rule may ask for, in the order of the template: a set that keeps it."""
    pod_spec = (job_spec.get("template") or {}).get("spec") or {}
    fields = ("containers", "initContainers")
    return {(container or {}).get("name") or "": None for field in fields for container in pod_spec.get(field) or ()}


def unless_one_of(allowed: tuple[str, ...], value: str | None, path: Path) -> Iterator[Problem]:
    """Yield a problem for a value that is missing or none of those allowed."""
    if value not in allowed:
        yield Problem(path, described(value), f"must be one of {', '.join(allowed)}")


def described(value: str | None) -> str:
    """Say what stands in a field, as the first half of a problem."""
    return "is missing" if value is None else f"is {value[:40]!r}"
