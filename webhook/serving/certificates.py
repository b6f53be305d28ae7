"""The certificate that is served: whether it is valid and trusted, and its renewal from mounted files."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from certs import bundle
from certs.issue import KeyPair, valid, validity
from certs.reload import ReloadableContext, content_of
from certs.store import UnusableError
from webhook import metrics
from webhook.kube.client import Api
from webhook.kube.informer import Informer
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

CONFIGURATIONS: Final = "retry-policy-webhook"  # the name of both webhook configurations
ADMISSION: Final = "admissionregistration.k8s.io/v1"
INTERVAL: Final = 1.0  # seconds between two reads of mounted files

log = structlog.get_logger()


class CABundles:
    """The caBundles of the webhook configurations: the authorities that the API server trusts when it calls.

    A configuration that does not exist calls no webhook, so it is left out.
    """

    def __init__(self, api: Api) -> None:
        query = {"fieldSelector": f"metadata.name={CONFIGURATIONS}"}
        self.lists = [
            Informer(api, path_of(ADMISSION, resource), whole, query=query)
            for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        ]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watched in self.lists:
                group.create_task(watched.run())

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call a function after every change."""
        for watched in self.lists:
            watched.on_change(changed)

    @property
    def synced(self) -> bool:
        """Whether both configurations have been read once."""
        return all(watched.synced.is_set() for watched in self.lists)

    @property
    def live(self) -> bool:
        """Whether both configurations are watched now."""
        return all(watched.live for watched in self.lists)

    @property
    def configurations(self) -> dict[str, Json]:
        """The configurations that exist, by path."""
        return {
            f"{watched.path}/{CONFIGURATIONS}": configuration
            for watched in self.lists
            for configuration in watched.items.values()
        }

    def trusts(self, chain: bytes) -> bool:
        """Return True if every caBundle has an authority that signed `chain` (PEM), which may be an authority itself.

        False until both configurations have been read.
        """
        return self.synced and bundle.trust(self.configurations.values(), chain)


class Served:
    """The certificate that is served; `trust` is None if the caBundles cannot be read."""

    def __init__(
        self, tls: ReloadableContext, client_ca: Path | None, trust: CABundles | None, now: Callable[[], datetime]
    ) -> None:
        self.tls = tls
        self.client_ca = client_ca
        self.trust = trust
        self.now = now
        self.tried: tuple[KeyPair, bytes | None] | None = None
        self.trouble = "none has been read yet"
        metrics.CERTIFICATE_TRUSTED.set_function(lambda: self.trusted)

    def load(self, chain: KeyPair) -> None:
        """Serve this certificate to new connections; do nothing if it was the last one that was tried.

        Raise UnusableError if the certificate or the file with the clients' authorities cannot be used.
        """
        client_ca = None if self.client_ca is None else content_of(self.client_ca)
        if (chain, client_ca) == self.tried:
            return
        self.tried = chain, client_ca
        self.tls.load(chain, client_ca)
        _, not_after = validity(chain)
        metrics.CERTIFICATE_RENEWALS.labels("good").inc()
        metrics.CERTIFICATE_NOT_AFTER.labels("leaf").set(not_after.timestamp())
        log.info("certificate in use", not_after=f"{not_after:%FT%TZ}")

    def failed(self, trouble: str) -> None:
        """Record and log that a renewal failed, and count it; the certificate that is served stays."""
        self.trouble = trouble
        metrics.CERTIFICATE_RENEWALS.labels("bad").inc()
        log.error("certificate not renewed", error=trouble, in_use="the last good one" if self.tls.chain else "none")

    @property
    def trusted(self) -> bool:
        """Whether the API server trusts the certificate; True also if the caBundles cannot be read."""
        chain = self.tls.chain
        return chain is not None and (self.trust is None or self.trust.trusts(chain.certificate))

    @property
    def usable(self) -> bool:
        """Whether the API server can open a TLS connection now."""
        return not self.troubles()

    def troubles(self) -> list[str]:
        """Return the reasons why the API server cannot open a TLS connection now; empty if it can."""
        chain = self.tls.chain
        if chain is None:
            return [f"no certificate: {self.trouble}; correct what it names"]
        if not valid(chain, self.now()):
            times = "from {:%FT%TZ} to {:%FT%TZ}".format(*validity(chain))
            what = f"the certificate is valid {times}, and by this clock it is {self.now():%FT%TZ}"
            return [f"{what}; renew it, or correct the clock"]
        if not self.trusted:
            return [
                f"a caBundle of the webhook configurations {CONFIGURATIONS} lacks the certificate's authority; add it"
            ]
        return []


class MountedCertificate:
    """A certificate in files that another program renews.

    The files are read at intervals, because they are replaced by changing a symlink, of which file events tell nothing.
    """

    def __init__(self, certificate: Path, key: Path, served: Served) -> None:
        self.certificate = certificate
        self.key = key
        self.served = served

    def read(self) -> None:
        """Serve the certificate in the files; raise UnusableError if it cannot be used."""
        self.served.load(KeyPair(content_of(self.certificate), content_of(self.key)))

    async def run(self) -> None:
        """Follow the files and the caBundles until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.served.trust is not None:
                group.create_task(self.served.trust.run())
            group.create_task(self.follow())

    async def follow(self) -> None:
        """Read the files every INTERVAL seconds until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                self.read()
            except UnusableError as error:
                if str(error) != self.served.trouble:
                    self.served.failed(str(error))
            else:
                self.served.trouble = ""


def whole(root: Json) -> Json:
    """Return the object unchanged, for an Informer that keeps all of it."""
    return root
