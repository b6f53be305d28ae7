"""Makes a JobSet start again after a disruption without spending its restarts, and fail at once on a bug.

Reads and writes, in the JobSetSpec:
    failurePolicy.rules
    failurePolicy.rules[*].{action,onJobFailureReasons,onJobFailureMessagePatterns,targetReplicatedJobs}
Reads:
    failurePolicy.{maxRestarts,restartStrategy}, replicatedJobs[*].{name,replicas},
    replicatedJobs[*].template.spec.podFailurePolicy

A Job that one of its rules has failed ends with reason PodFailurePolicy, whatever the rule. Its message tells them
apart (pkg/controller/job/job_controller.go of Kubernetes: "... has condition DisruptionTarget matching FailJob rule at
index 0"), for a JobSet whose CRD has onJobFailureMessagePatterns. One that has not drops the field, and a rule without
it would start the set again for every bug, for ever. The actions RestartJob and RestartJobAndIgnoreMaxRestarts start
again the failed Job alone, from JobSet 0.12 on, where the feature gate RestartJob of its controller is on.
"""

from itertools import islice
from typing import Final, NamedTuple

from webhook.kinds import EmbeddedJob, KindSpec
from webhook.kinds.job_set import JOB_SET
from webhook.ledger.model import matching
from webhook.ledger.model.matching import MOST_RULES, POD_FAILURE_POLICY
from webhook.objects.patch import Editor, Pattern, at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings
from webhook.rules.jobs import lint

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
FAILING: Final = "FailJobSet"
RESTART_SET: Final = "RestartJobSet"
RESTART_JOB: Final = "RestartJob"
FREE: Final = "AndIgnoreMaxRestarts"  # how an action ends that costs nothing
REASONS: Final = (POD_FAILURE_POLICY,)
DISRUPTED: Final = "has condition DisruptionTarget matching FailJob"
DISRUPTION: Final = (
    f"Pod namespace/pod {DISRUPTED} rule at index 0"  # what a Job that it has failed says, but for names
)
# JobSet refuses the action RestartJob beside more replicas (maxReplicasPerReplicatedJob in pkg/webhooks).
MOST_REPLICAS: Final = 1024


