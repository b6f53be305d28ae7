"""An API server in memory, as far as the leader and the controllers of world.py need it: objects, patches, watches."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from copy import deepcopy
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import jsonpatch
import msgspec

from webhook.kube.client import ApiError, ListMeta, Page
from webhook.pods.pods import TRACKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from webhook.objects.problem import Json

PATH = re.compile(
    r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
PODS = "/api/v1/pods"


class Store:
    """All objects by path, and every change of each list: what `etcd` is to a cluster. `now`: the time as RFC 3339."""

    def __init__(self, now: Callable[[], str]) -> None:
        self.now = now
        self.objects: dict[str, Json] = {}
        self.version = 0
        self.changes: dict[str, list[tuple[int, bytes]]] = {}  # events by the path of the list
        self.changed = asyncio.Condition()

    def of(self, resource: str) -> list[Json]:
        """Return the objects of a list, such as PODS."""
        return [root for path, root in self.objects.items() if list_of(path) == resource]

    async def put(self, path: str, root: Json) -> Json:
        """Create an object or replace it, and tell the watches."""
        is_new = path not in self.objects
        self.objects[path] = root
        await self.tell("ADDED" if is_new else "MODIFIED", path, root)
        return root

    async def create(self, path: str, root: Json) -> Json:
        """Create an object; raise ApiError if there is one of this name."""
        if path in self.objects:
            raise ApiError(HTTPStatus.CONFLICT, "it exists already")
        root["metadata"] |= {"uid": f"uid-of-{path}", "creationTimestamp": self.now()}
        return await self.put(path, root)

    async def remove(self, path: str) -> None:
        await self.tell("DELETED", path, self.objects.pop(path))

    async def tell(self, kind: str, path: str, root: Json) -> None:
        self.version += 1
        root["metadata"]["resourceVersion"] = str(self.version)
        event = msgspec.json.encode({"type": kind, "object": root})
        self.changes.setdefault(list_of(path), []).append((self.version, event))
        async with self.changed:
            self.changed.notify_all()

    async def more_than(self, resource: str, number: int) -> None:
        """Wait until a list has had more changes than a number."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.changes.setdefault(resource, [])) > number)

    def found(self, path: str) -> Json:
        """Return an object; raise ApiError if there is none."""
        if path not in self.objects:
            raise ApiError(HTTPStatus.NOT_FOUND, f"{path} not found")
        return self.objects[path]

    async def patch(self, path: str, operations: list[Json]) -> Json:
        """Apply a JSON Patch as the API server does; a pod without finalizers that is being deleted disappears."""
        path = without_subresource(path)
        root = self.found(path)
        for operation in operations:
            is_version = operation["path"] == "/metadata/resourceVersion"
            if is_version and operation["value"] != root["metadata"]["resourceVersion"]:
                raise ApiError(HTTPStatus.CONFLICT, "the object has been modified")
        try:
            patched: Json = jsonpatch.apply_patch(deepcopy(root), with_absent_as_null(root, operations))
        except jsonpatch.JsonPatchException as error:
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        if patched == root:
            return root
        await self.put(path, patched)
        await self.collect(path)
        return patched

    async def delete(self, path: str, uid: str | None) -> None:
        """Delete a pod as the API server does: it stays while its containers run or it has a finalizer."""
        root = self.found(path)
        if uid not in {None, root["metadata"]["uid"]}:
            raise ApiError(HTTPStatus.CONFLICT, "another object has this name now")
        if not root["metadata"].get("deletionTimestamp"):
            root["metadata"] |= {"deletionTimestamp": self.now(), "deletionGracePeriodSeconds": 0}
            await self.put(path, root)
        await self.collect(path)

    async def evict(self, path: str, uid: str | None) -> None:
        """Evict a pod: it gets the condition DisruptionTarget unless it has one, and is deleted."""
        root = self.found(path)
        if uid not in {None, root["metadata"]["uid"]}:
            raise ApiError(HTTPStatus.CONFLICT, "another object has this name now")
        conditions = root["status"].setdefault("conditions", [])
        if not any(one["type"] == "DisruptionTarget" for one in conditions):
            conditions.append({**DISRUPTED, "lastTransitionTime": self.now()})
            await self.put(path, root)
        await self.delete(path, uid)

    async def collect(self, path: str) -> None:
        """Remove an object that is being deleted once nothing holds it."""
        root = self.objects.get(path)
        if root is None or not root["metadata"].get("deletionTimestamp") or TRACKING in finalizers(root):
            return
        if (root.get("status") or {}).get("phase") != "Running":
            await self.remove(path)


