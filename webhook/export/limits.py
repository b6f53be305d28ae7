"""The ValidatingAdmissionPolicy of a kind: no field allows more retries than the limit, no container restarts in place.

It finds what webhook/rules/limits.py and webhook/rules/annotations.py find, and says it in the same words, except for
rules of an author's own that make restarts free (webhook/systems/job_set/rules/free_restarts.py).
"""

import re
from collections.abc import Iterator
from typing import Final

from webhook.export import annotations, budgets, in_place
from webhook.export.cel import UNLIMITED, Profiles, Variables, text, union
from webhook.export.objects import BEING_DELETED, CHANGES_SOMETHING, Envelope, validating
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.settings import LARGEST_COUNT
from webhook.rules.in_place import retriable
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, RetryField
from webhook.systems.kinds import KINDS
from webhook.systems.spark import spec as spark

JOB_SETS: Final = f"authorizer.group({text(JOB_SET.group)}).resource({text(JOB_SET.resource)}).subresource('status')"
NEW: Final = "!p.startsWith('before: ')"
VARIABLE: Final = re.compile(r"variables\.(\w+)")
WITHOUT_CONTROLLER: Final = {
    "name": "without-a-controller",
    "expression": "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))",
}
TOO_MANY: Final = "asks for more retries than its profile allows; run: retry-policy check -f FILE"


def spec(kind: KindSpec, policy: Policy) -> Json:
    """Return the part of a ValidatingAdmissionPolicy that judges objects of a kind."""
    profiles = Profiles(policy, kind)
    whole = "{'': dyn(object)}"
    if kind.admitted:
        whole = f"request.operation == 'UPDATE' ? {{'': dyn(object), 'before: ': dyn(oldObject)}} : {whole}"
    variables = Variables(kind.shape, f"!({profiles.is_known()}) ? {{}} :\n  {whole}")
    found = [*_budget_problems(variables, kind), *in_place.problems(variables, kind)]
    variables.add("said", annotations.said(variables, kind))
    found += annotations.problems()
    variables.add("problems", " +\n".join(found))
    listed = [
        *profiles.first,
        profiles.variable("limit", lambda profile: profile.retries.limit),
        profiles.variable("total", lambda profile: profile.retries.total),
        # The highest value of the annotation max-retries that is no problem.
        profiles.variable(
            "mostRetries", lambda one: LARGEST_COUNT if one.retries.on_exceed == "Clamp" else one.retries.limit
        ),
        profiles.variable("mostDisruptions", lambda profile: profile.disruptions.limit),
        profiles.variable("allowSkip", lambda profile: profile.allow_skip),
        profiles.variable("retriable", lambda profile: list(retriable(profile))),
        profiles.variable("line", lambda profile: f"; {profile.message}" if profile.message else ""),
        *variables.list,
    ]
    validation = {
        "expression": "variables.problems.size() == 0",
        "messageExpression": "variables.problems.join('; ') + variables.line",
        "message": TOO_MANY,
        "reason": "Invalid",
    }
    conditions = [BEING_DELETED, CHANGES_SOMETHING] if kind.admitted else [WITHOUT_CONTROLLER]
    validations = [validation, *_believed(kind)]
    return {"matchConditions": conditions, "variables": _used(listed, validations), "validations": validations}


def _used(listed: list[Json], validations: list[Json]) -> list[Json]:
    """Return the variables that an expression reads."""
    kept: list[Json] = []
    read = {name for one in validations for text in one.values() for name in VARIABLE.findall(text)}
    for variable in reversed(listed):
        if variable["name"] in read:
            kept.append(variable)
            read.update(VARIABLE.findall(variable["expression"]))
    return kept[::-1]


def _believed(kind: KindSpec) -> list[Json]:
    """Return the validation that only the JobSet controller creates Jobs with unlimited retries."""
    if kind is not batch.JOB:
        return []
    return [
        {
            "expression": (
                "!variables.inPlace || request.operation != 'CREATE' ||\n"
                f"{JOB_SETS}.namespace(request.namespace).check('update').allowed()"
            ),
            "message": (
                "spec.backoffLimit: is unlimited, and only the JobSet controller creates such Jobs;"
                " set as many retries as the profile allows"
            ),
            "reason": "Invalid",
        }
    ]


