"""Warns about a podFailurePolicy that the API server accepts but that does not do what its author wants.

Reads, in the JobSpec:
    podFailurePolicy.rules[*].action
    podFailurePolicy.rules[*].onExitCodes.{containerName,operator,values}
    podFailurePolicy.rules[*].onPodConditions[*].{type,status}
    backoffLimit, backoffLimitPerIndex, completions, parallelism
    template.spec.containers: how many
    template.spec.initContainers[*].restartPolicy: Always makes a native sidecar

How the Job controller matches (pkg/controller/job/pod_failure_policy.go of Kubernetes 1.36.3): the first rule that
matches decides. A requirement on exit codes matches if any container that it is about ended with a code other than 0
that satisfies it. webhook/pods/matching.py does the same for one failed pod; this file reasons about all pods
that may fail. Each warning fits into the 120 characters of an admission warning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.objects.problem import Json, Path, Problem
from webhook.pods.matching import ExitCodes, conditions_of, exit_codes_of
from webhook.systems.core import DISRUPTED, KILLED, SIGNALLED
from webhook.systems.job import spec as batch

DISRUPTION: Final = (DISRUPTED, "True")
FAILING: Final = ("FailIndex", "FailJob")
# By the action of a disruption rule: actions that an exit-code rule before it should not have.
HARSHER: Final = {"Ignore": ("Count", *FAILING), "Count": FAILING}


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule, and its path; it has either `exit_codes` or `conditions`, pairs of type and status."""

    path: Path
    action: str
    exit_codes: ExitCodes | None
    conditions: frozenset[tuple[str, str]]


def warnings(job_spec: Json, path: Path, *, suspendable: bool = False) -> list[Problem]:
    """Return warnings about the podFailurePolicy of the JobSpec at `path`, whose field types have been checked.

    Works for a policy that the schema rule denies too. `suspendable`: whether others suspend or scale this Job, so that
    its pods may be deleted while it continues.
    """
    rules = read(job_spec, (*path, "podFailurePolicy", "rules"))
    found: list[Problem] = []
    for index, rule in enumerate(rules):
        earlier = rules[:index]
        if is_shadowed(rule, earlier):
            found.append(Problem(rule.path, "never matches: earlier rules do", "move or remove it"))
            continue
        found += _scope_warnings(rule, job_spec)
        if suspendable:
            found += _suspension_warnings(rule, earlier)
        if DISRUPTION in rule.conditions and not any(DISRUPTION in other.conditions for other in earlier):
            found += _order_warnings(rule, earlier)
            found += _budget_warnings(rule, job_spec, path)
    return found


def _scope_warnings(rule: LintRule, job_spec: Json) -> Iterator[Problem]:
    """Warn about `NotIn` for all of several containers.

    When one container ends, the others are ended too, and their exit codes count as well: a sidecar that is killed with
    137 satisfies `NotIn [143]` although the program itself ended with 143.
    """
    exit_codes = rule.exit_codes
    if exit_codes and exit_codes.excluding and exit_codes.container is None and _has_several_containers(job_spec):
        yield Problem(rule.path, "NotIn covers sidecars too", "set onExitCodes.containerName")


def _suspension_warnings(rule: LintRule, earlier: Sequence[LintRule]) -> Iterator[Problem]:
    """Warn about a rule by which suspending or scaling the Job would fail it.

    Its pods then end with 137 and without DisruptionTarget, and the Job controller judges them like any others.
    """
    if _fails_if_killed(rule, earlier):
        remedy = f"add {KILLED} to values" if rule.exit_codes and rule.exit_codes.excluding else f"remove {KILLED}"
        yield Problem(rule.path, f"fails suspended pods (exit code {KILLED})", remedy)


def fails_by_killing(job_spec: Json) -> bool:
    """Return True if a Job fails when one of its pods is killed without DisruptionTarget."""
    rules = read(job_spec, ())
    return any(_fails_if_killed(rule, rules[:index]) for index, rule in enumerate(rules))


