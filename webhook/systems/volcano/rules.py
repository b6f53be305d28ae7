"""Changes the policies of a Volcano Job and of its tasks so that a bug ends the Job at once.

Reads and writes:
    spec.policies, spec.tasks[*].policies
Reads:
    spec.plugins, spec.minAvailable, spec.minSuccess, spec.tasks[*].{replicas,template.spec.restartPolicy}

A Volcano Job restarts a pod that failed only if its author says so, by a policy for the event PodFailed. The first
policy that matches decides, a task's before those of the Job, and it may name one exit code, that of the first
container (applyPolicies in pkg/controllers/job/job_controller_util.go of Volcano 1.13). So the author's action stays
for the codes that are worth a retry, one policy for each, and for those of disrupted pods, of which Volcano cannot tell
whether they were disrupted. For all others PodFailed ends the Job. What an author says about one exit code stays.

Nothing is changed where no failed pod is restarted: there a bug costs no second run, and a deleted pod is created again
for free. Nor where a crash may be the consequence of a disruption of another pod, where containers restart in place, or
where the Job may succeed without the pod. An event is named once in a list, and beside `*` there is no other event, or
Volcano refuses the Job (pkg/webhooks/admission/jobs/validate/util.go): a list with `*` stays as it is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from webhook.objects import bounds
from webhook.objects.patch import EVERY, Pattern, at, find
from webhook.objects.problem import Json, Path, Problem
from webhook.rules.rule import Rule
from webhook.systems.core import SIGNALLED
from webhook.systems.kind_spec import KindSpec
from webhook.systems.volcano import spec as volcano
from webhook.systems.volcano.spec import ANY, ENDS, FAILED, RESTARTS, TASKS, events_of, pods_of, tolerates_failures

if TYPE_CHECKING:
    from webhook.rules.contexts import WorkloadContext

POLICIES: Final = "policies"
OF_JOB: Final[Path] = ("spec", POLICIES)
APART: Final = frozenset({"env"})  # plugins with which the pods of a Job still do not know each other


def writes(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind: the policies of a Job, which each other kind becomes."""
    return (OF_JOB, (*TASKS, EVERY, POLICIES)) if kind is volcano.JOB else ()


def _edit(context: "WorkloadContext") -> list[Problem]:
    """Change each list of policies that restarts failed pods; return warnings."""
    root, settings, editor = context.root, context.settings, context.editor
    policy = settings.profile.failure_policy
    if policy.inject != "Merge" or tolerates_failures(root):
        return []
    if is_coupled(root) and policy.coupled != "FailJob":
        return []
    codes = sorted({*policy.retriable_exit_codes, *SIGNALLED})
    changed = [(path, _merged(own, codes)) for path, own in _lists_of(root) if _restarts_failed(own)]
    longest = max((len(found) for _, found in changed), default=0)
    if max(longest, len(changed)) > bounds.MAX_RULES:
        what = f"more than {bounds.MAX_RULES} with those of the policy, which were left out"
        return [Problem(changed[0][0], what, "merge some of yours")]
    for path, found in changed:
        editor.set(path, found)
    return []


def _lists_of(root: Json) -> Iterator[tuple[Path, list[Json]]]:
    """Yield the lists of policies that decide only about pods whose containers do not restart in place."""
    runs_once = []
    for path, task in find(root, (*TASKS, EVERY)):
        runs_once.append(at(task, ("template", "spec", "restartPolicy")) == "Never")
        if runs_once[-1] and task.get(POLICIES):
            yield (*path, POLICIES), task[POLICIES]
    own = at(root, OF_JOB)
    if own and all(runs_once):
        yield OF_JOB, own


def _restarts_failed(policies: list[Json]) -> bool:
    """Return True if a list of policies restarts every pod that failed, by an event that it names."""
    named = any(FAILED in events_of(one) and one.get("action") in RESTARTS for one in policies)
    return named and not any(ANY in events_of(one) for one in policies)


def _merged(policies: list[Json], codes: list[int]) -> list[Json]:
    """Return a list of policies that restarts failed pods after these exit codes, and ends the Job after others."""
    own_codes = {one.get("exitCode") for one in policies}
    found: list[Json] = []
    for policy in policies:
        events = events_of(policy)
        if FAILED not in events or policy.get("action") not in RESTARTS:
            found.append(policy)
            continue
        rest = {key: value for key, value in policy.items() if key not in {"event", "events"}}
        found += [{"exitCode": code, **rest} for code in codes if code not in own_codes]
        others = [event for event in dict.fromkeys(events) if event != FAILED]
        if others:
            found.append({"events": others, **rest})
    return [*found, {"event": FAILED, "action": ENDS}]


def is_coupled(root: Json) -> bool:
    """Return True if the pods of a Job know each other, so that they crash if one of them is lost."""
    return pods_of(root) > 1 and not APART.issuperset(at(root, ("spec", "plugins")) or ())


RULE: Final[Rule["WorkloadContext"]] = Rule(
    name="failure_policy",
    applies_to="a Volcano Job that restarts pods that failed",
    edit=_edit,
    writes=writes,
)
