"""Injects rules into a Job's podFailurePolicy: a disruption costs no retry, and a bug fails the Job at once.

Reads, in the JobSpec:
    podFailurePolicy.rules, podReplacementPolicy, backoffLimitPerIndex, backoffLimit, maxFailedIndexes, successPolicy,
    completions, parallelism, completionMode, suspend, managedBy, template.spec.restartPolicy,
    template.spec.containers[*].name,
    template.metadata.annotations[kubectl.kubernetes.io/default-container]
in its metadata:
    labels or annotations[kueue.x-k8s.io/queue-name], ownerReferences
    annotations[retry-policy.dev/{retry-of,stays-suspended}]
and the traits of the kind's row
Writes:
    podFailurePolicy.rules, podReplacementPolicy
    template.spec.restartPolicy, by webhook/rules/jobs/restart_policy.py
"""

from typing import Final, NamedTuple

from webhook.kinds import EmbeddedJob, batch
from webhook.kinds.batch import is_queued
from webhook.kube import names
from webhook.ledger.model import matching
from webhook.objects import bounds
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import Settings
from webhook.rules.jobs import restart_policy, schema
from webhook.rules.jobs.lint import DISRUPTION, FAILING, KILLED

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("podFailurePolicy",), ("podReplacementPolicy",), restart_policy.FIELD)


class Wanted(NamedTuple):
    """How the failure policy of one Job differs from that of others."""

    disruption_action: str  # Ignore, Count, or FailJob where a disruption restarts the JobSet that the Job belongs to
    fails_bugs: bool = True  # whether a bug may fail the Job at once; False in a JobSet that would restart for it
    keeps_indexes: bool = False  # whether the author's rules keep their indexes, which rules of the JobSet may name
    restart_policy_said: bool = True  # whether the author wrote the restartPolicy, not JobSet's webhook


def edit(job: EmbeddedJob, settings: Settings, editor: Editor, wanted: Wanted) -> list[Problem]:
    """Inject what the profile says; return warnings about what could not be."""
    policy = settings.profile.failure_policy
    own = job.spec.get("podFailurePolicy")
    if policy.inject == "Never" or (policy.inject == "IfAbsent" and own is not None):
        return []
    if any(schema.policy_problems(job.spec, ())):
        return []  # it will be refused, and is to be told the numbers that its author's own rules have
    if not job.pod_spec:
        return []  # it will be refused, as it stands
    kept = restart_policy.edit(job, settings, editor, said=wanted.restart_policy_said)
    if job.pod_spec.get("restartPolicy") != "Never":
        return kept  # what the API server refuses it explains better than we could

    disruption_action = wanted.disruption_action
    if disruption_action == "FailJob" and batch.has_index_budgets(job.spec):
        disruption_action = settings.profile.disruptions.action  # indexes stand for themselves: the others run on
    author_rules: list[Json] = (own or {}).get("rules") or []
    disruption = [] if any(matches_disruption(rule) for rule in author_rules) else [disruption_rule(disruption_action)]
    exit_codes, warnings = exit_code_rules(job, settings, author_rules) if wanted.fails_bugs else ([], [])
    rules = (*job.path, "podFailurePolicy", "rules")
    if len(author_rules) + len(disruption) + len(exit_codes) > bounds.MAX_RULES:
        exit_codes = []
        warnings = [
            Problem(
                rules,
                f"more than {bounds.MAX_RULES} with those of the policy, which were left out",
                "merge some of yours",
            )
        ]
    if len(author_rules) + len(disruption) > bounds.MAX_RULES:
        disruption = []
    inject(editor, job, disruption, exit_codes, first=len(author_rules) if wanted.keeps_indexes else 0)
    return kept + warnings


def inject(editor: Editor, job: EmbeddedJob, disruption: list[Json], exit_codes: list[Json], *, first: int) -> None:
    """Put the disruption rule at the index `first`, 0 but where the author's keep theirs, the exit-code rules last.

    The API server demands podReplacementPolicy Failed beside a podFailurePolicy, and has already defaulted it to
    TerminatingOrFailed where there was none. One that is absent it defaults rightly by itself.
    """
    rules = (*job.path, "podFailurePolicy", "rules")
    if not job.spec.get("podFailurePolicy"):
        if disruption or exit_codes:
            editor.set((*job.path, "podFailurePolicy"), {"rules": [*disruption, *exit_codes]})
    else:
        for rule in disruption:
            editor.insert(rules, first, rule)
        for rule in exit_codes:
            editor.append(rules, rule)
    replacement = job.spec.get("podReplacementPolicy")
    if job.spec.get("podFailurePolicy") is not None and replacement not in {None, "Failed"}:
        editor.set((*job.path, "podReplacementPolicy"), "Failed")


def matches_disruption(rule: Json) -> bool:
    """Return True if a rule matches the condition DisruptionTarget=True."""
    return DISRUPTION in matching.conditions_of(rule)


def disruption_rule(action: str) -> Json:
    """Make the rule for pods that ended through the platform."""
    condition, status = DISRUPTION
    return {"action": action, "onPodConditions": [{"type": condition, "status": status}]}


def exit_code_rules(job: EmbeddedJob, settings: Settings, author_rules: list[Json]) -> tuple[list[Json], list[Problem]]:
    """Make one rule for each container that must fail the Job at once and is not covered by its author.

    Where pods depend on each other the profile may want none: a crash may be the echo of a disruption. Nor where the
    ledger decides.
    """
    if is_coupled(job) and settings.profile.failure_policy.coupled != "FailJob":
        return [], []
    return ([], []) if is_settled(job, settings) else bug_rules(job, settings, author_rules)


