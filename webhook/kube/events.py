"""Write Kubernetes Events about objects, for example about a ConfigMap whose new policy has problems.

Each Event is a write to etcd, which keeps it for an hour: so a replica writes only as many as a kubelet does. In a
storm of disruptions most Events of type Normal are left out; the accounts have what they would have said.
"""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import structlog

from webhook import metrics
from webhook.kube.bulkhead import Bulkhead
from webhook.kube.client import MOST_REPEATS, UNREACHABLE, Api, ApiError, wait_after
from webhook.kube.names import COMPONENT
from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.objects.times import written

LONGEST: Final = 1024  # characters of an Event's message, which the API server bounds
MOST: Final = 1000  # Events that wait
MOST_NORMAL: Final = 100  # Events that may wait when one of type Normal is added: two seconds of them
RATE: Final = 50.0  # Events a second, and BURST of them at once: as a kubelet's eventRecordQPS and eventBurst
BURST: Final = 100

OF_CLUSTER: Final = "default"  # the namespace of Events about objects that have none

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Notice:
    """The content of an Event and the object that it is about; an empty `uid` means any object of that name.

    `occasion`: what makes two Events with the same message one, whenever they are written; empty for the minute.
    """

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    type: str = "Warning"
    api_version: str = "v1"
    uid: str = ""
    occasion: str = ""


class Events:
    """Writes Events in the background; an error of the API is logged, and the Event is dropped.

    If the API server is busy, an Event is written later, and those after it wait.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.waiting: asyncio.Queue[Notice] = asyncio.Queue(maxsize=MOST)
        self.bulkhead = Bulkhead("events")

    def tell(self, notice: Notice) -> None:
        """Queue an Event; drop it if too many wait, one of type Normal before others."""
        if self.waiting.qsize() >= (MOST_NORMAL if notice.type == "Normal" else MOST):
            metrics.EVENTS_DROPPED.inc()
        else:
            self.waiting.put_nowait(notice)

    async def run(self) -> None:
        """Write the queued Events until cancelled, at most RATE a second after the first BURST."""
        clock = asyncio.get_running_loop().time
        full_at = clock()  # when BURST more may be written at once
        while True:
            notice = await self.waiting.get()
            full_at = max(full_at, clock()) + 1 / RATE
            if (ahead := full_at - clock() - BURST / RATE) > 0:
                await asyncio.sleep(ahead)
            with self.bulkhead.around(notice.namespace, f"{notice.kind}/{notice.name}"):
                try:
                    await self.write(path_of("v1", "events", notice.namespace or OF_CLUSTER), event(notice))
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:  # another replica has written the same Event
                        log.warning("event not written", error=str(error))
                except UNREACHABLE as error:
                    log.warning("event not written", error=repr(error))

    async def write(self, path: str, root: Json) -> None:
        """Write an Event, up to MOST_REPEATS times again if the API server is busy; raise what `Api` raises."""
        for _ in range(MOST_REPEATS):
            try:
                await self.api.create(path, root)
            except ApiError as error:
                if (seconds := wait_after(error)) is None:
                    raise
                await asyncio.sleep(seconds)
            else:
                return
        await self.api.create(path, root)


def event(notice: Notice) -> Json:
    """Return the Event; its name is the same in all replicas for the same notice on the same occasion."""
    now = datetime.now(UTC)
    occasion = notice.occasion or now.strftime("%Y%m%d%H%M")
    digest = hashlib.sha256(f"{occasion} {notice.reason} {notice.message}".encode()).hexdigest()[:16]
    time = written(now.timestamp())
    namespace, name = notice.namespace, notice.name
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", "namespace": namespace or OF_CLUSTER},
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
