"""Writes CEL for the annotations of ours that authors write: which values are malformed or forbidden.

The expressions mirror webhook/policy/settings.py and webhook/rules/annotations.py.
"""

from typing import Final

from webhook.export.cel import Variables, plain_list, text, union
from webhook.kube import names
from webhook.objects.patch import Pattern
from webhook.policy import deadline
from webhook.policy.quantities import PLAIN
from webhook.policy.settings import LARGEST_COUNT
from webhook.systems.kind_spec import KindSpec

BOOLEANS: Final = (names.INDEPENDENT_PODS, names.INTERRUPTIBLE, names.RETRYABLE, names.SKIP)
DIGITS: Final = f"'^[0-9]{{1,{len(str(LARGEST_COUNT))}}}$'"

IS_DURATION: Final = (
    "variables.said[p].matches('^([0-9]{1,10}h)?([0-9]{1,10}m)?([0-9]{1,10}s)?$') && variables.said[p].matches('[1-9]')"
)
IS_FACTOR: Final = "variables.said[p].matches('^0*[1-9][0-9]*([.][0-9]+)?x$')"
IS_TIME: Final = "variables.said[p].matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,}(Z|[+-][0-9:]{5})$')"


def patterns(kind: KindSpec) -> list[Pattern]:
    """Return the patterns of all annotations that the webhook judges in a kind."""
    fields = (*kind.pod_annotations, *kind.judged_annotations)
    templates = [*kind.pod_templates, *((*spec, "template") for spec in kind.job_specs)]
    of_jobs = [spec[:-1] for spec in kind.job_specs if len(spec) > 1]
    return list(
        dict.fromkeys(
            [
                ("metadata", "annotations"),
                *((*field.within, *field.name) for field in fields),
                *((*place, "metadata", "annotations") for place in (*templates, *of_jobs)),
            ]
        )
    )


def said(variables: Variables, kind: KindSpec) -> str:
    """Return an expression for the values of our annotations, by path."""
    found = [
        f"{variables.places(pattern)}.transformMapEntry(p, o,\n"
        f"  o.transformMapEntry(key, v, key.startsWith({text(names.PREFIX)}), {{p + '[' + key + ']': string(v)}}))"
        for pattern in patterns(kind)
    ]
    return union(found)


def problems() -> list[str]:
    """Return expressions for lists of problems; the variables `said` and those of the profile must exist."""
    new = "!p.startsWith('before: ') && variables.said[?('before: ' + p)] != optional.of(variables.said[p])"
    found = []
    limits = {names.ATTEMPT: "", names.MAX_RETRIES: "mostRetries", names.MAX_DISRUPTIONS: "mostDisruptions"}
    for key, limit in limits.items():
        of_key = f"variables.said.filter(p, p.endsWith({text(f'[{key}]')}) && {new}"
        number = f"int(variables.said[p]) <= {LARGEST_COUNT}"
        whole = f"variables.said[p].matches({DIGITS}) && {number}"
        remedy = "'must be a whole number, 0 or more'"
        if limit:
            bounded = f"'must be a whole number from 0 to ' + string(variables.{limit})"
            remedy = f"(variables.{limit} == {LARGEST_COUNT} ? {remedy} : {bounded})"
            found.append(
                f"{of_key} && {whole} &&\n"
                f"  int(variables.said[p]) > variables.{limit}).map(p, p + ': ' + string(int(variables.said[p])) +\n"
                f"  ' is more than the ' + string(variables.{limit}) + ' that profile \\'' + variables.profile +\n"
                f"  '\\' allows; set ' + string(variables.{limit}) + ' or less')"
            )
        found.append(f"{of_key} && !({whole})).map(p,\n  p + ': is \\'' + variables.said[p] + '\\'; ' + {remedy})")
    endings = plain_list([f"[{key}]" for key in BOOLEANS])
    found.append(
        f"variables.said.filter(p, {endings}.exists(key, p.endsWith(key)) && {new} &&\n"
        "  !(variables.said[p] in ['true', 'false'])).map(p,\n"
        "  p + ': is \\'' + variables.said[p] + '\\'; must be \"true\" or \"false\"')"
    )
    is_amount = f"variables.said[p].matches({text(f'^{PLAIN.pattern}$')})"
    for key, right, remedy in (
        (names.WORK, IS_DURATION, deadline.DURATION),
        (names.CHECKPOINT, IS_DURATION, deadline.DURATION),
        (names.DEADLINE, f"({IS_FACTOR} || {IS_DURATION} || {IS_TIME})", deadline.REMEDY),
        (names.ON_FAILURE, "variables.said[p] == 'Off'", 'must be "Off"'),
        (names.MEMORY_LIMIT, is_amount, "must be an amount of memory such as 32Gi"),
    ):
        found.append(
            f"variables.said.filter(p, p.endsWith({text(f'[{key}]')}) && {new} && !({right})).map(p,\n"
            f"  p + ': is \\'' + variables.said[p] + '\\'; {remedy}')"
        )
    found.append(
        f"variables.said.filter(p, p.endsWith({text(f'[{names.SKIP}]')}) && {new} &&\n"
        "  variables.said[p] == 'true' && !variables.allowSkip).map(p, p + ': profile \\'' + variables.profile +\n"
        "  '\\' does not allow workloads to be left alone; remove the annotation')"
    )
    return found
