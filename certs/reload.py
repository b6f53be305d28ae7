"""The certificate that a server shows, replaced while it serves: new connections get the new one, open ones stay."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from certs.issue import KeyPair, validity
from certs.store import UnusableError

LARGEST: Final = 1024 * 1024  # bytes of a mounted file: what a Secret can hold at most


class ReloadableContext:
    """A TLS 1.3 server context that is never replaced itself, and the certificate that it shows.

    Every change is a whole new context, which is handed to each new connection: one that cannot be loaded harms
    nothing, and nothing remains of the one before, as it would where a key of another type is loaded over it.
    """

    def __init__(self, client_ca: bytes | None = None) -> None:
        """Show nothing yet. `client_ca` (PEM): whose certificate a client needs; UnusableError where it holds none."""
        self.chain: KeyPair | None = None
        self.current = context_for(client_ca)
        self.context = context_for(client_ca)
        self.context.sni_callback = self.hand_over  # called for every client, whether it names a host or not

    def hand_over(self, connection: ssl.SSLObject, _host: str | None, _context: ssl.SSLContext) -> int | None:
        """Give a connection the certificate of the moment; without one it is refused."""
        if self.chain is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self.current
        return None

    def show(self, chain: KeyPair, client_ca: bytes | None = None) -> None:
        """Show a certificate (the leaf first, then who signed it); UnusableError, and no change, if that cannot be."""
        context = context_for(client_ca)
        try:
            validity(chain)
            # Readable by this user alone, and gone at once: OpenSSL takes keys from files only.
            with tempfile.TemporaryDirectory(prefix="retry-policy-") as folder:
                file = Path(folder, "tls.pem")
                file.write_bytes(chain.certificate + b"\n" + chain.key)
                context.load_cert_chain(file, password=b"")  # never a question on the terminal
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise UnusableError(f"certificate and key cannot be used together: {error}") from None
        self.chain, self.current = chain, context


def context_for(client_ca: bytes | None) -> ssl.SSLContext:
    """Return a TLS 1.3 server context without a certificate; UnusableError where `client_ca` holds none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a session taken up again would be judged by the client authorities of its beginning
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UnusableError(f"client certificate authorities: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def content_of(file: Path) -> bytes:
    """Read a mounted file; UnusableError with its path if that cannot be."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise UnusableError(f"{file}: {error.strerror}") from None
    if len(content) > LARGEST:
        raise UnusableError(f"{file}: larger than {LARGEST} bytes")
    return content
