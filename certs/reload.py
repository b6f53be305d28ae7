"""Replace a server's TLS certificate while it serves: new connections get the new one, open connections stay open."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from certs.issue import KeyPair, validity
from certs.store import UnusableError

LARGEST: Final = 1024 * 1024  # bytes of a mounted file; a Secret cannot be larger


class ReloadableContext:
    """A TLS 1.3 server context whose certificate can be replaced.

    `context` goes to the server and stays the same object. Each new certificate is loaded into a new SSLContext, to
    which every new connection switches. So a certificate that cannot be loaded changes nothing. And nothing of the
    former certificate remains: loading a key of another type into the same SSLContext would keep both.
    """

    def __init__(self, client_ca: bytes | None = None) -> None:
        """Start without a certificate: until `load`, every connection is refused.

        `client_ca` (PEM): the CAs of which clients need a certificate; None if clients need none. Raise UnusableError
        if `client_ca` contains no certificate.
        """
        self.chain: KeyPair | None = None
        self.current = context_for(client_ca)
        self.context = context_for(client_ca)
        self.context.sni_callback = self.switch  # called for every connection, also if the client names no host

    def switch(self, connection: ssl.SSLObject, _host: str | None, _context: ssl.SSLContext) -> int | None:
        """Switch a new connection to the current certificate; if there is none, return a TLS alert that refuses it."""
        if self.chain is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self.current
        return None

    def load(self, chain: KeyPair, client_ca: bytes | None = None) -> None:
        """Use another certificate for new connections: the leaf first, then its issuers.

        `client_ca` replaces the CAs of which clients need a certificate. Raise UnusableError, and change nothing, if
        the certificate and its key, or `client_ca`, cannot be loaded.
        """
        context = context_for(client_ca)
        try:
            validity(chain)
            # OpenSSL loads keys from files only. The file is readable by this user alone, and deleted at once.
            with tempfile.TemporaryDirectory(prefix="retry-policy-") as folder:
                file = Path(folder, "tls.pem")
                file.write_bytes(chain.certificate + b"\n" + chain.key)
                context.load_cert_chain(file, password=b"")  # without it OpenSSL asks for a password on the terminal
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise UnusableError(f"certificate and key cannot be used together: {error}; replace both") from None
        self.chain, self.current = chain, context


def context_for(client_ca: bytes | None) -> ssl.SSLContext:
    """Return a TLS 1.3 server context without a certificate; raise UnusableError if `client_ca` contains none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a resumed session would still be checked against the client CAs of its start
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UnusableError(f"client certificate authorities: {error}; write PEM certificates there") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def content_of(file: Path) -> bytes:
    """Return the bytes of a mounted file; raise UnusableError, with its path, if it cannot be read or is too large."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise UnusableError(f"{file}: cannot be read: {error.strerror}; make it readable") from None
    if len(content) > LARGEST:
        raise UnusableError(f"{file}: larger than {LARGEST} bytes; make it smaller")
    return content
