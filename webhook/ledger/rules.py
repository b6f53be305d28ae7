"""Which rule of a failure policy a pod matches, as the Job controller and the JobSet controller would say.

Sources: pkg/controller/job/pod_failure_policy.go of Kubernetes 1.36, pkg/controllers/failure_policy.go of JobSet 0.11.
"""

import re
from dataclasses import dataclass
from typing import Final

from webhook.ledger.pods import Pod
from webhook.problem import Json

POD_FAILURE_POLICY: Final = "PodFailurePolicy"  # the reason of a Job that a FailJob rule ended


@dataclass(frozen=True, slots=True)
class Match:
    """The rule that a pod matches: its place among the rules, its action, and what it matched.

    `message` is that of the Job's condition, where the action is FailJob.
    """

    index: int
    action: str
    message: str
    container: str | None = None


def match(rules: list[Json], pod: Pod) -> Match | None:
    """Return the first rule that a failed pod matches; None if it matches none: then its failure is counted."""
    for index, rule in enumerate(rules):
        on_exit_codes = rule.get("onExitCodes")
        action = rule.get("action") or ""
        where = f"matching {action} rule at index {index}"
        if on_exit_codes is not None:
            for one in pod.exits:
                if matches_exit(on_exit_codes, one.container, one.code):
                    said = f"Container {one.container} for pod {pod.namespace}/{pod.name} failed with exit code"
                    return Match(index, action, f"{said} {one.code} {where}", one.container)
        else:
            for condition in pod.conditions:
                patterns = rule.get("onPodConditions") or ()
                if any(matches_condition(pattern, condition.type, condition.status) for pattern in patterns):
                    said = f"Pod {pod.namespace}/{pod.name} has condition {condition.type}"
                    return Match(index, action, f"{said} {where}")
    return None


def matches_exit(requirement: Json, container: str, code: int) -> bool:
    """Tell whether a rule's onExitCodes names a container's code."""
    if requirement.get("containerName") not in {None, container}:
        return False
    named = code in (requirement.get("values") or ())
    return named if requirement.get("operator") == "In" else not named


def matches_condition(pattern: Json, kind: str, status: str) -> bool:
    """Tell whether a rule's pattern names a condition."""
    return bool(pattern.get("type") == kind and (pattern.get("status") or "True") == status)


def action_of_set(job_set: Json, replicated_job: str, message: str) -> str:
    """Return what a JobSet does about a Job of it that has failed by its failure policy with a message."""
    policy = (job_set.get("spec") or {}).get("failurePolicy") or {}
    for rule in policy.get("rules") or ():
        reasons = rule.get("onJobFailureReasons") or (POD_FAILURE_POLICY,)
        targets = rule.get("targetReplicatedJobs") or (replicated_job,)
        patterns = rule.get("onJobFailureMessagePatterns")
        if POD_FAILURE_POLICY not in reasons or replicated_job not in targets:
            continue
        if not patterns or any(is_found(pattern, message) for pattern in patterns):
            return str(rule.get("action") or "")
    return "RestartJobSet" if policy.get("maxRestarts") else "FailJobSet"


def is_found(pattern: str, message: str) -> bool:
    """Tell whether a message matches a pattern; one that this language cannot read matches nothing."""
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False
