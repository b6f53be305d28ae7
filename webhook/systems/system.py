"""System: what the ledger must know of a workload kind with an account. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from webhook.objects.patch import unless_changed
from webhook.objects.problem import Json, Path
from webhook.objects.times import written
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.kind_spec import KindSpec


class Spent(NamedTuple):
    """What the scope of a pod had spent before the pod ended, and what it may spend.

    `retries`, `disruptions`: those that are counted; in an account with very many scopes fewer than there were.
    `budget`: the retries of the scope, from the pod's annotation max-retries, which admission wrote. `ended`: whether a
    fatal end of the scope is among the last attempts, since the last requested retry.
    """

    retries: int
    disruptions: int
    budget: int
    ended: bool = False


CostOf = Callable[[Pod, Json, Spent, Settings], AttemptCost]


class Write(NamedTuple):
    """A write that ends or suspends a workload, or a part of it: the JSON Patch of an object, and its API path."""

    path: str
    operations: list[Json]


class Create(NamedTuple):
    """As `Write`: the creation of an object that tells the controller to do so; the API path of its kind."""

    path: str
    root: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A workload kind with an account.

    - `kind`: its KindSpec. `unit`: what a scope of it is called.
    - `has_ended`: returns whether the workload, as the API has it, has ended, is about to, or is suspended: then it
      deletes its pods itself.
    - `cost_of`: returns what the end of a pod cost, as its controller counts it: the pod, the workload, what was spent,
      and the settings. A retry where none was left becomes fatal afterwards. The workload is as the API has it if the
      pod was deleted while it ran, or with `reads_spec`, and else may have its metadata alone: `spec` and `status` are
      empty then. That is also so before a new pod is admitted. None if its pods are those of Jobs: their
      podFailurePolicy says it.
    - `ends_bugs`: whether the leader has to end it after a bug, because its controller would start the pod again. Then
      `cost_of` returns what the controller would count, and the leader records that the end was fatal.
    - `fail`: returns the write that ends the workload, or the part of it that a pod belongs to, for a reason with a
      message, so that its controller does not start the pod again; None if its users have no way to do so, or its end
      is decided. The pod is None where none is known that ended.
    - `suspend`: returns the write that suspends it until a person resumes it; None if that is not possible.
    - `writes`: the fields that `fail` and `suspend` write, outside the status, each with the values that they set; no
      values for any text. A field is at the top of the spec, or one level below.
    - `reads_spec`: whether `cost_of` needs the spec of the workload.
    - `bounded`: whether its controller ends a workload without retries left. If not, the leader does.
    - `coupled`: whether the pods of a workload depend on each other, so that all crash if one is disrupted.
    - `scopes_end_alone`: whether a scope may fail and others go on.
    - `knows_retries`: whether the API says how many retries a scope has. If not, no end of a pod is the last for it.
    - `is_single`: returns whether a scope has one pod at a time. If not, its disruptions are counted, but no limit ends
      the workload.
    """

    kind: KindSpec
    unit: str
    has_ended: Callable[[Json], bool]
    cost_of: CostOf | None
    ends_bugs: bool = False
    fail: Callable[[Json, Pod | None, str, str], Write | Create | None] = lambda _root, _pod, _reason, _message: None
    suspend: Callable[[Json], Write | Create | None] = lambda _: None
    writes: dict[Path, tuple[str | bool, ...]] = field(default_factory=dict)
    reads_spec: bool = False
    bounded: bool = True
    coupled: bool = False
    scopes_end_alone: bool = False
    knows_retries: bool = True
    is_single: Callable[[str], bool] = lambda _: True

    @property
    def has_jobs(self) -> bool:
        """Whether its pods are those of Jobs, whose podFailurePolicy says what their ends cost."""
        return self.cost_of is None


def set_in_spec(kind: KindSpec, root: Json, name: str, *, value: str | bool) -> Write:
    """Return the write that sets a field of the spec of a workload, unless it has changed since it was read."""
    return Write(kind.path_to(root), [unless_changed(root), {"op": "add", "path": f"/spec/{name}", "value": value}])


def status_of(kind: KindSpec, root: Json) -> str:
    """Return the API path of the status of a workload."""
    return f"{kind.path_to(root)}/status"


def condition(kind: str, reason: str, message: str) -> Json:
    """Return a condition of this type that has just become true."""
    now = written(datetime.now(UTC).timestamp())
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
