"""Writes CEL that gives a Job without a podFailurePolicy the one that the webhook would.

The expressions mirror webhook/rules/jobs/failure_policy.py for such a Job. A Job of a JobSet is left alone: its rules
depend on those of the set. An edit is a map as in webhook/export/retries.py.
"""

from typing import Final

import msgspec

from webhook.export.budgets import index_budgets
from webhook.export.cel import Variable, Variables, literal, text
from webhook.export.profiles import Profiles
from webhook.kinds import batch
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names
from webhook.objects import bounds
from webhook.policy.model import Profile
from webhook.rules.jobs import failure_policy
from webhook.rules.jobs.lint import KILLED

CONTROLLERS: Final = "object.metadata.?ownerReferences.orValue([]).filter(r, r.?controller.orValue(false))"
TEMPLATE: Final = "object.spec.template"


def of_profiles(profiles: Profiles) -> list[Variable]:
    """Return the variables with the fields of the profile that the expressions read."""
    return [
        profiles.variable("inject", inject),
        profiles.variable("coupled", lambda profile: profile.failure_policy.coupled),
        profiles.variable("onFailure", lambda profile: profile.failure_policy.on_failure_restart_policy),
        profiles.variable("disruptionLimit", lambda profile: profile.disruptions.limit),
        profiles.variable("disruptionRule", disruption_rule),
        profiles.variable("disruptionText", lambda profile: as_json(disruption_rule(profile))),
        profiles.variable("codes", codes),
        profiles.variable("codesIfKilled", lambda profile: codes(profile, KILLED)),
    ]


def inject(profile: Profile) -> str:
    """Return into which Jobs a failure policy is injected: none if the profile has rules of onFailure.

    The webhook adds those rules to the author's. It would take the exported rules for the author's, which come first.
    """
    return "Never" if profile.on_failure else profile.failure_policy.inject


def disruption_rule(profile: Profile) -> dict[str, object]:
    """Return the rule for pods with the condition DisruptionTarget."""
    return failure_policy.disruption_rule(profile.disruptions.action)


def codes(profile: Profile, *others: int) -> list[int]:
    """Return the exit codes that are worth a retry; 0 matches no failure, so NotIn [0] matches all."""
    return sorted({*profile.failure_policy.retriable_exit_codes, *others}) or [0]


def as_json(value: object) -> str:
    """Return a value as compact JSON."""
    return msgspec.json.encode(value).decode()


def edits(variables: Variables) -> list[str]:
    """Add the variables for the failure policy of a Job; return expressions for lists of edits."""
    add = variables.add
    add("controllers", CONTROLLERS)
    starters = ", ".join(text(f"{group}/{kind}") for group, kind in sorted(batch.STARTS_JOBS))
    names_of = "variables.controllers.map(r, r.apiVersion.split('/')[0] + '/' + r.kind)"
    add("ofSet", f"{names_of}.exists(name, name == {text(f'{JOB_SET.group}/{JOB_SET.kind}')})")
    add("ofOperator", f"!{names_of}.all(name, name in [{starters}])")
    add("perIndex", index_budgets("object.spec"))
    add("queued", f"{has_key('labels', batch.QUEUE_NAME)} || {has_key('annotations', batch.QUEUE_NAME)}")
    add(
        "isCoupled",
        "object.spec.?completionMode.orValue('') == 'Indexed' && object.spec.?parallelism.orValue(1) > 1 &&\n"
        "  !variables.perIndex",
    )
    add(
        "isSettled",
        "variables.coupled == 'Settle' && variables.inject == 'Merge' && !variables.perIndex &&\n"
        "  (variables.isCoupled || variables.queued)",
    )
    add("mayBeKilled", may_be_killed())
    add("runsOnce", runs_once())
    never = f"{TEMPLATE}.spec.?restartPolicy.orValue('')"
    add("isConverted", f"{never} == 'OnFailure' && variables.onFailure == 'Never'")
    add(
        "getsPolicy",
        "variables.objects.size() > 0 && !variables.skips && variables.inject != 'Never' &&\n"
        "  !has(object.spec.podFailurePolicy) && !variables.ofSet && !variables.runsOnce &&\n"
        f"  ({never} == 'Never' || variables.isConverted)",
    )
    add("judged", judged())
    add("retriable", "variables.mayBeKilled ? variables.codesIfKilled : variables.codes")
    add("action", "variables.perIndex ? 'FailIndex' : 'FailJob'")
    rule = (
        "{'action': dyn(variables.action), 'onExitCodes': dyn({'containerName': dyn(name), 'operator': dyn('NotIn'),\n"
        "  'values': dyn(variables.retriable)})}"
    )
    rule_text = (
        '\',{"action":"\' + variables.action + \'","onExitCodes":{"containerName":"\' + name +\n'
        '  \'","operator":"NotIn","values":[\' + variables.retriable.map(code, string(code)).join(\',\') + \']}}\''
    )
    add("rules", f"[dyn(variables.disruptionRule)] + variables.judged.map(name, dyn({rule}))")
    texts = f"variables.disruptionText + variables.judged.map(name, {rule_text}).join('')"
    add("rulesText", f"'{{\"rules\":[' + {texts} + ']}}'")
    converted = replaced("/spec/template/spec/restartPolicy", "Never", "OnFailure")
    injected = (
        "{'op': dyn('add'), 'path': dyn('/spec/podFailurePolicy'), 'value': dyn({'rules': dyn(variables.rules)}),\n"
        '  \'text\': dyn(\'{"op":"add","path":"/spec/podFailurePolicy","now":\' + variables.rulesText + \'}\')}'
    )
    has_right_replacement = "object.spec.?podReplacementPolicy.orValue('Failed') == 'Failed'"
    replacement = replaced("/spec/podReplacementPolicy", "Failed", "TerminatingOrFailed")
    return [
        f"(variables.getsPolicy && variables.isConverted ? [{converted}] : [])",
        f"(variables.getsPolicy ? [{injected}] : [])",
        f"(variables.getsPolicy && !({has_right_replacement}) ? [{replacement}] : [])",
    ]


