"""Injects rules into a Job's podFailurePolicy, so that a disruption costs no retry and a bug fails the Job at once.

Reads, in the JobSpec:
    podFailurePolicy.rules, podReplacementPolicy, backoffLimitPerIndex, backoffLimit, maxFailedIndexes, successPolicy,
    completions, parallelism, completionMode, suspend, managedBy, template.spec.restartPolicy,
    template.spec.containers[*].name,
    template.metadata.annotations[kubectl.kubernetes.io/default-container],
    template.spec.{containers,initContainers}[*].name, by webhook/systems/job/rules/failure_costs.py
in its metadata:
    labels or annotations[kueue.x-k8s.io/queue-name], ownerReferences
    annotations[retry-policy.dev/{retry-of,stays-suspended}]
and the traits of the kind's spec
Writes:
    podFailurePolicy.rules, podReplacementPolicy
    template.spec.restartPolicy, by webhook/systems/job/rules/restart_policy.py
"""

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Json, Problem
from webhook.pods import matching
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule, where_jobs_get_policies
from webhook.systems.core import KILLED, SIGNALLED
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_costs, restart_policy, schema
from webhook.systems.job.rules.lint import DISRUPTION, FAILING
from webhook.systems.kind_spec import EmbeddedJob
from webhook.systems.kueue import is_queued

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("podFailurePolicy",), ("podReplacementPolicy",), restart_policy.FIELD)


class Wanted(NamedTuple):
    """What the failure policy of one Job should do."""

    disruption_action: str  # Ignore, Count, or FailJob if a disruption restarts the Job's JobSet
    fails_bugs: bool = True  # whether a bug may fail the Job at once; False in a JobSet that would restart then
    keeps_indexes: bool = False  # whether the author's rules keep their indexes, which rules of the JobSet may name
    restart_policy_said: bool = True  # whether the author wrote the restartPolicy, not JobSet's webhook
    counted: bool = False  # whether the ledger counts the pods of the Job, and so limits those that cost nothing


