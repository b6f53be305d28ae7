"""Warns about a podFailurePolicy that the API server accepts and that does not do what its author wants.

Reads, in the JobSpec:
    podFailurePolicy.rules[*].action
    podFailurePolicy.rules[*].onExitCodes.{containerName,operator,values}
    podFailurePolicy.rules[*].onPodConditions[*].{type,status}
    backoffLimit, backoffLimitPerIndex, completions, parallelism
    template.spec.containers: how many
    template.spec.initContainers[*].restartPolicy: Always makes a native sidecar

How the Job controller matches: pkg/controller/job/pod_failure_policy.go of Kubernetes 1.36.3. Rules in order, the first
that matches decides; a requirement on exit codes matches if any container in its scope ended with a code other than 0
that satisfies it. webhook/ledger/model/matching.py decides the same of a pod that has failed; here it is asked of all
pods that may fail. Each warning is short enough for the 120 characters that an admission warning has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.kinds import batch
from webhook.ledger.model.matching import ExitCodes, conditions_of, exit_codes_of
from webhook.ledger.model.pods import DISRUPTED as DISRUPTED_CONDITION
from webhook.objects.problem import Json, Path, Problem

DISRUPTION: Final = (DISRUPTED_CONDITION, "True")
KILLED: Final = 137
TERMINATED: Final = 143
# What a pod that is disrupted usually ends with: killed after the grace period, or ended by SIGTERM itself.
DISRUPTED: Final = (KILLED, TERMINATED)
FAILING: Final = ("FailIndex", "FailJob")
# What an exit-code rule must not do to a disruption before the disruption rule has its say.
HARSHER: Final = {"Ignore": ("Count", *FAILING), "Count": FAILING}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, with where it stands: `exit_codes`, or else the (type, status) pairs of `conditions`."""

    path: Path
    action: str
    exit_codes: ExitCodes | None
    conditions: frozenset[tuple[str, str]]


def warnings(job_spec: Json, path: Path, *, suspendable: bool = False) -> list[Problem]:
    """Say what is doubtful in the podFailurePolicy of the JobSpec at `path`; its field types have been checked.

    What the schema rule refuses is no reason to fail here. `suspendable`: whether others suspend or scale this Job, so
    that its pods may be deleted while it goes on.
    """
    rules = read(job_spec, (*path, "podFailurePolicy", "rules"))
    found: list[Problem] = []
    for index, rule in enumerate(rules):
        earlier = rules[:index]
        if is_shadowed(rule, earlier):
            found.append(Problem(rule.path, "never matches: earlier rules do", "move or remove it"))
            continue
        found += scope_warnings(rule, job_spec)
        if suspendable:
            found += suspension_warnings(rule, earlier)
        if DISRUPTION in rule.conditions and not any(DISRUPTION in other.conditions for other in earlier):
            found += order_warnings(rule, earlier)
            found += budget_warnings(rule, job_spec, path)
    return found


def scope_warnings(rule: Rule, job_spec: Json) -> Iterator[Problem]:
    """Warn about `NotIn` for all of several containers.

    When one ends, the others are ended too, and their exit codes count as much as its own: a sidecar that is killed
    with 137 satisfies `NotIn [143]` though the program itself ended with 143.
    """
    exit_codes = rule.exit_codes
    if exit_codes and exit_codes.excluding and exit_codes.container is None and has_several_containers(job_spec):
        yield Problem(rule.path, "NotIn covers sidecars too", "set onExitCodes.containerName")


def suspension_warnings(rule: Rule, earlier: Sequence[Rule]) -> Iterator[Problem]:
    """Warn where suspending or scaling the Job would fail it.

    Pods deleted so end with 137 and without DisruptionTarget, and the Job controller judges them like any other.
    """
    if fails_if_killed(rule, earlier):
        remedy = f"add {KILLED} to values" if rule.exit_codes and rule.exit_codes.excluding else f"remove {KILLED}"
        yield Problem(rule.path, f"fails suspended pods (exit code {KILLED})", remedy)


