"""Denies an object with more retries than the limit, or with unlimited ones: by its retry fields, or by free restarts.

Reads:
    the fields that webhook/rules/{retries,in_place}.py and webhook/systems/job_set/rules/free_restarts.py read
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import miscased
from webhook.rules import annotations, in_place, retries
from webhook.rules.contexts import ValidationContext
from webhook.rules.rule import Rule
from webhook.systems.job import spec as batch
from webhook.systems.job_set.rules import free_restarts
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import Budget, EmbeddedJob, KindSpec


def problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield a problem for each field or rule of an object that allows more retries than the limit."""
    kind, root, old = context.kind, context.root, context.old
    settings = context.profile.settings(annotations.of(root))
    old_jobs = {} if old is None else {job.path: job for job in kind.jobs(old)}
    old_budgets = {} if old is None else {budget.path: budget for budget in budgets(kind, old, old_jobs.values())}
    for budget in budgets(kind, root, context.jobs, old_jobs if kind is batch.JOB else {}):
        yield from retries.problems(budget, settings, old_budgets.get(budget.path))
    if old is None:
        for budget in chain.from_iterable(field.budgets(root) for field in kind.stored_retry_fields):
            yield from retries.problems(budget, settings, None)
    if kind.ignores_case:
        yield from miscased(root, kind.shape)
    for path, template in kind.templates(root):
        yield from in_place.problems((*path, "spec"), template.get("spec") or {}, settings, counted=False)
    if kind is JOB_SET:
        yield from free_restarts.set_problems(root, context.jobs)
    for job in context.jobs:
        yield from retries.sum_problems(job, settings, old_jobs.get(job.path))
        counted = free_restarts.is_counted(job, settings, ledger=context.facts.ledger)
        if not job.traits.restarts_in_place:
            yield from in_place.problems((*job.path, "template", "spec"), job.pod_spec, settings, counted=counted)
        yield from free_restarts.problems(job, counted=counted)


def budgets(
    kind: KindSpec, root: Json, jobs: Iterable[EmbeddedJob], old_jobs: Mapping[Path, EmbeddedJob] = {}
) -> Iterator[Budget]:
    """Yield every budget in an object: those of its Jobs, then those in its other fields.

    `old_jobs`: by their paths, the Jobs before an update, which can change only backoffLimit.
    """
    for job in jobs:
        budget = batch.budget_of(job, said=True, old=old_jobs.get(job.path))
        if budget is not None:
            yield budget
    yield from kind.budgets(root)


RULE: Final[Rule[ValidationContext]] = Rule(name="retries", applies_to="each object", problems=problems)
