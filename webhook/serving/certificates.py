"""The certificate that is served: whether it is valid and trusted, and how one from mounted files is kept current."""

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

CONFIGURATIONS: Final = "retry-policy-webhook"  # the name of both
ADMISSION: Final = "admissionregistration.k8s.io/v1"
INTERVAL: Final = 1.0  # seconds between looks at mounted files

log = structlog.get_logger()


class CABundles:
    """Whom the API server trusts when it calls: the webhook configurations' caBundles. A missing one calls nobody."""

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
        """Have a function called after every change."""
        for watched in self.lists:
            watched.on_change(changed)

    @property
    def synced(self) -> bool:
        """Whether both have been read once."""
        return all(watched.synced.is_set() for watched in self.lists)

    @property
    def live(self) -> bool:
        """Whether both are watched just now."""
        return all(watched.live for watched in self.lists)

    @property
    def configurations(self) -> dict[str, Json]:
        """Return those that there are, by their path."""
        return {
            f"{watched.path}/{CONFIGURATIONS}": configuration
            for watched in self.lists
            for configuration in watched.items.values()
        }

    def includes(self, chain: bytes) -> bool:
        """Tell whether every entry trusts who signed a chain, or an authority itself (PEM)."""
        return self.synced and bundle.trust(self.configurations.values(), chain)


class Served:
    """The certificate that is served. `trust` is None where nobody can tell who trusts it."""

    def __init__(
        self, shown: ReloadableContext, client_ca: Path | None, trust: CABundles | None, now: Callable[[], datetime]
    ) -> None:
        self.shown = shown
        self.client_ca = client_ca
        self.trust = trust
        self.now = now
        self.tried: tuple[KeyPair, bytes | None] | None = None
        self.trouble = "none has been read yet"
        metrics.CERTIFICATE_TRUSTED.set_function(lambda: self.trusted)

    def show(self, chain: KeyPair) -> None:
        """Serve this certificate to new connections, unless it was tried before; UnusableError if that cannot be."""
        client_ca = None if self.client_ca is None else content_of(self.client_ca)
        if (chain, client_ca) == self.tried:
            return
        self.tried = chain, client_ca
        self.shown.show(chain, client_ca)
        _, not_after = validity(chain)
        metrics.CERTIFICATE_RENEWALS.labels("good").inc()
        metrics.CERTIFICATE_NOT_AFTER.labels("leaf").set(not_after.timestamp())
        log.info("certificate in use", not_after=f"{not_after:%FT%TZ}")

    def failed(self, trouble: str) -> None:
        """Keep what is served, count and tell."""
        self.trouble = trouble
        metrics.CERTIFICATE_RENEWALS.labels("bad").inc()
        log.error("certificate not renewed", error=trouble, in_use="the last good one" if self.shown.chain else "none")

    @property
    def trusted(self) -> bool:
        """Whether the API server trusts what is served, as far as that is known."""
        chain = self.shown.chain
        return chain is not None and (self.trust is None or self.trust.includes(chain.certificate))

    @property
    def usable(self) -> bool:
        """Whether an API server that calls now is answered."""
        return not self.troubles()

    def troubles(self) -> list[str]:
        """Say why an API server that calls now is not answered; empty where it is."""
        chain = self.shown.chain
        if chain is None:
            return [f"no certificate: {self.trouble}"]
        if not valid(chain, self.now()):
            times = "from {:%FT%TZ} to {:%FT%TZ}".format(*validity(chain))
            return [f"the certificate is valid {times}, and by this clock it is {self.now():%FT%TZ}"]
        if not self.trusted:
            return [f"a caBundle of the webhook configurations {CONFIGURATIONS} lacks the certificate's authority"]
        return []


class MountedCertificate:
    """A certificate in files that somebody else renews. They are swapped by a symlink: content counts, not events."""

    def __init__(self, certificate: Path, key: Path, served: Served) -> None:
        self.certificate = certificate
        self.key = key
        self.served = served

    def read(self) -> None:
        """Serve what the files hold; UnusableError if that cannot be."""
        self.served.show(KeyPair(content_of(self.certificate), content_of(self.key)))

    async def run(self) -> None:
        """Follow the files, and who trusts what they hold, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.served.trust is not None:
                group.create_task(self.served.trust.run())
            group.create_task(self.follow())

    async def follow(self) -> None:
        """Read the files again and again until cancelled."""
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
    """Keep all of an object."""
    return root
