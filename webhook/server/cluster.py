"""What the rules must know of the cluster: namespaces' profiles, pods' owners, the capacity provider.

Caches over the API. What a cache does not hold, or may hold too late, is asked from the API; if that does not answer in
time the request fails with 503, because a guess would place or pass an object wrongly and nobody would ever know.
"""

import asyncio
import re
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from webhook import names
from webhook.capacity import NodeFacts, Provider, recognise
from webhook.patch import at
from webhook.problem import Json
from webhook.rules.schema import SUBDOMAIN
from webhook.server import metrics
from webhook.server.api import METADATA_ONLY, METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError
from webhook.server.watch import WatchedList
from webhook.workloads import OwnerReference, Workload, batch, row_of
from webhook.workloads.job_set import JOB_SET, SPEC
from webhook.workloads.row import controller_of

PATIENCE: Final = 1.0  # seconds that one look-up may take: the API server waits 5 for the whole answer
VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
LABELS_KEPT: Final = (names.PROFILE, batch.QUEUE_NAME, batch.JOBS_OF_SET)
ANNOTATIONS_KEPT: Final = (*names.SAID_BY_AUTHORS, names.LEDGER, names.REQUESTED_RETRIES, batch.QUEUE_NAME)
JOB_SPEC_KEPT: Final = (
    *("backoffLimit", "backoffLimitPerIndex", "completionMode", "completions"),
    *("parallelism", "podReplacementPolicy", "suspend"),
)
CONDITION_KEPT: Final = ("type", "status", "reason", "message", "lastTransitionTime")
JOB_STATUS_KEPT: Final = ("failed", "succeeded", "uncountedTerminatedPods")
NODES_KNOWN: Final = 300.0  # seconds between looks at the nodes, once their provider is recognised
NODES_UNKNOWN: Final = 30.0  # and until then
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULE_SCHEMA: Final = (
    *("schema", "openAPIV3Schema"),
    *(step for field in (*SPEC, "failurePolicy", "rules") for step in ("properties", field)),
    *("items", "properties"),
)

# A namespace's labels `profile` and `mode`, None where it has not got them.
OptIn = tuple[str | None, str | None]

log = structlog.get_logger()


class UnavailableError(Exception):
    """The API did not tell what the rules must know: HTTP 503 with Retry-After."""


class Cluster:
    """Answers from caches where they are current, else from the API."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.recognised: Provider | None = None
        selector = {"labelSelector": names.PROFILE}
        self.namespaces = WatchedList(api, "/api/v1/namespaces", opt_in_of, query=selector, metadata_only=True)
        self.jobs = WatchedList(api, path_of(batch.JOB), trimmed_job, query=selector)
        self.job_sets = WatchedList(api, path_of(JOB_SET), trimmed_job_set, query=selector)
        only = {"fieldSelector": f"metadata.name={JOB_SET.resource}.{JOB_SET.group}"}
        self.job_set_crds = WatchedList(api, CRDS, has_message_patterns, query=only)
        self.caches = {batch.JOB: self.jobs, JOB_SET: self.job_sets}

    async def run(self) -> None:
        """Keep the caches current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.namespaces.run())
            group.create_task(self.jobs.run())
            group.create_task(self.job_sets.run())
            group.create_task(self.job_set_crds.run())
            group.create_task(self.look_at_nodes())

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled once; that of JobSets may never be, without their CRD."""
        return all(cache.synced.is_set() for cache in (self.namespaces, self.jobs, self.job_set_crds))

    @property
    def message_patterns(self) -> bool:
        """Whether the rules of a JobSet's failurePolicy may hold message patterns; False where none is installed."""
        return any(self.job_set_crds.items.values())

    async def opt_in(self, namespace: str) -> OptIn:
        """Return the profile and the mode that a namespace's labels name; raise UnavailableError."""
        known = self.namespaces.items.get(("", namespace)) if self.namespaces.live else None
        if known is not None:
            return known
        if not SUBDOMAIN.fullmatch(namespace):
            return None, None  # this is no name, and may be a path
        found = await ask(self.api, f"/api/v1/namespaces/{namespace}", METADATA_ONLY)
        return (None, None) if found is None else opt_in_of(found)

    def profiles_in_use(self) -> dict[str, list[str]]:
        """Return the names of the opted-in namespaces by profile, as far as they are known."""
        found: dict[str, list[str]] = {}
        for (_, namespace), (profile_name, _) in self.namespaces.items.items():
            found.setdefault(profile_name or "", []).append(namespace)
        return {profile_name: sorted(namespaces) for profile_name, namespaces in found.items()}

    async def owners(self, namespace: str, reference: OwnerReference) -> tuple[Json | None, Json | None]:
        """Return the object that a pod's reference names, and the controller of that, where it counts attempts too.

        None for what is gone or is not there; raise UnavailableError.
        """
        owner = await self.object(namespace, reference)
        controller = None if owner is None else controller_of(owner)
        row = None if controller is None else row_of(controller)
        if controller is None or row is None or not row.counts:
            return owner, None
        return owner, await self.object(namespace, controller)

    async def object(self, namespace: str, reference: OwnerReference) -> Json | None:
        """Return the object of a kind that a row knows, None if it is gone; raise UnavailableError."""
        row = row_of(reference)
        if row is None:
            return None
        cache = self.caches.get(row)
        if cache is not None and cache.live:
            cached = cache.items.get((namespace, reference.name))
            if cached is not None and cached["metadata"]["uid"] == reference.uid:
                return cached
        if not SUBDOMAIN.fullmatch(reference.name) or not VERSION.fullmatch(reference.version):
            return None  # the API server judges ownerReferences after admission; this is no name, and may be a path
        path = f"/apis/{row.group}/{reference.version}/namespaces/{namespace}/{row.resource}/{reference.name}"
        found: Json | None = await ask(self.api, path, "application/json")
        return found if found is not None and reference.uid in {"", found["metadata"]["uid"]} else None

    async def look_at_nodes(self) -> None:
        """Recognise the capacity provider, now and again: pools come and go."""
        looked = False
        while True:
            try:
                provider = recognise(await self.nodes(), has_karpenter_node_pools=await self.has_node_pools())
            except (ApiError, *UNREACHABLE) as error:
                log.warning("nodes not read", error=repr(error), retry_in=NODES_UNKNOWN)
            except Exception:  # an answer that nobody foresaw must not end the server
                log.exception("nodes not read", retry_in=NODES_UNKNOWN)
            else:
                if provider is not None and provider != self.recognised:
                    log.info("capacity provider recognised", provider=provider.name)
                elif provider is None and (self.recognised is not None or not looked):
                    log.warning("no capacity provider recognised: profiles with provider auto place no pod")
                looked = True
                self.recognised = provider
                metrics.PROVIDER_RECOGNISED.set(provider is not None)
            await asyncio.sleep(NODES_UNKNOWN if self.recognised is None else NODES_KNOWN)

    async def nodes(self) -> list[NodeFacts]:
        """Read the labels of all nodes, and the providerID of one, which its cloud gives to all of them."""
        one = await self.api.get("/api/v1/nodes", {"limit": "1"})
        found = [NodeFacts(labels_of(item), item["spec"].get("providerID") or "") for item in one.get("items") or ()]
        async for page in self.api.pages("/api/v1/nodes", {}, METADATA_ONLY_LIST):
            found += [NodeFacts(labels_of(item)) for item in page.get("items") or ()]
        return found

    async def has_node_pools(self) -> bool:
        """Tell whether Karpenter has NodePools; without its CRD there is no such path."""
        try:
            pools = await self.api.get("/apis/karpenter.sh/v1/nodepools", {"limit": "1"}, METADATA_ONLY_LIST)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return bool(pools.get("items"))


