"""Start the server, drain it on SIGTERM, and stop it."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import structlog

from certs.reload import ReloadableContext, content_of
from certs.rotate import Lifetimes, Rotation
from certs.store import UnusableError
from webhook.history.collector import CollectorSink
from webhook.history.files import FileSink
from webhook.history.log import LogSink
from webhook.history.writer import Sink, Writer
from webhook.kube.busy import Busy
from webhook.kube.client import Api, NoCredentialsError
from webhook.kube.clock import utc_now
from webhook.kube.events import COMPONENT, Events, Notice
from webhook.kube.lease import Lease
from webhook.ledger.controller import Ledger
from webhook.lookups.cluster import Cluster
from webhook.lookups.last_good import LastGood
from webhook.lookups.policy_source import PolicySource
from webhook.policy.parse import load_default
from webhook.serving import readiness
from webhook.serving.certificates import CABundles, MountedCertificate, Served
from webhook.serving.endpoints import Endpoints
from webhook.serving.listen import CannotListenError, listen
from webhook.serving.memory import exempt, measure, trim_after_bursts
from webhook.serving.own_certificate import OwnCertificate

# Seconds for which a replica serves after SIGTERM: API servers keep their connections to a pod that is terminating.
DRAIN: Final = 10.0
GARBAGE: Final = 20_000  # new objects after which the garbage collector examines the youngest generation
LEASE: Final = f"{COMPONENT}-ledger"
RETRIES_LEASE: Final = f"{COMPONENT}-requested-retries"
SELF_MADE: Final = Lifetimes(leaf=timedelta(days=365))  # of a certificate that is not renewed

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line; None for an option that was not given."""

    policy: Path | None = None
    policy_configmap: tuple[str, str] | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    host: str | None = None
    port: int = 8443
    health_port: int = 8080
    kubeconfig: str | None = None
    requested_retries: bool = False
    history: Path | None = None
    history_url: str | None = None
    history_token_file: Path | None = None

    @property
    def in_cluster(self) -> bool:
        """Whether the server runs in a pod."""
        return "KUBERNETES_SERVICE_HOST" in os.environ

    @property
    def namespace(self) -> str | None:
        """The namespace of the server's pod, which the Deployment passes by the downward API; None without a pod."""
        return os.environ.get("POD_NAMESPACE")

    @property
    def pod(self) -> tuple[str, str]:
        """Name and uid of the pod in which this runs, from environment variables of the Deployment; empty outside."""
        return os.environ.get("POD_NAME", ""), os.environ.get("POD_UID", "")

    @property
    def address(self) -> str:
        """The address to listen on: by default all addresses in a cluster, and loopback elsewhere."""
        return self.host or ("0.0.0.0" if self.in_cluster else "127.0.0.1")  # noqa: S104 - a pod's only network


class CannotStartError(Exception):
    """The server cannot start with these options; the message has a remedy."""


async def serve(options: Options, lifetimes: Lifetimes, now: Callable[[], datetime] = utc_now) -> None:
    """Serve until drained after SIGTERM, or until SIGINT; raise CannotStartError.

    `lifetimes`: those of a certificate that the server issues itself. `now` returns the time, in UTC.
    """
    draining, stopped = stop_signals()
    async with contextlib.AsyncExitStack() as stack:
        cluster = events = None
        background: list[Coroutine[None, None, None]] = []
        if options.kubeconfig is not None or options.in_cluster:
            api = await stack.enter_async_context(await connect(options.kubeconfig))
            cluster, events = Cluster(api), Events(api)
            background += [cluster.run(), events.run(), exempt(cluster.jobs.synced)]
        policy, follow = start_policy(options, events)
        background += follow
        ledger = None
        if cluster is not None and events is not None and options.namespace is not None:
            history = Writer(history_sink(stack, options))
            background.append(history.run())
            ledger = Ledger(cluster, policy, events, record=history.put)
            background += [ledger.run(ledger_lease(ledger, options.namespace)), exempt(ledger.trackers.pods.synced)]
        retry_requests = None
        if options.requested_retries:
            if cluster is None or events is None or options.namespace is None or ledger is None:
                raise CannotStartError(
                    "--requested-retries needs a cluster; add --kubeconfig, and set POD_NAMESPACE in the environment"
                )
            from webhook.retry.admission import RetryAdmission  # noqa: PLC0415 - likewise
            from webhook.retry.controller import RetryController  # noqa: PLC0415 - a MiB, and milliseconds, that a server without it saves

            retry_requests = RetryAdmission(cluster.api, cluster)
            lease = Lease(events.api, options.namespace, RETRIES_LEASE, identity())
            background.append(RetryController(cluster, events, lease, ledger.brake).run())
        served, ca, follow = start_certificate(stack, options, events, lifetimes, now)
        background += follow
        endpoints = Endpoints(
            policy,
            cluster,
            None if ledger is None else ledger.trackers,
            retry_requests,
            certificate_troubles=served.troubles,
            keeps_ledger=lambda: ledger is not None and not ledger.forbidden,
        )
        if events is not None:
            background += report_readiness(options, endpoints, events)
        host = options.address
        try:
            https = await listen(stack, endpoints.admission(), (host, options.port), served.tls.context)
            http = await listen(stack, endpoints.health(), (host, options.health_port), None)
        except CannotListenError as error:
            raise CannotStartError(str(error)) from None
        async with asyncio.TaskGroup() as group:  # a background task that fails brings the server down, loudly
            tasks = [group.create_task(work) for work in (*background, trim_after_bursts())]
            settle_memory()
            measure()
            announce({"https": f"https://{https}", "http": f"http://{http}", "ca": ca})
            await draining.wait()
            endpoints.draining = True
            log.info("draining", seconds=DRAIN)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), DRAIN)
            for task in tasks:
                task.cancel()
    log.info("stopped")


