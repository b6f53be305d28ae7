"""Call the Kubernetes API through the official client, which provides connection, TLS and credentials.

Objects are plain decoded JSON: the client's models cost time and memory, and drop fields that they do not know.
"""

import asyncio
import contextlib
import math
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
import msgspec

from webhook.kube.clock import utc_now
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import path_of
from webhook.kube.tasks import in_slices
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.objects.shape import type_of

if TYPE_CHECKING:
    from aiohttp import AddrInfoType
    from kubernetes.aio.client import Configuration


DEEPEST: Final = 50_000  # levels; the API server accepts 10,000. Tested with four times as many on a stack of 8 MiB

Data = TypeVar("Data")
Value = TypeVar("Value")


def decoded(decode: Callable[[Data], Value], data: Data) -> Value:
    """Return what `decode` returns; raise what it raises, but RecursionError only beyond DEEPEST levels.

    msgspec counts levels against the recursion limit also where it skips a field. A user may store an object of a
    custom kind that is nested 10,000 deep, and its managedFields with it: one such object must not hide the page that
    it is in. `decode` must build no nested value: what it returns would be too deep for its readers.
    """
    try:
        return decode(data)
    except RecursionError:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(DEEPEST)
        try:
            return decode(data)
        finally:
            sys.setrecursionlimit(usual)


# The API server sends only the metadata of objects (Kubernetes API concepts, "Metadata-only fetches").
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
JSON_PATCH: Final = "application/json-patch+json"
# Status of a write that the API server rejects because the object has changed: a conflict of resourceVersion, or a JSON
# Patch whose test operation failed.
CHANGED: Final = {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}
PAGE: Final = 500  # the most objects in a page of a list; as client-go
LARGEST_PAGE: Final = 8 * 1024 * 1024  # bytes of a page, which is read into memory; a single object may be larger
# Seconds without a line after which a watch is taken to be dead: the API server sends a bookmark about once a minute.
SILENCE: Final = 150.0
LONGEST_MESSAGE: Final = 4096  # characters of an error, which may quote a user's whole object
# A busy API server says after how many seconds to try again: 1 to 32 (apiserver/pkg/util/flowcontrol of Kubernetes).
SHORTEST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 32.0
MOST_REPEATS: Final = 10  # of a request that a busy API server has refused; as client-go
CLOSING_TIME: Final = 1.0  # seconds to wait until connections are closed
# What the client raises about files and programs with credentials, besides its own errors: it checks little in them.
WRONG_FILES: Final = (OSError, ValueError, LookupError, TypeError, AttributeError, aiohttp.ClientError)


class NoCredentialsError(Exception):
    """The kubeconfig, or the pod's service account, cannot be used."""


# The errors of a call, besides ApiError, if the API cannot be reached.
UNREACHABLE: Final = (NoCredentialsError, aiohttp.ClientError, TimeoutError, OSError)


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP status.

    `retry_after`: the seconds after which a busy API server wants the request again; None if it does not say that.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.retry_after = retry_after


class TooLargeError(Exception):
    """The answer is larger than the caller allows; its rest was not read."""


class ListMeta(msgspec.Struct, frozen=True):
    """The metadata of a page of a list: its resourceVersion, and the token of the next page, empty if there is none."""

    version: str = msgspec.field(name="resourceVersion", default="")
    following: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """A page of a list; its objects are not decoded yet."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


page_decoder: Final = msgspec.json.Decoder(Page)
named_decoder: Final = msgspec.json.Decoder(type_of({"metadata": dict.fromkeys(("namespace", "name"), str)}))


def names_proxy_of(url: str) -> bool:
    """Return True if the environment names a proxy for a URL (HTTPS_PROXY, NO_PROXY)."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


