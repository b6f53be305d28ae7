"""Look up facts about the cluster for the rules: profiles of namespaces, owners of pods, the capacity provider.

Most answers come from caches. If a cache lacks an object, or may be out of date, the API is called. If the API does not
answer in time, the request fails with 503: a guess could silently place or admit an object wrongly.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from secrets import token_bytes
from time import time
from typing import Any, Final

import structlog

from webhook import metrics
from webhook.accounts.cached import (
    JOB_READ,
    JOB_SET_READ,
    CachedJob,
    CachedJobSet,
    pieces,
    trimmed_job,
    trimmed_job_set,
)
from webhook.capacity import Census, NodeFacts, Pool, Provider, recognise
from webhook.capacity.pools import MOST_POOLS
from webhook.capacity.recognition import claims
from webhook.kube import names
from webhook.kube.bulkhead import step
from webhook.kube.client import METADATA_ONLY, METADATA_ONLY_LIST, UNREACHABLE, Api, ApiError
from webhook.kube.informer import Informer, Scope
from webhook.kube.packed import Packed
from webhook.kube.paths import is_name, path_of
from webhook.kube.state_key import SIZE, StateKey
from webhook.kube.tasks import in_task
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape, type_of
from webhook.policy import quantities
from webhook.policy.model import Policy
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.opt_in import labels_of
from webhook.rules.pods.memory_bounds import Restrictions
from webhook.systems.job import spec as batch
from webhook.systems.job_set import spec as job_sets
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, OwnerReference, controller_of
from webhook.systems.kinds import kind_of_controller
from webhook.systems.trainer import spec as trainer
from webhook.systems.trainer.spec import TRAIN_JOB
from webhook.tracking import restrictions
from webhook.tracking.nodes import NODES, KnownNodes
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.state_key import SharedStateKey

LOOKUP_TIMEOUT: Final = 1.0  # seconds of one look-up; the API server waits 5 seconds for the webhook's answer
NAMESPACE_READ: Final[Shape] = {
    "metadata": {
        **dict.fromkeys(("name", "resourceVersion"), str),
        "labels": dict.fromkeys((names.PROFILE, names.MODE), str),
    }
}
NODES_KNOWN: Final = 300.0  # seconds between two reads of the nodes, once their provider is recognised
NODES_UNKNOWN: Final = 30.0  # seconds between two reads of the nodes until then
NODE_READ: Final[Shape] = {
    "metadata": {"name": str, "creationTimestamp": str, "labels": {ANY_KEY: str}},
    "spec": {"providerID": str},
    "status": {"allocatable": {"memory": str}},
}
NODE_POOLS: Final = path_of("karpenter.sh/v1", "nodepools")
CRDS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")

# The values of a namespace's labels `profile` and `mode`; None for an absent label.
OptIn = tuple[str | None, str | None]

log = structlog.get_logger()


class UnavailableError(Exception):
    """The API did not answer a look-up: the webhook answers HTTP 503 with Retry-After."""


class Cluster:
    """Facts about the cluster, from caches if these are current, else from the API."""

    def __init__(self, api: Api, state_key: SharedStateKey | None = None) -> None:
        self.api = api
        self.shared_key = state_key
        self.state_key = state_key or StateKey(token_bytes(SIZE))  # without a Secret: of this process alone
        self.recognised: Provider | None = None
        self.has_looked = False  # whether the nodes were read
        self.pools: tuple[Pool, ...] = ()
        self.pools_seen: dict[str, Pool] = {}
        self.known_nodes = KnownNodes(api)
        self.nodes_wanted = asyncio.Event()  # set when the nodes have to be read now: other fields of them matter
        self.reads_memory = asyncio.Event()  # set by the first pod whose memory may grow: few policies have such a rule
        self.memory_read = asyncio.Event()  # whether the nodes were read with their memory, or that was tried
        selector = {"labelSelector": names.PROFILE}
        self.namespaces = Informer(
            api, path_of("v1", "namespaces"), opt_in_of, shape=NAMESPACE_READ, query=selector, metadata_only=True
        )
        self.scope = Scope(self.namespaces)
        self.jobs = Informer(
            api,
            batch.JOB.path(),
            trimmed_job,
            shape=JOB_READ,
            query=selector,
            items=Packed[CachedJob](pieces),
            scope=self.scope,
        )
        self.job_sets = Informer(
            api,
            JOB_SET.path(),
            trimmed_job_set,
            shape=JOB_SET_READ,
            query=selector,
            items=Packed[CachedJobSet](pieces),
            scope=self.scope,
        )
        only = {"fieldSelector": f"metadata.name={JOB_SET.resource}.{JOB_SET.group}"}
        self.job_set_crds = Informer(api, CRDS, job_sets.features_of, query=only)
        only = {"fieldSelector": f"metadata.name={TRAIN_JOB.resource}.{TRAIN_JOB.group}"}
        self.train_job_crds = Informer(
            api, CRDS, trainer.has_runtime_patches, query=only, name="trainjob-customresourcedefinitions"
        )
        self.caches: dict[KindSpec, Informer[Any]] = {batch.JOB: self.jobs, JOB_SET: self.job_sets}
        self.last_cached: Json | None = None  # what `object` last read from a cache, which takes time

    async def run(self) -> None:
        """Keep the caches current until cancelled."""
        async with asyncio.TaskGroup() as group:
            shared = () if self.shared_key is None else (self.shared_key.secrets,)
            informers = (*shared, self.namespaces, self.jobs, self.job_sets, self.job_set_crds, self.train_job_crds)
            for informer in informers:
                group.create_task(informer.run())
            group.create_task(self.look_at_nodes())
            group.create_task(self.known_nodes.run())

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled once, except those of Jobs and JobSets: the API has what they lack.

        False also if no Job could be listed yet: then the API server may refuse the list.
        """
        shared = () if self.shared_key is None else (self.shared_key.secrets,)
        caches = (*shared, self.namespaces, self.job_set_crds, self.train_job_crds)
        return all(cache.synced.is_set() for cache in caches) and (self.jobs.answered or self.jobs.synced.is_set())

    @property
    def message_patterns(self) -> bool:
        """Whether a rule of a JobSet's failurePolicy may have message patterns; False without the CRD of JobSets."""
        return any(found.message_patterns for found in self.job_set_crds.items.values())

    @property
    def restart_job(self) -> bool:
        """Whether a rule of a JobSet's failurePolicy may restart a single Job; False without the CRD of JobSets."""
        return any(found.restart_job for found in self.job_set_crds.items.values())

    @property
    def runtime_patches(self) -> bool | None:
        """Whether TrainJobs have the field runtimePatches; None without the CRD of TrainJobs."""
        return next(iter(self.train_job_crds.items.values()), None)

    def serves(self, namespace: str) -> bool:
        """Return True if a namespace is opted in, according to the cache."""
        return self.namespaces.get("", namespace) is not None

    async def opt_in(self, namespace: str) -> OptIn:
        """Return profile and mode in a namespace's labels; raise UnavailableError if the API does not answer."""
        known = self.namespaces.get("", namespace) if self.namespaces.live else None
        if known is not None:
            return known
        if not is_name(namespace):
            return None, None
        found = await look_up(self.api, path_of("v1", "namespaces", name=namespace), METADATA_ONLY)
        return (None, None) if found is None else opt_in_of(found)

    def known_opt_in(self, namespace: str) -> OptIn:
        """Return profile and mode in a namespace's labels, according to the cache."""
        return self.namespaces.get("", namespace) or (None, None)

    def profiles_in_use(self) -> dict[str, list[str]]:
        """Return the names of the opted-in namespaces by profile, according to the cache."""
        found: dict[str, list[str]] = {}
        for (_, namespace), (profile_name, _) in self.namespaces.items.items():
            found.setdefault(profile_name or "", []).append(namespace)
        return {profile_name: sorted(namespaces) for profile_name, namespaces in found.items()}

    async def owners(self, namespace: str, reference: OwnerReference) -> tuple[Json | None, Json | None]:
        """Return the object that a pod's controller reference names, and the controller of that object.

        None for an object that does not exist, and for a second controller that does not count attempts. Raise
        UnavailableError if the API does not answer.
        """
        owner = await self.object(namespace, reference)
        controller = None if owner is None else controller_of(owner)
        kind = None if controller is None else kind_of_controller(controller)
        if controller is None or kind is None or not kind.counts:
            return owner, None
        return owner, await self.object(namespace, controller)

    async def object(self, namespace: str, reference: OwnerReference) -> Json | None:
        """Return the object that a reference names; None if it does not exist or is not of a known kind.

        None also if the reference does not prove, by uid or submission id, that its author may know the object. Any
        client of the webhook's port can send a reference, and the answer reveals attempts and budgets of the object.
        Raise UnavailableError if the API does not answer.
        """
        kind = kind_of_controller(reference)
        if kind is None:
            return None
        cache = self.caches.get(kind)
        if cache is not None and cache.live:
            cached: Json | None = cache.get(namespace, reference.name)
            if cached is not None and cached["metadata"]["uid"] == reference.uid:
                self.last_cached = cached
                return cached
        try:
            path = path_of(f"{kind.group}/{reference.version}", kind.resource, namespace, reference.name)
        except ValueError:  # the API server validates ownerReferences after admission
            return None
        found: Json | None = await look_up(self.api, path, "application/json", Any if cache is None else cache.kind)
        if found is not None and cache is not None:
            found = cache.keep(found)
        return found if found is not None and reference.identifies(found) else None

    async def look_at_nodes(self) -> None:
        """Read the nodes and recognise the capacity provider, at intervals, until cancelled."""
        while True:
            self.nodes_wanted.clear()
            with_memory = self.reads_memory.is_set()
            with step("read the nodes"):
                try:
                    await self.read_nodes()
                except (ApiError, *UNREACHABLE) as error:
                    log.warning("nodes not read", error=repr(error), retry_in=NODES_UNKNOWN)
            if with_memory:
                self.memory_read.set()
            await self.pause(NODES_UNKNOWN if self.recognised is None else NODES_KNOWN)

    async def read_nodes(self) -> None:
        """Read the nodes and recognise the capacity provider; raise as `Api` does."""
        (nodes, pools), made_for_pods = await self._survey(), await self._has_node_pools()
        provider = recognise(nodes, has_karpenter_node_pools=made_for_pods)
        self._see_pools(None if made_for_pods else pools)
        if provider is not None and provider != self.recognised:
            log.info("capacity provider recognised", provider=provider.name)
        elif provider is None and (self.recognised is not None or not self.has_looked):
            log.warning(
                "no capacity provider recognised: profiles with provider auto place no pod; "
                "name the provider in the policy"
            )
        self.has_looked = True
        self.recognised = self.known_nodes.recognised = provider
        metrics.PROVIDER_RECOGNISED.set(provider is not None)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until other fields of the nodes matter than those that were read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.nodes_wanted.wait()

    def see_policy(self, policy: Policy) -> None:
        """Read the nodes again if a policy needs other labels of them."""
        if self.known_nodes.see_policy(policy):
            self.nodes_wanted.set()

    async def bounds_of_memory(self, namespace: str) -> Restrictions:
        """Return what bounds the memory of a namespace's pods, once the memory of the nodes is in `pools`.

        Raise UnavailableError if the API does not answer.
        """
        if not self.reads_memory.is_set():
            self.reads_memory.set()
            self.nodes_wanted.set()
        try:
            return await in_task(restrictions.of_namespace(self.api, namespace, self.memory_read, LOOKUP_TIMEOUT))
        except (ApiError, *UNREACHABLE) as error:
            what = f"the API server did not show what bounds memory within {LOOKUP_TIMEOUT:g} s: {error!r}"
            raise UnavailableError(f"{namespace}: {what}; try again") from error

    def _see_pools(self, found: dict[str, Pool] | None) -> None:
        """Update the known pools; None clears them. Pools without a node are kept, because they may get nodes again."""
        self.pools_seen = {} if found is None else {**self.pools_seen, **found}
        self.pools = tuple(self.pools_seen.values()) if len(self.pools_seen) <= MOST_POOLS else ()

    async def _survey(self) -> tuple[list[NodeFacts], dict[str, Pool] | None]:
        """Read the nodes; return one for each combination of providers, and the pools as `Census` does.

        One node at a time: a cluster may have tens of thousands, of kilobytes each.
        """
        claimed: dict[frozenset[str], NodeFacts] = {}
        census = Census()
        async for node in self.nodes():
            claimed.setdefault(frozenset(claims(node)), node)
            census.add(node)
        return list(claimed.values()), census.pools()

    async def nodes(self) -> AsyncIterator[NodeFacts]:
        """Yield the labels of all nodes, and the providerID of one node: the cloud is the same for all nodes.

        Record their places, and at the end which there are. Once the memory of a pod may grow, yield the memory of each
        node too, for which the API server sends whole nodes.
        """
        accept = "application/json"
        if not self.reads_memory.is_set():
            accept = METADATA_ONLY_LIST
            one = await self.api.get(NODES, {"limit": "1"})
            for item in one.get("items") or ():
                yield NodeFacts(labels_of(item), item["spec"].get("providerID") or "")
        names, began = set[str](), time()
        async for item in self.api.objects(NODES, {}, accept, type_of(NODE_READ)):
            self.known_nodes.see(item)
            names.add(item["metadata"]["name"])
            yield _facts_of(item)
        self.known_nodes.see_only(names, began)

    async def _has_node_pools(self) -> bool:
        try:
            pools = await self.api.get(NODE_POOLS, {"limit": "1"}, METADATA_ONLY_LIST)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return bool(pools.get("items"))


