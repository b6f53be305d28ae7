"""Writes CEL that sets retry fields at creation: the annotation max-retries, the default, and the limit of Clamp.

The expressions mirror webhook/rules/retries.py. An edit is a map with `op`, `path` and `value` of a JSON Patch, and
`text`, its entry in the annotation `policy` as webhook/rules/undo.py writes it: the webhook, which is called after the
admission policies, takes these edits out, and decides again.
"""

from typing import Final

from webhook.export import budgets
from webhook.export.cel import POINTER, Variables, field, key_in_pointer, text, value
from webhook.export.profiles import Profiles, clamps
from webhook.kinds import KindSpec, apache_spark, batch
from webhook.kinds.kind_spec import RetryField, always
from webhook.kube import names
from webhook.objects.problem import Path
from webhook.policy.settings import LARGEST_COUNT

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
DIGITS: Final = f"'^[0-9]{{1,{len(str(LARGEST_COUNT))}}}$'"
NOTHING: Final = -1  # the number of an annotation that asks for nothing
SPEC: Final = "/spec"


def begin(row: KindSpec, profiles: Profiles) -> Variables:
    """Return the first variables: the object, and what its annotations say about its retries."""
    variables = Variables(POINTER, row.shape, f"{profiles.is_known()} ? {{'': dyn(object)}} : {{}}")
    variables.add("skips", skips("object.metadata"))
    variables.add("saidText", f"object.metadata.?annotations[?{text(names.MAX_RETRIES)}].orValue('')")
    variables.add("said", said("variables.saidText", "variables.skips"))
    return variables


def skips(metadata: str, otherwise: str = "''") -> str:
    """Return a condition that the object with these metadata is left alone."""
    return f"(variables.allowSkip && {metadata}.?annotations[?{text(names.SKIP)}].orValue({otherwise}) == 'true')"


def said(number: str, skipped: str) -> str:
    """Return the retries that an annotation asks for, -1 if it asks for none or is malformed."""
    clamped = f"variables.clamps ? variables.limit : {NOTHING}"
    return (
        f"({skipped} || !{number}.matches({DIGITS}) || int({number}) > {LARGEST_COUNT} ? {NOTHING} :\n"
        f"  int({number}) <= variables.limit ? int({number}) : {clamped})"
    )


def field_edits(variables: Variables, row: KindSpec, profiles: Profiles, one: RetryField) -> list[str]:
    """Add the variables for one retry field outside JobSpecs; return expressions for lists of edits."""
    places = variables.places(one.within)
    counted = variables.add("budgets", budgets.field_budgets(variables, one, row.shape, by_place=True))
    wanted = "n"
    if budgets.may_be_unlimited_if_absent(one):
        absent = budgets.is_absent(one, budgets.leaf_of(row.shape, one))
        wanted = f"{absent} && !variables.skips && variables.default < n ? variables.default : n"
    may_raise = "" if one.may_raise is always else budgets.MAY_RAISE[one.may_raise]
    wanted = held(asked("variables.said", wanted, may_raise), profiles)
    targets = variables.add("targets", changed(counted, places, wanted))
    found = [edits_at(targets, places, set_field(one, 0))]
    for path, wrong, right in besides(one):
        found.append(f"{edits_at(targets, places, set_beside(path, wrong, right))}.filter(e, e.size() > 0)")
    return found


def asked(number: str, otherwise: str, may_raise: str) -> str:
    """Return the wanted retries: what the annotation asks for, else `otherwise`."""
    allowed = f"{may_raise} || {number} < n ? {number} : n" if may_raise else number
    return f"({number} >= 0 ? ({allowed}) :\n    ({otherwise}))"


def held(wanted: str, profiles: Profiles) -> str:
    """Return the wanted retries, at most the limit where the profile clamps."""
    if not profiles.any(clamps):
        return wanted
    return f"[{wanted}].map(t, variables.clamps && t > variables.limit ? variables.limit : t)[0]"


def changed(counted: str, places: str, wanted: str) -> str:
    """Return an expression for the wanted retries by place, where they differ from the budget."""
    found = f"[{places}[p]].map(o, {wanted})[0]"
    return f"{counted}.transformMapEntry(p, n, {found} != n,\n  {{p: {found}}})"


def edits_at(targets: str, places: str, made: str) -> str:
    """Return an expression for the edits of all places in a set of targets."""
    return f"{targets}.transformList(p, n, [{places}[p]].map(o, {made})[0])"


def set_field(one: RetryField, depth: int) -> str:
    """Return an expression for the edit that allows `n` retries in `o`, which has the first `depth` keys of the path.

    Parents that are absent are created in the same edit.
    """
    name, key = one.name, one.name[: depth + 1]
    number = f"n + {one.single}" if one.single else "n"
    new = f"string({number})" if one.text else number
    new_text = f"'\"' + string({number}) + '\"'" if one.text else f"string({number})"
    if depth == len(name) - 1:
        was = value(name)
        was_text = f"(type({was}) == string ? {quoted(was)} : string({was}))"
        replaced = edit("replace", name, new, new_text, was_text)
        return f"({was} == null ? {edit('add', name, new, new_text)} :\n    {replaced})"
    nested, nested_text = new, new_text
    for part in reversed(name[depth + 1 :]):
        nested = f"{{{text(str(part))}: dyn({nested})}}"
        nested_text = f"'{{\"{part}\":' + {nested_text} + '}}'"
    return f"({value(key)} == null ? {edit('add', key, nested, nested_text)} :\n    {set_field(one, depth + 1)})"


