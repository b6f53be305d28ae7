"""PodSource: what a system reads from its pods: the workload that counts them, and which attempt of it each one is."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings, count
from webhook.systems.kind_spec import KindSpec, OwnerReference


class Place(NamedTuple):
    """The workload that a pod is counted for, and its scope there: what has budgets of its own.

    `kind`: that of the object that has the account. `uid`: that of the object; empty if the pod does not say it.
    `scope`: such as a node of a Workflow, a task of a PipelineRun, or `worker/0`; empty if the workload has one scope.
    """

    kind: KindSpec
    name: str
    uid: str
    scope: str


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


def joined(metadata: Json, *keys: str) -> str:
    """Return the values of labels in a pod's metadata, as a scope."""
    labels = metadata.get("labels") or {}
    return "/".join(labels.get(key) or "" for key in keys)


def no_place(_metadata: Json, _controller: OwnerReference) -> Place | None:
    """Return None: the pod is counted for no workload, or as one of a Job."""
    return None


class PodSource(NamedTuple):
    """What is read from the pods of one kind of controller, or of several kinds by several sources.

    `controller`: the kind of the controller; NONE for pods without one, ANY for all pods. `name`: the value of the
    annotation attempt-source. `levels` returns the levels of a pod, none if its signal is absent or malformed; it
    appends warnings to `evidence.warnings`. `place` returns what a pod is counted for, by its metadata and its
    controller, which is NOBODY if it has none. `is_counted`: whether the ledger counts disruptions of these pods.
    `replaces` returns whether the system replaces a pod that is lost, and counts no retry; None if it never does.
    `leaders`: labels of the pods without which all others of a workload have worked in vain, each with its value.
    `is_of_group`: whether all pods of a gang have the same attempt.
    """

    controller: KindSpec | tuple[str, str]
    name: str
    levels: Callable[[Evidence], list[Level]] = lambda _: []
    place: Callable[[Json, OwnerReference], Place | None] = no_place
    is_counted: bool = True
    replaces: Callable[[Evidence], bool] | None = None
    leaders: tuple[tuple[str, str], ...] = ()
    is_of_group: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind of the controller, the kind in lower case, as Flyte writes its own."""
        one = self.controller
        return one if isinstance(one, tuple) else (one.group, one.kind.lower())


NONE: Final = ("", "NONE")  # no kind in lower case
ANY: Final = ("", "ANY")
NOBODY: Final = OwnerReference("", "", "", "", "")
