"""Calls of the cluster's admin directly to the API server: a few milliseconds each; kubectl takes a hundred."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from tests.awaiting import LONGEST

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object

NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an API server, and the TLS context of a client with the admin's certificate."""

    url: str
    context: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig: Path) -> Address:
        """Read a kubeconfig of `tests.cluster.credentials`."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            context.load_cert_chain(pem.name)
        return cls(cluster["server"], context)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


class RefusedError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Direct:
    """The API with the admin's permissions."""

    address: Address

    def get(self, path: str) -> Object:
        """Return an object; raise RefusedError, or an OSError if there is no answer."""
        return self.call("GET", path)

    def find(self, path: str) -> Object | None:
        """Return an object; None if it does not exist."""
        try:
            return self.get(path)
        except RefusedError as refused:
            if refused.status == NOT_FOUND:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        with contextlib.suppress(RefusedError):
            self.call("DELETE", path)

    def create(self, path: str, root: Object) -> Object:
        """Create an object; return it as it is stored."""
        return self.call("POST", path, root)

    def merge(self, path: str, patch: Object) -> None:
        """Apply a JSON Merge Patch."""
        self.call("PATCH", path, patch, "application/merge-patch+json")

    def edit(self, path: str, operations: list[Object]) -> None:
        """Apply a JSON Patch."""
        self.call("PATCH", path, operations, "application/json-patch+json")

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Object:
        """Send one request on a new connection, and return the decoded answer."""
        connection = http.client.HTTPSConnection(
            self.address.host, self.address.port, context=self.address.context, timeout=LONGEST
        )
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": content_type})
            answer = connection.getresponse()
            root: Object = json.loads(answer.read())
        if answer.status >= http.client.BAD_REQUEST:
            raise RefusedError(answer.status, root.get("message", ""))
        return root
