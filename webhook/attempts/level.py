"""A level: one counter with its budget."""

from dataclasses import dataclass

from webhook.policy.settings import Settings
from webhook.problem import Json
from webhook.workloads import batch


@dataclass(frozen=True, slots=True)
class Level:
    """`attempt` is 0-based, `budget` the retries after the first attempt, `source` the value of attempt-source."""

    source: str
    attempt: int
    budget: int


def budget_of(owner: Json | None, settings: Settings) -> int:
    """Return a level's budget: the owner's retry field where known, else max-retries, else the profile's default."""
    if owner is not None and owner.get("spec") is not None:
        return batch.retry_budget(owner["spec"])
    if settings.max_retries is not None:
        return settings.max_retries
    return settings.default_retries
