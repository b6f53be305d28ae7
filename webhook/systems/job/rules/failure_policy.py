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
STALLED: Final = (names.STALLED, "True")


# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("podFailurePolicy",), ("podReplacementPolicy",), restart_policy.FIELD)


class Wanted(NamedTuple):
    """What the failure policy of one Job should do."""

    disruption_action: str  # Ignore, Count, or FailJob if a disruption restarts the Job's JobSet
    fails_bugs: bool = True  # whether a bug may fail the Job at once; False in a JobSet that would restart then
    keeps_indexes: bool = False  # whether the author's rules keep their indexes, which rules of the JobSet may name
    restart_policy_said: bool = True  # whether the author wrote the restartPolicy, not JobSet's webhook
    counted: bool = False  # whether the ledger counts the pods of the Job, and so limits those that cost nothing


class FailureTraits(NamedTuple):
    """What decides how the failures of a Job's pods are judged, as its JobSpec says it."""

    by_index: bool  # whether each completion index has retries of its own
    coupled: bool  # whether its pods, or those of its set, depend on each other: the loss of one makes the others fail
    queued: bool  # whether it is in a queue of Kueue, which suspends it to take its pods back
    fails_on_pod_failure: bool  # False for a launcher, and for one that may succeed after failures of its pods
    may_be_killed: bool  # whether something other than the platform may delete its pods


def traits_of(job: EmbeddedJob) -> FailureTraits:
    """Return the traits of a Job by which the failures of its pods are judged."""
    spec, traits = job.spec, job.traits
    by_index, queued = batch.has_index_budgets(spec), is_queued(job.metadata)
    coupled = traits.coupled or (batch.is_indexed(spec) and (spec.get("parallelism") or 1) > 1 and not by_index)
    fails = not (traits.depends_elsewhere or tolerates_failures(spec))
    killed = queued or _may_be_suspended_or_scaled(job, by_index=by_index)
    return FailureTraits(by_index, coupled, queued, fails, killed)


def tolerates_failures(spec: Json) -> bool:
    """Return True if a Job may succeed after failures of its pods: with a successPolicy, or as a work queue.

    A work queue has parallelism without completions. Without both, the API sets both to 1.
    """
    return spec.get("successPolicy") is not None or (
        spec.get("completions") is None and spec.get("parallelism") is not None
    )


def _may_be_suspended_or_scaled(job: EmbeddedJob, *, by_index: bool) -> bool:
    """Return True if something other than the platform may delete this Job's pods.

    They then end with 137 and without DisruptionTarget, and the Job controller judges them.
    """
    spec, completions = job.spec, job.spec.get("completions")
    has_back_off = spec.get("backoffLimitPerIndex") is not None and not by_index  # for the back-off alone
    elastic = (
        job.traits.scalable
        and batch.is_indexed(spec)
        and completions is not None
        and completions == spec.get("parallelism")
        and not (completions == 1 and has_back_off)  # Indexed only for its back-off: not scaled
    )
    annotations = job.metadata.get("annotations") or {}
    is_resumed = names.RETRY_OF in annotations and names.STAYS_SUSPENDED not in annotations  # by the requested retry
    suspended = bool(spec.get("suspend")) and not is_resumed
    return job.traits.suspendable or suspended or elastic or not batch.is_of_job_controller(spec)


def edit(job: EmbeddedJob, settings: Settings, editor: Editor, wanted: Wanted) -> list[Problem]:
    """Inject the rules of the profile; return warnings about rules that could not be injected."""
    policy = settings.profile.failure_policy
    own = job.spec.get("podFailurePolicy")
    if policy.inject != "Merge" and (policy.inject == "Never" or own is not None):
        return []
    if any(schema.policy_problems(job.spec, ())):
        return []  # /validate denies it, and numbers the author's own rules in its message
    if not job.pod_spec:
        return []  # the API server refuses it
    kept = restart_policy.edit(job, settings, editor, said=wanted.restart_policy_said)
    if job.pod_spec.get("restartPolicy") != "Never":
        return kept  # OnFailure, with which no policy is allowed, or a value that the API server refuses

    traits = traits_of(job)
    disruption_action = _action_on_disruption(traits, settings, wanted)
    author_rules: list[Json] = (own or {}).get("rules") or []
    disruption = [] if any(matches_disruption(rule) for rule in author_rules) else [_disruption_rule(disruption_action)]
    if settings.profile.stall_timeout is not None and len(author_rules) + len(disruption) < bounds.MAX_RULES:
        disruption.append(stall_rule())
    exit_codes, warnings = _exit_code_rules(job, traits, settings, author_rules) if wanted.fails_bugs else ([], [])
    if settings.on_failure:
        exit_codes = _with_costs(job, traits, settings, wanted, author_rules, exit_codes)
        if wanted.fails_bugs and traits.fails_on_pod_failure and traits.by_index:
            warnings += failure_costs.index_warnings(job, settings)
    rules = (*job.path, "podFailurePolicy", "rules")
    if len(author_rules) + len(disruption) + len(exit_codes) > bounds.MAX_RULES:
        exit_codes = []
        what = f"more than {bounds.MAX_RULES} with those of the policy, which were left out"
        warnings = [Problem(rules, what, "merge some of yours")]
        if len(author_rules) + len(disruption) > bounds.MAX_RULES:
            disruption = []
    _inject(editor, job, disruption, exit_codes, first=len(author_rules) if wanted.keeps_indexes else 0)
    return kept + warnings


