"""Applies the profile's limit to every retry field, and its default to fields that the author left out.

Reads and writes:
    in a JobSpec: backoffLimit; if each index has retries of its own, backoffLimitPerIndex, and backoffLimit as the
        bound of their sum
    elsewhere: the retry fields of the kind
    in a pod template: what webhook/rules/in_place.py writes
Reads, in a JobSpec:
    completions, parallelism, maxFailedIndexes, template.spec.restartPolicy
"""

from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects.patch import Editor, Pattern
from webhook.objects.problem import Problem, field
from webhook.policy.settings import Settings
from webhook.rules import in_place
from webhook.rules.rule import Rule, in_job_specs
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import Budget, EmbeddedJob, KindSpec

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext, WorkloadContext

# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (
    ("backoffLimit",),
    ("backoffLimitPerIndex",),
    *(("template", "spec", *field) for field in in_place.RESTARTS),
)


def writes_beside(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind outside JobSpecs."""
    fields = [field.written for field in kind.retry_fields]
    beside = [
        (*field.within, *field.name[:-1], field.counts_with[0]) for field in kind.retry_fields if field.counts_with
    ]
    restarts = [(*template, "spec", *field) for template in kind.pod_templates for field in in_place.RESTARTS]
    return (*fields, *beside, *restarts)


def edit(budget: Budget, settings: Settings, editor: Editor) -> list[Problem]:
    """Apply max-retries, the default and, if the profile clamps, the limit to a retry field; return warnings."""
    retries = budget.retries
    warnings = []
    if not settings.skip and settings.max_retries is not None:
        if settings.max_retries == retries and budget.expression is None:
            pass  # typed clients would drop a 0 that we write into an absent field, and JobSet refuses that update
        elif budget.may_raise or settings.max_retries < (retries or 0):
            retries = settings.max_retries
            allow(budget, retries, editor)
        else:
            what = f"stays {retries}: other fields forbid retries"
            warnings = [Problem(budget.path, what, f"remove {names.MAX_RETRIES}")]
    elif budget.expression is not None:
        most = settings.profile.retries.limit
        means = "is not checked" if budget.is_bounded is None else f"allows {most} retries at most"
        return [Problem(budget.path, f"{budget.expression[:40]!r} {means}", "write a number to have it checked")]
    elif not settings.skip and budget.replaceable and (retries is None or settings.default_retries < retries):
        retries = settings.default_retries
        allow(budget, retries, editor)
    if settings.profile.retries.on_exceed == "Clamp":
        unchanged = retries == budget.retries
        warnings += clamp(budget, counted(budget, settings) if unchanged else retries, settings, editor)
    return warnings


def edit_update(
    budget: Budget, settings: Settings, editor: Editor, old: Budget, old_settings: Settings
) -> list[Problem]:
    """Apply max-retries and the clamp to an update of a Job, which can change only backoffLimit; return warnings.

    They apply only to what this update changes: a Job that was admitted under another policy keeps its number.
    """
    unchanged = (settings.max_retries, budget.retries) == (old_settings.max_retries, old.retries)
    if unchanged or budget.path[-1] != "backoffLimit":
        return []
    retries = budget.retries
    if settings.max_retries is not None and not settings.skip:
        retries = settings.max_retries
        allow(budget, retries, editor)
    if settings.profile.retries.on_exceed == "Clamp" and exceeds(retries, old.retries):
        return clamp(budget, retries, settings, editor)
    return []


def allow(budget: Budget, retries: int, editor: Editor) -> None:
    """Set a retry field so that it allows `retries` retries."""
    if budget.required_sibling is not None:
        editor.set(*budget.required_sibling)
    number = retries + budget.single
    editor.set(budget.path, str(number) if budget.text else number)


def clamp(budget: Budget, retries: int | None, settings: Settings, editor: Editor) -> list[Problem]:
    """Lower a retry field to the limit if it exceeds it; return a warning if it did."""
    limit = settings.profile.retries.limit
    if not exceeds(retries, limit):
        return []
    allow(budget, limit, editor)
    before = "unlimited" if retries is None else retries + budget.single
    what = f"{before} lowered to {limit + budget.single}"
    return [Problem(budget.path, what, f"profile {settings.profile_name!r} allows no more")]


def problems(budget: Budget, settings: Settings, old: Budget | None) -> list[Problem]:
    """Return a problem if a retry field exceeds the limit; `old`: before an update, which must have made it worse."""
    limit = settings.profile.retries.limit
    retries = counted(budget, settings)
    if budget.is_bounded is False and not exceeds(retries, limit) and (old is None or old.is_bounded is not False):
        remedy = "write a number, or an `expression` without tags, comments and `;`"
        return [Problem(budget.path, f"may become more than the limit of {limit}", remedy)]
    if not exceeds(retries, limit) or (old is not None and not exceeds(retries, counted(old, settings))):
        return []
    if budget.retries is None and budget.required_sibling is not None:
        path, counting = budget.required_sibling
        remedy = f"set {counting}, and {budget.path[-1]} {limit + budget.single} or less"
        return [Problem(path, "allows unlimited retries", remedy)]
    amount = "unlimited retries" if retries is None else f"{retries} retries"
    what = f"{amount} exceed the limit of {limit} in profile {settings.profile_name!r}"
    if budget.single:
        what += f" (the field counts runs: {budget.single} means no retry)"
    return [Problem(budget.path, what, f"set {limit + budget.single} or less")]


def counted(budget: Budget, settings: Settings) -> int | None:
    """Return the retries of a field: with those after disruptions, if these are more than the profile allows."""
    if budget.retries is None or budget.disruptions <= settings.profile.disruptions.limit:
        return budget.retries
    return budget.retries + budget.disruptions


def sum_problems(job: EmbeddedJob, settings: Settings, old: EmbeddedJob | None) -> list[Problem]:
    """Return a problem if all completion indexes of a Job together may retry too often; `old`: before an update."""
    found = sum_allowed(job, settings)
    before = None if old is None else sum_allowed(old, settings)
    if found is None or (before is not None and not exceeds(found[0], before[0])):
        return []
    retries, limit = found
    profile = f"profile {settings.profile_name!r}"
    remedy = f"set {field((*job.path, 'backoffLimit'))}, which bounds their sum, to {limit} or less"
    if batch.restarts_in_place_uncounted(job):
        path = (*job.path, "template", "spec", "restartPolicy")
        what = "OnFailure restarts containers in place, which backoffLimitPerIndex does not count"
        return [Problem(path, what, f"use Never, or {remedy}")]
    what = f"allows {retries} retries of all indexes together, and {profile} allows {limit} (retries.total)"
    return [Problem((*job.path, "backoffLimitPerIndex"), what, remedy)]


def clamp_sum(job: EmbeddedJob, settings: Settings, editor: Editor, old: EmbeddedJob | None = None) -> list[Problem]:
    """Bound the retries of all completion indexes together, if the profile clamps; return warnings."""
    found = sum_allowed(job, settings)
    if found is None or settings.profile.retries.on_exceed != "Clamp" or not sum_problems(job, settings, old):
        return []
    path = (*job.path, "backoffLimit")
    editor.set(path, found[1])
    what = f"lowered to {found[1]}, the limit of retries of all indexes together"
    return [Problem(path, what, f"profile {settings.profile_name!r} allows no more")]


def sum_allowed(job: EmbeddedJob, settings: Settings) -> tuple[int, int] | None:
    """Return the retries of all completion indexes together, and the limit that they exceed; None if they do not."""
    retries = batch.retries_of_all_indexes(job.spec)
    limit = settings.profile.retries.total
    if retries is not None and batch.restarts_in_place_uncounted(job):
        retries, limit = batch.sum_of_failures(job.spec), settings.profile.retries.limit
    return None if retries is None or retries <= limit else (retries, limit)


def exceeds(retries: int | None, limit: int | None) -> bool:
    """Return True if there are more retries than the limit; None means unlimited, for each of them."""
    return limit is not None and (retries is None or retries > limit)


def _edit_job(context: "JobContext") -> list[Problem]:
    job, settings, editor = context.job, context.settings, context.editor
    budget = context.budget
    if budget is None:
        return []
    if budget.path[-1] == "backoffLimit" and batch.has_index_budgets(job.spec):
        warnings = list[Problem]()  # the rule many_pods has applied it
    else:
        warnings = edit(budget, settings, editor)
    if context.workload.clamps:
        path, counts = (*job.path, "template", "spec"), context.is_counted
        warnings += in_place.edit(path, job.pod_spec, settings, editor, counted=counts)
    return [*warnings, *clamp_sum(job, settings, editor)]


def _edit_workload(context: "WorkloadContext") -> list[Problem]:
    """Apply the default and the limit to the retry fields of a kind, and to the containers of its pod templates."""
    kind, root, settings, editor = context.kind, context.root, context.settings, context.editor
    warnings: list[Problem] = []
    for budget in list(kind.budgets(root)):
        warnings += edit(budget, settings, editor)
    for path, template in kind.templates(root):
        if context.clamps:
            warnings += in_place.edit((*path, "spec"), template.get("spec") or {}, settings, editor, counted=False)
    return warnings


IN_JOB: Final[Rule["JobContext"]] = Rule(
    name="retries", applies_to="each Job", even_if_skipped=True, edit=_edit_job, writes=in_job_specs(*WRITES)
)
IN_WORKLOAD: Final[Rule["WorkloadContext"]] = Rule(
    name="retries",
    applies_to="the retry fields and pod templates of a kind",
    edit=_edit_workload,
    even_if_skipped=True,
    writes=writes_beside,
)