def path_of(row: Workload) -> str:
    """Return the path of a kind's list in all namespaces."""
    return f"/apis/{row.group}/{row.versions[0]}/{row.resource}"


def has_message_patterns(crd: Json) -> bool:
    """Tell whether the rules of a JobSet's failurePolicy may hold message patterns, by its CRD."""
    return any(
        at(version, (*RULE_SCHEMA, "onJobFailureMessagePatterns")) is not None
        for version in crd["spec"]["versions"]
        if version["name"] in JOB_SET.versions
    )


async def ask(api: Api, path: str, accept: str) -> Json | None:
    """Get one object, None if there is none; raise UnavailableError if the API does not tell within PATIENCE."""
    return await asyncio.create_task(asked(api, path, accept))  # nobody needed a task until now


async def asked(api: Api, path: str, accept: str) -> Json | None:
    """Get one object, in a task."""
    try:
        async with asyncio.timeout(PATIENCE):
            found: Json = await api.get(path, accept=accept)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise UnavailableError(f"{path}: the API server answered {error}") from error
    except UNREACHABLE as error:
        raise UnavailableError(f"{path}: the API server did not answer within {PATIENCE:g} s: {error!r}") from error
    return found


def labels_of(root: Json) -> Json:
    """Return an object's labels."""
    labels: Json | None = root["metadata"].get("labels")
    return labels or {}


def opt_in_of(namespace: Json) -> OptIn:
    """Return what a namespace's labels say."""
    labels = labels_of(namespace)
    return labels.get(names.PROFILE), labels.get(names.MODE)


def trimmed_job(job: Json) -> Json:
    """Keep of a Job what placement and the ledger read: thousands of them are held."""
    spec, status = job["spec"], job.get("status") or {}
    kept = {key: spec[key] for key in JOB_SPEC_KEPT if key in spec}
    if spec.get("podFailurePolicy"):
        kept["podFailurePolicy"] = shared(msgspec.json.encode(spec["podFailurePolicy"]))
    return {
        "metadata": trimmed_metadata(job["metadata"]),
        "spec": kept,
        "status": {key: status[key] for key in JOB_STATUS_KEPT if key in status} | conditions_of(status),
    }


def trimmed_metadata(metadata: Json) -> Json:
    """Keep of an object's metadata what placement and the ledger read."""
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "labels": {key: labels[key] for key in LABELS_KEPT if key in labels},
        "annotations": {key: annotations[key] for key in ANNOTATIONS_KEPT if key in annotations},
        "ownerReferences": metadata.get("ownerReferences") or [],
        **({"deletionTimestamp": metadata["deletionTimestamp"]} if "deletionTimestamp" in metadata else {}),
    }


def conditions_of(status: Json) -> Json:
    """Keep of an object's conditions those that are so."""
    found = [{key: one.get(key, "") for key in CONDITION_KEPT} for one in status.get("conditions") or ()]
    so = [one for one in found if one["status"] == "True"]
    return {"conditions": so} if so else {}


@lru_cache(maxsize=1000)
def shared(encoded: bytes) -> Json:
    """Return one and the same object for what many Jobs have in common."""
    found: Json = msgspec.json.decode(encoded)
    return found


def trimmed_job_set(job_set: Json) -> Json:
    """Keep of a JobSet what placement and the ledger read."""
    status = job_set.get("status") or {}
    return {
        "kind": JOB_SET.kind,
        "metadata": trimmed_metadata(job_set["metadata"]),
        "spec": {"failurePolicy": at(job_set, ("spec", "failurePolicy")) or {}},
        "status": {key: status[key] for key in ("restarts", "restartsCountTowardsMax") if key in status},
    }
