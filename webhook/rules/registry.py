"""Every rule, in the order in which the rules are applied: first those that edit objects, then those that deny them.

In a workload, the rules for JobSpecs are applied to each of its Jobs in turn, then the rules for its other fields. The
file of each rule says what it reads and edits, why, and when it applies.
"""

from functools import cache
from typing import Final

from webhook.objects.patch import Pattern
from webhook.rules import annotations, limits, owner, retries
from webhook.rules.contexts import JobContext, PodContext, UnplacedPod, ValidationContext, WorkloadContext
from webhook.rules.pods import decision, delay, environment, last_words, memory, nodes
from webhook.rules.rule import Rule
from webhook.systems.argo import rules as argo
from webhook.systems.job.rules import back_off, failure_policy, many_pods, schema, single_pod, timeouts
from webhook.systems.job_set.rules import free_restarts, job_set
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow import rules as kubeflow
from webhook.systems.trainer import rules as train_job
from webhook.systems.volcano import rules as volcano

JOB_RULES: Final[tuple[Rule[JobContext], ...]] = (
    many_pods.RULE,
    failure_policy.RULE,
    free_restarts.IN_JOB,
    retries.IN_JOB,
    single_pod.RULE,
    back_off.IN_JOB,
    timeouts.IN_JOB,
    annotations.IN_JOB,
)
WORKLOAD_RULES: Final[tuple[Rule[WorkloadContext], ...]] = (
    job_set.RULE,
    kubeflow.RULE,
    volcano.RULE,
    free_restarts.IN_SET,
    retries.IN_WORKLOAD,
    argo.RULE,
    timeouts.IN_WORKLOAD,
    train_job.RULE,
    annotations.IN_WORKLOAD,
)
POD_RULES: Final[tuple[Rule[PodContext], ...]] = (
    back_off.IN_POD,
    nodes.RULE,
    memory.RULE,
    delay.RULE,
    decision.RULE,
    environment.RULE,
    last_words.RULE,
)
UNPLACED_POD_RULES: Final[tuple[Rule[UnplacedPod], ...]] = (decision.OF_UNPLACED,)
VALIDATING_RULES: Final[tuple[Rule[ValidationContext], ...]] = (
    annotations.JUDGED,
    owner.OF_LABELS,
    limits.RULE,
    schema.RULE,
)
CONTROLLED: Final[Rule[ValidationContext]] = owner.OF_CONTROLLER


@cache
def pod_rules(asked: bool, variables: bool, words: bool) -> tuple[Rule[PodContext], ...]:  # noqa: FBT001
    """Return the rules for pods that may have something to do for one of them.

    `asked`: whether rules of onFailure ask for memory or a delay. `variables`, `words`: whether the profile wants the
    environment, and last words.
    """
    idle = {
        *(() if asked else (memory.RULE, delay.RULE)),
        *(() if variables else (environment.RULE,)),
        *(() if words else (last_words.RULE,)),
    }
    return tuple(rule for rule in POD_RULES if rule not in idle)


@cache
def job_rules(kind: KindSpec, by_index: bool, is_skipped: bool) -> tuple[Rule[JobContext], ...]:  # noqa: FBT001
    """Return the rules for a JobSpec of a kind: those that write something in it.

    `by_index`: whether the profile lets a bug end an index of a Job of many pods. `is_skipped`: whether its author
    skips the Job.
    """
    rules = (rule for rule in JOB_RULES if by_index or rule is not many_pods.RULE)
    return tuple(rule for rule in rules if rule.writes(kind) and (rule.even_if_skipped or not is_skipped))


@cache
def workload_rules(kind: KindSpec, is_skipped: bool) -> tuple[Rule[WorkloadContext], ...]:  # noqa: FBT001
    """Return the rules for the other fields of a kind: those that write something in it.

    `is_skipped`: whether the annotations of the workload itself skip it.
    """
    return tuple(rule for rule in WORKLOAD_RULES if rule.writes(kind) and (rule.even_if_skipped or not is_skipped))


@cache
def written_by_rules(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return the patterns of all fields that rules write in a kind of workload, each once."""
    of_jobs = (pattern for rule in JOB_RULES for pattern in rule.writes(kind))
    beside = (pattern for rule in WORKLOAD_RULES for pattern in rule.writes(kind))
    return tuple(dict.fromkeys((*of_jobs, *beside)))
