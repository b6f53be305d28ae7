"""Reads from the API what a report of a live cluster needs, with the rights of its user."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from webhook.accounts import cached
from webhook.accounts.cached_account import ACCOUNT_READ
from webhook.history.amounts import SPEC_READ
from webhook.insight.report.live import recorded_profile
from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError
from webhook.kube.paths import path_of
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape, type_of
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.systems import core
from webhook.systems.account_object import ACCOUNT
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET, SET_NAME
from webhook.systems.kind_spec import KindSpec

METADATA: Final[Any] = {**at(cached.JOB_READ, ("metadata",)), "creationTimestamp": str}
CONDITIONS: Final[Shape] = [dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), str)]
JOB: Final[Any] = type_of(
    {
        "metadata": METADATA,
        "spec": {**at(cached.JOB_READ, ("spec",)), "template": {"spec": SPEC_READ}},
        "status": {"completionTime": str, "conditions": CONDITIONS},
    }
)
SET: Final[Any] = type_of(
    {
        "metadata": METADATA,
        "spec": {"suspend": bool, "failurePolicy": at(cached.JOB_SET_READ, ("spec", "failurePolicy"))},
        "status": {"conditions": CONDITIONS},
    }
)
POD: Final[Any] = type_of(pods.READ)
NODE: Final[Any] = type_of({"metadata": {"name": str, "labels": {ANY_KEY: str}}, "spec": {"providerID": str}})
NODES: Final = path_of("v1", "nodes")
ANNOTATIONS: Final[Any] = {"annotations": dict.fromkeys((names.RETRY_HISTORY, names.POLICY), str)}
OTHER: Final[Any] = type_of({"metadata": {**METADATA, **ANNOTATIONS}})
OF_ACCOUNT: Final[Any] = type_of({"apiVersion": str, "kind": str, **ACCOUNT_READ})
MOST_PODS: Final = 1_000_000


class ReportScope(NamedTuple):
    """What a report covers: a namespace, or all with None; a profile; workloads that a label selector selects."""

    namespace: str | None = None
    profile: str | None = None
    selector: str | None = None

    def query(self, *others: str) -> dict[str, str]:
        """Return the query for objects under the profile, or any, that other selectors select too."""
        profile = names.PROFILE if self.profile is None else f"{names.PROFILE}={self.profile}"
        return {"labelSelector": ",".join((profile, *filter(None, others)))}


class Query(NamedTuple):
    """A list of the API: its path, query and media type."""

    path: str
    query: dict[str, str]
    accept: str = "application/json"


class Loaded(NamedTuple):
    """What the API has, and notes about what the user may not read; `others`: workloads of other kinds, by kind."""

    jobs: list[Json]
    job_sets: list[Json]
    pods: list[Pod]
    nodes: list[Json]
    notes: list[str]
    others: Mapping[KindSpec, list[Json]] = {}
    accounts: Sequence[Json] = ()


class NothingReadError(Exception):
    """The user may read neither Jobs nor JobSets; the message says what to do."""


class Loader:
    """Reads the objects of a scope; `progress` is called with what is being read."""

    def __init__(
        self, api: Api, scope: ReportScope, progress: Callable[[str], None], left_out: LeftOut = RAISING
    ) -> None:
        self.api = api
        self.scope = scope
        self.progress = progress
        self.left_out = left_out
        self.notes: list[str] = []
        self.refused: list[str] = []

    async def load(self) -> Loaded:
        """Return what the API has; raise NothingReadError, and what `Api` raises but for rights that are missing."""
        scope = self.scope
        job_sets = await self.workloads(JOB_SET, SET, scope.query(scope.selector or ""))
        jobs = await self.workloads(batch.JOB, JOB, scope.query(scope.selector or ""))
        if batch.JOB.resource in self.refused and not job_sets:
            where = "of the cluster" if scope.namespace is None else f"in namespace {scope.namespace}"
            remedy = "name a namespace with -n" if scope.namespace is None else "ask for the right to list them"
            raise NothingReadError(f"you may not list the Jobs {where}: {self.notes[-1]}; {remedy}")
        if scope.selector is not None and job_sets:  # the Jobs of a JobSet have labels of their own
            known = {job["metadata"]["uid"] for job in jobs}
            of_sets = await self.workloads(batch.JOB, JOB, scope.query(SET_NAME))
            jobs += [job for job in of_sets if job["metadata"]["uid"] not in known]
        pods = await self.pods()
        query = Query(ACCOUNT.path(self.scope.namespace), {})
        missing = "what has ended and is gone is missing"
        accounts = [one async for one in self.listed(ACCOUNT.resource, query, OF_ACCOUNT, missing)]
        counted = {at(one, ("spec", "uid")) for one in accounts}
        others = {row: found for row in WITHOUT_JOBS if (found := await self.others(row, pods, counted))}
        return Loaded(jobs, job_sets, pods, await self.nodes(), self.notes, others, accounts)

    async def others(self, kind: KindSpec, pods: list[Pod], counted: set[str]) -> list[Json]:
        """Return the metadata of the workloads of another kind that are counted, or have pods under the profile.

        The whole objects may have megabytes each. Without pods of the kind, the user need not be allowed to list it.
        """
        wanted = {(pod.namespace, pod.job) for pod in pods if pod.kind is kind}
        missing = "those workloads are missing" if wanted else ""
        query = Query(kind.path(self.scope.namespace), {"labelSelector": self.scope.selector or ""}, METADATA_ONLY_LIST)
        found: list[Json] = []
        async for one in self.listed(kind.resource, query, OTHER, missing):
            with self.left_out.around(kind.kind, one):
                found += [one] if self.is_wanted(one["metadata"], wanted, counted) else []
        return found

    def is_wanted(self, metadata: Json, wanted: set[tuple[str, str]], counted: set[str]) -> bool:
        """Return True if a workload of another kind has pods, or is counted and has the profile of the scope."""
        if (metadata["namespace"], metadata["name"]) in wanted:
            return True
        return metadata["uid"] in counted and self.scope.profile in {None, recorded_profile({"metadata": metadata})}

    async def workloads(self, kind: KindSpec, decoded_as: Any, query: dict[str, str]) -> list[Json]:
        """Return the objects of a kind."""
        path = kind.path(self.scope.namespace)
        missing = "those workloads are missing"
        return [one async for one in self.listed(kind.resource, Query(path, query), decoded_as, missing)]

    async def pods(self) -> list[Pod]:
        """Return the pods of Jobs, the first MOST_PODS of them."""
        found: list[Pod] = []
        missing = "only what accounts say is counted, and nothing that succeeded"
        path = core.POD.path(self.scope.namespace)
        async for one in self.listed(core.POD.resource, Query(path, self.scope.query()), POD, missing):
            if len(found) == MOST_PODS:
                self.notes.append(
                    f"there are more than {MOST_PODS:,} pods: name a namespace with -n; others are missing"
                )
                break
            with self.left_out.around(core.POD.kind, one):
                pod = pods.read(one)
                found += [pod] if pod.job else []
        return found

    async def nodes(self) -> list[Json]:
        """Return the nodes."""
        missing = "spot and on-demand are not told apart, and prices by capacity or node labels do not apply"
        return [one async for one in self.listed("nodes", Query(NODES, {}), NODE, missing)]

    async def listed(self, resource: str, query: Query, kind: Any, missing: str) -> AsyncIterator[Json]:
        """Yield the objects of a list; none, with a note, if the user may not list them.

        `missing`: what the report lacks then; empty if it may lack nothing.
        """
        number = 0
        try:
            async for one in self.api.objects(*query, kind):
                number += 1
                self.progress(f"{resource}: {number:,} read")
                yield one
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self.refused.append(resource)
                self.notes += [f"{resource} cannot be listed: {missing} ({error})"] if missing else []
            elif error.status != HTTPStatus.NOT_FOUND:  # the kind is not installed
                raise