def _inject(editor: Editor, job: EmbeddedJob, disruption: list[Json], exit_codes: list[Json], *, first: int) -> None:
    """Insert the disruption rules at the index `first` and append the exit-code rules; set podReplacementPolicy.

    The API server requires podReplacementPolicy Failed beside a podFailurePolicy. It has already set the default
    TerminatingOrFailed in a Job without a policy. If the field is absent, the API server sets the right default itself.
    """
    rules = (*job.path, "podFailurePolicy", "rules")
    if not job.spec.get("podFailurePolicy"):
        if disruption or exit_codes:
            editor.set((*job.path, "podFailurePolicy"), {"rules": [*disruption, *exit_codes]})
    else:
        for rule in reversed(disruption):
            editor.insert(rules, first, rule)
        for rule in exit_codes:
            editor.append(rules, rule)
    replacement = job.spec.get("podReplacementPolicy")
    if job.spec.get("podFailurePolicy") is not None and replacement not in {None, "Failed"}:
        editor.set((*job.path, "podReplacementPolicy"), "Failed")


def matches_disruption(rule: Json) -> bool:
    """Return True if a rule matches the condition DisruptionTarget=True."""
    return DISRUPTION in matching.conditions_of(rule)


def _disruption_rule(action: str, on: tuple[str, str] = DISRUPTION) -> Json:
    condition, status = on
    return {"action": action, "onPodConditions": [{"type": condition, "status": status}]}


def stall_rule() -> Json:
    """Return the rule by which a stalled attempt costs a retry, whatever its containers make of the signal.

    A program that hangs is killed.
    """
    return _disruption_rule("Count", STALLED)


def _action_on_disruption(traits: FailureTraits, settings: Settings, wanted: Wanted) -> str:
    action = wanted.disruption_action
    if action != "FailJob":
        return action
    fatal = settings.disruption_action == "FailJob"
    if traits.by_index:  # the other indexes do not depend on this one
        return "FailIndex" if fatal else settings.disruption_action
    return settings.profile.disruptions.action if fatal and not traits.fails_on_pod_failure else action


def _with_costs(  # noqa: PLR0913, PLR0917 - all that decides
    job: EmbeddedJob,
    traits: FailureTraits,
    settings: Settings,
    wanted: Wanted,
    author_rules: list[Json],
    bugs: list[Json],
) -> list[Json]:
    """Return the rules by which a bug fails a Job after those of `onFailure`, each as far as the API can judge it."""
    bugs = failure_costs.without_unsure(bugs, settings, by_index=traits.by_index)
    fails = wanted.fails_bugs and traits.fails_on_pod_failure and not is_settled(job, settings, traits)
    spared = SIGNALLED if traits.may_be_killed else ()
    failing = failure_costs.failing(fails=fails, by_index=traits.by_index)
    added = failure_costs.rules(job, settings, failing=failing, counted=wanted.counted, spared=spared)
    return [*failure_costs.with_effect(added, author_rules, bugs), *bugs]


def without_ours(job: EmbeddedJob, settings: Settings) -> list[Json]:
    """Return the rules of a stored Job without those that equal what the profile injects into it."""
    actions = (settings.disruption_action, settings.profile.disruptions.action, *FAILING)
    bugs, by_index = bug_rules(job, settings, [])[0], batch.has_index_budgets(job.spec)
    unsure = failure_costs.without_unsure(bugs, settings, by_index=by_index)
    ours = [*map(_disruption_rule, actions), stall_rule(), *bugs, *unsure]
    failing = failure_costs.failing(fails=True, by_index=by_index)
    for action, counted, spared in product((failing, "Count"), (True, False), ((), SIGNALLED)):
        ours += failure_costs.rules(job, settings, failing=action, counted=counted, spared=spared)
    return [rule for rule in (job.spec.get("podFailurePolicy") or {}).get("rules") or [] if rule not in ours]