def besides(one: RetryField) -> list[tuple[Path, str, str]]:
    """Return the fields that must have a value for a retry field to apply: path, when it is wrong, and the value."""
    config = one.name[:-1]
    if isinstance(one, apache_spark.RestartField):
        policy, reset = (*config, apache_spark.POLICY), (*config, apache_spark.RESET)
        return [
            (policy, f"{value(policy)} == null || {value(policy)} == 'Never'", "'OnFailure'"),
            (reset, f"{value(reset)} != null && int({value(reset)}) >= 0", "-1"),
        ]
    if one.counts_with is None:
        return []
    path, right = (*config, one.counts_with[0]), text(one.counts_with[1])
    return [(path, f"{value(path)} != {right}", right)]


def set_beside(path: Path, wrong: str, right: str) -> str:
    """Return an expression for the edit of a field that is wrong; {} if it is not.

    It follows the edit of the retry field, so its parent exists.
    """
    was = value(path)
    new_text = text(right.replace("'", '"'))
    was_text = f"(type({was}) == string ? {quoted(was)} : string({was}))"
    replaced = edit("replace", path, right, new_text, was_text)
    return f"({wrong} ? ({was} == null ? {edit('add', path, right, new_text)} :\n    {replaced}) : {{}})"


def quoted(found: str) -> str:
    """Return an expression for a string as JSON, as far as numbers and template expressions need it."""
    return f"'\"' + string({found}).replace('\\\\', '\\\\\\\\').replace('\"', '\\\\\"') + '\"'"


def edit(op: str, path: Path, new: str, new_text: str, was_text: str = "") -> str:
    """Return an expression for one edit at a path below the place `p`."""
    pointer = "".join(key_in_pointer(str(key), False) for key in path)  # noqa: FBT003 - the form of Spelling.key
    before = f" + ',\"was\":' + {was_text}" if was_text else ""
    return (
        f"{{'op': dyn('{op}'), 'path': dyn(p + {text(pointer)}), 'value': dyn({new}),\n"
        f'      \'text\': dyn(\'{{"op":"{op}","path":"\' + p + \'{pointer}","now":\' + {new_text}{before} + \'}}\')}}'
    )


# JobSpecs


def job_edits(variables: Variables, row: KindSpec, profiles: Profiles) -> list[str]:
    """Add the variables for the retries of the JobSpecs of a kind; return expressions for lists of edits.

    A place is the object that has the spec of a Job and its metadata.
    """
    variables.add("inPlace", budgets.in_place(row))
    found = []
    for pattern in row.job_specs:
        places = variables.places(pattern[:-1])
        spec = "o.spec"
        name = f"({budgets.index_budgets(spec)} ? 'backoffLimitPerIndex' : 'backoffLimit')"
        number = f"{spec}[?{name}].orValue(null)"
        counted = variables.add(
            "budgets",
            f"{places}.transformMapEntry(p, o, !variables.inPlace,\n"
            f"  {{p: {number} == null ? {batch.DEFAULT_BACKOFF_LIMIT} : int({number})}})",
        )
        skipped = "variables.skips" if row is batch.JOB else skips("o.?metadata", skip_of_object())
        wanted = f"{replaceable(row)} && !{budgets.index_budgets(spec)} && !{skipped} && variables.default < n ?\n"
        wanted += "      variables.default : n"
        of_job = "variables.said"
        if row is not batch.JOB:
            own = f"o.?metadata.?annotations[?{text(names.MAX_RETRIES)}].orValue(variables.saidText)"
            of_job = f"[{own}].map(s, {said('s', skipped)})[0]"
        targets = variables.add("targets", changed(counted, places, held(asked(of_job, wanted, ""), profiles)))
        path = f"p + '{SPEC}/' + {name}"
        shown = f'\'{{"op":"\' + op + \'","path":"\' + {path} + \'","now":\' + string(n) + was + \'}}\''
        made = (
            f"[{number} == null ? 'add' : 'replace'].map(op,\n"
            f"    [{number} == null ? '' : ',\"was\":' + string({number})].map(was,\n"
            f"    {{'op': dyn(op), 'path': dyn({path}), 'value': dyn(n), 'text': dyn({shown})}})[0])[0]"
        )
        found.append(edits_at(targets, places, made))
    return found


def skip_of_object() -> str:
    """Return the value of the annotation skip of an object, which its Job templates inherit."""
    return f"object.metadata.?annotations[?{text(names.SKIP)}].orValue('')"


def replaceable(row: KindSpec) -> str:
    """Return a condition that the author of a JobSpec set no backoffLimit: batch.says_backoff_limit.

    In a stored Job, 6 is also the API's default. A last-applied manifest is searched for the name of the field, because
    CEL does not read JSON.
    """
    if row is not batch.JOB:
        return "o.spec.?backoffLimit.orValue(null) == null"
    applied = f"object.metadata.?annotations[?{text(LAST_APPLIED)}]"
    managed = field(("fieldsV1", "f:spec", "f:backoffLimit"), "m")
    return (
        f"n == {batch.DEFAULT_BACKOFF_LIMIT} &&\n"
        "    (object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false)) ?\n"
        f"      variables.limit < {batch.DEFAULT_BACKOFF_LIMIT} :\n"
        f"      {applied}.hasValue() ? !{applied}.orValue('').contains('\"backoffLimit\"') :\n"
        "      !object.metadata.?managedFields.orValue([]).exists(m, m.?operation.orValue('') == 'Apply' &&\n"
        f"        {managed}.hasValue()))"
    )
