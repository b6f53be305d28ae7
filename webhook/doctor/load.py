"""Reads what the checks need: every list up to a bound, and nothing that the user may not read."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from webhook.admission.engine import read_policy
from webhook.doctor import probe, rights
from webhook.doctor.checks import leader
from webhook.doctor.installation import Installation, installation
from webhook.doctor.shipped import CONTROLLER, LEDGER, NAME, NAMESPACE, REQUESTED_RETRIES
from webhook.doctor.snapshot import Objects, SeenLease, Snapshot, Stored, Unread
from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError, TooLargeError
from webhook.kube.paths import path_of
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, type_of
from webhook.objects.times import time_of
from webhook.policy.parse import KEY
from webhook.systems.job.spec import JOB_NAME
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import full_name

ADMISSION: Final = "admissionregistration.k8s.io/v1"
LEASES: Final = "coordination.k8s.io/v1"
SLICES: Final = "discovery.k8s.io/v1"
CRDS: Final = path_of(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", name=f"{JOB_SET.resource}.{JOB_SET.group}"
)
NODE: Final = type_of({"metadata": {"name": str, "labels": {ANY_KEY: str}}, "spec": {"providerID": str}})
DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
LARGEST_DISCOVERY: Final = 32 * 1024 * 1024  # bytes; a cluster with 300 CRDs has less than one million
MOST: Final = 1_000  # objects that are read of a list
MOST_NAMESPACES: Final = 10_000  # of which only the metadata is read
# Seconds: the leader renews its Lease every two seconds, and gives up after ten without success.
FRESH: Final = 10.0
PATIENCE: Final = 5.0
# Seconds: the age under which a pod may still wait for the end of the last leader's Lease, and how long that takes.
YOUNG: Final = 60.0
TAKE_OVER: Final = 45.0  # 15 s of the Lease and 3 s of overlap; 30 s were seen after a new installation
PAUSE: Final = 0.5

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asks: about the whole cluster, one namespace, or an object in it of one of `kinds`."""

    namespace: str | None = None
    kinds: Sequence[KindSpec] = ()
    name: str = ""


async def load(
    api: Api, question: Question, version: str, warnings: list[str], left_out: LeftOut = RAISING
) -> Snapshot:
    """Return the state of the cluster; raise what `Api` raises if it is not reached, or the user is unknown.

    `warnings`: the list to which the connection adds each Warning header.
    """
    nowhere = Installation(NAMESPACE, {})
    snapshot = Snapshot(version=version, installed=nowhere, asked=question.namespace, left_out=left_out)
    reader = ClusterReader(api, snapshot)
    await reader.read_installation()
    await reader.read_rest()
    await reader.read_namespaces()
    if question.kinds and question.namespace is not None:
        await reader.read_objects(question.kinds, question.namespace, question.name)
    await reader.try_job(warnings)
    return reader.snapshot


