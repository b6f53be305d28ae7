"""Writes CEL for retry budgets: how many retries each field of an object allows, by its path.

The expressions mirror webhook/systems/kind_spec.py and webhook/systems/job/spec.py; tests on a real API server compare
both.
"""

from typing import Final

from webhook.export import retry_strategies
from webhook.export.cel import UNLIMITED, Variables, path_of_keys, text, union, value
from webhook.objects.shape import Shape
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import LEAST, KindSpec, RetryField, no_sum, type_at
from webhook.systems.spark import spec as spark

EXPRESSION: Final = -1  # the number of retries that stands for a template expression, which is not checked
NUMBER: Final = "'^[+-]?[0-9]+$'"
NO_ENTRY: Final = "{}"


def field_budgets(variables: Variables, field: RetryField, shape: Shape) -> str:
    """Return an expression for the retries that a field allows, by its path.

    An entry that is left out has no budget: the field is absent, and allows no retries that count.
    """
    path = f"p + {text(path_of_keys([str(key) for key in field.name], first=not field.within))}"
    chosen = _entry(field, leaf_of(shape, field), path)
    return f"{variables.places(field.within)}.transformMapEntry(p, o,\n  {chosen})"


def _entry(field: RetryField, leaf: Shape, path: str) -> str:
    """Return an expression for the entry of the object `o`: {PATH: RETRIES}, or {}."""
    if isinstance(field, spark.ApacheRestartField):
        return _restart_entry(field, path)
    found = value(field.name)
    number, missing = _counted_number(field, found), _absent_entry(field, path)
    if leaf not in {int, str}:
        number = f"(int({found}) < {LEAST} ? {UNLIMITED} : {number})"
    if field.retries_in_sum is not no_sum:
        number = retry_strategies.counted(number, retry_strategies.expression_beside(field.name))
        if field.inherits:
            inherited = retry_strategies.inherited_entry(field, path, NUMBER)
            missing = f"({value(field.inherits, 'object')} == null ? {missing} : {inherited})"
    counted = f"{{{path}: {number}}}"
    if field.text:
        chosen = f"type({found}) == string && string({found}).matches({NUMBER}) ? {counted} : {missing}"
    elif leaf is int:
        chosen = f"{found} == null ? {missing} : {counted}"
    else:
        expression = f"type({found}) == string && !string({found}).matches({NUMBER})"
        chosen = f"{found} == null ? {missing} :\n  {expression} ? {{{path}: {EXPRESSION}}} : {counted}"
    if field.unlimited_with is None or field.counts_with is None:
        return chosen
    beside = value((*field.name[:-1], field.counts_with[0]))
    return f"{beside} == {text(field.unlimited_with)} ? {{{path}: {UNLIMITED}}} : {chosen}"


def _counted_number(field: RetryField, found: str) -> str:
    number = f"int({found})"
    if field.single:
        number = f"({number} > {field.single} ? {number} - {field.single} : 0)"
    return f"(int({found}) < 0 ? {UNLIMITED} : {number})" if field.negative_is_unlimited else number


def _absent_entry(field: RetryField, path: str) -> str:
    entries = [_where(retries, field, path) for retries in (field.absent, field.parent_absent)]
    chosen = entries[0]
    if len(field.name) > 1 and entries[0] != entries[1]:
        chosen = f"({value(field.name[:-1])} == null ? {entries[1]} : {entries[0]})"
    if field.absent_in is not None:
        version, retries = field.absent_in
        chosen = f"(object.apiVersion == {text(version)} ? {_where(retries, field, path)} : {chosen})"
    if field.inherits and chosen != NO_ENTRY:
        chosen = f"({value(field.inherits, 'object')} == null ? {chosen} : {NO_ENTRY})"
    return chosen


def _where(retries: int | None, field: RetryField, path: str) -> str:
    """Return the entry for this number of retries in an absent field; None means unlimited."""
    if retries is None:
        return f"{{{path}: {UNLIMITED}}}"
    return f"{{{path}: {retries}}}" if field.may_be_added else NO_ENTRY


def _restart_entry(field: RetryField, path: str) -> str:
    """Return the entry of maxRestartAttempts of Apache Spark's own operator, see webhook/systems/spark."""
    config = field.name[:-1]
    restarts, policy, reset = value(field.name), value((*config, "restartPolicy")), value((*config, spark.APACHE_RESET))
    number = f"{restarts} == null ? {spark.APACHE_RESTARTS} : int({restarts})"
    return (
        f"{{{path}: {policy} == null || {policy} == 'Never' ? 0 :\n"
        f"  {reset} != null && int({reset}) >= 0 ? {UNLIMITED} : {number}}}"
    )