def _exit_code_rules(
    job: EmbeddedJob, traits: FailureTraits, settings: Settings, author_rules: list[Json]
) -> tuple[list[Json], list[Problem]]:
    """Return a rule for each container whose bugs fail the Job at once, and warnings.

    None if the ledger decides about crashes, nor if pods depend on each other, unless the profile has `coupled:
    FailJob`: such a crash may be the consequence of a disruption.
    """
    if traits.coupled and settings.profile.failure_policy.coupled != "FailJob":
        return [], []
    return ([], []) if is_settled(job, settings, traits) else bug_rules(job, settings, author_rules, traits)


def is_settled(job: EmbeddedJob, settings: Settings, traits: FailureTraits | None = None) -> bool:
    """Return True if the ledger decides whether a crash is a bug or the consequence of a disruption.

    It also does so where a fault of its node may explain one.
    It also does so for a Job in a queue. Kueue suspends a Job to take its pods back. The Job controller would judge any
    exit code with which they end on SIGTERM (getFailJobMessage in pkg/controller/job/job_controller.go); torchrun's
    is 1.
    """
    policy = settings.profile.failure_policy
    if policy.coupled != "Settle" or policy.inject != "Merge" or settings.skip:
        return False
    traits = traits or traits_of(job)
    if not (traits.coupled or traits.queued or policy.hardware):
        return False
    return not (job.traits.depends_elsewhere or traits.by_index)


def bug_rules(
    job: EmbeddedJob, settings: Settings, author_rules: list[Json], traits: FailureTraits | None = None
) -> tuple[list[Json], list[Problem]]:
    """Return the rules by which a bug fails the Job, even if its pods depend on each other; and warnings."""
    traits = traits or traits_of(job)
    # With FailJob, each failure would fail a Job that tolerates failures. A launcher or submitter ends with 1 when it
    # loses a pod or its connection to one; its retries are for that.
    if not traits.fails_on_pod_failure:
        return [], []
    containers, warnings = _judged_containers(job)
    retriable = set(settings.profile.failure_policy.retriable_exit_codes)
    if traits.may_be_killed:
        retriable.add(KILLED)
    action = failure_costs.failing(fails=True, by_index=traits.by_index)
    return [
        {
            "action": action,
            # 0 is a valid value of NotIn, and no failed container has it: NotIn [0] matches every failure.
            "onExitCodes": {"containerName": name, "operator": "NotIn", "values": sorted(retriable) or [0]},
        }
        for name in _uncovered(containers, author_rules)[: bounds.MAX_RULES + 1]  # one too many: none is injected
    ], warnings


def _judged_containers(job: EmbeddedJob) -> tuple[list[str], list[Problem]]:
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


def _uncovered(containers: list[str], author_rules: list[Json]) -> list[str]:
    """Return the containers for which no rule of the author decides about every exit code."""
    if not author_rules:
        return containers
    covered = {
        (rule["onExitCodes"].get("containerName") or "") for rule in author_rules if _classifies_every_code(rule)
    }
    return [] if "" in covered else [name for name in containers if name not in covered]


def _classifies_every_code(rule: Json) -> bool:
    """Return True if a rule decides about every exit code whether it is worth a retry.

    `NotIn` does. So does a list of codes that fail the Job or its index: all other codes are worth a retry then,
    because the API counts failures that no rule matches. A list that is counted or ignored says nothing about others.
    """
    requirement = rule.get("onExitCodes") or {}
    return requirement.get("operator") == "NotIn" or (bool(requirement) and rule.get("action") in FAILING)


def _edit(context: "JobContext") -> list[Problem]:
    """Inject a failure policy, except into a Job that runs once; warn once what the author's retries mean."""
    had_policy = context.job.spec.get("podFailurePolicy") is not None
    warnings: list[Problem] = []
    if not context.runs_once:
        warnings = edit(context.job, context.settings, context.editor, context.wanted())
    return warnings + context.warnings_about_retries(had_policy=had_policy)


# Before the rules for Jobs that depend on the failure policy that will be stored.
RULE: Final[Rule["JobContext"]] = Rule(
    name="failure_policy",
    applies_to="each Job",
    applies=lambda context: not context.will_be_denied,  # its problems count the author's rules
    edit=_edit,
    writes=where_jobs_get_policies(*WRITES),
)
