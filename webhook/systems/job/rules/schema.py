"""Finds everything in a podFailurePolicy that kube-apiserver would refuse, all at once.

Reads, in the JobSpec (with the allowed values):
    podFailurePolicy.rules                                 absent, or at most 20
    podFailurePolicy.rules[*]                              exactly one of onExitCodes and onPodConditions
    podFailurePolicy.rules[*].action                       Count, FailIndex, FailJob, Ignore
    podFailurePolicy.rules[*].onExitCodes.containerName    absent, but not empty, or the name of an (init) container
    podFailurePolicy.rules[*].onExitCodes.operator         In, NotIn
    podFailurePolicy.rules[*].onExitCodes.values           1 to 255 of 32 bits, ascending, none twice; In: no 0
    podFailurePolicy.rules[*].onPodConditions              at most 20; an empty list counts as absent
    podFailurePolicy.rules[*].onPodConditions[*].type      a qualified name
    podFailurePolicy.rules[*].onPodConditions[*].status    absent or empty (True), False, True, Unknown
    podReplacementPolicy                                   absent, Failed; without a policy TerminatingOrFailed
    backoffLimitPerIndex                                   not absent where an action is FailIndex
    template.spec.restartPolicy                            Never, if there is a podFailurePolicy
    template.spec.{containers,initContainers}[*].name      any

Source: pkg/apis/batch/validation/validation.go of Kubernetes 1.36.3, after the decoding and defaulting that the API
server does before; 1.34.4 has the same. Not checked here: restartPolicy without a podFailurePolicy, and the values of
backoffLimitPerIndex.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from webhook.kube.paths import SUBDOMAIN
from webhook.objects.bounds import MAX_CONDITIONS, MAX_RULES, MAX_VALUES
from webhook.objects.problem import Json, Path, Problem, listed
from webhook.rules.rule import Rule

if TYPE_CHECKING:
    from webhook.rules.contexts import ValidationContext

ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")
REPLACEMENT_POLICIES: Final = ("Failed", "TerminatingOrFailed")
LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1

# A qualified name is a label key: a name, or a DNS subdomain, a slash and a name.
NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def problems(job_spec: Json, path: Path) -> list[Problem]:
    """Return what the API server would refuse in the JobSpec at `path`; its field types must fit SHAPE.

    The result is right for a Job and for a CronJob's template, whether the API server has defaulted it already or not.
    """
    return [
        *policy_problems(job_spec, (*path, "podFailurePolicy")),
        *_replacement_problems(job_spec, (*path, "podReplacementPolicy")),
        *_restart_problems(job_spec, (*path, "template", "spec", "restartPolicy")),
    ]


def policy_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    """Yield the problems of the policy itself.

    A policy without rules is allowed. If it has more than 20, that is its only problem; likewise with too many values
    or conditions.
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
        yield from _action_problems(rule or {}, job_spec, (*place, "action"))
        yield from _requirement_problems(rule or {}, containers, place)


def _action_problems(rule: Json, job_spec: Json, path: Path) -> Iterator[Problem]:
    action = rule.get("action")
    yield from _unless_one_of(ACTIONS, action, path)
    if action == "FailIndex" and job_spec.get("backoffLimitPerIndex") is None:
        yield Problem(path, "is FailIndex without a backoffLimitPerIndex", "use FailJob, or set backoffLimitPerIndex")


def _requirement_problems(rule: Json, containers: dict[str, None], path: Path) -> Iterator[Problem]:
    # An empty onExitCodes counts as a requirement, an empty list of conditions does not.
    exit_codes = rule.get("onExitCodes")
    conditions = rule.get("onPodConditions") or ()
    if exit_codes is not None:
        yield from _exit_code_problems(exit_codes, containers, (*path, "onExitCodes"))
    if conditions:
        yield from _pod_condition_problems(conditions, (*path, "onPodConditions"))
    if exit_codes is not None and conditions:
        yield Problem(path, "has both onExitCodes and onPodConditions", "split it into two rules")
    if exit_codes is None and not conditions:
        yield Problem(path, "has neither onExitCodes nor onPodConditions", "must have one of them")