def leaf_of(shape: Shape, field: RetryField) -> Shape:
    """Return the type of a retry field, from the shape of its kind."""
    found: Shape = type_at(shape, (*field.within, *field.name))
    return found


# JobSpecs


def _index_budgets(spec: str) -> str:
    """Return a condition that each completion index of a JobSpec has retries of its own: batch.has_index_budgets."""
    per_index, in_all = value(("backoffLimitPerIndex",), spec), value(("backoffLimit",), spec)
    return (
        f"({per_index} != null && ({value(('maxFailedIndexes',), spec)} != 0 || {in_all} == null || "
        f"{in_all} > {per_index} ||\n  {spec}.?podFailurePolicy.?rules.orValue([])"
        ".exists(r, r.?action.orValue('') == 'FailIndex')))"
    )


def in_place(kind: KindSpec) -> str:
    """Return a condition that the Jobs of an object restart in place, so that the API requires unlimited retries.

    See Traits.restarts_in_place.
    """
    if kind is CRON_JOB:
        return "false"
    if kind is batch.JOB:
        return (
            f"(object.spec.?backoffLimit.orValue(0) == {batch.UNLIMITED} && "
            "object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false) &&\n"
            f"  r.kind == {text(JOB_SET.kind)} && r.apiVersion.startsWith({text(JOB_SET.group + '/')})))"
        )
    set_spec = kind.job_specs[0][: kind.job_specs[0].index("replicatedJobs")]
    strategy = value((*map(str, set_spec), "failurePolicy", "restartStrategy"), "object")
    return f"({strategy} == 'InPlaceRestart')"


def _of_job_specs(variables: Variables, kind: KindSpec, entry: str) -> str:
    """Return an expression for an entry of each JobSpec; `entry`: a condition, if there is one, and the entry."""
    return union([f"{variables.places(one)}.transformMapEntry(p, o, {entry})" for one in kind.job_specs])


def job_budgets(variables: Variables, kind: KindSpec) -> str:
    """Return an expression for the retries of each JobSpec, by the path of the field that limits them.

    An update of a Job can change backoffLimit alone; the field is the one that limited its retries before.
    """
    judged = "(request.operation == 'UPDATE' ? oldObject.spec : object.spec)" if kind is batch.JOB else "o"
    entry = (
        f"!variables.inPlace,\n  {_index_budgets(judged)} ?\n"
        f"  {{p + '.backoffLimitPerIndex': {_number('backoffLimitPerIndex')}}} : "
        f"{{p + '.backoffLimit': {_number('backoffLimit')}}}"
    )
    return _of_job_specs(variables, kind, entry)


def _number(name: str) -> str:
    """Return the number in a field of the JobSpec `o`, the API's default if it is left out."""
    found = value((name,))
    return f"({found} == null ? {batch.DEFAULT_BACKOFF_LIMIT} : int({found}))"


def sums(variables: Variables, kind: KindSpec) -> str:
    """Return an expression for the retries of all completion indexes together, by the path of their JobSpec.

    See batch.retries_of_all_indexes.
    """
    at_once = "(o.?parallelism.orValue(null) == null ? 1 : int(o.parallelism))"
    indexes = f"(o.?completions.orValue(null) == null ? {at_once} : int(o.completions))"
    per_index, failed = "int(o.backoffLimitPerIndex)", value(("maxFailedIndexes",))
    in_all = value(("backoffLimit",))
    unlimited = str(batch.UNLIMITED)
    counts = f"{_index_budgets('o')} && {_restart_policy(kind)} != 'OnFailure'"
    least = (
        f"[{per_index} * {indexes}, {in_all} == null ? {unlimited} : int({in_all}),\n"
        f"  {failed} == null ? {unlimited} : {per_index} * (int({failed}) + {at_once})].min()"
    )
    return _of_job_specs(variables, kind, f"{counts},\n  {{p: {least}}}")


def restarted_uncounted(variables: Variables, kind: KindSpec) -> str:
    """Return an expression for backoffLimit, by JobSpec, where containers restart and only backoffLimit counts that.

    See batch.restarts_in_place_uncounted.
    """
    in_all = value(("backoffLimit",))
    counts = f"{_index_budgets('o')} && {_restart_policy(kind)} == 'OnFailure'"
    return _of_job_specs(variables, kind, f"{counts},\n  {{p: {in_all} == null ? {batch.UNLIMITED} : int({in_all})}}")


def _restart_policy(kind: KindSpec) -> str:
    """Return the restartPolicy of the JobSpec `o`; in a JobSet by default OnFailure."""
    default = "" if kind in {batch.JOB, CRON_JOB} else "OnFailure"
    return f"o.?template.?spec.?restartPolicy.orValue({text(default)})"
