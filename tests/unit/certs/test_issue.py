"""Certificates are checked by OpenSSL in its strictest mode, in a real handshake without a socket."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs.issue import KeyPair, issue, new_authority

if TYPE_CHECKING:
    from pathlib import Path

YEAR = timedelta(days=365)
DAY = timedelta(days=1)
NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def authority() -> KeyPair:
    return new_authority("authority", now=now(), lifetime=YEAR)


@pytest.fixture
def server(authority: KeyPair) -> KeyPair:
    return issue(authority, "server", now=now(), lifetime=DAY, hosts=["webhook.svc", "127.0.0.1", "::1"])


@pytest.fixture
def client(authority: KeyPair) -> KeyPair:
    return issue(authority, "client", now=now(), lifetime=DAY, client=True)


def handshake(
    folder: Path, server: KeyPair, trusted: bytes, *, name: str = "webhook.svc", client: KeyPair | None = None
) -> None:
    """Do a handshake of a strict client with the server; with `client`, the server verifies it as strictly."""
    at_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    at_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in (at_client, at_server):
        context.load_verify_locations(cadata=trusted.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    _load(folder / "server.pem", server, at_server)
    if client:
        at_server.verify_mode = ssl.CERT_REQUIRED
        _load(folder / "client.pem", client, at_client)

    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        at_client.wrap_bio(to_client, to_server, server_hostname=name),
        at_server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)


def _load(file: Path, pair: KeyPair, context: ssl.SSLContext) -> None:
    file.write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(file)


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


@pytest.mark.parametrize("name", ["webhook.svc", "127.0.0.1", "::1"])
def test_a_strict_client_accepts_the_server_under_each_of_its_hosts(
    tmp_path: Path, authority: KeyPair, server: KeyPair, name: str
) -> None:
    handshake(tmp_path, server, authority.certificate, name=name)


@pytest.mark.parametrize("name", ["other.svc", "127.0.0.2"])
def test_a_client_rejects_the_server_under_another_name(
    tmp_path: Path, authority: KeyPair, server: KeyPair, name: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(tmp_path, server, authority.certificate, name=name)


def test_a_strict_server_accepts_the_client(
    tmp_path: Path, authority: KeyPair, server: KeyPair, client: KeyPair
) -> None:
    handshake(tmp_path, server, authority.certificate, client=client)


def test_a_server_certificate_is_not_accepted_from_a_client(
    tmp_path: Path, authority: KeyPair, server: KeyPair
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(tmp_path, server, authority.certificate, client=server)


def test_a_client_certificate_is_not_accepted_from_a_server(
    tmp_path: Path, authority: KeyPair, client: KeyPair
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(tmp_path, client, authority.certificate)


def test_one_certificate_can_be_for_server_and_client(tmp_path: Path, authority: KeyPair) -> None:
    both = issue(authority, "etcd", now=now(), lifetime=DAY, hosts=["webhook.svc"], client=True)
    handshake(tmp_path, both, authority.certificate, client=both)


def test_a_certificate_for_neither_server_nor_client_is_refused(authority: KeyPair) -> None:
    with pytest.raises(ValueError, match="'nobody' has no use: name its hosts, or say client=True"):
        issue(authority, "nobody", now=now(), lifetime=DAY)


def test_an_authority_with_another_type_of_key_is_refused(authority: KeyPair) -> None:
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    foreign = KeyPair(authority.certificate, rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ValueError, match="has to be an elliptic curve key"):
        issue(foreign, "server", now=now(), lifetime=DAY, hosts=["webhook.svc"])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_bundle_of_two_authorities_with_one_name_accepts_the_certificates_of_both(
    tmp_path: Path, authority: KeyPair, server: KeyPair, *, reverse: bool
) -> None:
    newer = new_authority("authority", now=now(), lifetime=YEAR)
    bundle = [authority.certificate, newer.certificate]
    trusted = b"".join(reversed(bundle) if reverse else bundle)
    handshake(tmp_path, server, trusted)
    handshake(tmp_path, issue(newer, "server", now=now(), lifetime=DAY, hosts=["webhook.svc"]), trusted)


def test_another_authority_with_the_same_name_is_not_trusted(tmp_path: Path, server: KeyPair) -> None:
    stranger = new_authority("authority", now=now(), lifetime=YEAR)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
        handshake(tmp_path, server, stranger.certificate)


def test_an_expired_certificate_is_refused(tmp_path: Path, authority: KeyPair) -> None:
    expired = issue(authority, "server", now=now() - 2 * DAY, lifetime=DAY, hosts=["webhook.svc"])
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(tmp_path, expired, authority.certificate)


def test_certificates_are_valid_from_five_minutes_before_they_are_issued() -> None:
    authority = new_authority("authority", now=NEW_YEAR, lifetime=YEAR)
    server = issue(authority, "server", now=NEW_YEAR, lifetime=DAY, hosts=["webhook.svc"])
    for pair in (authority, server):
        assert parsed(pair).not_valid_before_utc == NEW_YEAR - timedelta(minutes=5)


def test_the_lifetime_is_counted_from_now() -> None:
    authority = new_authority("authority", now=NEW_YEAR, lifetime=YEAR)
    server = issue(authority, "server", now=NEW_YEAR, lifetime=DAY, hosts=["webhook.svc"])
    assert parsed(authority).not_valid_after_utc == NEW_YEAR + YEAR
    assert parsed(server).not_valid_after_utc == NEW_YEAR + DAY


def test_no_certificate_outlives_its_authority() -> None:
    authority = new_authority("authority", now=NEW_YEAR, lifetime=DAY)
    server = issue(authority, "server", now=NEW_YEAR, lifetime=YEAR, hosts=["webhook.svc"])
    assert parsed(server).not_valid_after_utc == NEW_YEAR + DAY


def test_the_common_name_is_the_user_and_the_organizations_are_the_groups(authority: KeyPair) -> None:
    pair = issue(authority, "admin", now=now(), lifetime=DAY, organizations=["system:masters", "team"], client=True)
    subject = parsed(pair).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["admin"]
    organizations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [a.value for a in organizations] == ["system:masters", "team"]


def test_an_issued_certificate_is_not_an_authority(server: KeyPair) -> None:
    assert not parsed(server).extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_every_certificate_has_its_own_key_and_serial_number(authority: KeyPair) -> None:
    one, two = (issue(authority, "client", now=now(), lifetime=DAY, client=True) for _ in range(2))
    assert one.key != two.key
    assert parsed(one).serial_number != parsed(two).serial_number


def test_the_private_key_does_not_show_when_a_key_pair_is_printed(server: KeyPair) -> None:
    assert "PRIVATE KEY" in server.key.decode()
    assert "PRIVATE KEY" not in repr(server)