def writes(row: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind: the failurePolicy of a JobSet, which it makes where there is none."""
    return (RULES[:-1],) if row is JOB_SET else ()


class Rule(NamedTuple):
    """What of a rule of a set decides about Jobs that a failure policy has failed; no targets are all of them."""

    action: str
    targets: frozenset[str]
    patterns: tuple[str, ...]


def disruption_action(root: Json, settings: Settings, *, message_patterns: bool) -> str:
    """Say what a Job of the set is to do about a disruption: FailJob where the set is to start again for it.

    A set that restarts in place gives its Jobs back their pods; a CRD without message patterns cannot tell.
    """
    restart = (
        settings.profile.job_set.on_disruption != "RestartPod"
        and message_patterns
        and may_inject(root, settings)
        and at(root, STRATEGY) != "InPlaceRestart"
    )
    return "FailJob" if restart else settings.profile.disruptions.action


def edit(root: Json, settings: Settings, editor: Editor, *, disruption: str, restart_job: bool) -> list[Problem]:
    """Put rules for disruptions before the author's, and one for bugs after them; return warnings.

    The failure policies of the Jobs in it are made already; `disruption` is their action. `restart_job`: whether the
    CRD knows the action RestartJob.
    """
    judged = [one.get("name") or "" for one in at(root, REPLICATED_JOBS) or () if at(one, POLICY_OF_JOB)]
    if not judged or not may_inject(root, settings):
        return []
    adds_bug = adds_bug_rule(root, settings)
    author_rules = rules_of(root)
    warnings: list[Problem] = []
    if disruption == "FailJob" and not any(rule.get("name") in DISRUPTION_RULES for rule in at(root, RULES) or ()):
        alone, warnings = restarted_alone(root, author_rules, settings, restart_job=restart_job)
        for rule in reversed(disruption_rules(root, alone, settings)):
            editor.insert(RULES, 0, rule)
    catch_all = [rule for rule in author_rules if not rule.patterns]
    if adds_bug and not all(action_for(catch_all, name) for name in judged):
        editor.append(RULES, {"name": BUG_RULE, "action": FAILING, "onJobFailureReasons": [*REASONS]})
    return warnings


def disruption_rules(root: Json, alone: list[str], settings: Settings) -> list[Json]:
    """Make the rules for disruptions; `alone` names the replicated Jobs of which only the failed one starts again."""
    cost = "" if settings.profile.disruptions.action == "Count" else FREE
    match = {"onJobFailureReasons": [*REASONS], "onJobFailureMessagePatterns": [DISRUPTED]}
    if alone == replicated_jobs(root):
        return [{"name": DISRUPTION_RULE, "action": RESTART_JOB + cost, **match}]
    rule = {"name": DISRUPTION_RULE, "action": RESTART_SET + cost, **match}
    if not alone:
        return [rule]
    of_jobs = {"name": JOB_DISRUPTION_RULE, "action": RESTART_JOB + cost, **match, "targetReplicatedJobs": alone}
    return [of_jobs, rule]


def restarted_alone(
    root: Json, author_rules: list[Rule], settings: Settings, *, restart_job: bool
) -> tuple[list[str], list[Problem]]:
    """Name the replicated Jobs of which a disruption restarts the failed Job alone; return warnings too.

    All of them where the profile says so, else those for which a rule of the set's author does.
    """
    if settings.profile.job_set.on_disruption != RESTART_JOB:
        return alone_by_author(replicated_jobs(root), author_rules), []
    why = why_not_alone(root, restart_job=restart_job)
    return ([], [Problem(RULES, why, "a disruption restarts the whole set")]) if why else (replicated_jobs(root), [])


def why_not_alone(root: Json, *, restart_job: bool) -> str:
    """Say why no Job of a set can be restarted alone; nothing where each can."""
    if not restart_job:
        return "the CRD of JobSets has no action RestartJob"
    most = max(one.get("replicas") or 0 for one in at(root, REPLICATED_JOBS))
    return f"no Job of more than {MOST_REPLICAS} can be restarted alone" if most > MOST_REPLICAS else ""


def alone_by_author(replicated_jobs: list[str], rules: list[Rule]) -> list[str]:
    """Name the replicated Jobs of which a rule of the set's author restarts the disrupted one alone."""
    if not any(rule.action.removesuffix(FREE) == RESTART_JOB for rule in rules):
        return []  # as of nearly all sets
    work = matching.Work()
    on_disruption = [
        rule for rule in rules if not rule.patterns or any(work.finds(one, DISRUPTION) for one in rule.patterns)
    ]
    return [name for name in replicated_jobs if action_for(on_disruption, name).removesuffix(FREE) == RESTART_JOB]


def rules_of(root: Json) -> list[Rule]:
    """Return the rules of a set that may match a Job which a failure policy has failed."""
    return [
        Rule(
            rule.get("action") or "",
            frozenset(rule.get("targetReplicatedJobs") or ()),
            tuple(rule.get("onJobFailureMessagePatterns") or ()),
        )
        for rule in islice(at(root, RULES) or (), MOST_RULES)
        if POD_FAILURE_POLICY in (rule.get("onJobFailureReasons") or REASONS)
    ]


def action_for(rules: list[Rule], replicated_job: str) -> str:
    """Return the action of the first rule for a replicated Job; empty where there is none."""
    return next((rule.action for rule in rules if not rule.targets or replicated_job in rule.targets), "")


def rules_for_bugs(root: Json) -> list[Rule]:
    """Return the rules of a set that decide what a bug in one of its Jobs brings, where a rule of ours has failed it.

    A rule that restarts the set for some messages is taken to match this one, unless it is about disruptions; one that
    ends it for some messages is not.
    """
    return [
        rule
        for rule in rules_of(root)
        if not rule.patterns or not (rule.action == FAILING or all(map(is_of_disruptions, rule.patterns)))
    ]


def action_by_default(root: Json, *, adds_rule: bool) -> str:
    """Return what a set does where a bug has failed one of its Jobs, and no rule that is there matches.

    `adds_rule`: whether ours for bugs is about to be added.
    """
    if len(at(root, RULES) or ()) > MOST_RULES:
        return RESTART_SET  # for all that is known of the others
    return FAILING if adds_rule or not at(root, MAX_RESTARTS) else RESTART_SET


def adds_bug_rule(root: Json, settings: Settings) -> bool:
    """Return True if a rule for bugs goes into a set; not beside one of its author of that name."""
    return may_inject(root, settings) and not any(rule.get("name") == BUG_RULE for rule in at(root, RULES) or ())


def is_of_disruptions(pattern: str) -> bool:
    """Return True if a pattern is plain words with the name of the condition: it matches disruptions alone."""
    text = pattern.removeprefix("^").removeprefix(".*").removesuffix("$").removesuffix(".*")
    return lint.DISRUPTION[0] in text and text.replace(" ", "").isalnum()


def reads_indexes(root: Json) -> bool:
    """Return True if rules of a set's author look at messages, in which a rule of the Job stands by its index."""
    return any(not all(map(is_of_disruptions, rule.patterns)) for rule in rules_of(root))


def replicated_jobs(root: Json) -> list[str]:
    """Name the replicated Jobs of a set."""
    return [one.get("name") or "" for one in at(root, REPLICATED_JOBS) or ()]


def replicated_job_name(root: Json, job: EmbeddedJob) -> str:
    """Return the name of the replicated Job whose JobSpec stands in a JobSet."""
    return at(root, (*job.path[:3], "name")) or ""


def may_inject(root: Json, settings: Settings) -> bool:
    """Return True if the profile lets the set's own policy be added to."""
    inject = settings.profile.failure_policy.inject
    return inject == "Merge" or (inject == "IfAbsent" and not at(root, RULES))


def said_once(warnings: list[Problem]) -> list[Problem]:
    """Return warnings, each that several Jobs of a set share once, at the first of them and with their number."""
    shared: dict[object, list[Problem]] = {}
    for one in warnings:
        in_job = one.path[:2] == REPLICATED_JOBS
        shared.setdefault((one.path[3:] if in_job else one.path, in_job, one.what, one.remedy), []).append(one)
    return [
        Problem(first.path, f"{first.what}, in {1 + len(more)} of the set's Jobs", first.remedy) if more else first
        for first, *more in shared.values()
    ]
