"""Start the webhook, drain it on SIGTERM, and stop it. It answers admission, and writes nothing to the API."""

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from certs.reload import ReloadableContext, content_of
from certs.rotate import Lifetimes, Rotation
from certs.store import UnusableError
from webhook.kube.client import Api
from webhook.kube.clock import utc_now
from webhook.kube.informer import Informer
from webhook.kube.lease import API_VERSION as LEASES
from webhook.kube.names import COMPONENT
from webhook.kube.paths import path_of
from webhook.program import start
from webhook.program.memory import exempt, measure, trim_after_bursts
from webhook.program.start import LEDGER_LEASE, CannotStartError, announce, connect, settle_memory, stop_signals
from webhook.serving.endpoints import Endpoints
from webhook.serving.listen import CannotListenError, listen
from webhook.serving.served_certificate import MountedCertificate, Served, SharedCertificate
from webhook.tracking.certificates import CABundles
from webhook.tracking.cluster import Cluster, settings_of
from webhook.tracking.state_key import SharedStateKey
from webhook.tracking.trackers import Trackers

# As the readinessProbe of the Deployment: seconds between two looks, and how many fail until the pod is not ready.
PERIOD: Final = 2.0
THRESHOLD: Final = 3
REPEATED: Final = 150  # looks until it is told again; the API server keeps an Event for an hour by default


async def report(troubles: Callable[[], list[str]], tell: Callable[[str], None]) -> None:
    """Call `tell` with troubles that have lasted for THRESHOLD looks, and every REPEATED looks, until cancelled."""
    failed = 0
    while True:
        await asyncio.sleep(PERIOD)
        found = troubles()
        failed = failed + 1 if found else 0
        if failed % REPEATED == THRESHOLD:
            tell("; ".join(found))


# Seconds for which a replica serves after SIGTERM: API servers keep their connections to a pod that is terminating.
DRAIN: Final = 10.0
SELF_MADE: Final = Lifetimes(leaf=timedelta(days=365))  # of a certificate that is not renewed

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(start.Options):
    """The options of `serve`; None for an option that was not given."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    port: int = 8443


async def serve(options: ServeOptions, now: Callable[[], datetime] = utc_now) -> None:
    """Serve until drained after SIGTERM, or until SIGINT; raise CannotStartError. `now` returns the time, in UTC."""
    draining, stopped = stop_signals()
    async with contextlib.AsyncExitStack() as stack:
        api = cluster = trackers = lease = None
        background: list[Coroutine[None, None, None]] = []
        if options.has_cluster:
            api = await stack.enter_async_context(await connect(options.kubeconfig))
            key = None if options.namespace is None else SharedStateKey(api, options.namespace)
            cluster = Cluster(api, key)
            background += [cluster.run(), exempt(cluster.jobs.synced)]
        policy, follow = start.start_policy(options, api)
        background += follow
        if api is not None and cluster is not None and options.namespace is not None:
            trackers = Trackers(cluster, settings_of=partial(settings_of, cluster, policy))
            lease = _lease_of_ledger(api, options.namespace)
            background += [trackers.run(), lease.run(), exempt(trackers.pods.synced)]
        retry_requests = None
        if options.requested_retries:
            if cluster is None:
                raise CannotStartError("--requested-retries needs a cluster; add --kubeconfig")
            from webhook.retry.admission import RetryAdmission  # noqa: PLC0415 - a MiB that a server without it saves

            retry_requests = RetryAdmission(cluster.api, cluster, controller=options.controller)
        served, ca, follow = _start_certificate(stack, options, api, now)
        background += follow
        endpoints = Endpoints(
            policy,
            cluster,
            trackers,
            retry_requests,
            certificate_troubles=served.troubles,
            keeps_ledger=lambda: lease is not None and bool(lease.items),
        )
        background.append(report(endpoints.troubles, lambda why: log.warning("not ready", why=why)))
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
                async with asyncio.timeout(DRAIN):
                    await stopped.wait()
            for task in tasks:
                task.cancel()
    log.info("stopped")


def _lease_of_ledger(api: Api, namespace: str) -> Informer[bool]:
    """Return the informer of the Lease by which the controller leads: there is a ledger if it has ever led."""
    query = {"fieldSelector": f"metadata.name={LEDGER_LEASE}"}
    return Informer(api, path_of(LEASES, "leases", namespace), bool, query=query, metadata_only=True)


def _start_certificate(
    stack: contextlib.AsyncExitStack, options: ServeOptions, api: Api | None, now: Callable[[], datetime]
) -> tuple[Served, str | None, list[Coroutine[None, None, None]]]:
    """Return the certificate, the path of a file with its authorities, and the tasks that keep both current.

    With --tls-cert the path is None. Without --tls-cert, in a namespace of a cluster, the controller issues it;
    elsewhere one is issued for this process alone. Raise CannotStartError if a file cannot be used.
    """
    try:
        client_ca = None if options.client_ca is None else content_of(options.client_ca)
        trust = None if api is None or options.namespace is None else CABundles(api)
        served = Served(ReloadableContext(client_ca), options.client_ca, trust, now)
        if options.tls_cert is not None and options.tls_key is not None:
            mounted = MountedCertificate(options.tls_cert, options.tls_key, served)
            mounted.read()
            return served, None, [mounted.run()]
    except UnusableError as error:
        raise CannotStartError(f"the certificate files cannot be used: {error}") from None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="retry-policy-"))
    ca = Path(folder, "ca.crt")
    if api is None or options.namespace is None or trust is None:
        hosts = {"localhost", "127.0.0.1", "::1", options.address} - {"0.0.0.0", "::"}  # noqa: S104 - all is no host
        shared = Rotation(name=COMPONENT, hosts=sorted(hosts), lifetimes=SELF_MADE).begin(now())
        served.load(shared.leaf)
        ca.write_bytes(shared.authority.certificate)
        return served, str(ca), []
    ca.touch()
    return served, str(ca), [SharedCertificate(api, options.namespace, served, trust, ca).run()]
