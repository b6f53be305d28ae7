"""What bounds the memory of pods is read when a pod's memory may grow: LimitRanges, ResourceQuotas, and the nodes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from tests import virtual_time
from tests.unit.controller.leader import beside
from webhook.kube.client import METADATA_ONLY_LIST, ApiError, TooLargeError
from webhook.objects.problem import Json
from webhook.rules.pods.memory_bounds import Restrictions
from webhook.tracking.cluster import LOOKUP_TIMEOUT, NODES_KNOWN, Cluster, UnavailableError
from webhook.tracking.nodes import NODES
from webhook.tracking.restrictions import LARGEST, MOST, MOST_LIMITS

GI: Final = 1024**3
RANGES: Final = "/api/v1/namespaces/ml/limitranges"
QUOTAS: Final = "/api/v1/namespaces/ml/resourcequotas"
SMALL: Final[Json] = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Pod", "max": {"memory": "1Gi"}}]}}


class FakeApi:
    """Answers lists; an Exception is raised. Counts the lists of whole nodes."""

    def __init__(self, answers: dict[str, Json | Exception] | None = None, *, slow: float = 0.0) -> None:
        self.answers = answers or {}
        self.slow = slow
        self.whole_nodes = 0

    async def body(self, path: str, query: dict[str, str], accept: str, most: float) -> bytes:
        assert (query, accept, most) == ({"limit": str(MOST)}, "application/json", LARGEST)
        await asyncio.sleep(self.slow)
        answer = self.answers.get(path, {"items": []})
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)

    async def get(self, path: str, *_: object) -> Json:
        return {"items": [{"metadata": {"name": "n1", "labels": {}}, "spec": {}}] if path == NODES else []}

    async def objects(self, path: str, _: object, accept: str = "", kind: Any = None) -> AsyncIterator[Json]:
        assert path == NODES
        if accept == METADATA_ONLY_LIST:
            yield {"metadata": {"name": "n1", "labels": {"cloud.google.com/gke-nodepool": "a"}}}
            return
        self.whole_nodes += 1
        found = self.answers.get(NODES)
        if isinstance(found, Exception):
            raise found
        for size in ("16Gi", "8Gi"):
            node = {
                "metadata": {"name": "n1", "labels": {"cloud.google.com/gke-nodepool": "a"}, "uid": "u"},
                "spec": {"providerID": "gce://x"},
                "status": {"allocatable": {"memory": size, "cpu": "4"}, "images": []},
            }
            yield msgspec.json.decode(msgspec.json.encode(node), type=kind)


def read(api: Any) -> tuple[Restrictions, Cluster]:
    """Look up the bounds on memory in a namespace, beside the task that reads the nodes."""

    async def work() -> tuple[Restrictions, Cluster]:
        cluster = Cluster(api)
        async with beside(cluster.look_at_nodes()):
            return await cluster.bounds_of_memory("ml"), cluster

    return virtual_time.run(work())


def test_the_limit_ranges_and_quotas_of_the_namespace_are_read_without_other_fields() -> None:
    quota = {"metadata": {"name": "team", "uid": "u"}, "spec": {"hard": {"memory": "4Gi"}}, "status": {}}
    found, _ = read(FakeApi({RANGES: {"items": [SMALL]}, QUOTAS: {"items": [quota]}}))
    team = {"metadata": {"name": "team"}, "spec": {"hard": {"memory": "4Gi"}}, "status": {}}
    assert found == Restrictions((SMALL,), (team,))


@pytest.mark.parametrize("items", [[], None])
def test_a_namespace_without_any_has_no_restrictions(items: object) -> None:
    assert read(FakeApi({RANGES: {"items": items}}))[0] == Restrictions()


TOO_MANY_LIMITS: Final[Json] = {"items": [{**SMALL, "spec": {"limits": SMALL["spec"]["limits"] * (MOST_LIMITS + 1)}}]}


@pytest.mark.parametrize(
    "answer",
    [ApiError(403, "no"), TooLargeError(), {"metadata": {"continue": "more"}, "items": []}, TOO_MANY_LIMITS],
    ids=["forbidden", "too large", "more than one page", "too many limits"],
)
def test_what_the_server_may_not_read_or_what_is_too_much_is_unknown(answer: Json | Exception) -> None:
    assert read(FakeApi({RANGES: answer}))[0] == Restrictions(are_known=False)


@pytest.mark.parametrize("api", [FakeApi({QUOTAS: ApiError(500, "?")}), FakeApi(slow=2 * LOOKUP_TIMEOUT)])
def test_without_an_answer_the_request_is_answered_later(api: FakeApi) -> None:
    with pytest.raises(UnavailableError, match="ml: the API server did not show what bounds memory within 1 s"):
        read(api)


def test_the_memory_of_the_nodes_is_known_by_then() -> None:
    _, cluster = read(FakeApi())
    assert [pool.memory for pool in cluster.pools] == [16 * GI]


def test_nodes_that_cannot_be_read_do_not_hold_a_pod_back() -> None:
    found, cluster = read(FakeApi({NODES: ApiError(403, "no")}))
    assert (found, cluster.pools) == (Restrictions(), ())


def test_whole_nodes_are_read_only_from_the_first_pod_on_whose_memory_may_grow() -> None:
    async def work() -> list[int]:
        cluster, reads = Cluster(api), []
        async with beside(cluster.look_at_nodes()):
            await asyncio.sleep(2.5 * NODES_KNOWN)
            reads.append(fake.whole_nodes)
            for _ in range(3):
                await cluster.bounds_of_memory("ml")
            reads.append(fake.whole_nodes)
            await asyncio.sleep(1.5 * NODES_KNOWN)
            reads.append(fake.whole_nodes)
        return reads

    fake = FakeApi()
    api: Any = fake
    assert virtual_time.run(work()) == [0, 1, 2]
