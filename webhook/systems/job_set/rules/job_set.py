"""Injects rules into a JobSet: it restarts after a disruption without spending maxRestarts, and fails at once on a bug.

Reads and writes, in the JobSetSpec:
    failurePolicy.rules
    failurePolicy.rules[*].{action,onJobFailureReasons,onJobFailureMessagePatterns,targetReplicatedJobs}
Reads:
    failurePolicy.{maxRestarts,restartStrategy}, replicatedJobs[*].{name,replicas},
    replicatedJobs[*].template.spec.podFailurePolicy

If any rule of its podFailurePolicy fails a Job, the reason is PodFailurePolicy. Only the message says which rule it
was (pkg/controller/job/job_controller.go of Kubernetes: "... has condition DisruptionTarget matching FailJob rule at
index 0"). A JobSet can match it if its CRD has onJobFailureMessagePatterns. An older CRD drops this field, and the rule
without it would restart the set for every bug, for ever. The actions RestartJob and RestartJobAndIgnoreMaxRestarts
restart only the failed Job, from JobSet 0.12 on, if the feature gate RestartJob of its controller is on.
"""

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from webhook.objects.patch import Pattern, at
from webhook.objects.problem import Json, Path, Problem
from webhook.pods import matching
from webhook.pods.matching import MOST_RULES, POD_FAILURE_POLICY
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule
from webhook.systems.job.rules import lint
from webhook.systems.job_set.spec import FAIL_SET, FREE, JOB_SET, RESTART_JOB, RESTART_SET
from webhook.systems.kind_spec import EmbeddedJob, KindSpec

if TYPE_CHECKING:
    from webhook.rules.contexts import WorkloadContext

SPEC: Final[Path] = ("spec",)
REPLICATED_JOBS: Final[Path] = (*SPEC, "replicatedJobs")
POLICY_OF_JOB: Final[Path] = ("template", "spec", "podFailurePolicy")
RULES: Final[Path] = (*SPEC, "failurePolicy", "rules")
MAX_RESTARTS: Final[Path] = (*SPEC, "failurePolicy", "maxRestarts")
STRATEGY: Final[Path] = (*SPEC, "failurePolicy", "restartStrategy")
DISRUPTION_RULE: Final = "retryPolicyDisruption"
JOB_DISRUPTION_RULE: Final = "retryPolicyJobDisruption"
DISRUPTION_RULES: Final = (DISRUPTION_RULE, JOB_DISRUPTION_RULE)
BUG_RULE: Final = "retryPolicyBug"
REASONS: Final = (POD_FAILURE_POLICY,)
MESSAGE_OF_DISRUPTION: Final = "has condition DisruptionTarget matching FailJob"
# The message of a Job that a disruption has failed; names vary.
DISRUPTION: Final = f"Pod namespace/pod {MESSAGE_OF_DISRUPTION} rule at index 0"
# JobSet refuses the action RestartJob beside more replicas (maxReplicasPerReplicatedJob in pkg/webhooks).
MOST_REPLICAS: Final = 1024


