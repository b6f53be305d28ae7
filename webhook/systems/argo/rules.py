"""Injects an expression into Argo's retryStrategies: a bug fails a step at once, and a disruption costs no retry.

Reads and writes, in each retryStrategy of a WorkflowSpec: the one of all templates, that of templateDefaults, and those
of templates whose steps are pods:
    limit: the retries, and in addition as many disruptions as the profile allows
    expression: retries while there are fewer than those, and after a disruption in any case
    retryPolicy: Always, because a deleted pod is an error to Argo; what the author wrote becomes part of the expression
Beside a limit that is a template expression, in every template and whatever the policy injects:
    expression: at most as many retries as the profile allows, disruptions among them
    retryPolicy: OnFailure where the author wrote neither, because an expression would make it Always
Reads, in a template:
    the fields that say its type

Argo has one counter for all attempts of a step. So a retry is granted while there were fewer attempts than retries,
and a disruption as long as the limit allows (processNodeRetries in workflow/controller/operator.go of Argo 3.7.3).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from webhook.objects.patch import EVERY, Pattern, at, find
from webhook.objects.problem import Json, Path, Problem
from webhook.policy import costs
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule
from webhook.systems.argo import spec as argo
from webhook.systems.kind_spec import NUMBER, KindSpec, is_expression

if TYPE_CHECKING:
    from webhook.rules.contexts import WorkloadContext

# An expression has 500 characters, and is stored twice: a Workflow that was accepted must not get too large.
MOST_STRATEGIES: Final = 150
# What Argo does by itself with an attempt that has this status.
STATUSES: Final = {
    "Always": "",
    "OnFailure": "lastRetry.status == 'Failed'",
    "OnError": "lastRetry.status == 'Error'",
}
# A retryStrategy of all templates applies to steps and DAGs too, whose children have had retries of their own.
CHILD_FAILED: Final = 'lastRetry.message matches "^(child \'|$)"'
CAUSES: Final = ("exitCode", "message")  # with one of these an author's expression judges why an attempt failed


class Strategy(NamedTuple):
    """One retryStrategy: what is written at `path`, `own`, and `merged`, with what it inherits.

    Both without what bounds a limit that is a template expression. `shared`: whether it applies to several templates.
    `decides`: whether it decides about pods.
    """

    path: Path
    own: Json
    merged: Json
    shared: bool = False
    decides: bool = True


def writes(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return the patterns of the retryStrategies of a kind; none if it is not one of Argo's."""
    if kind not in argo.KINDS:
        return ()
    spec = argo.spec_of(kind)
    return tuple(
        (*within, "retryStrategy")
        for within in (spec, (*spec, "templateDefaults"), (*spec, "templates", EVERY, argo.INLINE))
    )


def _edit(context: "WorkloadContext") -> list[Problem]:
    """Inject the expressions into every retryStrategy that is there; return warnings about those left alone."""
    kind, root, settings, editor = context.kind, context.root, context.settings, context.editor
    found = list(_strategies(kind, root))
    warnings: list[Problem] = []
    injects = not settings.skip and settings.profile.failure_policy.inject != "Never"
    if injects and sum(strategy.decides for strategy in found) > MOST_STRATEGIES:
        path = (*argo.spec_of(kind), "templates")
        what = f"more than {MOST_STRATEGIES} retryStrategies: bugs are retried, disruptions cost a retry"
        warnings, injects = [Problem(path, what, "use one of templateDefaults")], False
    is_raised = False  # whether the limit of templateDefaults counts disruptions
    for strategy in found:
        fields: Json = {}
        if injects and strategy.decides:
            fields, warning = _wanted(strategy, settings)
            warnings += warning
        if strategy.path == (*argo.spec_of(kind), "templateDefaults", "retryStrategy"):
            is_raised = "limit" in fields
        elif is_raised and not fields and not strategy.shared and "limit" not in strategy.own:
            fields = {"limit": strategy.merged["limit"]}  # not the one that it would inherit
        if is_expression(strategy.merged.get("limit")):
            fields = _bounded(strategy, fields, settings)
        editor.update(strategy.path, fields)
    return warnings


def _bounded(strategy: Strategy, fields: Json, settings: Settings) -> Json:
    """Return the fields to write in a retryStrategy whose limit is a template expression: with a bound of its own."""
    if not fields and strategy.path[-2] != "templateDefaults" and not strategy.own.keys() & {"limit", "expression"}:
        return {}  # it inherits the bound
    merged = {**strategy.merged, **fields}
    expression = merged.get("expression") or ""
    if not argo.is_closed(expression):
        limit = settings.profile.retries.limit
        return {"limit": limit} if settings.profile.retries.on_exceed == "Clamp" else {}  # else /validate denies it
    said = merged.get("retryPolicy") or ("Always" if expression else "OnFailure")
    return {"retryPolicy": said, "expression": argo.bounded(expression, settings.profile.retries.limit)}