def is_settled(job: EmbeddedJob, settings: Settings) -> bool:
    """Return True if the ledger decides what a crash is: a bug, or the echo of a disruption that it has counted.

    In a queue too: Kueue suspends a Job to take its pods back, and the Job controller judges by its rules the exit
    codes that they answer SIGTERM with (getFailJobMessage in pkg/controller/job/job_controller.go), torchrun with 1.
    """
    policy = settings.profile.failure_policy
    if policy.coupled != "Settle" or policy.inject != "Merge" or settings.skip:
        return False
    if job.traits.depends_elsewhere or batch.has_index_budgets(job.spec):
        return False
    return is_coupled(job) or is_queued(job.metadata)


def bug_rules(job: EmbeddedJob, settings: Settings, author_rules: list[Json]) -> tuple[list[Json], list[Problem]]:
    """Make the rules that tell a bug, whether pods depend on each other or not."""
    if tolerates_failures(job.spec):  # FailJob would make each a failure of the Job
        return [], []
    # A launcher or submitter ends with 1 when a pod goes, or a connection to it; its retries are for that.
    if job.traits.depends_elsewhere:
        return [], []
    containers, warnings = judged_containers(job)
    retriable = set(settings.profile.failure_policy.retriable_exit_codes)
    if may_be_suspended_or_scaled(job):
        retriable.add(KILLED)
    action = "FailIndex" if batch.has_index_budgets(job.spec) else "FailJob"
    return [
        {
            "action": action,
            # 0 is a legal value of NotIn, and never inspected: NotIn [0] is every failure.
            "onExitCodes": {"containerName": name, "operator": "NotIn", "values": sorted(retriable) or [0]},
        }
        for name in uncovered(containers, author_rules)[: bounds.MAX_RULES + 1]  # of one more than fit none is injected
    ], warnings


def judged_containers(job: EmbeddedJob) -> tuple[list[str], list[Problem]]:
    """Name the containers whose exit codes count: the default container where one is set, else all regular ones."""
    containers = [container["name"] for container in job.pod_spec.get("containers") or () if container.get("name")]
    default = job.pod_annotations.get(DEFAULT_CONTAINER)
    if default is None:
        return containers, []
    if default in containers:
        return [default], []
    path = (*job.path, "template", "metadata", "annotations", DEFAULT_CONTAINER)
    return containers, [Problem(path, f"no container {default[:40]!r}", "name one that exists")]


def uncovered(containers: list[str], author_rules: list[Json]) -> list[str]:
    """Name the containers of which no author's rule says which exit codes are not retriable."""
    if not author_rules:
        return containers
    covered = {(rule["onExitCodes"].get("containerName") or "") for rule in author_rules if tells_bugs(rule)}
    return [] if "" in covered else [name for name in containers if name not in covered]


def tells_bugs(rule: Json) -> bool:
    """Return True if a rule says of every exit code whether it is worth a retry.

    `NotIn` does. A list of codes that fail the Job, or its index, says that all others are worth one: the API counts
    what no rule matches. A list that is counted or ignored says nothing of the codes that are not in it.
    """
    requirement = rule.get("onExitCodes") or {}
    return requirement.get("operator") == "NotIn" or (bool(requirement) and rule.get("action") in FAILING)


def is_coupled(job: EmbeddedJob) -> bool:
    """Return True if the pods of a Job, or of its set, depend on each other, so that one's loss makes its peers fail."""
    spec = job.spec
    return job.traits.coupled or (
        spec.get("completionMode") == "Indexed"
        and (spec.get("parallelism") or 1) > 1
        and not batch.has_index_budgets(spec)
    )


def tolerates_failures(spec: Json) -> bool:
    """Return True if a Job may succeed after failures of its pods: with a successPolicy, or as a work queue."""
    return spec.get("successPolicy") is not None or is_work_queue(spec)


def is_work_queue(spec: Json) -> bool:
    """Return True if pods end by agreement: no completions; with parallelism absent too, the API makes both 1."""
    return spec.get("completions") is None and spec.get("parallelism") is not None


def has_back_off(spec: Json) -> bool:
    """Return True if a JobSpec has backoffLimitPerIndex for its back-off alone."""
    return spec.get("backoffLimitPerIndex") is not None and not batch.has_index_budgets(spec)


def may_be_suspended_or_scaled(job: EmbeddedJob) -> bool:
    """Return True if others delete this Job's pods: they end with 137, without DisruptionTarget, and are judged."""
    spec = job.spec
    foreign = (spec.get("managedBy") or batch.CONTROLLER) != batch.CONTROLLER
    completions = spec.get("completions")
    elastic = (
        job.traits.scalable
        and spec.get("completionMode") == "Indexed"
        and completions is not None
        and completions == spec.get("parallelism")
        and not (completions == 1 and has_back_off(spec))  # made Indexed for that alone: nobody scales it
    )
    annotations = job.metadata.get("annotations") or {}
    let_go = names.RETRY_OF in annotations and names.STAYS_SUSPENDED not in annotations  # it runs in a moment
    suspended = bool(spec.get("suspend")) and not let_go
    return job.traits.suspendable or suspended or is_queued(job.metadata) or foreign or elastic
