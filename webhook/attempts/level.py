"""A level: one counter with its budget; and what is known of a pod whose levels are asked for."""

from collections.abc import Callable

import msgspec

from webhook.kinds import OwnerReference
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings, count


class Level(msgspec.Struct, frozen=True):
    """`attempt` is 0-based, `budget` the retries after the first attempt, `source` the value of attempt-source.

    `of_disruptions`: whether it counts disruptions, against the budget that they have for themselves.
    """

    source: str
    attempt: int
    budget: int
    of_disruptions: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a source may look at.

    `pod` may have only the fields that its row's shape names; `whole` returns it with all, which takes longer.
    `controller` is what the pod's ownerReferences name, or the labels that stand for them; `owner` that object, and
    `above` the controller of that, where it counts attempts too: None where there is none, or it is gone.
    `disruptions` and `failures`: what the ledger knows, None where it knows nothing. `warnings` grows by one for each
    malformed signal.
    """

    pod: Json
    annotations: Json
    labels: Json
    whole: Callable[[], Json]
    controller: OwnerReference | None
    owner: Json | None
    above: Json | None
    settings: Settings
    disruptions: int | None = None
    failures: int | None = None
    warnings: list[Problem] = msgspec.field(default_factory=list)

    @property
    def said_budget(self) -> int:
        """The retries where no field of the workload tells: max-retries, else the profile's default."""
        max_retries = self.settings.max_retries
        return self.settings.default_retries if max_retries is None else max_retries

    def count_in_annotations(self, key: str) -> int | None:
        """Read a whole number in the pod's annotations; warn about anything else that is there."""
        return self.count(self.annotations.get(key), "annotations", key)

    def count_in_labels(self, key: str) -> int | None:
        """Read a whole number in the pod's labels; warn about anything else that is there."""
        return self.count(self.labels.get(key), "labels", key)

    def count(self, text: str | None, part: str, key: str) -> int | None:
        """Read a whole number that stands in a part of the pod's metadata; warn about anything else."""
        number = None if text is None else count(text)
        if text is not None and number is None:
            self.warn(("metadata", part, key), text)
        return number

    def warn(self, path: Path, text: object) -> None:
        """Warn about a malformed signal of another system."""
        self.warnings.append(Problem(path, f"is {str(text)[:20]!r}", "not a count, not used"))


def number_at(root: Json | None, path: Path) -> int | None:
    """Read a whole number in an object of the API, whose types nobody has checked; None if there is none."""
    value = at(root, path)
    if isinstance(value, str):
        return count(value)
    return value if type(value) is int and value >= 0 else None
