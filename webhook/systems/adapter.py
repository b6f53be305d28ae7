"""The interface of a kind for requested retries: one `Adapter` for each kind, in the file of its name. Pure.

The executor reads and writes; an adapter defines what is read, why a retry is refused, and what is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from webhook.objects.problem import Json, Problem
from webhook.objects.times import time_of
from webhook.retry import record, requests
from webhook.systems.kind_spec import KindSpec


class Right(NamedTuple):
    """A permission that a user needs."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {'/'.join(filter(None, (self.resource, self.subresource)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An object and the related objects.

    `run`: the object that would run again: the object itself, or the last Job of a CronJob, None if it has no Job.
    `when`: the time at which the retry is judged, RFC 3339. `controller`: the CronJob of a Job. `children`: the
    TaskRuns and CustomRuns of a PipelineRun. `placeholder`: that of a CronJob's Job whose retry is in progress.
    `keep_finally`: whether tasks of `finally` that have succeeded do not run again. `is_recorded`: whether this retry
    has recorded itself already, also if the object has been ended again since.
    """

    root: Json
    run: Json | None
    when: str
    controller: Json | None = None
    children: tuple[Json, ...] = ()
    placeholder: Json | None = None
    keep_finally: bool = False
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """The children of an object, which owns them: their kinds and their label selector."""

    kinds: tuple[KindSpec, ...]
    selector: Callable[[Json], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The writes that make an object run again in place, in this order.

    `record`: a JSON Patch that records the retry; empty if it is recorded already. `deleted`: the children to delete.
    `again`: returns the object with a status in which it runs, given the object as stored then.
    """

    record: list[Json]
    deleted: tuple[Json, ...]
    again: Callable[[Json], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """How an object runs again in place: its end is removed from its status.

    `steps` returns the writes, for a user. `has_begun`: whether it runs again, given its current and its former state.
    `is_reset`: whether the end is removed already. `resume` returns a JSON Patch of its spec for after that.
    `is_stopped`: whether a user has stopped it since. `is_unfinished`: whether a retry was recorded but did not begin.
    `watches_controller`: whether its controller may end it again at once, from an old cache. `status`: the path of its
    status below its own, empty if an update of the object writes it.
    """

    steps: Callable[[Workload, str], Steps]
    has_begun: Callable[[Workload, Workload], bool]
    is_reset: Callable[[Workload], bool] = lambda _: False
    resume: Callable[[Json], list[Json]] = lambda _: []
    is_stopped: Callable[[Workload], bool] = lambda _: False
    is_unfinished: Callable[[Workload], bool] = lambda _: False
    watches_controller: bool = False
    status: str = "/status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """The requested retries of one kind.

    `rights` returns the permissions that a user needs to make an object run again. `run_id` returns the name of the run
    that has failed, empty if there is none. `refusal` returns why the object cannot run again, None if it can.
    `what_reruns` returns a line that says which parts will run again. `cannot_be_suspended` returns why an object can
    be neither suspended nor resumed, None if it can.

    Related objects that are read: `children`, and the controller if it is of the kind `controller`. `in_place`: None if
    an object runs again as another object of the same name. `runs`: the adapter of the objects that it creates; the
    last of these runs again instead of it. `has_finally`: whether the object may have tasks of `finally`.
    """

    kind: KindSpec
    rights: Callable[[Json], list[Right]]
    run_id: Callable[[Workload], str]
    refusal: Callable[[Workload], Problem | None]
    what_reruns: Callable[[Workload], str]
    cannot_be_suspended: Callable[[Json], Problem | None]
    children: Children | None = None
    controller: KindSpec | None = None
    in_place: InPlace | None = None
    runs: "Adapter | None" = None
    has_finally: bool = False

    @property
    def of_run(self) -> "Adapter":
        """The adapter of the object that runs again: for a CronJob that of Jobs."""
        return self.runs or self


def rights_in_place(kind: KindSpec, *deleted: KindSpec, status: str = "status") -> Callable[[Json], list[Right]]:
    """Return the `rights` of a kind whose objects run again in place: it is patched, and its status is updated.

    `deleted`: the kinds of the children that are deleted. `status`: the subresource of the status; empty without one.
    """
    update = Right("update", kind.group, kind.resource, status)
    found = [Right("patch", kind.group, kind.resource), update]
    found += [Right("delete", one.group, one.resource) for one in deleted]
    return lambda _: [*found]


def is_recorded(found: Workload, run: str) -> bool:
    """Return True if the retry of this run is recorded already."""
    return found.is_recorded or record.is_last(found.root, run)


def record_of(found: Workload, by: str, run: str) -> list[Json]:
    """Return the JSON Patch that records a retry, marks the object for the leader, and continues its account.

    Empty if it is recorded already.
    """
    if is_recorded(found, run):
        return []
    return requests.begin_anew(found.root, record.Requested(at=found.when, by=by, of=run))


def with_status(kind: KindSpec, root: Json, status: Json) -> Json:
    """Return an object of a kind with another status, as an update of it."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind}
    return {**named, "metadata": root["metadata"], "spec": root["spec"], "status": status}


def has_new_child(now: Workload, before: Workload) -> bool:
    """Return True if an object has a child that it did not have before."""
    known = {child["metadata"]["uid"] for child in before.children}
    return any(child["metadata"]["uid"] not in known for child in now.children)


def was_undone(found: Workload) -> bool:
    """Return True if a retry of an object that has failed was recorded, but the object has no newer child.

    Its controller does that from an old cache, which still has the children that failed.
    """
    last = record.read(found.root)
    since = requests.time_of(last[-1].at) if last else None
    return since is not None and not any(
        (time_of(child["metadata"]["creationTimestamp"]) or since) >= since for child in found.children
    )
