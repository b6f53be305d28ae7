"""Makes a JobSet start again after a disruption without spending its restarts, and fail at once on a bug.

Reads and writes, in the JobSetSpec:
    failurePolicy.rules
    failurePolicy.rules[*].{action,onJobFailureReasons,onJobFailureMessagePatterns}
Reads:
    failurePolicy.restartStrategy, replicatedJobs[*].template.spec.podFailurePolicy

A Job that one of its rules has failed ends with reason PodFailurePolicy, whatever the rule. Its message tells them
apart (pkg/controller/job/job_controller.go of Kubernetes: "... has condition DisruptionTarget matching FailJob rule at
index 0"), for a JobSet whose CRD has onJobFailureMessagePatterns. One that has not drops the field, and a rule without
it would start the set again for every bug, for ever.
"""

from typing import Final

from webhook.patch import Editor, at
from webhook.policy.settings import Settings
from webhook.problem import Json, Path
from webhook.workloads import EmbeddedJob

SPEC: Final[Path] = ("spec",)
RULES: Final[Path] = (*SPEC, "failurePolicy", "rules")
STRATEGY: Final[Path] = (*SPEC, "failurePolicy", "restartStrategy")
DISRUPTION_RULE: Final = "retryPolicyDisruption"
BUG_RULE: Final = "retryPolicyBug"
COUNTING: Final = "RestartJobSet"
FREE: Final = "AndIgnoreMaxRestarts"  # how an action ends that costs nothing
REASONS: Final = ("PodFailurePolicy",)
DISRUPTED: Final = "has condition DisruptionTarget matching FailJob"


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


def edit(root: Json, jobs: list[EmbeddedJob], settings: Settings, editor: Editor, *, disruption: str) -> None:
    """Put a rule for disruptions before the author's, and one for bugs after them.

    `jobs` are those of the set, after their own failure policies were made; `disruption` is their action.
    """
    if not may_inject(root, settings) or not any(job.spec.get("podFailurePolicy") for job in jobs):
        return
    taken = {rule.get("name") for rule in at(root, RULES) or ()}
    if disruption == "FailJob" and DISRUPTION_RULE not in taken:
        counts = settings.profile.disruptions.action == "Count"
        rule = {
            "name": DISRUPTION_RULE,
            "action": COUNTING if counts else COUNTING + FREE,
            "onJobFailureReasons": [*REASONS],
            "onJobFailureMessagePatterns": [DISRUPTED],
        }
        editor.insert(RULES, 0, rule)
    if BUG_RULE not in taken:
        editor.append(RULES, {"name": BUG_RULE, "action": "FailJobSet", "onJobFailureReasons": [*REASONS]})


def may_inject(root: Json, settings: Settings) -> bool:
    """Tell whether the profile lets the set's own policy be added to."""
    inject = settings.profile.failure_policy.inject
    return inject == "Merge" or (inject == "IfAbsent" and not at(root, RULES))
