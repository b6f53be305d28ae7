"""Finds the rule of a failure policy that a pod matches, in the same way as the Job and JobSet controllers.

Sources: pkg/controller/job/pod_failure_policy.go of Kubernetes 1.36, pkg/controllers/failure_policy.go of JobSet 0.11.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from webhook.objects.problem import Json
from webhook.pods.pods import Pod

POD_FAILURE_POLICY: Final = "PodFailurePolicy"  # the reason of a Job that a FailJob rule ended
# Bounds on the rules of a JobSet: its API bounds neither their number nor their size. Rules beyond them match nothing.
MOST_RULES: Final = 100
MOST_WORK: Final = 1_000  # instructions of the patterns' programs, for one message: up to 8 ms; a usual pattern has 70
UNREADABLE_WORK: Final = 200  # the work of a pattern that is invalid or too large: compiling it takes time too
LONGEST_PATTERN: Final = 1024  # characters
LONGEST_MESSAGE: Final = 1024  # characters: the Job controller's have at most 700, by the lengths of names
PATTERN_MEMORY: Final = 64 * 1024  # bytes, of one pattern: half of it for its program
PATTERNS_REMEMBERED: Final = 256


class JobEnd(NamedTuple):
    """How a Job has ended: reason and message of its condition Failed."""

    reason: str
    message: str


TOO_MANY_FAILURES: Final = JobEnd("BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_MANY_INDEXES: Final = JobEnd(
    "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = JobEnd("FailedIndexes", "Job has failed indexes")
OVERDUE: Final = JobEnd("DeadlineExceeded", "Job was active longer than specified deadline")


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """The onExitCodes of a rule.

    `container`: its name, None for all containers. `excluding`: whether the operator is NotIn. `values`: the codes.
    """

    container: str | None
    excluding: bool
    values: frozenset[int]

    def match(self, code: int) -> bool:
        """Return True if the exit code of a container that the rule is about satisfies it."""
        return code != 0 and (code in self.values) != self.excluding


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """The rule that a pod matches: its index among the rules, its action, and the container that matched, if one did.

    `message`: that of the Job's condition if the action is FailJob.
    """

    index: int
    action: str
    message: str
    container: str | None = None


def match_by_job(spec: Json, pod: Pod) -> MatchedRule | None:
    """Return the first rule of the failure policy of a JobSpec that a failed pod matches; None as below."""
    return match((spec.get("podFailurePolicy") or {}).get("rules") or [], pod)


def match(rules: list[Json], pod: Pod) -> MatchedRule | None:
    """Return the first rule that a failed pod matches; None if it matches none, and so its failure counts."""
    for index, rule in enumerate(rules):
        exit_codes = exit_codes_of(rule)
        action = rule.get("action") or ""
        where = f"matching {action} rule at index {index}"
        if exit_codes is not None:
            for one in pod.exits:
                if exit_codes.container in {None, one.container} and exit_codes.match(one.code):
                    said = f"Container {one.container} for pod {pod.namespace}/{pod.name} failed with exit code"
                    return MatchedRule(index, action, f"{said} {one.code} {where}", one.container)
        else:
            patterns = conditions_of(rule)
            for condition in pod.conditions:
                if (condition.type, condition.status) in patterns:
                    said = f"Pod {pod.namespace}/{pod.name} has condition {condition.type}"
                    return MatchedRule(index, action, f"{said} {where}")
    return None


def exit_codes_of(rule: Json) -> ExitCodes | None:
    """Return a rule's onExitCodes; None if it has none."""
    requirement = rule.get("onExitCodes")
    if requirement is None:
        return None
    values = frozenset(requirement.get("values") or ())
    return ExitCodes(requirement.get("containerName"), requirement.get("operator") == "NotIn", values)


def conditions_of(rule: Json) -> frozenset[tuple[str, str]]:
    """Return type and status of each of a rule's onPodConditions."""
    patterns = [pattern or {} for pattern in rule.get("onPodConditions") or ()]
    return frozenset((pattern.get("type") or "", pattern.get("status") or "True") for pattern in patterns)


def action_of_set(job_set: Json, replicated_job: str, message: str) -> str:
    """Return the action of a JobSet after one of its Jobs failed by its podFailurePolicy with a message."""
    return rule_of_set(job_set, replicated_job, JobEnd(POD_FAILURE_POLICY, message))[1]


@dataclass(slots=True)
class Work:
    """How much work is left to match the rules of a JobSet: one each, one a pattern, and the patterns' instructions."""

    left: int = MOST_WORK
    found: dict[tuple[str, str], bool | None] = field(default_factory=dict)

    def finds(self, pattern: str, message: str) -> bool | None:
        """Return whether a message matches a pattern; None if that takes too much work, or the pattern is invalid."""
        key = pattern, message
        self.left -= 1
        if key not in self.found:
            self.left -= _work_of(pattern)
            readable = self.left >= 0 and _program_of(pattern) is not None
            self.found[key] = _is_found(pattern, message) if readable else None
        return self.found[key]


def rule_of_set(
    job_set: Json, replicated_job: str, end: JobEnd, work: Work | None = None, feared: str = ""
) -> tuple[int | None, str]:
    """Return the index and the action of the first rule of a JobSet that matches the end of one of its Jobs.

    If no rule matches, the index is None and the action is the default. `feared`: the end of some actions' names. If
    the bounds do not allow to find out whether a rule matches, it counts as a match if its action ends so.
    """
    work = Work() if work is None else work
    policy = (job_set.get("spec") or {}).get("failurePolicy") or {}
    for index, rule in enumerate(islice(policy.get("rules") or (), MOST_RULES)):
        action = str(rule.get("action") or "")
        is_feared = bool(feared) and action.endswith(feared)
        work.left -= 1
        if end.reason not in (rule.get("onJobFailureReasons") or (end.reason,)):
            continue
        if replicated_job not in (rule.get("targetReplicatedJobs") or (replicated_job,)):
            continue
        patterns = rule.get("onJobFailureMessagePatterns")
        if not patterns:
            return index, action
        for pattern in patterns:
            found = is_feared if work.left < 0 else work.finds(pattern, end.message)
            if found or (found is None and is_feared):
                return index, action
            if work.left < 0:
                break
    return None, "RestartJobSet" if policy.get("maxRestarts") else "FailJobSet"


def _is_found(pattern: str, message: str) -> bool:
    """Return True if a message matches a pattern for the JobSet controller; a pattern beyond the bounds never matches.

    That controller uses Go's regular expressions, which have the syntax and the meaning of RE2.
    """
    program = _program_of(pattern)
    return program is not None and program.search(message[:LONGEST_MESSAGE]) is not None


def _work_of(pattern: str) -> int:
    """Return the work of a pattern; the time to match one message is at most proportional to it."""
    program = _program_of(pattern)
    return UNREADABLE_WORK if program is None else int(program.programsize)


def _program_of(pattern: str) -> Any:
    return _compiled(pattern) if len(pattern) <= LONGEST_PATTERN else None


@lru_cache(PATTERNS_REMEMBERED)
def _compiled(pattern: str) -> Any:
    """Compile a pattern by google-re2, which matches any pattern in linear time; Python's `re` does not."""
    import re2  # noqa: PLC0415 - most commands do not need it

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