def _fails_if_killed(rule: LintRule, earlier: Sequence[LintRule]) -> bool:
    """Return True if a rule fails the Job or the index for a pod that was killed."""
    return rule.action in FAILING and _takes(rule, KILLED, earlier)


def _order_warnings(rule: LintRule, earlier: Sequence[LintRule]) -> Iterator[Problem]:
    """Warn about a disruption rule after a rule with a harsher action for the exit codes of disrupted pods."""
    for index, other in enumerate(earlier):
        code = next((code for code in SIGNALLED if _takes(other, code, earlier[:index])), None)
        if other.action in HARSHER.get(rule.action, ()) and code is not None:
            what = f"rules[{other.path[-1]}] matches code {code} first"
            yield Problem(rule.path, what, "move this rule up")
            return


def _budget_warnings(rule: LintRule, job_spec: Json, path: Path) -> Iterator[Problem]:
    """Warn about `Count` for disruptions where one lost node can end more pods than there are retries.

    Not with a backoffLimit of 0, which allows no failure in any case.
    """
    pods, retries = batch.active_pods(job_spec), batch.sum_of_failures(job_spec)
    if rule.action == "Count" and 0 < retries < pods:
        what = f"losing {pods} pods at once uses it up"
        yield Problem((*path, "backoffLimit"), what, "raise it or Ignore disruptions")


def is_shadowed(rule: LintRule, earlier: Sequence[LintRule]) -> bool:
    """Return True if earlier rules match wherever this one would.

    For exit codes it is enough to compare a few numbers: `In` matches only the codes that it lists. `NotIn` matches
    infinitely many, so some earlier `NotIn` must match all of these except its own values, which are compared then.
    """
    if rule.exit_codes is None:
        return rule.conditions <= {pair for other in earlier for pair in other.conditions}
    wider = list(_wider_than(rule.exit_codes, earlier))
    codes = rule.exit_codes.values
    if rule.exit_codes.excluding:
        endless = [one for one in wider if one.excluding]
        if not endless:
            return False
        codes = endless[0].values - codes
    left = codes - {0}
    for one in wider:
        left = left & one.values if one.excluding else left - one.values
    return not left


def _takes(rule: LintRule, code: int, earlier: Sequence[LintRule]) -> bool:
    """Return True if a rule can be the first one that matches a container with an exit code."""
    if rule.exit_codes is None or not rule.exit_codes.match(code):
        return False
    return not any(wider.match(code) for wider in _wider_than(rule.exit_codes, earlier))


def _wider_than(exit_codes: ExitCodes, earlier: Sequence[LintRule]) -> Iterator[ExitCodes]:
    """Yield the earlier requirements that are about every container that this one is about."""
    for other in earlier:
        if other.exit_codes is not None and other.exit_codes.container in {None, exit_codes.container}:
            yield other.exit_codes


def read(job_spec: Json, path: Path) -> list[LintRule]:
    """Return the rules, with the API's defaults, except those that match nothing: the schema rule denies these."""
    rules = (job_spec.get("podFailurePolicy") or {}).get("rules") or ()
    found = [read_rule(rule or {}, (*path, index)) for index, rule in enumerate(rules)]
    return [rule for rule in found if (rule.conditions if rule.exit_codes is None else rule.exit_codes.values)]


def read_rule(rule: Json, path: Path) -> LintRule:
    """Return one rule."""
    return LintRule(path, rule.get("action") or "", exit_codes_of(rule), conditions_of(rule))


def _has_several_containers(job_spec: Json) -> bool:
    """Return True if more than one container runs at a time, native sidecars included."""
    pod_spec = (job_spec.get("template") or {}).get("spec") or {}
    init_containers = pod_spec.get("initContainers") or ()
    sidecars = [container for container in init_containers if (container or {}).get("restartPolicy") == "Always"]
    return len(pod_spec.get("containers") or ()) + len(sidecars) > 1