class ClusterReader:
    """Fills a Snapshot; what the user may not read is added to `snapshot.unread`."""

    def __init__(self, api: Api, snapshot: Snapshot) -> None:
        self.api = api
        self.snapshot = snapshot

    async def allowed(self, section: str, what: str, right: str, work: Awaitable[Found]) -> Found | None:
        """Return what `work` returns; None if the API server refuses, which is noted.

        Raise ApiError if the API server does not know the user.
        """
        try:
            return await work
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise
            needed = right if error.status == HTTPStatus.FORBIDDEN else ""
            self.snapshot.unread.append(Unread(section, what, needed, str(error)))
        except TooLargeError:
            self.snapshot.unread.append(Unread(section, what, "", "the answer is too large"))
        return None

    async def objects(
        self,
        section: str,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        most: int = MOST,
        **how: Any,
    ) -> Objects:
        """Return the first objects of a list; None if the user may not read it."""
        group, path = api_version.rpartition("/")[0], path_of(api_version, resource, namespace)
        right = f"list {resource}" + f".{group}" * bool(group) + (f" in namespace {namespace}" if namespace else "")

        async def first() -> list[Json]:
            found: list[Json] = []
            async for one in self.api.objects(path, **{"query": {}, **how}):
                if len(found) >= most:
                    self.snapshot.cut[section] = f"only the first {most:,} {resource} were looked at"
                    break
                found.append(one)
            return found

        return await self.allowed(section, resource, right, first())

    async def one(self, section: str, path: str, right: str) -> Objects:
        """Return an object as a list, which is empty if there is none; None if the user may not read it."""
        resource, _, name = path.rpartition("/")

        async def found() -> list[Json]:
            root = await self.api.find(path)
            return [] if root is None else [root]

        return await self.allowed(section, f"{resource.rpartition('/')[2]}/{name}", right, found())

    async def read_installation(self) -> None:
        """Read what says where the webhook is installed."""
        snapshot = self.snapshot
        named = {"labelSelector": f"app.kubernetes.io/name={NAME}"}
        snapshot.mutating, snapshot.validating, snapshot.deployments, snapshot.kinds, version = await asyncio.gather(
            self.objects("Webhooks", ADMISSION, "mutatingwebhookconfigurations"),
            self.objects("Webhooks", ADMISSION, "validatingwebhookconfigurations"),
            self.objects("Installation", "apps/v1", "deployments", query=named),
            self.allowed("Kinds", "the served kinds", "get /apis", self.discovered()),
            self.allowed("Installation", "the version of Kubernetes", "get /version", self.api.get_dated("/version")),
        )
        if version is not None:
            snapshot.server_version, snapshot.now = str(version[0].get("gitVersion")), version[1]
        found = [*(snapshot.mutating or ()), *(snapshot.validating or ())]
        snapshot.installed = installation(found, snapshot.deployments or [])
        if snapshot.deployments is None:
            namespace = snapshot.installed.namespace
            right = f"get deployments.apps in namespace {namespace}"
            paths = (path_of("apps/v1", "deployments", namespace, name) for name in (NAME, CONTROLLER))
            read = await asyncio.gather(*(self.one("Installation", path, right) for path in paths))
            snapshot.installed = installation(found, [one for some in read for one in some or ()])

    async def discovered(self) -> dict[tuple[str, str], list[str]]:
        """Return the served versions of all resources, by group and resource; raise as `Api` does."""
        body = await self.api.body("/apis", {}, DISCOVERY, LARGEST_DISCOVERY)
        found: dict[tuple[str, str], list[str]] = {}
        for group in msgspec.json.decode(body).get("items") or ():
            for version in group.get("versions") or ():
                for one in version.get("resources") or ():
                    found.setdefault((group["metadata"]["name"], one["resource"]), []).append(version["version"])
        return found

    async def read_rest(self) -> None:
        """Read everything whose place is known once the installation is found."""
        await asyncio.gather(
            self.read_server(),
            self.read_certificate(),
            self.read_delayed(),
            self.read_policy(),
            self.read_nodes(),
            self.read_permissions(),
            self.read_crd(),
        )

    async def read_server(self) -> None:
        """Read the Service, its endpoints, the pods, and the Events that say what is wrong with them; then the Leases.

        How long a Lease is awaited depends on the age of the pods.
        """
        snapshot, namespace = self.snapshot, self.snapshot.installed.namespace
        labels = ",".join(f"{key}={value}" for key, value in snapshot.installed.selector.items())
        of_service = {"labelSelector": f"kubernetes.io/service-name={NAME}"}
        path, right = path_of("v1", "services", namespace, NAME), f"get services in namespace {namespace}"
        snapshot.services, snapshot.slices, snapshot.pods, snapshot.events = await asyncio.gather(
            self.one("Installation", path, right),
            self.objects("Installation", SLICES, "endpointslices", namespace, query=of_service),
            self.objects("Installation", "v1", "pods", namespace, query={"labelSelector": labels}),
            self.objects("Installation", "v1", "events", namespace, query={"fieldSelector": "type=Warning"}),
        )
        await self.read_leases()

    async def read_certificate(self) -> None:
        """Read the served certificate; the private key beside it is dropped."""
        snapshot, namespace, secret = self.snapshot, self.snapshot.installed.namespace, self.snapshot.installed.secret
        if not secret:
            return
        path = path_of("v1", "secrets", namespace, secret)
        found = await self.one("Certificate", path, f"get secrets/{secret} in namespace {namespace}")
        if found is not None:
            snapshot.certificates = [
                {"metadata": one["metadata"], "data": {"tls.crt": at(one, ("data", "tls.crt"))}} for one in found
            ]

    async def read_leases(self) -> None:
        """Read the Leases of the leaders, and wait a moment for the renewal of those that are not fresh."""
        names = [LEDGER, *([REQUESTED_RETRIES] if self.snapshot.installed.requested_retries else ())]
        right = f"get leases.coordination.k8s.io in namespace {self.snapshot.installed.namespace}"
        awaited = (self.allowed("Leader", f"leases/{name}", right, self.lease(name)) for name in names)
        found = await asyncio.gather(*awaited)
        if all(one is not None for one in found):
            self.snapshot.leases = [one for one in found if one is not None]

    async def read_delayed(self) -> None:
        """Read the pods that are held back by a delay."""
        of_jobs = {"labelSelector": f"{names.PROFILE},{JOB_NAME}", "fieldSelector": "status.phase=Pending"}
        found = await self.objects("Delays", "v1", "pods", query=of_jobs)
        if found is not None:
            self.snapshot.delayed = []
            for pod in found:
                with self.snapshot.left_out.around("Pod", pod):
                    self.snapshot.delayed += [pod] if leader.is_delayed(pod) else []

    async def lease(self, name: str) -> SeenLease:
        """Return a Lease, and whether it is renewed if it is old or nobody holds it; raise as `Api` does."""
        path = path_of(LEASES, "leases", self.snapshot.installed.namespace, name)
        try:
            lease, now = await self.api.get_dated(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            _, now = await self.api.get_dated("/version")
            return SeenLease(name, None, now)
        if _is_fresh(lease, now):
            return SeenLease(name, lease, now)
        for _ in range(int(self.patience(now) / PAUSE)):
            await asyncio.sleep(PAUSE)
            later, now = await self.api.get_dated(path)
            if _is_held(later) and at(later, ("spec", "renewTime")) != at(lease, ("spec", "renewTime")):
                return SeenLease(name, later, now, renewed=True)
        return SeenLease(name, lease, now, renewed=False)

    def patience(self, now: datetime) -> float:
        """Return for how many seconds to wait until a Lease is renewed: longer if the replicas have just started."""
        times = [time_of(at(one, ("metadata", "creationTimestamp"))) for one in self.snapshot.pods or ()]
        ages = [(now - one).total_seconds() for one in times if one is not None]
        return TAKE_OVER if any(age < YOUNG for age in ages) else PATIENCE

    async def read_policy(self) -> None:
        """Read the stored policy."""
        if self.snapshot.installed.policy is None:
            return
        namespace, name = self.snapshot.installed.policy
        path = path_of("v1", "configmaps", namespace, name)
        found = await self.one("Policy", path, f"get configmaps/{name} in namespace {namespace}")
        self.snapshot.config_maps = found
        text = at(found[0], ("data", KEY)) if found else None
        self.snapshot.policy = read_policy(text)[0] if isinstance(text, str) else None

    async def read_nodes(self) -> None:
        """Read the nodes, and whether Karpenter makes some."""
        snapshot, pools = self.snapshot, ("Placement", "karpenter.sh/v1", "nodepools")
        snapshot.nodes = await self.objects("Placement", "v1", "nodes", kind=NODE)
        has_pools = ("karpenter.sh", "nodepools") in (snapshot.kinds or {})
        snapshot.node_pools = await self.objects(*pools, most=1) if has_pools else []

    async def read_permissions(self) -> None:
        """Read which permissions the server lacks, and the admission policies that limit it."""
        snapshot = self.snapshot
        snapshot.missing_rights = await self.allowed(
            "Permissions",
            "the permissions of the server",
            "create subjectaccessreviews.authorization.k8s.io (or get clusterroles, roles and their bindings)",
            rights.missing(self.api, snapshot.installed, snapshot.installed.rights),
        )
        policies, bindings = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
        snapshot.admission_policies = await self.objects("Permissions", ADMISSION, policies)
        snapshot.admission_bindings = await self.objects("Permissions", ADMISSION, bindings)
        group, resource = "admissionregistration.k8s.io", "mutatingadmissionpolicies"
        if served := (snapshot.kinds or {}).get((group, resource)):
            snapshot.mutating_policies = await self.objects("Others", f"{group}/{served[0]}", resource)

    async def read_crd(self) -> None:
        """Read the CRD of JobSets, whose fields decide what a disruption restarts."""
        if (JOB_SET.group, JOB_SET.resource) in (self.snapshot.kinds or {}):
            right = "get customresourcedefinitions.apiextensions.k8s.io"
            self.snapshot.job_set_crd = await self.one("Kinds", CRDS, right)

    async def read_namespaces(self) -> None:
        """Read the metadata of all Namespaces, else of the one that the user asks about."""
        snapshot, asked = self.snapshot, self.snapshot.asked
        snapshot.namespaces = await self.objects(
            "Namespaces", "v1", "namespaces", most=MOST_NAMESPACES, accept=METADATA_ONLY_LIST
        )
        found = {one["metadata"]["name"] for one in snapshot.namespaces or ()}
        if asked is not None and asked not in found and (snapshot.namespaces is None or "Namespaces" in snapshot.cut):
            one = await self.one("Namespaces", path_of("v1", "namespaces", name=asked), f"get namespaces/{asked}")
            snapshot.namespaces = [*(snapshot.namespaces or ()), *one] if one is not None else snapshot.namespaces

    async def read_objects(self, kinds: Sequence[KindSpec], namespace: str, name: str) -> None:
        """Read the objects of a name; those of the kinds that the cluster has, if the user left the kind out."""
        served = self.snapshot.kinds
        asked = [kind for kind in kinds if len(kinds) == 1 or served is None or (kind.group, kind.resource) in served]
        answers = await asyncio.gather(*(self.object(kind, namespace, name) for kind in asked))
        found = [one for one in answers if one is not None]
        there = [one for one in found if one.root is not None]
        if len(kinds) == 1 or there:
            self.snapshot.stored = there or found
        elif len(found) == len(asked):
            self.snapshot.stored = [Stored(None, f"{namespace}/{name}", None)]

    async def object(self, kind: KindSpec, namespace: str, name: str) -> Stored | None:
        """Return an object that the user asks about; None if the user may not read it."""
        group = f".{kind.group}" if kind.group else ""
        right = f"get {kind.resource}{group} in namespace {namespace}"
        found = await self.one("Object", kind.path(namespace, name), right)
        if found is None:
            return None
        root = {"apiVersion": kind.api_version, "kind": kind.kind, **found[0]} if found else None
        return Stored((kind.group, kind.kind), full_name(kind, namespace, name), root)

    async def try_job(self, warnings: list[str]) -> None:
        """Create Jobs in a dry run, in an opted-in namespace."""
        namespace = probe.chosen(self.snapshot)
        if namespace is None:
            return
        name = namespace["metadata"]["name"]
        right = f"create jobs.batch in namespace {name}"
        self.snapshot.probe = await self.allowed(
            "Admission", "a Job in a dry run", right, probe.tried(self.api, namespace, warnings)
        )


def _is_held(lease: Json) -> bool:
    """Return True if a replica holds a Lease; one that ends releases it."""
    return bool(at(lease, ("spec", "holderIdentity")))


def _is_fresh(lease: Json, now: datetime) -> bool:
    """Return True if a Lease was renewed a moment ago by a replica that holds it."""
    renewed_at = time_of(at(lease, ("spec", "renewTime")))
    return _is_held(lease) and renewed_at is not None and (now - renewed_at).total_seconds() <= FRESH
