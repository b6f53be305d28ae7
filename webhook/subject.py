"""What a request asks about, and what must be looked up before the rules can run."""

import msgspec

from webhook import names
from webhook.attempts import airflow
from webhook.capacity import Provider
from webhook.problem import Json, Problem
from webhook.review import Request
from webhook.rules import placement
from webhook.shape import wrong_types
from webhook.workloads import WORKLOADS, OwnerReference, Workload, core, row_of, spark
from webhook.workloads.row import controller_of


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the shell looked up before the rules run.

    `profile_name` and `mode`: what the namespace's labels say; no profile is not opted in, no mode is Enforce. `owner`:
    the controller of a pod, None where it has none that a row knows, or it is gone; `above`: the controller of that,
    where it counts attempts too. `disruptions`: what the ledger has counted for this pod, None where it knows nothing.
    `recognised`: the cluster's capacity provider, None where none was. `defaulted`: whether the object comes from the
    API, or a file. `message_patterns`: whether JobSets have onJobFailureMessagePatterns.
    """

    profile_name: str | None
    mode: str | None = None
    owner: Json | None = None
    above: Json | None = None
    disruptions: int | None = None
    recognised: Provider | None = None
    defaulted: bool = True
    message_patterns: bool = True


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the rules know: its kind's row, and the fields whose types are wrong.

    `old`: the object before an update, else None. `owner`: the controller that the shell is to look up for the rules;
    None where they need none. `takes_part`: whether it is a pod that is placed.
    """

    request: Request
    row: Workload
    malformed: list[Problem]
    old: Json | None = None
    owner: OwnerReference | None = None
    takes_part: bool = False

    @property
    def root(self) -> Json:
        """The raw object, which the rules edit in place."""
        root: Json = self.request.object
        return root


def subject_of(request: Request) -> Subject | None:
    """Return what the rules are to look at; None if no rule has a say, so that nothing needs to be looked up."""
    row = WORKLOADS.get((request.kind.group, request.kind.kind))
    if row is None or request.sub_resource or request.operation not in {"CREATE", "UPDATE"}:
        return None
    malformed = list(wrong_types(request.object, row.shape))
    if malformed:
        return Subject(request=request, row=row, malformed=malformed)
    metadata = request.object.get("metadata") or {}
    if metadata.get("deletionTimestamp") is not None:
        return None
    if row is not core.POD:
        if request.operation == "CREATE":
            return Subject(request=request, row=row, malformed=[])
        old = request.decode_old()
        return Subject(request=request, row=row, malformed=list(wrong_types(old, row.shape, ("oldObject",))), old=old)
    return pod_subject(request) if request.operation == "CREATE" else None


def pod_subject(request: Request) -> Subject | None:
    """Return a pod that is placed, or that a person made and said something on that has to be judged."""
    controller = controller_of(request.object)
    metadata = request.object.get("metadata") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    owner = owner_of(controller, labels)
    batch = owner is not None or airflow.is_task(labels)
    takes_part = placement.takes_part(request.object, controller, batch=batch)
    judged = controller is None and not names.SAID.isdisjoint(annotations)
    if not takes_part and not judged:
        return None
    return Subject(request=request, row=core.POD, malformed=[], owner=owner, takes_part=takes_part)


def owner_of(controller: OwnerReference | None, labels: Json) -> OwnerReference | None:
    """Return the object of a known batch kind that a pod belongs to: its controller, or what its labels name."""
    if controller is None:
        return None
    row = row_of(controller)
    return controller if row is not None and row.owns_pods else spark.application_of(labels)