def _exit_code_problems(requirement: Json, containers: dict[str, None], path: Path) -> Iterator[Problem]:
    operator = requirement.get("operator")
    yield from _unless_one_of(OPERATORS, operator, (*path, "operator"))
    container = requirement.get("containerName")
    if container is not None and container not in containers:
        known = listed([name for name in containers if name])
        remedy = "must name a container or init container of the pod template" + (f": {known}" if known else "")
        yield Problem((*path, "containerName"), f"is {container[:40]!r}", remedy)
    values = [value or 0 for value in requirement.get("values") or ()]
    yield from _value_problems(values, operator, (*path, "values"))


def _value_problems(values: list[int], operator: str | None, path: Path) -> Iterator[Problem]:
    if not values:
        yield Problem(path, "has no exit code", f"must have 1 to {MAX_VALUES}")
    if len(values) > MAX_VALUES:
        yield Problem(path, f"has {len(values)} exit codes", f"must have 1 to {MAX_VALUES}")
        return
    if _are_right(values, operator):
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


def _are_right(values: list[int], operator: str | None) -> bool:
    """Return True if exit codes have no problem: a fast check, because most have none."""
    if not values or values != sorted(set(values)):
        return False
    return values[0] >= LOWEST and values[-1] <= HIGHEST and not (operator == "In" and 0 in values)


def _pod_condition_problems(patterns: list[Json], path: Path) -> Iterator[Problem]:
    if len(patterns) > MAX_CONDITIONS:
        yield Problem(path, f"has {len(patterns)} patterns", f"must have at most {MAX_CONDITIONS}")
        return
    for index, pattern in enumerate(patterns):
        yield from _type_problems((pattern or {}).get("type"), (*path, index, "type"))
        yield from _unless_one_of(STATUSES, (pattern or {}).get("status") or "True", (*path, index, "status"))


def _type_problems(condition: str | None, path: Path) -> Iterator[Problem]:
    prefix, slash, name = (condition or "").rpartition("/")
    if not NAME.fullmatch(name) or (slash and not SUBDOMAIN.fullmatch(prefix)):
        remedy = "must be a qualified name, such as DisruptionTarget or example.com/MyCondition"
        yield Problem(path, _described(condition), remedy)


def _replacement_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    replacement = job_spec.get("podReplacementPolicy")
    if replacement is None:
        return
    if job_spec.get("podFailurePolicy") is None:
        yield from _unless_one_of(REPLACEMENT_POLICIES, replacement, path)
    elif replacement != "Failed":  # also a value that was defaulted before the Job had a podFailurePolicy
        yield Problem(path, _described(replacement), "must be Failed, or left out, where there is a podFailurePolicy")


def _restart_problems(job_spec: Json, path: Path) -> Iterator[Problem]:
    restart = ((job_spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if job_spec.get("podFailurePolicy") is not None and restart != "Never":
        yield Problem(path, _described(restart), "must be Never where there is a podFailurePolicy")


def container_names(job_spec: Json) -> dict[str, None]:
    """Return the names of all containers that a rule may name: an ordered set, in the order of the template."""
    pod_spec = (job_spec.get("template") or {}).get("spec") or {}
    fields = ("containers", "initContainers")
    return {(container or {}).get("name") or "": None for field in fields for container in pod_spec.get(field) or ()}


def _unless_one_of(allowed: tuple[str, ...], value: str | None, path: Path) -> Iterator[Problem]:
    if value not in allowed:
        yield Problem(path, _described(value), f"must be one of {', '.join(allowed)}")


def _described(value: str | None) -> str:
    """Return the `what` of a problem about a value: `is missing`, or `is` and the value."""
    return "is missing" if value is None else f"is {value[:40]!r}"


def _problems(context: "ValidationContext") -> Iterator[Problem]:
    return chain.from_iterable(problems(job.spec, job.path) for job in context.jobs)


RULE: Final[Rule["ValidationContext"]] = Rule(name="schema", applies_to="each Job", problems=_problems)
