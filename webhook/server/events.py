"""Kubernetes Events: trouble told where an admin looks, such as the ConfigMap that was edited."""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from webhook.problem import Json
from webhook.server.api import UNREACHABLE, Api, ApiError

COMPONENT: Final = "retry-policy-webhook"
LONGEST: Final = 1024  # characters of an Event's message, which the API server bounds
ALREADY_EXISTS: Final = 409

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Trouble:
    """What an Event tells, and the object of the core group (ConfigMap, Secret) that it is about."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str


class Events:
    """Writes Events; trouble with the API is logged and stops nothing."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.waiting: asyncio.Queue[Trouble] = asyncio.Queue(maxsize=100)

    def tell(self, trouble: Trouble) -> None:
        """Queue an Event."""
        if not self.waiting.full():
            self.waiting.put_nowait(trouble)

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        while True:
            trouble = await self.waiting.get()
            try:
                await self.api.create(f"/api/v1/namespaces/{trouble.namespace}/events", event(trouble))
            except ApiError as error:
                if error.status != ALREADY_EXISTS:  # another replica has said the same
                    log.warning("event not written", error=str(error))
            except UNREACHABLE as error:
                log.warning("event not written", error=repr(error))
            except Exception:  # an answer that nobody foresaw must not end the server
                log.exception("event not written")


def event(trouble: Trouble) -> Json:
    """Make the Event; replicas that see the same trouble in the same minute make it by the same name."""
    now = datetime.now(UTC)
    minute = now.strftime("%Y%m%d%H%M")
    digest = hashlib.sha256(f"{minute} {trouble.reason} {trouble.message}".encode()).hexdigest()[:16]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace, name = trouble.namespace, trouble.name
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": trouble.kind, "namespace": namespace, "name": name},
        "type": "Warning",
        "reason": trouble.reason,
        "message": trouble.message[:LONGEST],
        "source": {"component": COMPONENT, "host": os.uname().nodename},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