def replaced(path: str, now: str, was: str) -> str:
    """Return an expression for the edit that replaces one text by another."""
    entry = as_json({"op": "replace", "path": path, "now": now, "was": was})
    return literal({"op": "replace", "path": path, "value": now, "text": entry})


def has_key(field: str, key: str) -> str:
    """Return a condition that the Job has a label or annotation."""
    return f"{text(key)} in object.metadata.?{field}.orValue({{}})"


def may_be_killed() -> str:
    """Return the condition of failure_policy.may_be_suspended_or_scaled."""
    spec = "object.spec"
    elastic = (
        f"({spec}.?completionMode.orValue('') == 'Indexed' && {spec}.?completions.hasValue() &&\n"
        f"  {spec}.?completions.orValue(0) == {spec}.?parallelism.orValue(-1) &&\n"
        f"  !({spec}.?completions.orValue(0) == 1 && {spec}.?backoffLimitPerIndex.hasValue() && !variables.perIndex))"
    )
    resumed = f"({has_key('annotations', names.RETRY_OF)} && !({has_key('annotations', names.STAYS_SUSPENDED)}))"
    return (
        f"({spec}.?suspend.orValue(false) && !{resumed}) || variables.queued || {elastic} ||\n"
        f"  !({spec}.?managedBy.orValue('') in ['', {text(batch.CONTROLLER)}])"
    )


def runs_once() -> str:
    """Return the condition of own_retries.runs_once for a Job that no JobSet restarts."""
    disruptions = f"object.metadata.?annotations[?{text(names.MAX_DISRUPTIONS)}].orValue('')"
    allowed = f"({disruptions}.matches('^[0-9]{{1,10}}$') && int({disruptions}) > 0 && variables.disruptionLimit > 0)"
    field = "(variables.perIndex ? object.spec.backoffLimitPerIndex : object.spec.?backoffLimit.orValue(6))"
    return f"(variables.said >= 0 ? variables.said : {field}) == 0 && !{allowed}"


def judged() -> str:
    """Return the containers whose exit codes count, none if crashes do not fail the Job: failure_policy.bug_rules."""
    spec = "object.spec"
    listed = f"{TEMPLATE}.spec.?containers.orValue([]).map(c, c.?name.orValue('')).filter(name, name != '')"
    default = f"{TEMPLATE}.?metadata.?annotations[?{text(failure_policy.DEFAULT_CONTAINER)}].orValue('')"
    work_queue = f"(!{spec}.?completions.hasValue() && {spec}.?parallelism.hasValue())"
    none = (
        f"{spec}.?successPolicy.hasValue() || {work_queue} || variables.ofOperator || variables.isSettled ||\n"
        "  (variables.isCoupled && variables.coupled != 'FailJob')"
    )
    chosen = f"[{listed}].map(found, {default} in found ? [{default}] : found)[0]"
    return (
        f"({none}) ? [] :\n"
        # One rule more is for disruptions.
        f"  [{chosen}].map(found, found.size() < {bounds.MAX_RULES} ? found : [])[0]"
    )
