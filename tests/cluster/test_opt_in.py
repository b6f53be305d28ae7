"""How often a program lists objects because a namespace is opted in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.awaiting import LONGEST
from tests.cluster.conftest import opted_in
from tests.cluster.manifests import job
from webhook.kube import names
from webhook.kube.client import Api
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import Trackers

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace


class RecordingApi(Api):
    """An API client that records the paths of its lists."""

    paths: tuple[str, ...] = ()

    async def body(self, path: str, *arguments: Any, **options: Any) -> bytearray:
        self.paths = (*self.paths, path)
        return await super().body(path, *arguments, **options)

    def listed_in(self, team: Namespace) -> list[str]:
        """Return the paths of the lists in a namespace."""
        return [path for path in self.paths if f"/namespaces/{team.name}/" in path]


async def until_cached(cluster: Cluster, team: Namespace, name: str) -> None:
    """Return as soon as a Job of a namespace is cached; fail if it is not within LONGEST seconds."""
    changed = asyncio.Event()
    cluster.jobs.on_change(changed.set)
    async with asyncio.timeout(LONGEST):
        while cluster.jobs.get(team.name, name) is None:
            await changed.wait()
            changed.clear()


def marked(name: str) -> Object:
    """Return a suspended Job with the label of admitted Jobs, which users may set where none is admitted."""
    root = job(name, suspend=True)
    root["metadata"]["labels"] = {names.PROFILE: "default"}
    return root


def test_only_where_objects_are_already_does_the_opt_in_of_a_namespace_cost_a_list(
    namespace: NewNamespace, kubectl: Kubectl
) -> None:
    async def follow(api: RecordingApi, cluster: Cluster) -> None:
        for informer in cluster.scope.followers:
            await informer.known.wait()
        other = await asyncio.to_thread(namespace)
        await asyncio.to_thread(other.create, marked("before"))
        team = await asyncio.to_thread(opted_in, namespace)
        await asyncio.to_thread(team.create, job("train", suspend=True))
        await until_cached(cluster, team, "train")  # the watch has delivered the other one before
        assert api.listed_in(team) == []
        await asyncio.to_thread(kubectl.run, "label", "namespace", other.name, f"{names.PROFILE}=default")
        await until_cached(cluster, other, "before")
        assert api.listed_in(other) == [batch.JOB.path(other.name)]

    async def run() -> None:
        async with await RecordingApi.connect(str(kubectl.kubeconfig)) as api:
            cluster = Cluster(api)
            trackers = Trackers(cluster)
            running = [asyncio.create_task(cluster.run()), asyncio.create_task(trackers.run())]
            await follow(api, cluster)
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    asyncio.run(run())
