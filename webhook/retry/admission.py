"""Admission of requests for retries: deny users who lack the permissions that the leader would use.

The leader acts on a few labels and annotations, with its own permissions. So a user who changes one of these fields
needs the same permissions, also if the change is not a request.

Any client that reaches the port can send a review with any user in it. So permissions and other objects are looked up
only if the review has the uid of a stored object: 122 random bits, which only users know that may read the object, or
objects created from it.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final, cast

import msgspec

from webhook.admission import modes, review
from webhook.admission.review import Response, Review
from webhook.kube import names, terminal
from webhook.kube.client import METADATA_ONLY, UNREACHABLE, Api, ApiError
from webhook.kube.clock import utc_now
from webhook.kube.paths import is_name
from webhook.kube.tasks import in_task
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.retry import reading, record, requests
from webhook.retry.record import Requested
from webhook.systems.adapter import Adapter
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.systems.reruns import ADAPTERS
from webhook.tracking.cluster import Cluster, UnavailableError, look_up

BY_KIND: Final = {(kind.group, kind.kind): adapter for kind, adapter in ADAPTERS.items()}
RULE: Final = "requested_retry"
UID: Final[Path] = ("metadata", "uid")
IDENTITY: Final = (UID, ("metadata", "namespace"), ("metadata", "name"))
TIMEOUT: Final = 8.0  # seconds; the API server waits for ten


class UserInfo(msgspec.Struct, frozen=True):
    """The user who sent a request to the API server (authentication.k8s.io/v1)."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}

    def subject(self) -> Json:
        """Return the fields of a SubjectAccessReview for this user."""
        return {"user": self.username, "uid": self.uid, "groups": self.groups, "extra": self.extra}


class UserRequest(review.Request, frozen=True, rename="camel", kw_only=True):
    """The request in an AdmissionReview, with its user."""

    user_info: UserInfo


class RequestReview(Review, frozen=True, rename="camel"):
    """An AdmissionReview with its user."""

    request: UserRequest


