"""Reads from the API what a requested retry depends on: a workload, related objects, and a user's permissions."""

from http import HTTPStatus
from operator import itemgetter
from typing import Final, Self

from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError
from webhook.kube.paths import is_name, path_of
from webhook.objects.problem import Json, Problem
from webhook.systems.account_object import owners_of
from webhook.systems.adapter import Adapter, Right, Workload
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec, controller_of

FINAL: Final = {*map(HTTPStatus, (400, 403, 404, 409, 413, 422))}  # statuses that the same request would get again
LONGEST_ERROR: Final = 600  # characters of the API server's answer in a problem


class ProblemError(Exception):
    """An error with a problem: what is wrong, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the error for a problem."""
        return cls(problem.what, problem.remedy)


class RefusedError(ProblemError):
    """The retry is not possible; nothing was changed."""


class StuckError(ProblemError):
    """The retry has begun and cannot continue now; the problem names the object that has the manifest."""


def brief(error: ApiError) -> str:
    """Return the API server's answer, cut so that the rest of a problem fits after it."""
    return str(error)[:LONGEST_ERROR]


AUTHORIZATION: Final = "authorization.k8s.io/v1"


async def read(  # noqa: PLR0913 - the object, and the parameters of the retry
    api: Api,
    adapter: Adapter,
    root: Json,
    when: str,
    *,
    keep_finally: bool = False,
    known: list[Json] | None = None,
) -> Workload:
    """Return an object with the related objects; raise as `Api` does.

    `when`: the time at which the retry is judged, RFC 3339. `known`: the placeholders of the namespace, if they have
    been read already.
    """
    run: Json | None = root
    placeholder: Json | None = None
    if adapter.runs is not None:
        namespace = root["metadata"]["namespace"]
        held = await placeholders(api, namespace) if known is None else known
        placeholder = next((one for one in held if of_job.is_for_job_of(one, root)), None)
        run = await last_of(api, adapter.runs.kind, root)
    return Workload(
        root=root,
        run=run,
        when=when,
        controller=await controller(api, adapter, root),
        children=await children_of(api, adapter, root),
        placeholder=placeholder,
        keep_finally=keep_finally,
    )


async def last_of(api: Api, kind: KindSpec, owner: Json) -> Json | None:
    """Return the newest object of a kind that `owner` owns; None if there is none. Raise as `Api` does."""
    metadata = owner["metadata"]
    path = kind.path(metadata["namespace"])
    mine = [
        one["metadata"] async for one in api.objects(path, {}, METADATA_ONLY_LIST) if metadata["uid"] in owners_of(one)
    ]
    last = max(mine, key=itemgetter("creationTimestamp"), default=None)
    found = None if last is None else await api.find(f"{path}/{last['name']}")
    return found if last is not None and found is not None and found["metadata"]["uid"] == last["uid"] else None


async def controller(api: Api, adapter: Adapter, root: Json) -> Json | None:
    """Return the controller of an object if it has the adapter's kind of controller; else None. Raise as `Api` does."""
    reference, kind = controller_of(root), adapter.controller
    if kind is None or reference is None or (reference.group, reference.kind) != (kind.group, kind.kind):
        return None
    if not is_name(reference.name):
        return None
    return await api.find(kind.path(root["metadata"]["namespace"], reference.name))


async def children_of(api: Api, adapter: Adapter, root: Json) -> tuple[Json, ...]:
    """Return the children of an object, each with its kind, which items of a list lack; raise as `Api` does."""
    children = adapter.children
    if children is None:
        return ()
    selector = {"labelSelector": children.selector(root)}
    return tuple(
        [
            {**one, "kind": kind.kind}
            for kind in children.kinds
            async for one in api.objects(kind.path(root["metadata"]["namespace"]), selector)
            # The label alone is also on objects of its children.
            if root["metadata"]["uid"] in owners_of(one)
        ]
    )


async def placeholders(api: Api, namespace: str) -> list[Json]:
    """Return the placeholders in a namespace: one for each Job whose retry is in progress. Raise as `Api` does."""
    selector = {"labelSelector": names.RETRY_OF}
    return [one async for one in api.objects(batch.JOB.path(namespace), selector) if of_job.is_placeholder(one)]


async def workload_of(api: Api, job: Json) -> Json | None:
    """Return Kueue's Workload of a Job; None if there is none.

    Raise RefusedError if the user may not read Workloads, and as `Api` does.
    """
    try:
        version = (await api.get("/apis/kueue.x-k8s.io"))["preferredVersion"]["groupVersion"]
        path = path_of(version, "workloads", job["metadata"]["namespace"])
        async for one in api.objects(path, {}, METADATA_ONLY_LIST):
            if job["metadata"]["uid"] in owners_of(one):
                return await api.find(f"{path}/{one['metadata']['name']}")
    except ApiError as error:
        if error.status not in FINAL:
            raise
        if error.status != HTTPStatus.NOT_FOUND:
            what = f"Job {job['metadata']['namespace']}/{job['metadata']['name']} is in a Kueue queue"
            what += f", and its Workload, which keeps its manifest, cannot be read: {brief(error)}"
            raise RefusedError(what, "ask for the right to read it, or create the Job again") from None
    return None


async def missing_rights(api: Api, namespace: str, rights: list[Right], *, user: Json | None = None) -> list[Right]:
    """Return those of these permissions that a user lacks in a namespace; raise as `Api` does.

    `user`: the user's fields in a SubjectAccessReview; None for the user of this connection.
    """
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    found = []
    for right in rights:
        attributes = {**right._asdict(), "namespace": namespace}
        spec = {**(user or {}), "resourceAttributes": attributes}
        review = {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec}
        answer = await api.create(path_of(AUTHORIZATION, f"{kind.lower()}s"), review)
        if not answer["status"].get("allowed"):
            found.append(right)
    return found


async def absent(api: Api, kind: KindSpec, namespace: str, name: str) -> Problem:
    """Return why an object is not found: its name does not exist, or its kind is not installed. Raise as `Api` does."""
    if await api.find(kind.path(namespace)) is None:
        return Problem((), f"this cluster does not serve {kind.resource}", f"install the CRD of {kind.group}")
    return Problem(
        (), f"{kind.kind} {namespace}/{name} does not exist", f"list them: kubectl get -n {namespace} {kind.resource}"
    )