def fails_by_killing(job_spec: Json) -> bool:
    """Return True if a Job fails if somebody else than the platform kills a pod of it."""
    rules = read(job_spec, ())
    return any(fails_if_killed(rule, rules[:index]) for index, rule in enumerate(rules))


def fails_if_killed(rule: Rule, earlier: Sequence[Rule]) -> bool:
    """Return True if a rule takes a pod that was killed for a bug."""
    return rule.action in FAILING and takes(rule, KILLED, earlier)


def order_warnings(rule: Rule, earlier: Sequence[Rule]) -> Iterator[Problem]:
    """Warn about a disruption rule after a rule that does worse to the exit codes that disruptions end with."""
    for index, other in enumerate(earlier):
        code = next((code for code in DISRUPTED if takes(other, code, earlier[:index])), None)
        if other.action in HARSHER.get(rule.action, ()) and code is not None:
            what = f"rules[{other.path[-1]}] matches code {code} first"
            yield Problem(rule.path, what, "move this rule up")
            return


def budget_warnings(rule: Rule, job_spec: Json, path: Path) -> Iterator[Problem]:
    """Warn about `Count` for disruptions where one lost node can end more pods than there are retries.

    A backoffLimit of 0 allows no failure anyhow, on however many nodes.
    """
    pods, retries = batch.active_pods(job_spec), batch.sum_of_failures(job_spec)
    if rule.action == "Count" and 0 < retries < pods:
        what = f"losing {pods} pods at once uses it up"
        yield Problem((*path, "backoffLimit"), what, "raise it or Ignore disruptions")


def is_shadowed(rule: Rule, earlier: Sequence[Rule]) -> bool:
    """Return True if earlier rules match wherever this one would.

    For exit codes a few numbers decide. What `In` lists is all that it can match. `NotIn` has no end, so one earlier
    `NotIn` must take all but its own values, and those are what is left to look at.
    """
    if rule.exit_codes is None:
        return rule.conditions <= {pair for other in earlier for pair in other.conditions}
    wider = list(wider_than(rule.exit_codes, earlier))
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


def takes(rule: Rule, code: int, earlier: Sequence[Rule]) -> bool:
    """Return True if a rule can be the first to match a container that ended with a code."""
    if rule.exit_codes is None or not rule.exit_codes.match(code):
        return False
    return not any(wider.match(code) for wider in wider_than(rule.exit_codes, earlier))


def wider_than(exit_codes: ExitCodes, earlier: Sequence[Rule]) -> Iterator[ExitCodes]:
    """Yield the earlier requirements that look at every container that this one looks at."""
    for other in earlier:
        if other.exit_codes is not None and other.exit_codes.container in {None, exit_codes.container}:
            yield other.exit_codes


def read(job_spec: Json, path: Path) -> list[Rule]:
    """Read the rules, with the API's defaults, but for those that match nothing: the schema rule refuses them."""
    rules = (job_spec.get("podFailurePolicy") or {}).get("rules") or ()
    found = [read_rule(rule or {}, (*path, index)) for index, rule in enumerate(rules)]
    return [rule for rule in found if (rule.conditions if rule.exit_codes is None else rule.exit_codes.values)]


def read_rule(rule: Json, path: Path) -> Rule:
    """Read one rule."""
    return Rule(path, rule.get("action") or "", exit_codes_of(rule), conditions_of(rule))


def has_several_containers(job_spec: Json) -> bool:
    """Return True if more than one container runs at a time, native sidecars included."""
    pod_spec = (job_spec.get("template") or {}).get("spec") or {}
    init_containers = pod_spec.get("initContainers") or ()
    sidecars = [container for container in init_containers if (container or {}).get("restartPolicy") == "Always"]
    return len(pod_spec.get("containers") or ()) + len(sidecars) > 1