class RetryAdmission:
    """Answers AdmissionReviews at /retry.

    `controller`: the user who runs the retries. `now` returns the time with which that of a request is compared.
    `timeout`: seconds for all look-ups of one review.
    """

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        *,
        controller: str,
        now: Callable[[], datetime] = utc_now,
        timeout: float = TIMEOUT,
    ) -> None:
        self.controller = controller
        self.now = now
        self.timeout = timeout
        self.api = api
        self.cluster = cluster

    def read(self, body: bytes) -> UserRequest:
        """Decode an AdmissionReview; raise BadReviewError if it is malformed."""
        return cast("UserRequest", review.decode(body, reader))

    async def judge(self, request: UserRequest) -> Response | None:
        """Accept a request for a retry, or deny it with the reason; return None if the review contains no request.

        Raise UnavailableError if the API does not answer.
        """
        adapter = BY_KIND.get((request.kind.group, request.kind.kind))
        if adapter is None or request.operation not in {"CREATE", "UPDATE"}:
            return None
        try:
            root, old = review.decode_value(request.object), review.decode_value(request.old_object) or {}
        except review.UnreadableError as error:
            return _denied(error.problem)
        asks = request.operation == "UPDATE" and not request.sub_resource and requests.requests_retry(root, old)
        changed = requests.guarded_changes(root, old)
        if not asks and not changed:
            return None
        try:
            return await in_task(self.answer(request, adapter, root, old, changed, asks=asks))
        except (ApiError, *UNREACHABLE) as error:
            raise UnavailableError(
                f"the API server did not check the rights of the user: {error!r}; try again"
            ) from error

    async def answer(  # noqa: PLR0913 - as above
        self, request: UserRequest, adapter: Adapter, root: Json, old: Json, changed: list[Path], *, asks: bool
    ) -> Response:
        """Judge an update that requests a retry (`asks`), or changes fields of retries; raise as `Api` does."""
        async with asyncio.timeout(self.timeout):
            if request.operation == "CREATE":
                return await self._judge_creation(request, adapter, root)
            if not asks and changed == [record.ANNOTATION] and set(record.read(root)) <= set(record.read(old)):
                return _patched(requests.restore_record(root, old))  # a replaced object has lost it
            if not await self.is_stored(request, adapter.kind, root, old):
                return _denied(
                    Problem(
                        UID, f"no {adapter.kind.kind} has this name and uid", "read it again, and repeat the change"
                    )
                )
            found = await self._judge_request(request, adapter, root) if asks else Response()
            if found.patch:
                changed = [path for path in changed if path not in {requests.ACCEPTED, requests.MARK}]  # patched
            if found.found or not changed:
                return found
            denial = await self._check_permissions(request, adapter, root, changed[0]) or await self._check_changes(
                request, root, old, changed
            )
            return denial or (found if asks else _cancelled(root))

    async def _judge_creation(self, request: UserRequest, adapter: Adapter, root: Json) -> Response:
        """Judge a new object: a placeholder or a successor needs permissions, others lose all fields of retries.

        Raise as `Api` does.
        """
        if adapter is of_job.ADAPTER and of_job.is_placeholder(root):
            denial = await self._judge_placeholder(request, of_job.state_of(root))
            denial = denial or await self._check_permissions(request, adapter, root, requests.SUCCESSOR)
            return denial or _patched(requests.removal_of(root, requests.ACCEPTED, record.ANNOTATION))
        if adapter is of_job.ADAPTER and await self._placeholder_of(request, root) is not None:
            denial = await self._check_permissions(request, adapter, root, requests.RETRY_OF)
            return denial or _patched(requests.removal_of(root, *requests.NOT_COPIED, requests.SUCCESSOR))
        return _patched(requests.removal_of(root, *requests.NOT_COPIED, requests.SUCCESSOR, requests.RETRY_OF))

    async def find(self, kind: KindSpec, namespace: str, name: str, accept: str = "application/json") -> Json | None:
        """Return an object; None if it does not exist or the name is not valid. Raise UnavailableError."""
        if not is_name(namespace) or not is_name(name):
            return None
        return await look_up(self.api, kind.path(namespace, name), accept)

    async def is_stored(self, request: UserRequest, kind: KindSpec, *states: Json) -> bool:
        """Return True if all of these are states of the object with the request's name; raise UnavailableError."""
        found = await self.find(kind, request.namespace, request.name, METADATA_ONLY)
        return found is not None and all(at(one, path) == at(found, path) for one in states for path in IDENTITY)

    async def _placeholder_of(self, request: UserRequest, root: Json) -> Json | None:
        uid, name = at(root, (*requests.ANNOTATIONS, names.RETRY_OF)), at(root, ("metadata", "name"))
        if not isinstance(uid, str) or not isinstance(name, str):
            return None
        found = await self.find(batch.JOB, request.namespace, of_job.placeholder_name(name, uid))
        if found is None or not of_job.is_placeholder(found) or of_job.state_of(found).uid != uid:
            return None
        return found

    async def _judge_placeholder(self, request: UserRequest, state: of_job.RetryState) -> Response | None:
        """Deny a placeholder that does not match its failed Job; return None if it does. Raise as `Api` does."""
        job = await self.find(batch.JOB, request.namespace, state.name)
        if (
            job is None
            or job["metadata"]["uid"] != state.uid
            or not terminal.has_failed(job)
            or state.stage != "Stored"
        ):
            name = f"Job {request.namespace}/{state.name}"
            what = f"contains the manifest of {name}, which has not failed, or has another uid"
            return _denied(Problem(requests.SUCCESSOR, what, "request the retry again"))
        if state.history != of_job.history_of(job, state.by, state.at):
            what = f"names another requester than Job {request.namespace}/{state.name}"
            return _denied(Problem(requests.SUCCESSOR, what, "run: retry-policy retry"))
        return await self._check_requesters(request, {state.by}, requests.SUCCESSOR)

    async def _judge_request(self, request: UserRequest, adapter: Adapter, root: Json) -> Response:
        """Judge a request for a retry: accept it with a patch, deny it, or ignore it with a warning.

        Raise as `Api` does.
        """
        _, mode = await self.cluster.opt_in(request.namespace)
        if mode not in modes.ENFORCED:
            what = f"no retries in mode {mode}"
            return Response(warnings=[Problem(requests.REQUESTED_AT, what, "run: retry-policy retry")])
        now = self.now()
        if problem := requests.problem(root, now):
            return _denied(problem)
        keep_finally = requests.keeps_finally(root)
        found = await reading.read(self.api, adapter, root, now.isoformat(), keep_finally=keep_finally)
        run = found.run if found.placeholder is None else None
        if problem := requests.outdated(root, run or root):
            return Response(warnings=[problem])
        refusal = adapter.refusal(found)
        if refusal is not None:
            refusal = msgspec.structs.replace(refusal, path=requests.REQUESTED_AT)
        if refusal is not None and run is None:
            # A CronJob without a Job that could run again: the request may be an old one, for an earlier Job.
            return Response(warnings=[refusal])
        if denial := await self._check_permissions(request, adapter, root, requests.REQUESTED_AT):
            return denial
        if refusal is not None:
            return _denied(refusal)
        requested = Requested(
            at=at(root, requests.REQUESTED_AT), by=request.user_info.username, of=adapter.run_id(found)
        )
        return Response(patch=msgspec.json.encode(requests.accept(root, requested)), edited=[RULE])

    async def _check_permissions(
        self, request: UserRequest, adapter: Adapter, root: Json, path: Path
    ) -> Response | None:
        """Deny users who lack the permissions that the leader would use; None for others. Raise as `Api` does."""
        rights = adapter.rights(root)
        user = request.user_info.subject()
        missing = await reading.missing_rights(self.api, request.namespace, rights, user=user)
        if not missing:
            return None
        what = f"{request.user_info.username} may not {', '.join(str(right) for right in missing)}"
        return _denied(Problem(path, what, "ask for these rights, or a user who has them"))

    async def _check_changes(self, request: UserRequest, root: Json, old: Json, changed: list[Path]) -> Response | None:
        """Deny changes of fields that only the webhook or the leader writes; return None for others.

        Raise as `Api` does.
        """
        if requests.ACCEPTED in changed and at(root, requests.ACCEPTED) is not None:
            path, what = requests.ACCEPTED, "is written by the webhook alone"
            return _denied(Problem(path, what, f"set {requests.REQUESTED_AT[-1]} instead"))
        if requests.SUCCESSOR in changed and at(root, requests.SUCCESSOR) is not None:
            if of_job.is_placeholder(root) and of_job.is_placeholder(old) and of_job.differ_in_stage_alone(root, old):
                return None
            return _denied(
                Problem(requests.SUCCESSOR, "must not be changed", "delete the Job if the retry is not needed")
            )
        if record.ANNOTATION not in changed or await self._matches_placeholder(request, root, old):
            return None
        before = record.read(old)
        asks = {one.by for one in record.read(root) if one not in before}
        return await self._check_requesters(request, asks, record.ANNOTATION)

    async def _matches_placeholder(self, request: UserRequest, root: Json, old: Json) -> bool:
        placeholder = await self._placeholder_of(request, old)
        return placeholder is not None and bool(at(root, record.ANNOTATION) == of_job.state_of(placeholder).history)

    async def _check_requesters(self, request: UserRequest, asks: set[str], path: Path) -> Response | None:
        """Deny users, except the controller, who name other users as requesters; return None for others.

        Raise as `Api` does.
        """
        name = request.user_info.username
        others = asks - {name}
        if not others or name == self.controller:
            return None
        what = f"names {', '.join(sorted(others))} as requester, and you are {name}"
        return _denied(Problem(path, what, "request the retry in your own name"))


def _cancelled(root: Json) -> Response:
    """Return the response to an update that removes the mark of a request: remove the accepted request too."""
    return Response() if requests.is_marked(root) else _patched(requests.removal_of(root, requests.ACCEPTED))


def _patched(operations: list[Json]) -> Response:
    return Response(patch=msgspec.json.encode(operations) if operations else b"")


def _denied(problem: Problem) -> Response:
    return Response(found=[(RULE, problem)])


reader: msgspec.json.Decoder[Review] = msgspec.json.Decoder(RequestReview)