async def look_up(api: Api, path: str, accept: str, kind: Any = Any) -> Json | None:
    """Return an object from the API, decoded as the type `kind`; None if there is none.

    Raise UnavailableError if the API does not answer within LOOKUP_TIMEOUT.
    """
    return await in_task(_request(api, path, accept, kind))


async def _request(api: Api, path: str, accept: str, kind: Any) -> Json | None:
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            found: Json = await api.get(path, accept=accept, kind=kind)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise UnavailableError(f"{path}: the API server answered {error}; try again") from error
    except UNREACHABLE as error:
        what = f"the API server did not answer within {LOOKUP_TIMEOUT:g} s: {error!r}"
        raise UnavailableError(f"{path}: {what}; try again") from error
    return found


def _facts_of(node: Json) -> NodeFacts:
    memory = quantities.memory(at(node, ("status", "allocatable", "memory")))
    return NodeFacts(labels_of(node), at(node, ("spec", "providerID")) or "", memory or 0)


def opt_in_of(namespace: Json) -> OptIn:
    """Return profile and mode in a namespace's labels."""
    labels = labels_of(namespace)
    return labels.get(names.PROFILE), labels.get(names.MODE)


def settings_of(cluster: Cluster, policy: PolicySource, root: Json) -> Settings:
    """Return the settings of a workload under its Namespace's profile; the defaults if the policy lacks it."""
    name, _ = cluster.known_opt_in(root["metadata"]["namespace"])
    return NamedProfile(name or "", policy.profile(name or "")).settings(annotations.of(root))
