"""A stand-in for the API server, for what a real one costs too much CPU time: lists, watches, patches, leases, Events.

It serves `Store` over HTTPS to real replicas, and counts requests and bytes. It shows what replicas cost, and what they
do at a rate that two cores could not serve otherwise; what the API means is shown on a real one alone.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, deque
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from tests.bench.leaders.store import Store, finalizers, is_list, list_of, without_subresource
from tests.bench.replay.player import stamp
from webhook.kube.client import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.objects.problem import Json

HELD: Final = 50_000  # changes of each list to which a watch can go back
GATHERED: Final = 0.005  # seconds for which a watch gathers lines
INITIAL: Final = {"k8s.io/initial-events-end": "true"}
UNKNOWN: Final = ("jobsets", "workloads", "customresourcedefinitions", "nodepools")  # kinds that are not installed


class ServedStore(Store):
    """A Store whose lists and watches cost the same however many objects of other lists there are.

    It keeps each object's JSON, and of the changes the last HELD.
    """

    def __init__(self) -> None:
        super().__init__(stamp)
        self.lists: dict[str, dict[str, bytes]] = {}  # JSON by the path of list and object
        self.held: dict[str, deque[tuple[int, bytes]]] = {}
        self.watches: dict[str, set[Watch]] = {}

    async def tell(self, kind: str, path: str, root: Json) -> None:
        """Keep a change, and pass it to the watches."""
        self.version += 1
        root["metadata"]["resourceVersion"] = str(self.version)
        encoded, of = msgspec.json.encode(root), list_of(path)
        if kind == "DELETED":
            self.lists[of].pop(path, None)
        else:
            self.lists.setdefault(of, {})[path] = encoded
        line = b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)
        self.held.setdefault(of, deque(maxlen=HELD)).append((self.version, line))
        for watch in self.watches.get(of, ()):
            watch.put(line)

    async def patch(self, path: str, operations: list[Json]) -> Json:
        """Apply a JSON Patch as the API server does, without a copy of the whole object."""
        path = without_subresource(path)
        root = self.found(path)
        for one in operations:
            if one["op"] == "test" and value_at(root, one["path"]) != one["value"]:
                status = HTTPStatus.CONFLICT if one["path"].endswith("Version") else HTTPStatus.UNPROCESSABLE_ENTITY
                raise ApiError(status, f"the test of {one['path']} failed")
        patched = root
        for one in operations:
            if one["op"] != "test":
                patched = changed(patched, parts_of(one["path"]), one)
        await self.put(path, patched)
        await self.collect(path)
        return patched


class Watch:
    """An open watch: its lines are gathered for a moment and sent together."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.some = asyncio.Event()

    def put(self, line: bytes) -> None:
        self.lines.append(line)
        self.some.set()

    async def take(self) -> bytes:
        """Wait for lines, and return them."""
        await self.some.wait()
        await asyncio.sleep(GATHERED)
        self.some.clear()
        lines, self.lines = self.lines, []
        return b"".join(lines)