def _budget_problems(variables: Variables, kind: KindSpec) -> list[str]:
    """Add the variables with all budgets of a kind; return expressions for lists of problems."""
    groups: dict[str, list[str]] = {}
    unlimited: dict[str, tuple[str, str]] = {}  # by group: what replaces the end of the path, and the remedy
    if kind.job_specs:
        variables.add("inPlace", budgets.in_place(kind))
        groups["retries"] = [budgets.job_budgets(variables, kind)]
    for field in kind.retry_fields:
        group = _group_of(field)
        groups.setdefault(group, []).append(budgets.field_budgets(variables, field, kind.shape))
        if field.counts_with is not None:
            unlimited[group] = _beside(field)
    found = []
    for group, parts in groups.items():
        name = variables.add(group, union(parts))
        found.append(_too_many(name, *unlimited.get(group, ("", "")), runs=group == "runs"))
    if kind.job_specs:
        found += _sum_problems(variables, kind)
    too_deep = "p + ': is nested too deeply; move it up'"
    return [*found, *(f"{level}.filter(p, {NEW}).map(p, {too_deep})" for level in variables.too_deep)]


def _group_of(field: RetryField) -> str:
    """Return the name of the variable with a field's budgets: fields with the same messages share one."""
    if field.counts_with is not None:
        return "restarts"
    return "runs" if field.single else "retries"


def _beside(field: RetryField) -> tuple[str, str]:
    """Return the name of the field that makes retries unlimited, and its right value."""
    if isinstance(field, spark.ApacheRestartField):
        return spark.APACHE_RESET, "-1"
    return field.counts_with or ("", "")


def _too_many(name: str, other: str, counting: str, *, runs: bool) -> str:
    """Return an expression for the problems of budgets above the limit, as webhook/rules/retries.py has them."""
    note = " (the field counts runs: 1 means no retry)" if runs else ""
    limit = "string(variables.limit + 1)" if runs else "string(variables.limit)"
    amount = f"({name}[p] == {UNLIMITED} ? 'unlimited retries' : string({name}[p]) + ' retries')"
    said = (
        f"p + ': ' + {amount} + ' exceed the limit of ' +\n  string(variables.limit) + ' in profile \\'' + "
        f"variables.profile + '\\'{note}; set ' + {limit} + ' or less'"
    )
    if other:
        last = "p.split('.')[p.split('.').size() - 1]"
        start = f"p.substring(0, p.size() - {last}.size())"
        free = (
            f"{start} + '{other}: allows unlimited retries; set {counting}, and ' +\n"
            f"  {last} + ' ' + {limit} + ' or less'"
        )
        said = f"{name}[p] == {UNLIMITED} ? {free} :\n  {said}"
    return _above(name, "variables.limit", said)


def _above(name: str, limit: str, said: str) -> str:
    """Return an expression for the problems of the numbers of a set that are above a limit, and were lower before."""
    return (
        f"{name}.filter(p, {NEW} && {name}[p] > {limit} &&\n"
        f"  {name}[?('before: ' + p)].orValue(-1) < {name}[p]).map(p, {said})"
    )


def _sum_problems(variables: Variables, kind: KindSpec) -> list[str]:
    """Return expressions for the problems of all completion indexes together.

    Those of JobSpecs whose indexes together may retry too often, or whose restarts in place backoffLimit alone bounds.
    """
    sums = variables.add("sums", budgets.sums(variables, kind))
    uncounted = variables.add("uncounted", budgets.restarted_uncounted(variables, kind))
    what = "OnFailure restarts containers in place, which backoffLimitPerIndex does not count"
    too_often = (
        "p + '.backoffLimitPerIndex: allows ' +\n"
        f"  string({sums}[p]) + ' retries of all indexes together, and profile \\'' + variables.profile +\n"
        "  '\\' allows ' + string(variables.total) + ' (retries.total); set ' + p +\n"
        "  '.backoffLimit, which bounds their sum, to ' + string(variables.total) + ' or less'"
    )
    in_place = (
        f"p +\n  '.template.spec.restartPolicy: {what}; use Never, or set ' + p +\n"
        "  '.backoffLimit, which bounds their sum, to ' + string(variables.limit) + ' or less'"
    )
    return [_above(sums, "variables.total", too_often), _above(uncounted, "variables.limit", in_place)]


def objects(policy: Policy) -> Iterator[Json]:
    """Yield the admission policies of a policy, and their bindings."""
    for kind in (core.POD, *(kind for kind in KINDS.values() if kind.admitted)):
        yield from validating(Envelope(kind, policy), spec(kind, policy))
