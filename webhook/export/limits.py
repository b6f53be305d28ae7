"""The ValidatingAdmissionPolicy of a kind: no field allows more retries than the limit, no container restarts in place.

It finds what webhook/rules/limits.py and webhook/rules/annotations.py find, and says it in the same words, except for
rules of an author's own that make restarts free (webhook/systems/job_set/rules/free_restarts.py).
"""

from collections.abc import Iterator
from typing import Final

from webhook.export import annotations, budgets, in_place
from webhook.export.cel import UNLIMITED, Profiles, Variables, most_retries, text, union
from webhook.export.objects import BEING_DELETED, CHANGES_SOMETHING, Envelope, validating
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.rules.in_place import retriable
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, RetryField
from webhook.systems.kinds import KINDS
from webhook.systems.spark import spec as spark

JOB_SETS: Final = f"authorizer.group({text(JOB_SET.group)}).resource({text(JOB_SET.resource)}).subresource('status')"
NEW: Final = "!p.startsWith('before: ')"
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
    found = [*budget_problems(variables, kind), *in_place.problems(variables, kind)]
    variables.add("said", annotations.said(variables, kind))
    found += annotations.problems()
    variables.add("problems", " +\n".join(found))
    listed = [
        *profiles.first,
        profiles.variable("limit", lambda profile: profile.retries.limit),
        profiles.variable("total", lambda profile: profile.retries.total),
        profiles.variable("mostRetries", most_retries),
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
    validations = [validation, *believed(kind)]
    return {"matchConditions": conditions, "variables": used(listed, validations), "validations": validations}


def used(listed: list[Json], validations: list[Json]) -> list[Json]:
    """Return the variables that an expression reads."""
    kept: list[Json] = []
    read = "".join(one["expression"] + one.get("messageExpression", "") for one in validations)
    for variable in reversed(listed):
        name = f"variables.{variable['name']}"
        if any(read[end : end + 1] not in NAME for end in ends_of(name, read)):
            kept.append(variable)
            read += " " + variable["expression"]
    return kept[::-1]


NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def ends_of(name: str, read: str) -> list[int]:
    """Return the positions after each occurrence of a name in expressions."""
    parts = read.split(name)
    ends, position = [], 0
    for part in parts[:-1]:
        position += len(part) + len(name)
        ends.append(position)
    return ends


def believed(kind: KindSpec) -> list[Json]:
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


def budget_problems(variables: Variables, kind: KindSpec) -> list[str]:
    """Add the variables with all budgets of a kind; return expressions for lists of problems."""
    groups: dict[str, list[str]] = {}
    unlimited: dict[str, tuple[str, str]] = {}  # by group: what replaces the end of the path, and the remedy
    if kind.job_specs:
        variables.add("inPlace", budgets.in_place(kind))
        groups["retries"] = [budgets.job_budgets(variables, kind)]
    for field in kind.retry_fields:
        group = group_of(field)
        groups.setdefault(group, []).append(budgets.field_budgets(variables, field, kind.shape))
        if field.counts_with is not None:
            unlimited[group] = beside(field)
    found = []
    for group, parts in groups.items():
        name = variables.add(group, union(parts))
        found.append(too_many(name, *unlimited.get(group, ("", "")), runs=group == "runs"))
    if kind.job_specs:
        found += sum_problems(variables, kind)
    return found + [too_deep(level) for level in variables.too_deep]


def group_of(field: RetryField) -> str:
    """Return the name of the variable with a field's budgets: fields with the same messages share one."""
    if field.counts_with is not None:
        return "restarts"
    return "runs" if field.single else "retries"


def beside(field: RetryField) -> tuple[str, str]:
    """Return the name of the field that makes retries unlimited, and its right value."""
    if isinstance(field, spark.ApacheRestartField):
        return spark.APACHE_RESET, "-1"
    return field.counts_with or ("", "")


def too_many(name: str, other: str, counting: str, *, runs: bool) -> str:
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
    return (
        f"{name}.filter(p, {NEW} && {name}[p] > variables.limit &&\n"
        f"  {name}[?('before: ' + p)].orValue(-1) < {name}[p]).map(p, {said})"
    )


def too_deep(level: str) -> str:
    """Return an expression for the problems of values that are nested deeper than the fields above."""
    return f"{level}.filter(p, {NEW}).map(p, p + ': is nested too deeply; move it up')"


def sum_problems(variables: Variables, kind: KindSpec) -> list[str]:
    """Return expressions for the problems of all completion indexes together."""
    sums = variables.add("sums", budgets.sums(variables, kind))
    uncounted = variables.add("uncounted", budgets.restarted_uncounted(variables, kind))
    return [sum_problem(sums), uncounted_problem(uncounted)]


def sum_problem(sums: str) -> str:
    """Return an expression for the problems of JobSpecs whose indexes together may retry too often."""
    return (
        f"{sums}.filter(p, {NEW} && {sums}[p] > variables.total &&\n"
        f"  {sums}[?('before: ' + p)].orValue(-1) < {sums}[p]).map(p, p + '.backoffLimitPerIndex: allows ' +\n"
        f"  string({sums}[p]) + ' retries of all indexes together, and profile \\'' + variables.profile +\n"
        "  '\\' allows ' + string(variables.total) + ' (retries.total); set ' + p +\n"
        "  '.backoffLimit, which bounds their sum, to ' + string(variables.total) + ' or less')"
    )


def uncounted_problem(uncounted: str) -> str:
    """Return an expression for the problems of JobSpecs whose restarts in place are bounded by backoffLimit alone."""
    what = "OnFailure restarts containers in place, which backoffLimitPerIndex does not count"
    return (
        f"{uncounted}.filter(p, {NEW} && {uncounted}[p] > variables.limit &&\n"
        f"  {uncounted}[?('before: ' + p)].orValue(-1) < {uncounted}[p]).map(p, p +\n"
        f"  '.template.spec.restartPolicy: {what}; use Never, or set ' + p +\n"
        "  '.backoffLimit, which bounds their sum, to ' + string(variables.limit) + ' or less')"
    )


def objects(policy: Policy) -> Iterator[Json]:
    """Yield the admission policies of a policy, and their bindings."""
    for kind in (core.POD, *(kind for kind in KINDS.values() if kind.admitted)):
        yield from validating(Envelope(kind, policy), spec(kind, policy))
