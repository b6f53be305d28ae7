"""What the spec of a Job or JobSet says in the record of its end. Pure."""

from typing import Any

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.policy.settings import LARGEST_COUNT
from webhook.systems.job import spec as batch


def fields_of(spec: Json, *, of_set: bool) -> dict[str, Any]:
    """Return the fields of a WorkloadRecord that a spec says; `of_set`: whether it is that of a JobSet."""
    if of_set:
        retries = at(spec, ("failurePolicy", "maxRestarts")) or 0
        return {"retries": max(0, min(retries, LARGEST_COUNT))}
    return {
        "retries": max(0, min(batch.retry_budget(spec), LARGEST_COUNT)),
        "per_index": batch.has_index_budgets(spec),
        "indexed": batch.is_indexed(spec),
        "completions": spec.get("completions") or 0,
        "parallelism": spec.get("parallelism") or 0,
    }