class Api:
    """A connection to one API server; use as an async context manager.

    A busy API server refuses a request with 429, or with another error, and a Retry-After. `on_busy` is then called
    with the request's method and the seconds. With `repeats`, the request is sent again after these seconds, so many
    times at most; after that, and without `repeats`, ApiError says how long to wait.

    `left_out`: takes the objects that cannot be decoded.
    """

    left_out: LeftOut = RAISING

    def __init__(
        self,
        configuration: "Configuration",
        on_warning: Callable[[str], None] = lambda _: None,
        *,
        on_busy: Callable[[str, float], None] = lambda _method, _seconds: None,
        repeats: int = MOST_REPEATS,
    ) -> None:
        from kubernetes.aio.client import ApiClient  # noqa: PLC0415 - half a second that a server without an API saves

        self.client = ApiClient(configuration)
        self.sockets: WeakSet[socket.socket] = WeakSet()
        self.on_warning = on_warning
        self.on_busy = on_busy
        self.repeats = repeats
        rest = self.client.rest_client
        # The official client accepts a connector in this attribute (rest.py, _create_pool_manager).
        self.connector = aiohttp.TCPConnector(limit=rest.maxsize, ssl=rest.ssl_context, socket_factory=self.socket)
        # With trust_env, which the official client sets, aiohttp looks for a netrc file at each request, in a thread.
        trusts = names_proxy_of(configuration.host)
        configuration.client_session_kwargs = {"connector": self.connector, "trust_env": trusts}

    def socket(self, address: "AddrInfoType") -> socket.socket:
        """Return a new socket, and remember it so that `__aexit__` can close it."""
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        self.sockets.add(opened)
        return opened

    @classmethod
    async def connect(
        cls,
        kubeconfig: Kubeconfig | str | None,
        on_warning: Callable[[str], None] = lambda _: None,
        *,
        on_busy: Callable[[str, float], None] = lambda _method, _seconds: None,
        repeats: int = MOST_REPEATS,
    ) -> Self:
        """Return a connection with a kubeconfig, or with the pod's service account if `kubeconfig` is None.

        `on_warning` is called with each Warning header of the answer to a write; `on_busy` and `repeats`: see the
        class. Raise NoCredentialsError if the credentials cannot be used.
        """
        from kubernetes.aio import config  # noqa: PLC0415 - likewise
        from kubernetes.aio.client import Configuration  # noqa: PLC0415 - likewise
        from yaml import YAMLError  # noqa: PLC0415 - likewise

        configuration = Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=configuration)
            else:
                given = Kubeconfig(kubeconfig) if isinstance(kubeconfig, str) else kubeconfig
                await config.load_kube_config(given.files, given.context, configuration)
            return cls(configuration, on_warning, on_busy=on_busy, repeats=repeats)
        except (*WRONG_FILES, config.ConfigException, YAMLError) as error:
            raise NoCredentialsError(f"{type(error).__name__}: {error}") from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.connector.close()
        # A connection whose call was cancelled does a TLS shutdown and waits up to 30 s for the answer, in the
        # background. If uvloop is closed in that time, it hangs or fails.
        for opened in self.sockets:
            with contextlib.suppress(OSError):  # closed already
                opened.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_TIME):
                while any(opened.fileno() >= 0 for opened in self.sockets):  # noqa: ASYNC110 - no event to await
                    await asyncio.sleep(0.005)  # uvloop closes them in its next iterations

    async def get(
        self, path: str, query: dict[str, str] | None = None, accept: str = "application/json", kind: Any = Any
    ) -> Any:
        """Return the answer, decoded as the type `kind`.

        Raise ApiError if its status is not 2xx, and one of UNREACHABLE if there is no answer.
        """
        return msgspec.json.decode(await self.body(path, query or {}, accept), type=kind)

    async def get_dated(self, path: str) -> tuple[Any, datetime]:
        """Return a decoded answer, and the API server's time, in whole seconds; raise as `get` does.

        This machine's time if a proxy has removed the header with the API server's.
        """
        timeout = aiohttp.ClientTimeout(total=30)
        async with await self.request(path, {}, "application/json", timeout) as response:
            body = await response.read()
            if not response.ok:
                raise error_of(response, body)
            return msgspec.json.decode(body), date_in(response.headers.get("Date", ""))

    async def body(
        self, path: str, query: dict[str, str], accept: str, most: float = math.inf, *, repeats: int | None = None
    ) -> bytearray:
        """Return the bytes of an answer; raise as `get` does, and TooLargeError at more than `most` bytes.

        `repeats`: as of the class, but of this request alone.
        """
        timeout = aiohttp.ClientTimeout(total=30)
        async with await self.request(path, query, accept, timeout, repeats=repeats) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > most:
                    raise TooLargeError
            if not response.ok:
                raise error_of(response, body)
            return body

    async def find(self, path: str) -> Json | None:
        """Return an object; None if there is none, or it is left out; raise as `get` does."""
        found: Json | None = None
        *_, scope, namespace, resource, name = ["", "", *path.split("/")]
        about = {"metadata": {"namespace": namespace if scope == "namespaces" else "", "name": name}}
        try:
            with self.left_out.around(resource, about, (ApiError, *UNREACHABLE)):
                found = await self.get(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        return found

    async def pages(self, path: str, query: dict[str, str], accept: str) -> AsyncIterator[Page]:
        """Yield a list page by page; raise as `get` does.

        A page has at most PAGE objects and LARGEST_PAGE bytes: a larger one is requested again with fewer objects. A
        page that a busy API server refuses is requested again too, so that the pages before it are not lost.
        """
        following, size = dict(query), PAGE
        while True:
            following["limit"] = str(size)
            try:
                most = LARGEST_PAGE if size > 1 else math.inf
                body = await self.body(path, following, accept, most, repeats=MOST_REPEATS)
            except TooLargeError:
                size = max(1, size // 4)
                continue
            page = decoded(page_decoder.decode, body)
            yield page
            if not page.metadata.following:
                return
            following["continue"] = page.metadata.following
            if 2 * len(body) <= LARGEST_PAGE:
                size = min(PAGE, 2 * size)

    async def objects(
        self, path: str, query: dict[str, str], accept: str = "application/json", kind: Any = Any
    ) -> AsyncIterator[Any]:
        """Yield the objects of a list, each decoded as a type; raise as `get` does."""
        decode, resource = msgspec.json.Decoder(kind).decode, path.rpartition("/")[2]
        async for page in self.pages(path, query, accept):
            async for item in in_slices(page.items or ()):
                found = None
                with self.left_out.around(resource, partial(decoded, named_decoder.decode, item)):
                    found = decode(item) if kind is Any else decoded(decode, item)
                if found is not None:
                    yield found

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or with `dry_run` only validate it; return it as the API does; raise as `get` does."""
        return await self.write("POST", path, root, {"dryRun": "All"} if dry_run else {})

    async def replace(self, path: str, root: Json) -> Json:
        """Replace an object of the same resourceVersion; return it as the API does; raise as `get` does."""
        return await self.write("PUT", path, root)

    async def patch(self, path: str, operations: list[Json]) -> Json:
        """Apply a JSON Patch; return the object as the API does; raise as `get` does."""
        return await self.write("PATCH", path, operations)

    async def delete(self, path: str, uid: str, *, after: bool = False) -> None:
        """Delete the object with this uid, and the objects that it owns: `after` those objects, or else before them.

        Raise as `get` does: ApiError with 409 if another object has this path now.
        """
        policy = "Foreground" if after else "Background"
        await self.write("DELETE", path, {"preconditions": {"uid": uid}, "propagationPolicy": policy})

    async def username(self) -> str:
        """Return the username that the API server sees on this connection; raise as `get` does."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await self.create(path_of(review["apiVersion"], "selfsubjectreviews"), review)
        return str(answer["status"]["userInfo"]["username"])

    async def write(self, method: str, path: str, body: Json | list[Json], query: dict[str, str] | None = None) -> Json:
        """Send a body; return the decoded answer; raise as `get` does."""
        timeout = aiohttp.ClientTimeout(total=30)
        async with await self.request(path, query or {}, "application/json", timeout, method, body) as response:
            answer = await response.read()
            for header in response.headers.getall("Warning", ()):
                self.on_warning(header)
            if not response.ok:
                raise error_of(response, answer)
            found: Json = msgspec.json.decode(answer)
            return found

    @asynccontextmanager
    async def stream(self, path: str, query: dict[str, str], accept: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch, and yield an iterator over its lines as they arrive; raise as `get` does."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE)
        async with await self.request(path, query, accept, timeout) as response:
            if not response.ok:
                raise error_of(response, await response.read())
            yield lines_of(response)

    async def request(  # noqa: PLR0913, PLR0917 - the parts of an HTTP request
        self,
        path: str,
        query: dict[str, str],
        accept: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, which bounds more than the total time
        method: str = "GET",
        body: Json | list[Json] | None = None,
        *,
        repeats: int | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request, and again if the API server is busy; raise one of UNREACHABLE if there is no answer."""
        left = self.repeats if repeats is None else repeats
        while True:
            response = await self.send(path, query, accept, timeout, method, body)
            seconds = retry_after(response)
            if seconds is None:
                return response
            self.on_busy(method, seconds)
            if not left:
                return response
            left -= 1
            response.release()
            await asyncio.sleep(spread(seconds))

    async def send(  # noqa: PLR0913, PLR0917 - likewise
        self,
        path: str,
        query: dict[str, str],
        accept: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - likewise
        method: str,
        body: Json | list[Json] | None,
    ) -> aiohttp.ClientResponse:
        """Send a request once, with the client's credentials; raise one of UNREACHABLE if there is no answer."""
        from kubernetes.aio.config import ConfigException  # noqa: PLC0415 - imported by `connect` already

        try:
            _, url, headers, _, _ = await self.client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params={
                    "Accept": accept,
                    "Accept-Encoding": "identity",  # the size of a compressed answer would not bound its memory
                    **({"Content-Type": JSON_PATCH} if method == "PATCH" else {}),
                },
                auth_settings=["BearerToken"],
            )
        except (*WRONG_FILES, ConfigException) as error:
            raise NoCredentialsError(f"{type(error).__name__}: {error}") from error
        answer = await self.client.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


def retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds after which a busy API server wants the request again; None if it is not busy."""
    header = response.headers.get("Retry-After", "")
    is_error = response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return min(max(float(header), SHORTEST_WAIT), LONGEST_WAIT) if is_error and header.isdecimal() else None


def spread(seconds: float) -> float:
    """Return these seconds or up to half as many more, so that clients that were refused together come back apart."""
    return seconds * random.uniform(1.0, 1.5)  # noqa: S311 - jitter, no secret


def wait_after(error: Exception) -> float | None:
    """Return for how many seconds nothing more is to be sent after an error; None if the API server is not busy."""
    seconds = error.retry_after if isinstance(error, ApiError) else None
    return None if seconds is None else spread(seconds)


def error_of(response: aiohttp.ClientResponse, body: bytes | bytearray) -> ApiError:
    """Return the error in an answer."""
    return ApiError(response.status, message_of(body), retry_after(response))


def date_in(header: str) -> datetime:
    """Return the time in a Date header; this machine's time if it is none."""
    try:
        found = parsedate_to_datetime(header)
    except ValueError:
        return utc_now()
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


async def lines_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a body, each of any length; drop a last line that does not end."""
    pieces: list[bytes] = []
    async for chunk in response.content.iter_any():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*pieces, line))
            pieces.clear()
        pieces.append(rest)


def message_of(body: bytes | bytearray) -> str:
    """Return the message of a Status object; the first 200 bytes of the body if it is not one."""
    try:
        return str(msgspec.json.decode(body)["message"])[:LONGEST_MESSAGE]
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