def settle_memory() -> None:
    """Exclude all objects of the start from garbage collection, and run the collector less often.

    These objects live as long as the process. To examine them takes 20 ms and more each time, in which no request is
    answered. Requests leave no reference cycles, so the collector has little to do for them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def history_sink(stack: contextlib.AsyncExitStack, options: Options) -> Sink:
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
        LEASE,
        identity(),
        since=lambda: ledger.trackers.watching_since,
        on_forbidden=ledger.see_refused,
        on_permitted=ledger.see_allowed,
    )


def identity() -> str:
    """Return a unique name for this process."""
    return f"{os.uname().nodename}_{uuid4()}"


async def connect(kubeconfig: str | None) -> Api:
    """Return a connection to the API; raise CannotStartError if the credentials cannot be used.

    If the API server is busy, each caller decides itself when it tries again: an admission cannot wait, and the leader
    counts anew before it writes.
    """
    try:
        return await Api.connect(kubeconfig, on_busy=Busy(), repeats=0)
    except NoCredentialsError as error:
        what = "the pod's service account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        raise CannotStartError(f"{what} cannot be used: {error}; name another with --kubeconfig") from None


def start_policy(options: Options, events: Events | None) -> tuple[PolicySource, list[Coroutine[None, None, None]]]:
    """Return the source of the policy, and the tasks that keep it current; raise CannotStartError."""
    if options.policy is not None:
        source = PolicySource()
        seen = source.read(options.policy)
        return source, [source.follow(options.policy, seen)]
    if options.policy_configmap is not None:
        if events is None:
            raise CannotStartError("--policy-configmap needs an API server; add --kubeconfig")
        namespace, name = options.policy_configmap
        source = PolicySource(
            config_map=options.policy_configmap,
            refused=lambda why: events.tell(Notice("ConfigMap", namespace, name, "PolicyRefused", why, uid=source.uid)),
            last_good=LastGood(Path(tempfile.gettempdir())) if options.pod[0] else None,
        )
        return source, [source.follow_config_map(events.api), source.remind()]
    return PolicySource(load_default()), []


def report_readiness(options: Options, endpoints: Endpoints, events: Events) -> list[Coroutine[None, None, None]]:
    """Return what tells in Events on the pod why it is not ready; nothing outside a pod."""
    (name, uid), namespace = options.pod, options.namespace
    if not name or namespace is None:
        return []

    def tell(why: str) -> None:
        if not endpoints.draining:
            events.tell(Notice("Pod", namespace, name, "NotReady", why, uid=uid))

    return [readiness.report(endpoints.troubles, tell)]


def stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return two events: `draining`, set by the first SIGTERM, and `stopped`, set by SIGINT or a second SIGTERM."""
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


def start_certificate(
    stack: contextlib.AsyncExitStack,
    options: Options,
    events: Events | None,
    lifetimes: Lifetimes,
    now: Callable[[], datetime],
) -> tuple[Served, str | None, list[Coroutine[None, None, None]]]:
    """Return the certificate, the path of a file with its authorities, and the tasks that keep both current.

    With --tls-cert the path is None. Without --tls-cert, in a namespace of a cluster, all replicas share a certificate;
    elsewhere one is issued for this process alone. Raise CannotStartError if a file cannot be used.
    """
    try:
        client_ca = None if options.client_ca is None else content_of(options.client_ca)
        trust = None if events is None or options.namespace is None else CABundles(events.api)
        served = Served(ReloadableContext(client_ca), options.client_ca, trust, now)
        if options.tls_cert is not None and options.tls_key is not None:
            mounted = MountedCertificate(options.tls_cert, options.tls_key, served)
            mounted.read()
            return served, None, [mounted.run()]
    except UnusableError as error:
        raise CannotStartError(f"the certificate files cannot be used: {error}") from None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="retry-policy-"))
    ca = Path(folder, "ca.crt")
    if events is None or options.namespace is None or trust is None:
        shared = Rotation(name=COMPONENT, hosts=hosts_of(options), lifetimes=SELF_MADE).begin(now())
        served.load(shared.leaf)
        ca.write_bytes(shared.authority.certificate)
        return served, str(ca), []
    ca.touch()
    rotation = Rotation(name=COMPONENT, hosts=hosts_of(options), lifetimes=lifetimes)
    own = OwnCertificate(events, options.namespace, served, trust, rotation, ca)
    return served, str(ca), [own.run()]


def hosts_of(options: Options) -> list[str]:
    """Return the hosts in the certificate: those of this machine and, in a namespace, the name of the Service."""
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", options.address))
    if options.namespace is not None:
        hosts[f"{COMPONENT}.{options.namespace}.svc"] = None
    return [host for host in hosts if host not in {"0.0.0.0", "::"}]  # noqa: S104 - all addresses are no address


def announce(addresses: dict[str, str | None]) -> None:
    """Print the addresses of both ports as JSON: the only line on stdout, once both ports listen."""
    sys.stdout.buffer.write(msgspec.json.encode(addresses) + b"\n")
    sys.stdout.buffer.flush()
