"""What a requested retry needs to know of a kind: one `Adapter` for each, in the file of its name. Pure.

The executor reads and writes; an adapter says what is read, why a retry is refused, and what is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from webhook.kinds import KindSpec
from webhook.objects.problem import Json, Problem


class Right(NamedTuple):
    """What a user must be allowed to do."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {'/'.join(filter(None, (self.resource, self.subresource)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An object, and what was read around it.

    `run`: what would run again: the object itself; of a CronJob its last Job, None if it has none. `when`: the time at
    which it is judged, RFC 3339. `controller`: the CronJob of a Job. `children`: what a PipelineRun runs.
    `placeholder`: of a CronJob, that of a Job which is being created again. `keep_finally`: whether the tasks of
    `finally` that have succeeded do not run again.
    """

    root: Json
    run: Json | None
    when: str
    controller: Json | None = None
    children: tuple[Json, ...] = ()
    placeholder: Json | None = None
    keep_finally: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """What an object runs: of which kinds, by which label selector, and whether one that has it is the object's."""

    rows: tuple[KindSpec, ...]
    selector: Callable[[Json], str]
    is_child: Callable[[Json, Json], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What is written to make an object run again as it is, in this order.

    `record`: a JSON Patch that says who asked, empty if that is written already. `deleted`: children that go.
    `again`: returns the object with the status that lets it run, given the object as it is stored by then.
    """

    record: list[Json]
    deleted: tuple[Json, ...]
    again: Callable[[Json], Json]


def nothing(_: Json) -> list[Json]:
    """Return an empty JSON Patch."""
    return []


def never(_: Workload) -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """How an object runs again as it is: its end is taken back.

    `steps`: what is written, for a user. `has_begun`: whether it runs again by now, given its state before that.
    `is_taken_back`: whether its end is taken back already. `resume`: a JSON Patch to its spec, after that.
    `is_stopped`: whether somebody has stopped it after that. `is_left_undone`: whether a retry was recorded and has not
    begun. `watches_controller`: whether its controller may end it at once again, by what it remembers.
    """

    steps: Callable[[Workload, str], Steps]
    has_begun: Callable[[Workload, Workload], bool]
    is_taken_back: Callable[[Workload], bool] = never
    resume: Callable[[Json], list[Json]] = nothing
    is_stopped: Callable[[Workload], bool] = never
    is_left_undone: Callable[[Workload], bool] = never
    watches_controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What a requested retry means for one kind.

    `rights`: what a user must be allowed to do to make an object run again. `run_id`: names the run that has failed,
    empty if there is none. `refusal`: why it cannot run again, None if it can. `promise`: a line that says what of it
    will run again. `cannot_be_suspended`: why an object can be neither suspended nor resumed, None if it can.

    What is read around an object: `children`; `controller`, if that is of this kind. `in_place`: None where an object
    runs again as another one under its name. `runs`: the adapter of what it creates, the last of which runs again in
    its place. `has_finally`: whether some of its tasks run last, whatever has happened.
    """

    row: KindSpec
    rights: Callable[[Json], list[Right]]
    run_id: Callable[[Workload], str]
    refusal: Callable[[Workload], Problem | None]
    promise: Callable[[Workload], str]
    cannot_be_suspended: Callable[[Json], Problem | None]
    children: Children | None = None
    controller: KindSpec | None = None
    in_place: InPlace | None = None
    runs: "Adapter | None" = None
    has_finally: bool = False

    @property
    def of_run(self) -> "Adapter":
        """The adapter of what runs again: of a CronJob that of its Jobs."""
        return self.runs or self
