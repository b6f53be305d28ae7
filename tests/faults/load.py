"""Admissions through the real API server at a constant rate; each answer is checked.

The requests are dry-run creations of Jobs, which pass /mutate and /validate: nine of ten are valid and must be mutated,
and one has too many retries and must be denied. Each is sent at its time, even if earlier ones are not answered yet.
While the API server is down, nothing is sent until its /readyz answers, as behind a load balancer.

`python -m tests.faults.load KUBECONFIG NAMESPACE`; the commands are the public methods of `Load`.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from tests.cluster.manifests import job
from tests.faults.direct import Address
from tests.faults.lines import obey
from tests.faults.tally import Tally
from webhook.kube.names import POLICY, PROFILE

UNANSWERED = 1000  # at most, each on its own connection: as many as can wait for 5 s in the API server
DENIED_ONE_IN = 10
PATIENCE = aiohttp.ClientTimeout(total=30)
JSON = {"Content-Type": "application/json"}
CREATED = 201
REFUSED = 422
INTERVAL = 0.2  # seconds between two checks of an API server that is down


def body(**spec: Any) -> bytes:
    manifest = job("", **spec)
    manifest["metadata"] = {"generateName": "load-"}
    return json.dumps(manifest).encode()


ORDINARY = body()
TOO_MANY_RETRIES = body(backoffLimit=25)


class Load:
    """Sends admissions until `stop`."""

    def __init__(self, session: aiohttp.ClientSession, server: str, namespace: str) -> None:
        self.session = session
        self.readyz = f"{server}/readyz"
        self.url = f"{server}/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.tally = Tally()
        self.sending: asyncio.Task[None] | None = None
        self.unanswered: set[asyncio.Task[None]] = set()
        self.returning: asyncio.Task[None] | None = None  # while the API server is down

    async def start(self, rate: float, burst: int) -> None:
        """Begin to send `rate` admissions a second, in groups of `burst`."""
        self.tally = Tally()
        self.sending = self.loop.create_task(self.send_on(rate, burst))

    async def answered(self) -> int:
        """Return the number of admissions that were answered since the last lap."""
        return self.tally.admissions - len(self.unanswered)

    async def lap(self) -> dict[str, Any]:
        """Wait for all unanswered admissions; return the results since the last lap."""
        if self.unanswered:
            await asyncio.wait([*self.unanswered])
        tally, self.tally = self.tally, Tally(sent=len(self.unanswered))
        tally.sent -= len(self.unanswered)
        return dict(msgspec.to_builtins(tally))

    async def stop(self) -> dict[str, Any]:
        """Stop sending, and return the last lap."""
        if self.sending is not None:
            self.sending.cancel()
            self.sending = None
        return await self.lap()

    async def probe(self) -> bool:
        """Return True if a valid and an invalid Job get the right answer; neither is counted."""
        return await self.ask(denied=False) is None and await self.ask(denied=True) is None

    async def send_on(self, rate: float, burst: int) -> None:
        begin, number = self.loop.time(), 0
        while True:
            await asyncio.sleep(max(0.0, begin + number / rate - self.loop.time()))
            for _ in range(burst):
                self.send_one(denied=number % DENIED_ONE_IN == 0)
                number += 1

    def send_one(self, *, denied: bool) -> None:
        if self.returning is not None or len(self.unanswered) >= UNANSWERED:
            self.tally.skipped += 1
            return
        task = self.loop.create_task(self.send(denied=denied))
        self.unanswered.add(task)
        task.add_done_callback(self.unanswered.discard)
        self.tally.sent += 1

    async def send(self, *, denied: bool) -> None:
        if trouble := await self.ask(denied=denied):
            what, message = trouble
            self.tally.add(what, self.loop.time() - self.began, message)

    async def ask(self, *, denied: bool) -> tuple[str, str] | None:
        """Send one Job; return how a wrong answer is counted, and its message; None if the answer is right."""
        try:
            data = TOO_MANY_RETRIES if denied else ORDINARY
            async with self.session.post(self.url, data=data, headers=JSON) as response:
                return trouble_of(response.status, await response.read(), denied=denied)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if self.returning is None:
                self.returning = self.loop.create_task(self.until_ready())
            return "api", repr(error)

    async def until_ready(self) -> None:
        """Wait until the API server is ready again."""
        ready = False
        while not ready:
            await asyncio.sleep(INTERVAL)
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with self.session.get(self.readyz) as response:
                    ready = response.ok
        self.returning = None


def trouble_of(status: int, answer: bytes, *, denied: bool) -> tuple[str, str] | None:
    """Return what is wrong with an answer; None if it is right."""
    if status == CREATED:
        if denied:
            return "wrong", "a Job with 25 retries was accepted"
        return None if mutated(json.loads(answer)) else ("wrong", "a Job was accepted and not mutated")
    message = answer.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        message = json.loads(answer)["message"]
    if "failed calling webhook" in message:
        return "failed", message
    if "denied the request" in message:
        by_us = status == REFUSED and '"workloads.retry-policy.dev"' in message and "backoffLimit" in message
        return None if denied and by_us else ("wrong", message)
    return "api", f"{status} {message}"


def mutated(root: dict[str, Any]) -> bool:
    """Return True if a Job has the fields that the webhook injects."""
    metadata = root["metadata"]
    return (
        "podFailurePolicy" in root["spec"]
        and PROFILE in metadata.get("labels", {})
        and POLICY in metadata.get("annotations", {})
    )


async def main(kubeconfig: str, namespace: str) -> None:
    address = Address.of(Path(kubeconfig))
    connector = aiohttp.TCPConnector(limit=UNANSWERED, ssl=address.context)
    async with aiohttp.ClientSession(connector=connector, timeout=PATIENCE) as session:
        load = Load(session, address.url, namespace)
        await obey({method.__name__: method for method in (load.start, load.answered, load.lap, load.stop, load.probe)})


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
