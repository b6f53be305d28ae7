"""Starts the server, drains it on SIGTERM, stops it."""

import asyncio
import contextlib
import os
import signal
import ssl
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import structlog
from aiohttp import web

from certs import issue
from webhook.policy.parse import load_default
from webhook.server.api import Api, NoCredentialsError
from webhook.server.cluster import Cluster
from webhook.server.endpoints import Endpoints
from webhook.server.events import Events
from webhook.server.policy_source import PolicySource

# Longer than the 90 s after which the API server closes an idle connection: it must be the one to close.
KEEP_ALIVE: Final = 120.0
# How long a replica keeps serving after SIGTERM: API servers keep their connections to a pod that is going away.
DRAIN: Final = 10.0
SELF_MADE_LIFETIME: Final = timedelta(days=365)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says; None where it says nothing."""

    policy: Path | None = None
    policy_configmap: tuple[str, str] | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    host: str | None = None
    port: int = 8443
    health_port: int = 8080
    kubeconfig: str | None = None

    @property
    def in_cluster(self) -> bool:
        """Whether this runs in a pod."""
        return "KUBERNETES_SERVICE_HOST" in os.environ

    @property
    def address(self) -> str:
        """Where to listen: all addresses inside a cluster, loopback outside."""
        return self.host or ("0.0.0.0" if self.in_cluster else "127.0.0.1")  # noqa: S104 - a pod's only network


class CannotStartError(Exception):
    """What the command line asks for cannot be had; the message says what would help."""


async def serve(options: Options) -> None:
    """Serve until SIGTERM has been drained, or SIGINT."""
    draining, stopped = stop_signals()
    async with contextlib.AsyncExitStack() as stack:
        cluster = None
        background: list[Coroutine[None, None, None]] = []
        if options.kubeconfig is not None or options.in_cluster:
            cluster = Cluster(await stack.enter_async_context(await connect(options.kubeconfig)))
            background.append(cluster.run())
        policy, follow = start_policy(options, cluster)
        background += follow
        endpoints = Endpoints(policy, cluster)
        context, ca = stack.enter_context(tls(options))
        https = await listen(stack, endpoints.admission(), options.address, options.port, context)
        http = await listen(stack, endpoints.health(), options.address, options.health_port, None)
        async with asyncio.TaskGroup() as group:  # a background task that fails brings the server down, loudly
            tasks = [group.create_task(work) for work in background]
            announce({"https": f"https://{https}", "http": f"http://{http}", "ca": ca})
            await draining.wait()
            endpoints.draining = True
            log.info("draining", seconds=DRAIN)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), DRAIN)
            for task in tasks:
                task.cancel()
    log.info("stopped")


async def connect(kubeconfig: str | None) -> Api:
    """Read the credentials for the API."""
    try:
        return await Api.connect(kubeconfig)
    except NoCredentialsError as error:
        what = "the pod's service account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        raise CannotStartError(f"{what} cannot be used: {error}") from None


def start_policy(options: Options, cluster: Cluster | None) -> tuple[PolicySource, list[Coroutine[None, None, None]]]:
    """Return the source of the policy, and what keeps it current."""
    if options.policy is not None:
        source = PolicySource()
        seen = source.read(options.policy)
        return source, [source.follow(options.policy, seen)]
    if options.policy_configmap is not None:
        if cluster is None:
            raise CannotStartError("--policy-configmap needs an API server; add --kubeconfig")
        source = PolicySource(config_map=options.policy_configmap)
        events = Events(cluster.api, options.policy_configmap)
        source.refused = events.policy_refused
        return source, [source.follow_config_map(cluster.api), events.run()]
    return PolicySource(load_default()), []


def stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return two events: the first SIGTERM drains; SIGINT, or a second SIGTERM, stops at once."""
    draining, stopped = asyncio.Event(), asyncio.Event()

    def terminate() -> None:
        (stopped if draining.is_set() else draining).set()

    def interrupt() -> None:
        draining.set()
        stopped.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    return draining, stopped


@contextlib.contextmanager
def tls(options: Options) -> Iterator[tuple[ssl.SSLContext, str | None]]:
    """Give the server's TLS context, and the file with the CA of a self-made certificate; None with --tls-cert."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        if options.client_ca is not None:
            context.load_verify_locations(options.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        if options.tls_cert is not None:
            context.load_cert_chain(options.tls_cert, options.tls_key)
            yield context, None
            return
    except (OSError, ssl.SSLError) as error:
        raise CannotStartError(f"the certificate files cannot be used: {error}") from None
    with tempfile.TemporaryDirectory(prefix="retry-policy-") as folder:  # readable by this user alone
        yield context, self_made(context, options.address, Path(folder))


def self_made(context: ssl.SSLContext, host: str, folder: Path) -> str:
    """Load a certificate of our own making into the context; return the file that holds its CA."""
    now = datetime.now(UTC)
    authority = issue.new_authority("retry-policy-webhook", now=now, lifetime=SELF_MADE_LIFETIME)
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", host))
    leaf = issue.issue(authority, "retry-policy-webhook", now=now, lifetime=SELF_MADE_LIFETIME, hosts=hosts)
    ca, chain = folder / "ca.crt", folder / "tls.pem"
    ca.write_bytes(authority.certificate)
    chain.write_bytes(leaf.certificate + leaf.key)
    context.load_cert_chain(chain)
    chain.unlink()
    return str(ca)


async def listen(
    stack: contextlib.AsyncExitStack, app: web.Application, host: str, port: int, context: ssl.SSLContext | None
) -> str:
    """Listen on an address until the stack is left; return it as HOST:PORT, with the port that 0 was replaced by."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=5.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
    except (OSError, UnicodeError) as error:
        raise CannotStartError(f"cannot listen on {host}:{port}: {error}; choose another host or port") from None
    address = runner.addresses[0]
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def announce(addresses: dict[str, str | None]) -> None:
    """Say on stdout, in its only line, that both ports listen."""
    sys.stdout.buffer.write(msgspec.json.encode(addresses) + b"\n")
    sys.stdout.buffer.flush()
