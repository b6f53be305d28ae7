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

from collections.abc import Iterator
from typing import Final

from webhook.patch import Editor, at
from webhook.policy.settings import Settings
from webhook.problem import Json, Path, Problem
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


def clamp(root: Json, settings: Settings, editor: Editor) -> list[Problem]:
    """Have rules that start the set again without bound count, where the profile clamps; return warnings."""
    if settings.profile.retries.on_exceed == "Deny":
        return []
    warnings = []
    for path in unbounded(root):
        editor.set(path, COUNTING)
        remedy = f"profile {settings.profile_name!r} allows no restarts without bound"
        warnings.append(Problem(path, f"became {COUNTING}", remedy))
    return warnings


def problems(root: Json, old: Json | None) -> list[Problem]:
    """Name the rules that start the set again without bound, whatever has failed; one that was there may stay."""
    what = "starts the set again without bound, whatever has failed"
    remedy = f"name onJobFailureReasons, or use {COUNTING}, which maxRestarts bounds"
    before = set() if old is None else set(unbounded(old))
    return [Problem(path, what, remedy) for path in unbounded(root) if path not in before]


def unbounded(root: Json) -> Iterator[Path]:
    """Yield the actions that ignore maxRestarts for any failure."""
    for index, rule in enumerate(at(root, RULES) or ()):
        narrowed = rule.get("onJobFailureReasons") or rule.get("onJobFailureMessagePatterns")
        if (rule.get("action") or "").endswith(FREE) and not narrowed:
            yield (*RULES, index, "action")


def may_inject(root: Json, settings: Settings) -> bool:
    """Tell whether the profile lets the set's own policy be added to."""
    inject = settings.profile.failure_policy.inject
    return inject == "Merge" or (inject == "IfAbsent" and not at(root, RULES))