class StoreApi:
    """The methods of `Api` on a store, for one replica.

    `before` and `after` are called with each write but those of Events, before it is done and after. Once `dead`, no
    call returns.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.dead = False
        self.before: Callable[[str, str], None] = ignore
        self.after: Callable[[str, str], None] = ignore

    async def alive(self) -> None:
        """Take a moment, as each call does; never return once the replica is dead."""
        await asyncio.sleep(0.01)
        while self.dead:
            await asyncio.Event().wait()

    async def get(self, path: str, query: object = None, accept: object = None, kind: Any = Any) -> Any:
        return msgspec.json.decode(await self.body(path, query, accept), type=kind)

    async def body(self, path: str, query: object, accept: object, most: object = None) -> bytearray:
        del query, accept, most
        await self.alive()
        root = {"items": self.store.of(path)} if is_list(path) else self.store.found(path)
        return bytearray(msgspec.json.encode(root))

    async def find(self, path: str) -> Json | None:
        await self.alive()
        return deepcopy(self.store.objects.get(path))

    async def pages(self, path: str, query: dict[str, str], _: str = "") -> AsyncIterator[Page]:
        await self.alive()
        items = [msgspec.Raw(msgspec.json.encode(root)) for root in self.store.of(path) if is_selected(root, query)]
        yield Page(ListMeta(str(self.store.version)), items)

    async def objects(self, path: str, query: dict[str, str], accept: str = "", kind: Any = Any) -> AsyncIterator[Any]:
        async for page in self.pages(path, query, accept):
            for item in page.items or ():
                yield msgspec.json.decode(item, type=kind)

    @asynccontextmanager
    async def stream(self, path: str, query: dict[str, str], _: str = "") -> AsyncIterator[AsyncIterator[bytes]]:
        await self.alive()
        yield self.lines(path, int(query["resourceVersion"]), query)

    async def lines(self, path: str, version: int, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield the changes of a list after a version, and a bookmark each minute without any."""
        place = 0
        while True:
            for number, line in self.store.changes.setdefault(path, [])[place:]:
                place += 1
                await self.alive()
                if number > version and is_selected(msgspec.json.decode(line)["object"], query):
                    yield line
            try:
                async with asyncio.timeout(60):
                    await self.store.more_than(path, place)
            except TimeoutError:
                bookmark = {"metadata": {"resourceVersion": str(self.store.version)}}
                yield msgspec.json.encode({"type": "BOOKMARK", "object": bookmark})

    async def patch(self, path: str, operations: list[Json]) -> Json:
        await self.alive()
        self.before("patch", path)
        await self.alive()
        found = await self.store.patch(path, operations)
        self.after("patch", path)
        await self.alive()
        return deepcopy(found)

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:
        await self.alive()
        if dry_run or path.endswith("/events"):
            return root
        self.before("create", path)
        await self.alive()
        if root["kind"] == "Account":
            created = await self.store.create(f"{path}/{root['metadata']['name']}", deepcopy(root))
            self.after("create", path)
            await self.alive()
            return created
        if not path.endswith("/eviction"):
            raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, path)
        preconditions = (root.get("deleteOptions") or {}).get("preconditions") or {}
        await self.store.evict(without_subresource(path), preconditions.get("uid"))
        self.after("create", path)
        await self.alive()
        return {"kind": "Status", "status": "Success"}

    async def delete(self, path: str, uid: str, *, after: bool = False) -> None:
        del after
        await self.write("DELETE", path, {"preconditions": {"uid": uid}})

    async def write(self, method: str, path: str, body: Any, query: object = None) -> Json:
        del query
        if method != "DELETE":
            return await (self.patch if method == "PATCH" else self.create)(path, body)
        await self.alive()
        self.before("delete", path)
        await self.alive()
        await self.store.delete(path, (body.get("preconditions") or {}).get("uid"))
        self.after("delete", path)
        await self.alive()
        return {}


def ignore(_method: str, _path: str) -> None:
    """Do nothing."""


def list_of(path: str) -> str:
    """Return the path of the list of all namespaces in which an object is."""
    found = PATH.fullmatch(path)
    assert found is not None, path
    return f"{found['group']}/{found['resource']}"


def is_list(path: str) -> bool:
    """Return True if a path is that of a list, not of an object."""
    found = PATH.fullmatch(path)
    return found is not None and found["name"] is None


def without_subresource(path: str) -> str:
    found = PATH.fullmatch(path)
    assert found is not None, path
    return path.removesuffix(f"/{found['sub']}") if found["sub"] else path


def is_selected(root: Json, query: dict[str, str]) -> bool:
    """Return True if an object has all labels of a selector, which names only keys."""
    labels = root["metadata"].get("labels") or {}
    return all(key in labels for key in query.get("labelSelector", "").split(",") if key)


def finalizers(root: Json) -> list[str]:
    return root["metadata"].get("finalizers") or []


def with_absent_as_null(root: Json, operations: list[Json]) -> list[Json]:
    """Return the operations of a patch without the tests for null of absent fields, which the API server accepts."""
    kept = []
    for operation in operations:
        if operation["op"] == "test" and operation.get("value") is None:
            try:
                present = jsonpatch.JsonPointer(operation["path"]).resolve(root)
            except jsonpatch.JsonPointerException:
                continue
            if present is None:
                continue
        kept.append(operation)
    return kept