class StandIn:
    """The server. `requests`: by method and resource. `sent`, `received`: bytes of bodies, by the same and by watch."""

    def __init__(self, store: ServedStore) -> None:
        self.store = store
        self.requests: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.pages: dict[str, tuple[int, list[bytes]]] = {}  # the rest of lists, by their token
        self.tokens = count()

    def forget(self) -> None:
        """Begin to count anew."""
        for counts in (self.requests, self.sent, self.received):
            counts.clear()

    async def start(self, certificate: Path, key: Path) -> int:
        """Listen on a free port of loopback, and return it."""
        app = web.Application(client_max_size=2**23)
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self.runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = self.runner.addresses[0][1]
        return port

    async def answer(self, http: web.Request) -> web.StreamResponse:
        """Answer one request."""
        body = await http.read()
        path, query = http.path, http.query
        watches = query.get("watch") in {"1", "true"}
        of = list_of(path).rpartition("/")[2]
        name = f"{'WATCH' if watches else http.method} {of}"
        self.requests[name] += 1
        self.received[name] += len(body)
        try:
            if watches:
                return await self.watch(http, name)
            found = await self.done(http.method, path, dict(query), msgspec.json.decode(body) if body else None)
        except ApiError as error:
            found = msgspec.json.encode({"kind": "Status", "code": error.status, "message": str(error)})
            return web.Response(status=error.status, body=found, content_type="application/json")
        self.sent[name] += len(found)
        status = HTTPStatus.CREATED if http.method == "POST" else HTTPStatus.OK
        return web.Response(status=status, body=found, content_type="application/json")

    async def done(self, method: str, path: str, query: dict[str, str], body: Any) -> bytes:
        """Do what a request asks for, and return the body of the answer; raise ApiError."""
        resource = list_of(path).rpartition("/")[2]
        if resource in UNKNOWN:
            raise ApiError(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
        if method == "GET":
            if is_list(path):
                return self.page(path, query)
            return msgspec.json.encode(self.store.found(path))
        if method == "PATCH":
            return msgspec.json.encode(await self.store.patch(path, body))
        if resource == "events":
            return msgspec.json.encode(body)
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.store.objects:
                raise ApiError(HTTPStatus.CONFLICT, "it exists already")
        elif method == "PUT":
            before = self.store.found(path)["metadata"]["resourceVersion"]
            if body["metadata"].get("resourceVersion") != before:
                raise ApiError(HTTPStatus.CONFLICT, "the object has been modified")
        else:
            raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, method)
        return msgspec.json.encode(await self.store.put(path, body))

    def page(self, path: str, query: dict[str, str]) -> bytes:
        """Return a page of a list, of one namespace if the path names one, as it was at the first page."""
        of = list_of(path)
        stored = self.store.lists.get(of, {})
        if of != path:
            stored = {one: item for one, item in stored.items() if one.startswith(f"{path}/")}
        token, limit = query.get("continue"), int(query.get("limit") or 0)
        version, items = self.pages.pop(token) if token else (self.store.version, [*stored.values()])
        metadata = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = token = str(next(self.tokens))
            self.pages[token] = version, items[limit:]
            items = items[:limit]
        return b'{"kind":"List","metadata":%b,"items":[%b]}' % (msgspec.json.encode(metadata), b",".join(items))

    async def watch(self, http: web.Request, name: str) -> web.StreamResponse:
        """Send the changes of a list since a version; all objects first if the watch asks for initial events."""
        of, query = list_of(http.path), http.query
        if of.rpartition("/")[2] in UNKNOWN:
            raise ApiError(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
        held, watch = self.store.held.get(of, ()), Watch()
        since = int(query.get("resourceVersion") or 0)
        initial = query.get("sendInitialEvents") == "true"
        if not initial and held and len(held) == HELD and held[0][0] > since + 1:
            raise ApiError(HTTPStatus.GONE, "too old resource version")
        response = web.StreamResponse()
        response.content_type = "application/json"
        self.store.watches.setdefault(of, set()).add(watch)
        if initial:
            for item in self.store.lists.get(of, {}).values():
                watch.put(b'{"type":"ADDED","object":%b}\n' % item)
            metadata = {"resourceVersion": str(self.store.version), "annotations": INITIAL}
            watch.put(msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n")
        else:
            for version, line in held:
                if version > since:
                    watch.put(line)
        try:
            await response.prepare(http)
            while True:
                try:
                    async with asyncio.timeout(60):
                        text = await watch.take()
                except TimeoutError:
                    bookmark = {"metadata": {"resourceVersion": str(self.store.version)}}
                    text = msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"
                self.sent[name] += len(text)
                await response.write(text)
        except ConnectionError:  # the replica has ended
            return response
        finally:
            self.store.watches[of].discard(watch)

    async def stop(self) -> None:
        await self.runner.cleanup()


class Local:
    """The store for the player: its writes are made at once, without a connection."""

    def __init__(self, store: ServedStore) -> None:
        self.store = store

    async def patch(self, path: str, operations: list[Json]) -> Json:
        return await self.store.patch(path, operations)

    async def write(self, method: str, path: str, body: Any) -> Json:
        del method, body
        root = self.store.found(path)
        metadata = {**root["metadata"], "deletionTimestamp": stamp(), "deletionGracePeriodSeconds": 0}
        await self.store.put(path, {**root, "metadata": metadata})
        assert finalizers(root)
        return {}


def parts_of(pointer: str) -> list[str]:
    """Return the names in a JSON Pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def value_at(root: Any, pointer: str) -> Any:
    """Return the value at a pointer through objects; None if there is none."""
    for part in parts_of(pointer):
        root = root.get(part) if isinstance(root, dict) else None
    return root


def changed(root: Json, parts: list[str], operation: Json) -> Json:
    """Return a copy of an object after one operation, through objects alone; what it does not change is shared."""
    first, *rest = parts
    if rest:
        return {**root, first: changed(root.get(first) or {}, rest, operation)}
    if operation["op"] == "remove":
        return {key: value for key, value in root.items() if key != first}
    return {**root, first: operation["value"]}
