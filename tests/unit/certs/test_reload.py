"""The certificate is replaced between two connections to one socket: real handshakes, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from certs.issue import KeyPair, issue, new_authority
from certs.reload import LARGEST, ReloadableContext, content_of
from certs.store import UnusableError

HOUR = timedelta(hours=1)
RUNNERS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def authority() -> KeyPair:
    return new_authority("authority", now=datetime.now(UTC), lifetime=HOUR)


def leaf_of(signer: KeyPair, *, client: bool = False) -> KeyPair:
    return issue(signer, "one", now=datetime.now(UTC), lifetime=HOUR, hosts=["127.0.0.1"], client=client)


def rsa_pair() -> KeyPair:
    """Return a self-signed certificate with an RSA key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - HOUR).not_valid_after(now + HOUR)
    certificate = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(
        key, SHA256()
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), pem)


class Caller:
    """Connects to a TLS socket that echoes lines."""

    def __init__(self, reloadable: ReloadableContext, folder: Path) -> None:
        self.reloadable = reloadable
        self.folder = folder
        self.port = 0
        self.open: list[asyncio.StreamWriter] = []

    async def connect(
        self, trusted: KeyPair, host: str = "127.0.0.1", client: KeyPair | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cadata=trusted.certificate.decode())
        if client is not None:
            (self.folder / "client.pem").write_bytes(client.certificate + client.key)
            context.load_cert_chain(self.folder / "client.pem")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=host)
        self.open.append(writer)
        return reader, writer

    async def call(self, *arguments: Any, **options: Any) -> bool:
        """Return True if a new connection is served."""
        try:
            reader, writer = await self.connect(*arguments, **options)
            return await echoed(reader, writer)
        except OSError:  # ssl.SSLError is a subclass
            return False


async def echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"hello\n")
    return await reader.readline() == b"hello\n"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while line := await reader.readline():
            writer.write(line)
    writer.close()


def served(
    run: Callable[[Any], None], reloadable: ReloadableContext, folder: Path, body: Callable[[Caller], Awaitable[None]]
) -> None:
    async def main() -> None:
        caller = Caller(reloadable, folder)
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=reloadable.context)
        caller.port = server.sockets[0].getsockname()[1]
        await body(caller)
        for writer in caller.open:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run(main())


@RUNNERS
def test_a_new_connection_gets_the_new_certificate_and_an_open_one_stays_open(
    run: Callable[[Any], None], tmp_path: Path
) -> None:
    reloadable, one, two = ReloadableContext(), authority(), authority()

    async def body(caller: Caller) -> None:
        assert not await caller.call(one)  # no certificate is loaded yet
        reloadable.load(leaf_of(one))
        reader, writer = await caller.connect(one)
        assert await echoed(reader, writer)
        reloadable.load(leaf_of(two))
        assert await caller.call(two)
        assert not await caller.call(one)
        assert await echoed(reader, writer)

    served(run, reloadable, tmp_path, body)


@RUNNERS
def test_a_replaced_certificate_with_another_type_of_key_is_not_served_any_more(
    run: Callable[[Any], None], tmp_path: Path
) -> None:
    reloadable, one, other = ReloadableContext(), authority(), rsa_pair()

    async def body(caller: Caller) -> None:
        reloadable.load(other)
        assert await caller.call(other, "localhost")
        reloadable.load(leaf_of(one))
        assert await caller.call(one)
        assert not await caller.call(other, "localhost")

    served(run, reloadable, tmp_path, body)


@RUNNERS
def test_the_authorities_of_accepted_clients_change_with_the_certificate(
    run: Callable[[Any], None], tmp_path: Path
) -> None:
    server, old, new = authority(), authority(), authority()
    reloadable = ReloadableContext(old.certificate)
    reloadable.load(leaf_of(server), old.certificate)

    async def body(caller: Caller) -> None:
        assert await caller.call(server, client=leaf_of(old, client=True))
        assert not await caller.call(server)
        assert not await caller.call(server, client=leaf_of(new, client=True))
        reloadable.load(leaf_of(server), new.certificate)
        assert await caller.call(server, client=leaf_of(new, client=True))
        assert not await caller.call(server, client=leaf_of(old, client=True))

    served(run, reloadable, tmp_path, body)


def encrypted(pair: KeyPair) -> KeyPair:
    key = load_pem_private_key(pair.key, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return KeyPair(
        pair.certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )


UNUSABLE = {
    "a foreign key": KeyPair(leaf_of(authority()).certificate, authority().key),
    "no certificate": KeyPair(b"", authority().key),
    "no key": KeyPair(authority().certificate, b""),
    "garbage": KeyPair(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff"),
    "an encrypted key": encrypted(rsa_pair()),
}


@pytest.mark.parametrize("unusable", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_certificate_raises_an_error_and_the_former_one_is_still_served(
    tmp_path: Path, unusable: KeyPair
) -> None:
    reloadable, one = ReloadableContext(), authority()
    reloadable.load(leaf_of(one))

    async def body(caller: Caller) -> None:
        with pytest.raises(UnusableError) as raised:
            reloadable.load(unusable)
        assert "PRIVATE" not in str(raised.value)
        assert await caller.call(one)

    served(asyncio.run, reloadable, tmp_path, body)


def test_client_authorities_that_are_not_certificates_raise_an_error() -> None:
    for garbage in (b"", b"nothing", b"\xff"):
        with pytest.raises(UnusableError, match="client certificate authorities"):
            ReloadableContext(garbage)


def test_an_older_protocol_than_tls_1_3_is_refused(tmp_path: Path) -> None:
    reloadable, one = ReloadableContext(), authority()
    reloadable.load(leaf_of(one))

    async def body(caller: Caller) -> None:
        context = ssl.create_default_context(cadata=one.certificate.decode())
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", caller.port, ssl=context, server_hostname="127.0.0.1")

    served(asyncio.run, reloadable, tmp_path, body)


def test_a_mounted_file_is_read_up_to_a_maximum_size(tmp_path: Path) -> None:
    file = tmp_path / "tls.crt"
    with pytest.raises(UnusableError, match=r"tls\.crt: cannot be read: No such file"):
        content_of(file)
    with pytest.raises(UnusableError, match="directory"):
        content_of(tmp_path)
    file.write_bytes(b"x" * LARGEST)
    assert len(content_of(file)) == LARGEST
    file.write_bytes(b"x" * (LARGEST + 1))
    with pytest.raises(UnusableError, match="larger than"):
        content_of(file)