def _strategies(kind: KindSpec, root: Json) -> Iterator[Strategy]:
    spec = argo.spec_of(kind)
    defaults = at(root, (*spec, "templateDefaults", "retryStrategy"))
    for within in (spec, (*spec, "templateDefaults")):
        own = at(root, (*within, "retryStrategy"))
        if own is not None:
            own = _without_bound(own, own)
            yield Strategy((*within, "retryStrategy"), own, own, shared=True)
    for path, template in find(root, (*spec, "templates", EVERY, argo.INLINE)):
        own = template.get("retryStrategy")
        if own is not None:
            merged = {**_without_sum(defaults), **own} if defaults else own
            decides = bool(defaults) or not argo.IN_PODS.isdisjoint(template)
            yield Strategy(
                (*path, "retryStrategy"), _without_bound(own, merged), _without_bound(merged, merged), decides=decides
            )


def _without_bound(strategy: Json, merged: Json) -> Json:
    """Return a retryStrategy without the bound in its expression, if the limit that it has or inherits needs one."""
    expression = strategy.get("expression")
    if not expression or not is_expression(merged.get("limit")):
        return strategy
    return {**strategy, "expression": argo.without_bound(expression)[0]}


def _without_sum(strategy: Json) -> Json:
    retries = argo.retries_in_sum(strategy)
    return strategy if retries is None else {**strategy, "limit": min(retries, max(0, int(strategy["limit"])))}


def _wanted(strategy: Strategy, settings: Settings) -> tuple[Json, list[Problem]]:
    """Return the fields to write in a retryStrategy, none to leave it alone, and warnings."""
    merged = strategy.merged
    limit, earlier = merged.get("limit"), argo.condition_in(merged.get("expression") or "")
    retries = _retries_of(limit, earlier, settings)
    if retries is not None and retries > settings.profile.retries.limit:
        return {}, []  # /validate denies it
    if retries == 0 and not settings.max_disruptions:
        warns = earlier is None and settings.disruption_action == "Ignore"
        warning = Problem((*strategy.path, "limit"), "0: disruptions fail the step too", "max-disruptions allows some")
        return {}, [warning] if warns else []
    if earlier is None:
        condition, warnings = _condition_of(strategy, settings)
        if not condition:
            return {}, warnings
    else:
        condition = earlier[0]
    if settings.disruption_action == "FailJob":
        return {"retryPolicy": "Always", "expression": f"({condition}) && !({argo.IS_DISRUPTED})"}, []
    fields: Json = {"retryPolicy": "Always", "expression": argo.sparing_disruptions(condition, retries)}
    if retries is not None and limit is not None:
        free = settings.disruption_budget if settings.disruption_action == "Ignore" else 0
        fields["limit"] = str(retries + free) if isinstance(limit, str) else retries + free
    return fields, []


def _retries_of(limit: Any, earlier: tuple[str, int | None] | None, settings: Settings) -> int | None:
    """Return the retries that a limit allows without disruptions; None if it is a template expression or absent."""
    if limit is None or not NUMBER.fullmatch(str(limit)):
        return None
    number = max(0, int(limit))
    if earlier is None or earlier[1] is None:
        return number
    return min(number, earlier[1]) if settings.max_retries is None else settings.max_retries


def _condition_of(strategy: Strategy, settings: Settings) -> tuple[str, list[Problem]]:
    """Return when an attempt is retried that was not disrupted; nothing and a warning to leave a strategy alone."""
    expression = strategy.merged.get("expression") or ""
    policy = strategy.merged.get("retryPolicy") or ("Always" if expression else "OnFailure")
    if expression and settings.profile.failure_policy.inject == "IfAbsent":
        return "", []
    if policy not in STATUSES:
        what = f"{policy[:40]!r} is kept: bugs are retried, disruptions cost a retry"
        return "", [Problem((*strategy.path, "retryPolicy"), what, "use Always, OnFailure or OnError")]
    if not argo.is_closed(expression):
        what = "is kept: bugs are retried, disruptions cost a retry"
        return "", [Problem((*strategy.path, "expression"), what, "leave out tags, comments and `;`")]
    codes = costs.retriable_codes(settings.on_failure, settings.profile.failure_policy.retriable_exit_codes)
    judges = any(cause in expression for cause in CAUSES)
    parts = (
        f"({expression})" if expression else "",
        STATUSES[policy],
        "" if judges else _is_no_bug(codes),
        f"!({CHILD_FAILED})" if strategy.shared else "",
    )
    return " && ".join(filter(None, parts)), []


def _is_no_bug(codes: list[int]) -> str:
    """Return the condition that no container ended with a code that is not retriable."""
    other = f"lastRetry.status == 'Error' || !(lastRetry.message matches '^{argo.EXITED}')"
    if not codes:
        return f"({other})"
    return f"({other} || lastRetry.message matches '^{argo.EXITED}({'|'.join(map(str, codes))})[)]')"


# After the limit, from which it takes the number of retries.
RULE: Final[Rule["WorkloadContext"]] = Rule(
    name="failure_policy",
    applies_to="the retryStrategies of a workload of Argo Workflows",
    even_if_skipped=True,
    edit=_edit,
    writes=writes,
)
