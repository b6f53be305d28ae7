"""Makes a JobSet start again after a disruption without spending its restarts, and fail at once on a bug.

Reads and writes, in the JobSetSpec:
    failurePolicy.rules
    failurePolicy.rules[*].{action,onJobFailureReasons,onJobFailureMessagePatterns,targetReplicatedJobs}
Reads:
    failurePolicy.{maxRestarts,restartStrategy}, replicatedJobs[*].name,
    replicatedJobs[*].template.spec.podFailurePolicy

A Job that one of its rules has failed ends with reason PodFailurePolicy, whatever the rule. Its message tells them
apart (pkg/controller/job/job_controller.go of Kubernetes: "... has condition DisruptionTarget matching FailJob rule at
index 0"), for a JobSet whose CRD has onJobFailureMessagePatterns. One that has not drops the field, and a rule without
it would start the set again for every bug, for ever.
"""

from itertools import islice
from typing import Final, NamedTuple

from webhook.ledger.rules import MOST_RULES, POD_FAILURE_POLICY
from webhook.patch import Editor, at
from webhook.policy.settings import Settings
from webhook.problem import Json, Path
from webhook.rules import lint
from webhook.workloads import EmbeddedJob

SPEC: Final[Path] = ("spec",)
REPLICATED_JOBS: Final[Path] = (*SPEC, "replicatedJobs")
POLICY_OF_JOB: Final[Path] = ("template", "spec", "podFailurePolicy")
RULES: Final[Path] = (*SPEC, "failurePolicy", "rules")
MAX_RESTARTS: Final[Path] = (*SPEC, "failurePolicy", "maxRestarts")
STRATEGY: Final[Path] = (*SPEC, "failurePolicy", "restartStrategy")
DISRUPTION_RULE: Final = "retryPolicyDisruption"
BUG_RULE: Final = "retryPolicyBug"
FAILING: Final = "FailJobSet"
RESTART_SET: Final = "RestartJobSet"
FREE: Final = "AndIgnoreMaxRestarts"  # how an action ends that costs nothing
REASONS: Final = (POD_FAILURE_POLICY,)
DISRUPTED: Final = "has condition DisruptionTarget matching FailJob"


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
        settings.profile.job_set.on_disruption == "RestartJobSet"
        and message_patterns
        and may_inject(root, settings)
        and at(root, STRATEGY) != "InPlaceRestart"
    )
    return "FailJob" if restart else settings.profile.disruptions.action


def edit(root: Json, settings: Settings, editor: Editor, *, disruption: str) -> None:
    """Put a rule for disruptions before the author's, and one for bugs after them.

    The failure policies of the Jobs in it are made already; `disruption` is their action.
    """
    judged = [one.get("name") or "" for one in at(root, REPLICATED_JOBS) or () if at(one, POLICY_OF_JOB)]
    if not judged or not may_inject(root, settings):
        return
    adds_bug = adds_bug_rule(root, settings)
    author_rules = rules_of(root)
    if disruption == "FailJob" and not any(rule.get("name") == DISRUPTION_RULE for rule in at(root, RULES) or ()):
        counts = settings.profile.disruptions.action == "Count"
        rule = {
            "name": DISRUPTION_RULE,
            "action": RESTART_SET if counts else RESTART_SET + FREE,
            "onJobFailureReasons": [*REASONS],
            "onJobFailureMessagePatterns": [DISRUPTED],
        }
        editor.insert(RULES, 0, rule)
    catch_all = [rule for rule in author_rules if not rule.patterns]
    if adds_bug and not all(action_for(catch_all, name) for name in judged):
        editor.append(RULES, {"name": BUG_RULE, "action": FAILING, "onJobFailureReasons": [*REASONS]})


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


def name_of(root: Json, job: EmbeddedJob) -> str:
    """Return the name of the replicated Job whose JobSpec stands in a JobSet."""
    return at(root, (*job.path[:3], "name")) or ""


def may_inject(root: Json, settings: Settings) -> bool:
    """Tell whether the profile lets the set's own policy be added to."""
    inject = settings.profile.failure_policy.inject
    return inject == "Merge" or (inject == "IfAbsent" and not at(root, RULES))
