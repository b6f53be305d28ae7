"""Level: a counter of attempts with its budget. Evidence: the data about a pod that the sources read."""

from collections.abc import Callable

import msgspec

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings, count
from webhook.systems.kind_spec import OwnerReference


class Level(msgspec.Struct, frozen=True):
    """A counter of attempts: `attempt` is 0-based, `budget` the number of retries after the first attempt.

    `source`: the value of the annotation attempt-source. `of_disruptions`: whether it counts disruptions, against the
    disruption budget.
    """

    source: str
    attempt: int
    budget: int
    of_disruptions: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The data about a pod that a source may read.

    `pod`: the pod, perhaps with only those fields that the shape of its KindSpec names. `whole` returns the pod with
    all fields, which takes longer. `controller`: the controller in the pod's ownerReferences, or in the labels that
    replace them. `owner`: the object that `controller` names; `above`: the controller of `owner`, if it counts attempts
    too. Both are None if there is no such object. `disruptions` and `failures`: the counts of the ledger, None if it
    has none. `warnings`: sources append one for each malformed signal.
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
    def settings_budget(self) -> int:
        """The retries of a workload that has no field for them: max-retries, or else the profile's default."""
        max_retries = self.settings.max_retries
        return self.settings.default_retries if max_retries is None else max_retries

    def count_in_annotations(self, key: str) -> int | None:
        """Return a whole number in the pod's annotations; None if absent, None with a warning if malformed."""
        return self.count(self.annotations.get(key), "annotations", key)

    def count_in_labels(self, key: str) -> int | None:
        """Return a whole number in the pod's labels; None if absent, None with a warning if malformed."""
        return self.count(self.labels.get(key), "labels", key)

    def count(self, text: str | None, part: str, key: str) -> int | None:
        """Return the whole number in `text`, the value of a key in the pod's metadata.PART; see `count_in_labels`."""
        number = None if text is None else count(text)
        if text is not None and number is None:
            self.warn(("metadata", part, key), text)
        return number

    def warn(self, path: Path, text: object) -> None:
        """Append a warning about the malformed signal of another system."""
        self.warnings.append(Problem(path, f"is {str(text)[:20]!r}", "ignored: must be 0 or more"))


def number_at(root: Json | None, path: Path) -> int | None:
    """Return the whole number, 0 or more, at a path of an object whose types are not checked; None if there is none."""
    value = at(root, path)
    if isinstance(value, str):
        return count(value)
    return value if type(value) is int and value >= 0 else None
