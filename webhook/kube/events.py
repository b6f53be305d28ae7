"""Kubernetes Events: what is worth telling, told where people look, such as on the ConfigMap that was edited."""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import structlog

from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.objects.problem import Json

COMPONENT: Final = "retry-policy-webhook"
LONGEST: Final = 1024  # characters of an Event's message, which the API server bounds

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Notice:
    """What an Event tells, and the object that it is about; `uid` is empty where any object of that name is meant."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    type: str = "Warning"
    api_version: str = "v1"
    uid: str = ""


class Events:
    """Writes Events; trouble with the API is logged and stops nothing."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.waiting: asyncio.Queue[Notice] = asyncio.Queue(maxsize=1000)

    def tell(self, notice: Notice) -> None:
        """Queue an Event."""
        if not self.waiting.full():
            self.waiting.put_nowait(notice)

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        while True:
            notice = await self.waiting.get()
            try:
                await self.api.create(f"/api/v1/namespaces/{notice.namespace}/events", event(notice))
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:  # another replica has said the same
                    log.warning("event not written", error=str(error))
            except UNREACHABLE as error:
                log.warning("event not written", error=repr(error))
            except Exception:  # an answer that nobody foresaw must not end the server
                log.exception("event not written")


def event(notice: Notice) -> Json:
    """Make the Event; replicas that see the same notice in the same minute make it by the same name."""
    now = datetime.now(UTC)
    minute = now.strftime("%Y%m%d%H%M")
    digest = hashlib.sha256(f"{minute} {notice.reason} {notice.message}".encode()).hexdigest()[:16]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace, name = notice.namespace, notice.name
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": notice.api_version,
            "kind": notice.kind,
            "namespace": namespace,
            "name": name,
            **({"uid": notice.uid} if notice.uid else {}),
        },
        "type": notice.type,
        "reason": notice.reason,
        "message": notice.message[:LONGEST],
        "source": {"component": COMPONENT, "host": os.uname().nodename},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
