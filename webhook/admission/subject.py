"""Reads the object of a request, and says which controller must be looked up before the rules run."""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

import msgspec

from webhook.admission import review
from webhook.admission.review import BadReviewError, GroupVersionKind, Request, Review, UnreadableError, decode_value
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import find
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import crowded, type_of, wrong_types
from webhook.rules import owner
from webhook.rules.pods import placement
from webhook.systems import airflow, core
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec, OwnerReference, controller_of
from webhook.systems.kinds import KINDS, embedded_in, kind_of_controller
from webhook.systems.spark import spec as spark

# Part of each review of a pod that an API server sends, within the first BEGINNING bytes.
POD: Final = b'"kind":{"group":"","version":"v1","kind":"Pod"}'
BEGINNING: Final = 200
LARGE: Final = 3 * bounds.MOST_ENTRIES  # bytes; a smaller object cannot have more than MOST_ENTRIES entries
LARGE_POD: Final = 128 * 1024  # bytes; a smaller pod needs no check, because the rules for pods take little time


@cache
def pod_reader() -> msgspec.json.Decoder[Review]:
    """Return a decoder of reviews of pods that decodes only the fields that the rules read.

    This halves the work for a pod: the bytes are read once instead of twice, and unread fields do not become values. It
    is made at the first use, because the command line never needs it.
    """
    pod = type_of(core.POD.shape)
    request = msgspec.defstruct("PodRequest", [("object", pod)], bases=(Request,), kw_only=True)
    return msgspec.json.Decoder(msgspec.defstruct("PodReview", [("request", request)], bases=(Review,)))


