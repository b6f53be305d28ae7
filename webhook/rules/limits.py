"""Denies an object whose retries exceed the limit, or have none: by its retry fields, or by restarts that are free.

Reads:
    what webhook/rules/retries.py and webhook/rules/job_sets/free_restarts.py read
"""

from collections.abc import Iterable, Iterator, Mapping

from webhook.kinds import Budget, EmbeddedJob, KindSpec, batch
from webhook.kinds.job_set import JOB_SET
from webhook.objects.problem import Json, Path, Problem
from webhook.rules import annotations, retries
from webhook.rules.contexts import ValidationContext
from webhook.rules.job_sets import free_restarts


def problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield what of an object exceeds the limit of retries, or has none."""
    row, root, old = context.row, context.root, context.old
    settings = context.profile.settings(annotations.of(root))
    old_jobs = {} if old is None else {job.path: job for job in row.jobs(old)}
    old_budgets = {} if old is None else {budget.path: budget for budget in budgets(row, old, old_jobs.values())}
    for budget in budgets(row, root, context.jobs, old_jobs if row is batch.JOB else {}):
        yield from retries.problems(budget, settings, old_budgets.get(budget.path))
    for path, template in row.templates(root):
        yield from retries.template_problems((*path, "spec"), template.get("spec") or {})
    if row is JOB_SET:
        yield from free_restarts.set_problems(root, context.jobs)
    for job in context.jobs:
        yield from retries.sum_problems(job, settings, old_jobs.get(job.path))
        if not job.traits.restarts_in_place:
            yield from retries.template_problems((*job.path, "template", "spec"), job.pod_spec)
        counted = free_restarts.is_counted(job, settings, ledger=context.facts.ledger)
        yield from free_restarts.problems(job, counted=counted)


def budgets(
    row: KindSpec, root: Json, jobs: Iterable[EmbeddedJob], old_jobs: Mapping[Path, EmbeddedJob] = {}
) -> Iterator[Budget]:
    """Yield every budget that an object names, of its Jobs and beside them.

    `old_jobs`: the Jobs by their paths before an update, in which backoffLimit alone may have changed.
    """
    for job in jobs:
        budget = batch.budget_of(job, said=True, old=old_jobs.get(job.path))
        if budget is not None:
            yield budget
    yield from row.budgets(root)
