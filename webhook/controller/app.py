"""Start the controller, and stop it on SIGTERM: it counts, writes accounts, ends and reruns workloads."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from certs.rotate import Lifetimes, Rotation
from webhook import metrics
from webhook.controller.certificates import Issuer
from webhook.controller.ledger import Ledger
from webhook.controller.retries import RetryController
from webhook.history.sinks import CollectorSink, FileSink, LogSink
from webhook.history.writer import Sink, Writer
from webhook.kube.clock import utc_now
from webhook.kube.events import Events, Notice
from webhook.kube.lease import Lease
from webhook.kube.names import COMPONENT
from webhook.program import start
from webhook.program.memory import exempt, measure, trim_after_bursts
from webhook.program.start import LEDGER_LEASE, CannotStartError, announce, connect, identity, settle_memory
from webhook.tracking.certificates import CABundles
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.state_key import SharedStateKey

RETRIES_LEASE = f"{COMPONENT}-requested-retries"
# The names under which the API server, and tests on one machine, call the webhook.
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(start.Options):
    """The options of `control`; None for an option that was not given."""

    certificates: bool = True
    certificate_hosts: tuple[str, ...] = ()
    history: Path | None = None
    history_url: str | None = None
    history_token_file: Path | None = None


async def control(options: Options, lifetimes: Lifetimes, now: Callable[[], datetime] = utc_now) -> None:
    """Run until SIGTERM or SIGINT; raise CannotStartError.

    `lifetimes`: those of the certificates that it issues. `now` returns the time, in UTC.
    """
    stopping, _ = start.stop_signals()
    namespace = options.namespace
    if not options.has_cluster or namespace is None:
        raise CannotStartError("control needs a cluster; add --kubeconfig, and set POD_NAMESPACE in the environment")
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(await connect(options.kubeconfig))
        key = SharedStateKey(api, namespace)
        cluster, events = Cluster(api, key), Events(api)

        def refused(why: str) -> None:
            kept_in, name = options.policy_configmap or ("", "")
            events.tell(Notice("ConfigMap", kept_in, name, "PolicyRefused", why, uid=policy.uid))

        policy, follow = start.start_policy(options, api, refused)
        history = Writer(_history_sink(stack, options))
        ledger = Ledger(cluster, policy, events, record=history.put)
        background: list[Coroutine[None, None, None]] = [
            *(cluster.run(), key.keep(), events.run(), history.run(), *follow),
            *(exempt(cluster.jobs.synced), exempt(ledger.trackers.pods.synced), trim_after_bursts()),
            ledger.run(ledger_lease(ledger, namespace)),
        ]
        if options.requested_retries:
            lease = Lease(api, namespace, RETRIES_LEASE, identity())
            background.append(RetryController(cluster, events, lease, ledger.brake).run())
        if options.certificates:
            trust = CABundles(api)
            rotation = Rotation(name=COMPONENT, hosts=hosts_of(options), lifetimes=lifetimes)
            background.append(Issuer(events, namespace, trust, rotation, now).run())
        served = routes(lambda: troubles(policy, cluster, key))
        http = await listen(stack, served, options.address, options.health_port)
        async with asyncio.TaskGroup() as group:  # a background task that fails brings the controller down, loudly
            tasks = [group.create_task(work) for work in background]
            settle_memory()
            measure()
            announce({"http": f"http://{http}"})
            await stopping.wait()
            for task in tasks:
                task.cancel()
    log.info("stopped")


def hosts_of(options: Options) -> list[str]:
    """Return the hosts in the certificate: this machine, those of the options, and the name of the Service."""
    return [*dict.fromkeys((*LOCAL_HOSTS, *options.certificate_hosts, f"{COMPONENT}.{options.namespace}.svc"))]


def troubles(policy: PolicySource, cluster: Cluster, key: SharedStateKey) -> list[str]:
    """Return why the controller cannot act; empty if it can. Another replica may be the one that does."""
    found = []
    if policy.current is None:
        found.append(f"no policy in force: {policy.trouble}; correct the policy")
    if not cluster.synced:
        found.append("caches not filled yet: the API has not answered; check the connection to the API server")
    if cluster.synced and key.trouble is not None:
        found.append(key.trouble)
    return found


def _history_sink(stack: contextlib.AsyncExitStack, options: Options) -> Sink:
    """Return where records go: to a collector, into files, or else into the log."""
    if options.history_url is not None:
        collector = CollectorSink(options.history_url, options.history_token_file)
        stack.push_async_callback(collector.close)
        return collector
    return LogSink() if options.history is None else FileSink(options.history, os.uname().nodename)


def ledger_lease(ledger: Ledger, namespace: str) -> Lease:
    """Return the lease of the replica that writes the ledger."""
    return Lease(
        ledger.api,
        namespace,
        LEDGER_LEASE,
        identity(),
        since=lambda: ledger.trackers.watching_since,
        on_forbidden=ledger.see_refused,
        on_permitted=ledger.see_allowed,
    )


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
