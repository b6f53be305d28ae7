"""Writes CEL that finds the containers that restart in place as they may not; it mirrors webhook/rules/in_place.py."""

from typing import Final

from webhook.export.cel import BEFORE, Variables, field, plain_list, text, union
from webhook.kube import names
from webhook.rules import in_place
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec

NEW: Final = f"!p.startsWith({text(BEFORE)})"
POLICY: Final = "e.?restartPolicy.orValue('')"
RULES: Final = f"e.?{in_place.RULES}.orValue([])"
BY_POLICY: Final = f"{POLICY} in {plain_list([*in_place.IN_PLACE])}"
REMEDY: Final = "remove restartPolicy and restartPolicyRules, so that each failure counts against the retries"
TEMPLATE: Final = ("template", "spec")
CONTAINERS: Final = "containers"
OPERATOR: Final = "r.?exitCodes.?operator.orValue('')"
VALUES: Final = "r.?exitCodes.?values.orValue([])"
WRONG: Final = f"{VALUES}.filter(v, !(int(v) in variables.retriable)).map(v, string(v))"


def problems(variables: Variables, kind: KindSpec) -> list[str]:
    """Add the variables about containers in all pod templates of a kind; return expressions for lists of problems."""
    if kind is core.POD or not (kind.job_specs or kind.pod_templates):
        return []
    found = [_unbounded(variables, kind)]
    if kind.job_specs:
        found.append(_disobedient(variables, kind))
    return found


def _unbounded(variables: Variables, kind: KindSpec) -> str:
    of_jobs = [
        _of_containers(variables.places(spec), TEMPLATE, f"!variables.inPlace && {_unlimited(name, _counted())}", name)
        for spec in kind.job_specs
        for name in in_place.CONTAINERS
    ]
    unless_in_place = "!variables.inPlace && " if kind.job_specs else ""
    of_others = [
        _of_containers(variables.places((*one, "spec")), (), unless_in_place + _unlimited(name, "false"), name)
        for one in kind.pod_templates
        for name in in_place.CONTAINERS
    ]
    found = variables.add("restarting", union([*of_jobs, *of_others]))
    return (
        f"{found}.filter(p, {NEW} && !(({text(BEFORE)} + p) in {found})).map(p, p +\n"
        f"  ': {in_place.UNBOUNDED}; {REMEDY}')"
    )


def _unlimited(name: str, counts: str) -> str:
    """Return a condition that a container `e` of a list restarts without limit; `counts`: that the ledger counts."""
    by_policy = BY_POLICY if name == CONTAINERS else f"{POLICY} == 'OnFailure'"
    return f"({by_policy} || ({RULES}.size() > 0 && !({counts})))"


def _of_containers(places: str, below: tuple[str, ...], condition: str, name: str) -> str:
    """Return a set of the paths of containers for which a condition holds, in a list of all pod specs of a set."""
    path = "".join(f".{part}" for part in (*below, name))
    return (
        f"{places}.transformMapEntry(p, o, {field((*below, name))}.orValue([]).transformMapEntry(i, e,\n"
        f"  {condition},\n  {{p + '{path}[' + string(i) + ']': true}}))"
    )


def _disobedient(variables: Variables, kind: KindSpec) -> str:
    """Return an expression for the problems of rules about exit codes that the profile does not retry."""
    sets = []
    for spec in kind.job_specs:
        for name in in_place.CONTAINERS:
            by_policy = BY_POLICY if name == CONTAINERS else f"{POLICY} == 'OnFailure'"
            path = "".join(f".{part}" for part in (*TEMPLATE, name))
            rules = (
                f"{RULES}.transformMapEntry(j, r, {OPERATOR} == 'NotIn' || {WRONG}.size() > 0,\n"
                f"    {{p + '{path}[' + string(i) + '].{in_place.RULES}[' + string(j) + ']':\n    {_after()}}})"
            )
            sets.append(
                f"{variables.places(spec)}.transformMapEntry(p, o,\n"
                f"  {field((*TEMPLATE, name))}.orValue([]).transformMapEntry(i, e,\n"
                f"  !variables.inPlace && !({by_policy}) && {RULES}.size() > 0 && {_counted()},\n  {rules}))"
            )
    found = variables.add("restartRules", union(sets))
    listed = "variables.retriable.map(v, string(v)).join(', ')"
    remedy = f"variables.retriable.size() == 0 ? 'remove the rule' : 'list only ' + {listed} + ' with the operator In'"
    return (
        f"{found}.filter(p, {NEW} && !(({text(BEFORE)} + p) in {found})).map(p, p +\n"
        f"  ': {in_place.AFTER} ' + {found}[p] + '; ' + ({remedy}))"
    )


def _after() -> str:
    """Return an expression for the exit codes after which the rule `r` restarts, in words."""
    listed = f"{VALUES}.map(v, string(v)).join(', ')"
    others = f"'all exit codes but ' + ({VALUES}.size() == 0 ? 'none' : {listed})"
    codes = f"({WRONG}.size() > 1 ? 'exit codes ' : 'exit code ') + {WRONG}.join(', ')"
    wrong = f"{codes} + ', which profile \\'' + variables.profile + '\\' does not retry'"
    return f"({OPERATOR} == 'NotIn' ? {others} :\n      {wrong})"


def _counted() -> str:
    """Return a condition that a ledger counts the pods of the JobSpec `o`: free_restarts.is_counted."""
    skip = f"?metadata.?annotations[?{text(names.SKIP)}].orValue('') == 'true'"
    return (
        f"(o.?managedBy.orValue('') in ['', {text(batch.CONTROLLER)}] && !o.?manualSelector.orValue(false) &&\n"
        f"  !(variables.allowSkip && (object.{skip} || o.?template.{skip})))"
    )
