"""Kubernetes Events about the policy's ConfigMap: where an admin looks who edited it and sees nothing happen."""

import asyncio
import hashlib
import os
from datetime import UTC, datetime
from typing import Final

import structlog

from webhook.problem import Json
from webhook.server.api import UNREACHABLE, Api, ApiError

COMPONENT: Final = "retry-policy-webhook"
LONGEST: Final = 1024  # characters of an Event's message, which the API server bounds
ALREADY_EXISTS: Final = 409

log = structlog.get_logger()


class Events:
    """Writes Events; trouble with the API is logged and stops nothing."""

    def __init__(self, api: Api, config_map: tuple[str, str]) -> None:
        self.api = api
        self.namespace, self.name = config_map
        self.waiting: asyncio.Queue[str] = asyncio.Queue(maxsize=100)

    def policy_refused(self, trouble: str) -> None:
        """Queue an Event on the ConfigMap."""
        if not self.waiting.full():
            self.waiting.put_nowait(trouble)

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        while True:
            trouble = await self.waiting.get()
            try:
                await self.api.create(f"/api/v1/namespaces/{self.namespace}/events", self.event(trouble))
            except ApiError as error:
                if error.status != ALREADY_EXISTS:  # another replica has said the same
                    log.warning("event not written", error=str(error))
            except UNREACHABLE as error:
                log.warning("event not written", error=repr(error))
            except Exception:  # an answer that nobody foresaw must not end the server
                log.exception("event not written")

    def event(self, trouble: str) -> Json:
        """Make the Event; replicas that see the same trouble in the same minute make it by the same name."""
        now = datetime.now(UTC)
        minute = now.strftime("%Y%m%d%H%M")
        digest = hashlib.sha256(f"{minute} {trouble}".encode()).hexdigest()[:16]
        time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": self.namespace, "name": self.name}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self.name}.{digest}", "namespace": self.namespace},
            "involvedObject": reference,
            "type": "Warning",
            "reason": "PolicyRefused",
            "message": trouble[:LONGEST],
            "source": {"component": COMPONENT, "host": os.uname().nodename},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