def writes(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return the patterns that the rule writes in a kind: the failurePolicy of a JobSet, which it may create."""
    return (RULES[:-1],) if kind is JOB_SET else ()


class FailurePolicyRule(NamedTuple):
    """The part of a set's rule that decides about Jobs that a podFailurePolicy has failed.

    `targets`: names of replicated Jobs; empty for all. `patterns`: of messages; empty for all.
    """

    action: str
    targets: frozenset[str]
    patterns: tuple[str, ...]


def disruption_action(root: Json, settings: Settings, *, message_patterns: bool) -> str:
    """Return the action of the set's Jobs on a disruption: FailJob if the set shall restart, else the profile's.

    The set does not restart with InPlaceRestart, which replaces the pods, nor with a CRD without message patterns.
    """
    restart = (
        settings.profile.job_set.on_disruption != "RestartPod"
        and message_patterns
        and _may_inject(root, settings)
        and at(root, STRATEGY) != "InPlaceRestart"
    )
    return "FailJob" if restart else settings.disruption_action


def _edit(context: "WorkloadContext") -> list[Problem]:
    """Insert rules for disruptions before the author's rules, and append one for bugs; return warnings."""
    root, settings, editor, disruption = context.root, context.settings, context.editor, context.disruption_action
    judged = [one.get("name") or "" for one in at(root, REPLICATED_JOBS) or () if at(one, POLICY_OF_JOB)]
    if not judged or not _may_inject(root, settings):
        return []
    adds_bug = adds_bug_rule(root, settings)
    author_rules = rules_of(root)
    warnings: list[Problem] = []
    restarts = disruption == "FailJob" and settings.disruption_action != "FailJob"  # unless it is fatal
    if restarts and not any(rule.get("name") in DISRUPTION_RULES for rule in at(root, RULES) or ()):
        alone, warnings = _restarted_alone(root, author_rules, settings, restart_job=context.facts.restart_job)
        for rule in reversed(_disruption_rules(root, alone, settings)):
            editor.insert(RULES, 0, rule)
    catch_all = [rule for rule in author_rules if not rule.patterns]
    if adds_bug and not all(action_for(catch_all, name) for name in judged):
        editor.append(RULES, {"name": BUG_RULE, "action": FAIL_SET, "onJobFailureReasons": [*REASONS]})
    return warnings


def _disruption_rules(root: Json, alone: list[str], settings: Settings) -> list[Json]:
    """Return the rules for disruptions; `alone`: the replicated Jobs of which only the failed Job restarts."""
    cost = "" if settings.disruption_action == "Count" else FREE
    match = {"onJobFailureReasons": [*REASONS], "onJobFailureMessagePatterns": [MESSAGE_OF_DISRUPTION]}
    if alone == replicated_jobs(root):
        return [{"name": DISRUPTION_RULE, "action": RESTART_JOB + cost, **match}]
    rule = {"name": DISRUPTION_RULE, "action": RESTART_SET + cost, **match}
    if not alone:
        return [rule]
    of_jobs = {"name": JOB_DISRUPTION_RULE, "action": RESTART_JOB + cost, **match, "targetReplicatedJobs": alone}
    return [of_jobs, rule]


def _restarted_alone(
    root: Json, author_rules: list[FailurePolicyRule], settings: Settings, *, restart_job: bool
) -> tuple[list[str], list[Problem]]:
    """Return the replicated Jobs of which a disruption restarts only the failed Job, and warnings.

    All of them if the profile says so, else those for which a rule of the set's author says so.
    """
    if settings.profile.job_set.on_disruption != RESTART_JOB:
        return _alone_by_author(replicated_jobs(root), author_rules), []
    why = _why_not_alone(root, restart_job=restart_job)
    return ([], [Problem(RULES, why, "a disruption restarts the whole set")]) if why else (replicated_jobs(root), [])


def _why_not_alone(root: Json, *, restart_job: bool) -> str:
    """Return why no Job of a set can be restarted alone; empty if each can."""
    if not restart_job:
        return "the CRD of JobSets has no action RestartJob"
    most = max(one.get("replicas") or 0 for one in at(root, REPLICATED_JOBS))
    return f"no Job of more than {MOST_REPLICAS} can be restarted alone" if most > MOST_REPLICAS else ""


def _alone_by_author(replicated_jobs: list[str], rules: list[FailurePolicyRule]) -> list[str]:
    """Return the replicated Jobs of which a rule of the set's author restarts only the disrupted Job."""
    if not any(rule.action.removesuffix(FREE) == RESTART_JOB for rule in rules):
        return []  # the fast path: nearly all sets
    work = matching.Work()
    on_disruption = [
        rule for rule in rules if not rule.patterns or any(work.finds(one, DISRUPTION) for one in rule.patterns)
    ]
    return [name for name in replicated_jobs if action_for(on_disruption, name).removesuffix(FREE) == RESTART_JOB]


def rules_of(root: Json) -> list[FailurePolicyRule]:
    """Return the rules of a set that may match a Job that a podFailurePolicy has failed, at most MOST_RULES."""
    return [
        FailurePolicyRule(
            rule.get("action") or "",
            frozenset(rule.get("targetReplicatedJobs") or ()),
            tuple(rule.get("onJobFailureMessagePatterns") or ()),
        )
        for rule in islice(at(root, RULES) or (), MOST_RULES)
        if POD_FAILURE_POLICY in (rule.get("onJobFailureReasons") or REASONS)
    ]


def action_for(rules: list[FailurePolicyRule], replicated_job: str) -> str:
    """Return the action of the first rule for a replicated Job; empty if there is none."""
    return next((rule.action for rule in rules if not rule.targets or replicated_job in rule.targets), "")


def rules_for_bugs(root: Json) -> list[FailurePolicyRule]:
    """Return the rules of a set that decide what happens when a rule of ours fails one of its Jobs because of a bug.

    A rule with message patterns counts as one of them if it restarts the set and may be about more than disruptions. If
    it fails the set, it does not.
    """
    return [
        rule
        for rule in rules_of(root)
        if not rule.patterns or not (rule.action == FAIL_SET or all(map(is_of_disruptions, rule.patterns)))
    ]


def action_by_default(root: Json, *, adds_rule: bool) -> str:
    """Return what a set does if a bug has failed one of its Jobs and none of its rules matches.

    `adds_rule`: whether our rule for bugs will be added.
    """
    if len(at(root, RULES) or ()) > MOST_RULES:
        return RESTART_SET  # because a rule that is not read may restart the set
    return FAIL_SET if adds_rule or not at(root, MAX_RESTARTS) else RESTART_SET


def adds_bug_rule(root: Json, settings: Settings) -> bool:
    """Return True if our rule for bugs may be added to a set: unless its author has a rule of that name."""
    return _may_inject(root, settings) and not any(rule.get("name") == BUG_RULE for rule in at(root, RULES) or ())


def is_of_disruptions(pattern: str) -> bool:
    """Return True if a pattern is plain text with the condition's name, so that it matches only disruptions."""
    text = pattern.removeprefix("^").removeprefix(".*").removesuffix("$").removesuffix(".*")
    return lint.DISRUPTION[0] in text and text.replace(" ", "").isalnum()


def reads_indexes(root: Json) -> bool:
    """Return True if rules of a set's author match messages, which contain the index of a rule of the Job."""
    return any(not all(map(is_of_disruptions, rule.patterns)) for rule in rules_of(root))


def replicated_jobs(root: Json) -> list[str]:
    """Return the names of a set's replicated Jobs."""
    return [one.get("name") or "" for one in at(root, REPLICATED_JOBS) or ()]


def replicated_job_name(root: Json, job: EmbeddedJob) -> str:
    """Return the name of the replicated Job to which a JobSpec in a JobSet belongs."""
    return at(root, (*job.path[:3], "name")) or ""


def _may_inject(root: Json, settings: Settings) -> bool:
    """Return True if the profile allows to add rules to the set's own failure policy."""
    inject = settings.profile.failure_policy.inject
    return inject == "Merge" or (inject == "IfAbsent" and not at(root, RULES))


def said_once(warnings: list[Problem]) -> list[Problem]:
    """Return warnings; one that several Jobs of a set have is returned once, for the first Job, with their number."""
    shared: dict[object, list[Problem]] = {}
    for one in warnings:
        in_job = one.path[:2] == REPLICATED_JOBS
        shared.setdefault((one.path[3:] if in_job else one.path, in_job, one.what, one.remedy), []).append(one)
    return [
        Problem(first.path, f"{first.what}, in {1 + len(more)} of the set's Jobs", first.remedy) if more else first
        for first, *more in shared.values()
    ]


# After the failure policies of its Jobs: only if a Job fails by one can the set restart for it.
RULE: Final[Rule["WorkloadContext"]] = Rule(
    name="failure_policy",
    applies_to="a JobSet",
    applies=lambda context: not context.is_denied,
    edit=_edit,
    writes=writes,
)