def read(body: bytes) -> Request:
    """Return the request in an AdmissionReview, of a pod with only the fields that rules read; raise BadReviewError."""
    if POD in body[:BEGINNING] and (len(body) < LARGE_POD or not review.has_too_many_parts(body)):
        try:
            request = review.decode(body, pod_reader())
        except BadReviewError:  # perhaps for a field of a wrong type, which the decoder below leaves encoded
            pass
        else:
            if (request.kind.group, request.kind.kind) == (core.POD.group, core.POD.kind):
                return request
    return review.decode(body)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a request, of a kind that the rules know."""

    request: Request
    kind: KindSpec  # of the object's kind
    root: Json  # the raw object, which mutate edits in place
    malformed: list[Problem]  # fields of a wrong type; if there is one, no rule is applied to the object
    old: Json | None = None  # the object before an update
    owner: OwnerReference | None = None  # the controller that the caller looks up for the rules
    owner_kind: KindSpec | None = None  # of the kind of a pod's controller
    controller: OwnerReference | None = None  # of a pod, of whatever kind
    takes_part: bool = False  # whether a pod is placed
    is_of_batch: bool = False  # whether it is a pod of a batch workload, placed or not: its end counts
    body: bytes | None = None  # the request, if `root` has only the fields of the row's shape

    def whole(self) -> Json:
        """Return the object with all its fields."""
        try:
            root: Json = self.root if self.body is None else decode_value(review.decode(self.body).object)
        except UnreadableError:  # because of a field that no rule reads
            return self.root
        return root


def request_to_create(root: Json) -> Request:
    """Return the request with which the API server would send a new object."""
    group, _, version = root["apiVersion"].rpartition("/")
    kind = GroupVersionKind(group=group, version=version, kind=root["kind"])
    return Request(uid="offline", kind=kind, operation="CREATE")


def subject_of(request: Request, root: Json | None = None, body: bytes = b"") -> Subject | None:
    """Return the object to which rules apply; None if no rule applies to it.

    `root`: the request's object, if the caller has decoded it and wants it edited. `body`: the bytes that `read` read.
    """
    kind = KINDS.get((request.kind.group, request.kind.kind))
    if kind is None or request.sub_resource or request.operation not in {"CREATE", "UPDATE"}:
        return None
    if kind is core.POD and request.operation == "UPDATE":
        return None
    seen: Any = request.object
    in_part = type(seen) is dict
    if not in_part or len(body) >= LARGE_POD:
        seen, found = decode_checked(request, kind, seen if in_part else root)
        if found is None:
            return None
        if found:
            # Whether the fields have the types by which a pod's workload is known.
            is_named = kind is core.POD and not wrong_types(seen, {"metadata": core.METADATA})
            of_batch = is_named and is_of_batch(seen, controller_of(seen))
            return Subject(request=request, kind=kind, root=seen, malformed=found, is_of_batch=of_batch)
    if kind is core.POD:
        return pod_subject(request, seen, body if in_part else None)
    reference = owner.exempting_controller(seen) if kind is batch.JOB else None
    if request.operation == "CREATE":
        return Subject(request=request, kind=kind, root=seen, malformed=[], owner=reference)
    old, problem = decoded(request.old_object, kind)
    malformed = wrong_types(old, kind.shape) if problem is None else [problem]
    # A new object may claim a deletionTimestamp, which the API server drops only after admission; a stored one has it.
    if not malformed and (old.get("metadata") or {}).get("deletionTimestamp") is not None:
        return None
    malformed = [Problem(("oldObject", *one.path), one.what, one.remedy) for one in malformed]
    return Subject(request=request, kind=kind, root=seen, malformed=malformed, old=old, owner=reference)


def decode_checked(request: Request, kind: KindSpec, root: Any) -> tuple[Any, list[Problem] | None]:
    """Return the object of a request, and the problems for which rules cannot read it.

    The problems are None if the object is too large but was so before the update: then no rule applies. `root`: the
    object, if it is decoded already.
    """
    seen, problem = decoded(request.object, kind) if root is None else (root, size_problem(root, kind))
    if problem is None:
        return seen, wrong_types(seen, kind.shape)
    if request.operation == "UPDATE" and decoded(request.old_object, kind)[1] is not None:
        return seen, None  # it was too large before, and its author must be able to change its labels
    return seen, [problem]


def decoded(value: msgspec.Raw, kind: KindSpec) -> tuple[Any, Problem | None]:
    """Return the decoded object and no problem; or, if it is too large for the rules, a problem; {} if unreadable."""
    try:
        root = decode_value(value)
    except UnreadableError as error:
        return {}, error.problem
    return root, size_problem(root, kind, len(memoryview(value)))


def size_problem(root: Any, kind: KindSpec, size: int = LARGE) -> Problem | None:
    """Return the problem of an object that is larger than rules read; None if it is not. `size`: its bytes as JSON."""
    if size < LARGE:
        return None
    whole, embedded = [((), root, kind)], list(embedded_in(kind, root))
    every = [*whole, *embedded, *embedded]  # twice, because a request edits and judges embedded objects
    if problem := crowded(*((path, found, one.shape) for path, found, one in every)):
        return problem
    for path, found, one in (*whole, *embedded):
        for pattern in (*((*jobs, "template") for jobs in one.job_specs), *one.pod_templates):
            for inner, template in islice(find(found, pattern), bounds.MOST_JOBS):
                if problem := crowded(((*path, *inner), template, core.POD.shape)):
                    return problem  # its pods would be too large for the rules
    jobs = [(*path, *spec) for path, found, one in every for spec in job_specs_of(one, found)]
    if len(jobs) <= bounds.MOST_JOBS:
        return None
    return Problem(jobs[-1], f"is one of more than {bounds.MOST_JOBS} Jobs", "split it into several objects")


def job_specs_of(kind: KindSpec, root: Any) -> Iterator[Path]:
    """Yield the paths of the JobSpecs in an object, at most one more than MOST_JOBS for each pattern."""
    for pattern in kind.job_specs:
        for path, _ in islice(find(root, pattern), bounds.MOST_JOBS + 1):
            yield path


def pod_subject(request: Request, root: Json, body: bytes | None) -> Subject | None:
    """Return a pod if it is placed, or if it has no controller and has annotations of ours to judge; else None.

    `body`: the request, if only some fields of the pod were decoded.
    """
    controller = controller_of(root)
    metadata = root.get("metadata") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    reference, kind = owner_of(root, controller, labels)
    is_batch = reference is not None or airflow.is_task(labels) or spark.APACHE_APPLICATION in labels
    takes_part = placement.takes_part(root, controller, batch=is_batch)
    if not (
        takes_part or is_batch or (controller is None and any(key.startswith(names.PREFIX) for key in annotations))
    ):
        return None
    return Subject(
        request=request,
        kind=core.POD,
        root=root,
        malformed=[],
        owner=reference,
        owner_kind=kind,
        controller=controller,
        takes_part=takes_part,
        is_of_batch=is_batch,
        body=body,
    )


def is_of_batch(root: Json, controller: OwnerReference | None) -> bool:
    """Return True if a pod belongs to a known batch workload."""
    labels = (root.get("metadata") or {}).get("labels") or {}
    known = owner_of(root, controller, labels)[0] is not None
    return known or airflow.is_task(labels) or spark.APACHE_APPLICATION in labels


def owner_of(
    root: Json, controller: OwnerReference | None, labels: Json
) -> tuple[OwnerReference | None, KindSpec | None]:
    """Return the object of a known batch kind to which a pod belongs, and its kind; None, None if there is none.

    It is the pod's controller, or the object that the pod's labels name.
    """
    if controller is None:
        driven = spark.application_of_driver(root) if spark.APACHE_APPLICATION in labels else None
        return driven, None if driven is None else kind_of_controller(driven)
    kind = kind_of_controller(controller)
    if kind is not None and kind.owns_pods:
        return controller, kind
    application = spark.application_of(labels)
    return application, None if application is None else kind_of_controller(application)
