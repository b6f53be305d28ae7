"""The certificate that is served: whether it is valid and trusted; from a Secret, or from mounted files."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from certs import store
from certs.issue import KeyPair, valid, validity
from certs.reload import ReloadableContext, content_of
from certs.store import Shared, UnusableError
from webhook import metrics
from webhook.kube.client import Api
from webhook.tracking.certificates import CONFIGURATIONS, SECRET, CABundles, secrets_of

INTERVAL: Final = 1.0  # seconds between two reads of mounted files, and of the clock

log = structlog.get_logger()


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


class SharedCertificate:
    """The certificate that the controller keeps in a Secret; nothing is written here but a file.

    `trust`: the caBundles, by which a new certificate is served only once the API server trusts it. `ca_file`: a file
    that gets the authorities (PEM) that clients must trust.
    """

    def __init__(self, api: Api, namespace: str, served: Served, trust: CABundles, ca_file: Path) -> None:
        self.served = served
        self.trust = trust
        self.ca_file = ca_file
        self.namespace = namespace
        self.secrets = secrets_of(api, namespace)
        self.read: tuple[str, Shared] | None = None  # the version of the Secret that was read last, and what it has
        self.changed = asyncio.Event()
        self.secrets.on_change(self.changed.set)
        trust.on_change(self.changed.set)

    async def run(self) -> None:
        """Follow the Secret, the caBundles and the clock until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.secrets.run())
            group.create_task(self.trust.run())
            group.create_task(self.follow())

    async def follow(self) -> None:
        """Serve what the Secret has, at every change and every INTERVAL seconds, until cancelled."""
        while True:
            self.changed.clear()
            try:
                self.serve()
            except UnusableError as error:
                trouble = f"Secret {self.namespace}/{SECRET}: {error}"
                if trouble != self.served.trouble:
                    self.served.failed(trouble)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self.changed.wait()

    def serve(self) -> None:
        """Serve the leaf once every caBundle trusts it, or at once if the certificate in use is not usable.

        Raise UnusableError if the Secret has none that can be used.
        """
        secret = self.secrets.get(self.namespace, SECRET)
        if secret is None or not self.trust.synced:
            if self.served.tls.chain is None:
                self.served.trouble = f"the controller has not written the Secret {self.namespace}/{SECRET} yet"
            return
        version = secret["metadata"]["resourceVersion"]
        if self.read is None or self.read[0] != version:
            self.read = version, store.from_data(secret.get("data") or {})
        shared = self.read[1]
        leaf = shared.leaf
        if (self.trust.trusts(leaf.certificate) and valid(leaf, self.served.now())) or not self.served.usable:
            self.served.load(leaf)
        self.served.trouble = ""
        if self.ca_file.read_bytes() != shared.trusted:
            new = self.ca_file.with_suffix(".new")
            new.write_bytes(shared.trusted)
            new.replace(self.ca_file)


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