def edit(job: EmbeddedJob, settings: Settings, editor: Editor, wanted: Wanted) -> list[Problem]:
    """Inject the rules of the profile; return warnings about rules that could not be injected."""
    policy = settings.profile.failure_policy
    own = job.spec.get("podFailurePolicy")
    if policy.inject == "Never" or (policy.inject == "IfAbsent" and own is not None):
        return []
    if any(schema.policy_problems(job.spec, ())):
        return []  # /validate denies it, and numbers the author's own rules in its message
    if not job.pod_spec:
        return []  # the API server refuses it
    kept = restart_policy.edit(job, settings, editor, said=wanted.restart_policy_said)
    if job.pod_spec.get("restartPolicy") != "Never":
        return kept  # OnFailure, with which no policy is allowed, or a value that the API server refuses

    disruption_action = action_on_disruption(job, settings, wanted)
    author_rules: list[Json] = (own or {}).get("rules") or []
    disruption = [] if any(matches_disruption(rule) for rule in author_rules) else [disruption_rule(disruption_action)]
    exit_codes, warnings = exit_code_rules(job, settings, author_rules) if wanted.fails_bugs else ([], [])
    if settings.on_failure:
        exit_codes = with_costs(job, settings, wanted, author_rules, exit_codes)
        warnings += failure_costs.index_warnings(job, settings) if wanted.fails_bugs and is_judged(job) else []
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
    """Insert the disruption rules at the index `first` and append the exit-code rules; set podReplacementPolicy.

    The API server requires podReplacementPolicy Failed beside a podFailurePolicy. It has already set the default
    TerminatingOrFailed in a Job without a policy. If the field is absent, the API server sets the right default itself.
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
    """Return the rule for pods with the condition DisruptionTarget."""
    condition, status = DISRUPTION
    return {"action": action, "onPodConditions": [{"type": condition, "status": status}]}


def action_on_disruption(job: EmbeddedJob, settings: Settings, wanted: Wanted) -> str:
    """Return the action of the rule for disruptions in one Job."""
    action = wanted.disruption_action
    if action != "FailJob":
        return action
    fatal = settings.disruption_action == "FailJob"
    if batch.has_index_budgets(job.spec):  # the other indexes do not depend on this one
        return "FailIndex" if fatal else settings.disruption_action
    return settings.profile.disruptions.action if fatal and not is_judged(job) else action


def with_costs(
    job: EmbeddedJob, settings: Settings, wanted: Wanted, author_rules: list[Json], bugs: list[Json]
) -> list[Json]:
    """Return the rules by which a bug fails a Job after those of `onFailure`, each as far as the API can judge it."""
    bugs = failure_costs.without_unsure(bugs, job, settings)
    fails = wanted.fails_bugs and is_judged(job) and not is_settled(job, settings)
    spared = SIGNALLED if may_be_suspended_or_scaled(job) else ()
    added = failure_costs.rules(job, settings, fails=fails, counted=wanted.counted, spared=spared)
    return [*failure_costs.with_effect(added, author_rules, bugs), *bugs]


def is_judged(job: EmbeddedJob) -> bool:
    """Return False for a Job that failures of its pods do not fail: a launcher, or one that may succeed after them."""
    return not (job.traits.depends_elsewhere or tolerates_failures(job.spec))


def without_ours(job: EmbeddedJob, settings: Settings) -> list[Json]:
    """Return the rules of a stored Job without those that equal what the profile injects into it."""
    actions = (settings.disruption_action, settings.profile.disruptions.action, *FAILING)
    bugs = bug_rules(job, settings, [])[0]
    ours = [*map(disruption_rule, actions), *bugs, *failure_costs.without_unsure(bugs, job, settings)]
    for fails, counted, spared in product((True, False), (True, False), ((), SIGNALLED)):
        ours += failure_costs.rules(job, settings, fails=fails, counted=counted, spared=spared)
    return [rule for rule in (job.spec.get("podFailurePolicy") or {}).get("rules") or [] if rule not in ours]


def exit_code_rules(job: EmbeddedJob, settings: Settings, author_rules: list[Json]) -> tuple[list[Json], list[Problem]]:
    """Return a rule for each container whose bugs fail the Job at once, and warnings.

    None if the ledger decides about crashes, nor if pods depend on each other, unless the profile has `coupled:
    FailJob`: such a crash may be the consequence of a disruption.
    """
    if is_coupled(job) and settings.profile.failure_policy.coupled != "FailJob":
        return [], []
    return ([], []) if is_settled(job, settings) else bug_rules(job, settings, author_rules)


def is_settled(job: EmbeddedJob, settings: Settings) -> bool:
    """Return True if the ledger decides whether a crash is a bug or the consequence of a disruption.

    It also does so for a Job in a queue. Kueue suspends a Job to take its pods back. The Job controller would judge any
    exit code with which they end on SIGTERM (getFailJobMessage in pkg/controller/job/job_controller.go); torchrun's
    is 1.
    """
    policy = settings.profile.failure_policy
    if policy.coupled != "Settle" or policy.inject != "Merge" or settings.skip:
        return False
    if job.traits.depends_elsewhere or batch.has_index_budgets(job.spec):
        return False
    return is_coupled(job) or is_queued(job.metadata)


def bug_rules(job: EmbeddedJob, settings: Settings, author_rules: list[Json]) -> tuple[list[Json], list[Problem]]:
    """Return the rules by which a bug fails the Job, even if its pods depend on each other; and warnings."""
    if tolerates_failures(job.spec):  # with FailJob, each of these failures would fail the Job
        return [], []
    # A launcher or submitter ends with 1 when it loses a pod or its connection to one; its retries are for that.
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
            # 0 is a valid value of NotIn, and no failed container has it: NotIn [0] matches every failure.
            "onExitCodes": {"containerName": name, "operator": "NotIn", "values": sorted(retriable) or [0]},
        }
        for name in uncovered(containers, author_rules)[: bounds.MAX_RULES + 1]  # one too many: none is injected
    ], warnings


def judged_containers(job: EmbeddedJob) -> tuple[list[str], list[Problem]]:
    """Return the containers whose exit codes count: the default container if one is set, else all regular ones.

    Not init containers: they wait for, fetch and unpack what others provide, and their codes are those of such tools,
    where 1 most often means that it was not there yet. They cost a retry, so `retries.limit` bounds them.
    """
    containers = [container["name"] for container in job.pod_spec.get("containers") or () if container.get("name")]
    default = job.pod_annotations.get(DEFAULT_CONTAINER)
    if default is None:
        return containers, []
    if default in containers:
        return [default], []
    path = (*job.path, "template", "metadata", "annotations", DEFAULT_CONTAINER)
    return containers, [Problem(path, f"no container {default[:40]!r}", "name one that exists")]


def uncovered(containers: list[str], author_rules: list[Json]) -> list[str]:
    """Return the containers for which no rule of the author decides about every exit code."""
    if not author_rules:
        return containers
    covered = {(rule["onExitCodes"].get("containerName") or "") for rule in author_rules if tells_bugs(rule)}
    return [] if "" in covered else [name for name in containers if name not in covered]


def tells_bugs(rule: Json) -> bool:
    """Return True if a rule decides about every exit code whether it is worth a retry.

    `NotIn` does. So does a list of codes that fail the Job or its index: all other codes are worth a retry then,
    because the API counts failures that no rule matches. A list that is counted or ignored says nothing about others.
    """
    requirement = rule.get("onExitCodes") or {}
    return requirement.get("operator") == "NotIn" or (bool(requirement) and rule.get("action") in FAILING)


def is_coupled(job: EmbeddedJob) -> bool:
    """Return True if the pods of a Job, or of its set, depend on each other: the loss of one makes the others fail."""
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
    """Return True if a Job is a work queue: parallelism without completions. Without both, the API sets both to 1."""
    return spec.get("completions") is None and spec.get("parallelism") is not None


def has_back_off(spec: Json) -> bool:
    """Return True if a JobSpec has backoffLimitPerIndex only for its back-off."""
    return spec.get("backoffLimitPerIndex") is not None and not batch.has_index_budgets(spec)


def may_be_suspended_or_scaled(job: EmbeddedJob) -> bool:
    """Return True if something other than the platform may delete this Job's pods.

    They then end with 137 and without DisruptionTarget, and the Job controller judges them.
    """
    spec = job.spec
    foreign = (spec.get("managedBy") or batch.CONTROLLER) != batch.CONTROLLER
    completions = spec.get("completions")
    elastic = (
        job.traits.scalable
        and spec.get("completionMode") == "Indexed"
        and completions is not None
        and completions == spec.get("parallelism")
        and not (completions == 1 and has_back_off(spec))  # Indexed only for its back-off: not scaled
    )
    annotations = job.metadata.get("annotations") or {}
    is_resumed = names.RETRY_OF in annotations and names.STAYS_SUSPENDED not in annotations  # by the requested retry
    suspended = bool(spec.get("suspend")) and not is_resumed
    return job.traits.suspendable or suspended or is_queued(job.metadata) or foreign or elastic


def _gets_rules(context: "JobContext") -> bool:
    """Return False for a skipped object, and for one that will be denied: its problems count the author's rules."""
    return not context.settings.skip and not context.will_be_denied


def _edit(context: "JobContext") -> list[Problem]:
    """Inject a failure policy, except into a Job that runs once; warn once what the author's retries mean."""
    had_policy = context.job.spec.get("podFailurePolicy") is not None
    warnings: list[Problem] = []
    if not context.runs_once:
        warnings = edit(context.job, context.settings, context.editor, context.wanted())
    return warnings + context.warnings_about_retries(had_policy=had_policy)


# First of the rules for Jobs, because those after it depend on the failure policy that will be stored.
RULE: Final[Rule["JobContext"]] = Rule(
    name="failure_policy",
    applies_to="each Job",
    applies=_gets_rules,
    edit=_edit,
    writes=where_jobs_get_policies(*WRITES),
)
