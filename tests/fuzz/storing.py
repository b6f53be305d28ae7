"""Stores draws as users do: past the client's validation, with a status, in namespaces of every sort."""

from __future__ import annotations

import http.client
import json
import ssl
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tests.awaiting import LONGEST
from tests.fuzz.mutations import body
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.faults.direct import Address
    from tests.fuzz.mutations import Drawn

# The labels of the namespaces: the profiles with rules of onFailure read most of what users can write.
SORTS: Final = {
    "opted-in": {names.PROFILE: "memory"},
    "that-waits": {names.PROFILE: "delay"},
    "warned": {names.PROFILE: "memory", names.MODE: "Warn"},
    "audited": {names.PROFILE: "default", names.MODE: "Audit"},
    "not-opted-in": {},
}
HOST: Final = "host"
MERGE: Final = "application/merge-patch+json"
SHORT: Final = 300  # characters of a reason


@dataclass(slots=True)
class Store:
    """A user with every right, on one connection.

    `hosts`: by namespace the uid of its Job that other objects belong to. `stored`: the paths of stored objects, by
    seed; `refused`: how often the API server gave each reason; `statuses`: how many were sent, and `refused_statuses`
    how often it gave each reason against one of these.
    """

    address: Address
    hosts: dict[str, str] = field(default_factory=dict)
    stored: dict[int, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    statuses: int = 0
    refused_statuses: Counter[str] = field(default_factory=Counter)
    connection: http.client.HTTPSConnection | None = None

    def open(self, namespace: str) -> None:
        """Create the Job that pods of this namespace belong to; another controller manages it, so that they stay.

        It has our label, which only a user has written in a namespace that is not opted in.
        """
        container = {"name": "main", "image": "example.test/main", "resources": {"limits": {"memory": "64Mi"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"managedBy": "example.test/other", "backoffLimit": 3, "completions": 3, "template": template}
        root = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
        root["metadata"] = {"name": HOST, "labels": {names.PROFILE: "default"}}
        status, answer = self.send("POST", f"apis/batch/v1/namespaces/{namespace}/jobs", json.dumps(root).encode())
        assert status == HTTPStatus.CREATED, answer
        self.hosts[namespace] = answer["metadata"]["uid"]

    def store(self, drawn: Drawn, namespace: str) -> bool:
        """Create an object, then its status; return False if the API server refuses the object itself."""
        root, path = drawn.root, drawn.sample.path.format(namespace)
        metadata = root.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("generateName", None)
            metadata.pop("namespace", None)
            metadata["name"] = name = f"fuzz-{drawn.seed}"
            if drawn.sample.hosted and "ownerReferences" not in metadata:
                metadata["ownerReferences"] = [self.owner(namespace)]
        status, answer = self.send("POST", f"{path}?fieldValidation=Ignore", body(root))
        if status != HTTPStatus.CREATED:
            self.refused[f"{status} {answer.get('message', '')}"[:SHORT]] += 1
            return False
        self.stored[drawn.seed] = path = f"{path}/{name}"
        if drawn.status is not None:
            said = body({"status": drawn.status})
            status, answer = self.send("PATCH", f"{path}/status", said)
            if status == HTTPStatus.NOT_FOUND:  # the kind has no subresource: its status is a field as any other
                status, answer = self.send("PATCH", path, said)
            self.statuses += 1
            if status != HTTPStatus.OK:
                self.refused_statuses[f"{status} {answer.get('message', '')}"[:SHORT]] += 1
        return True

    def owner(self, namespace: str) -> Object:
        uid = self.hosts[namespace]
        return {"apiVersion": "batch/v1", "kind": "Job", "name": HOST, "uid": uid, "controller": True}

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def delete(self, path: str) -> None:
        """Delete an object or a list, without waiting for what has to be done before."""
        self.send("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")

    def send(self, method: str, path: str, data: bytes | None = None) -> tuple[int, Object]:
        """Return the status and the decoded answer; the connection is opened again if the API server has closed it."""
        for again in (True, False):
            if self.connection is None:
                self.connection = http.client.HTTPSConnection(
                    "127.0.0.1", self.address.port, context=self.address.context, timeout=LONGEST
                )
            try:
                kind = MERGE if method == "PATCH" else "application/json"
                self.connection.request(method, f"/{path}", data, {"Content-Type": kind})
                answer = self.connection.getresponse()
                content = answer.read()
            except (http.client.HTTPException, ConnectionError, ssl.SSLError) as error:
                self.connection.close()
                self.connection = None
                if not again:  # it does not read what is larger than it accepts
                    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"message": f"{len(data or b'')} bytes: {error}"}
            else:
                return answer.status, decoded(content)
        raise AssertionError


def decoded(content: bytes) -> Any:
    """Return decoded JSON; of another text, such as that of a proxy, its words as a message."""
    try:
        return json.loads(content)
    except ValueError:
        return {"message": content.decode(errors="replace")}
