"""Serve /healthz, /readyz and /metrics over HTTP: what a kubelet and Prometheus ask a few times a minute."""

import contextlib
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from webhook import metrics
from webhook.program.start import CannotStartError

LARGEST: Final = 1024  # bytes of a request's body: none of these requests has one


def routes(troubles: Callable[[], list[str]]) -> web.Application:
    """Return the handlers; `troubles` returns why the program is not ready, empty if it is."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        found = troubles()
        return web.Response(text="\n".join(found or ["ok"]) + "\n", status=503 if found else 200)

    async def measured(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    found = web.Application(client_max_size=LARGEST)
    found.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", measured)])
    return found


async def listen(stack: contextlib.AsyncExitStack, application: web.Application, host: str, port: int) -> str:
    """Listen until the stack exits; return HOST:PORT. Raise CannotStartError if the address cannot be used."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, UnicodeError) as error:
        raise CannotStartError(f"cannot listen on {host}:{port}: {error}; choose another host or port") from None
    address, bound, *_ = runner.addresses[0]
    return f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"
