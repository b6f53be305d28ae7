"""X.509: a certificate authority, and the server and client certificates that it issues, as PEM."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

# How far a client's clock may be behind ours without the certificate being "not yet valid" to it.
CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key (PKCS #8, not encrypted), both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)  # so that no log line or traceback shows it


def new_authority(common_name: str, *, now: datetime, lifetime: timedelta) -> KeyPair:
    """Make a self-signed certificate authority, valid from five minutes before `now` until `now + lifetime`.

    `now` is timezone-aware. Two authorities may share a name and stand in one bundle while one takes the other's
    place: what they issue names its issuer by key identifier.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, name, key, now)
        .not_valid_after(now + lifetime)
        # pathlen 0: it issues leaves, never another authority.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, SHA256())
    )
    return _pem(certificate, key)


def issue(  # noqa: PLR0913  # all but two are keyword-only
    authority: KeyPair,
    common_name: str,
    *,
    now: datetime,
    lifetime: timedelta,
    hosts: Iterable[str] = (),
    organizations: Iterable[str] = (),
    client: bool = False,
) -> KeyPair:
    """Issue a certificate for a server (`hosts`: DNS names and IP addresses), for a client, or for one that is both.

    Valid from five minutes before `now` (timezone-aware) until `now + lifetime`, and never longer than its authority.
    To Kubernetes a client's common name is the user, its organizations are the groups
    (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
    ValueError if it would be of use to nobody, or if a name does not fit into a certificate.
    """
    names = [_general_name(host) for host in hosts]
    if not names and not client:
        raise ValueError(f"certificate {common_name!r} has no use: name its hosts, or say client=True")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"the authority's key is {type(issuer_key).__name__}; it has to be an elliptic curve key")  # noqa: TRY004  # the PEM's content is wrong, not its type
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] * bool(names) + [ExtendedKeyUsageOID.CLIENT_AUTH] * client

    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(common_name, organizations), issuer.subject, key, now)
        .not_valid_after(min(now + lifetime, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _pem(builder.sign(issuer_key, SHA256()), key)


def validity(chain: KeyPair) -> tuple[datetime, datetime]:
    """Return from when until when a certificate is valid; ValueError if it is none."""
    certificate = x509.load_pem_x509_certificate(chain.certificate)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def valid(chain: KeyPair, now: datetime) -> bool:
    """Tell whether a certificate is valid; that it will be within five minutes is taken for a clock that is behind."""
    begin, end = validity(chain)
    return begin - CLOCK_SKEW <= now < end


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    # RFC 5280, 4.2.1.3: an authority signs certificates and revocation lists, a leaf signs its handshakes. ECDSA has no
    # use for the rest.
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
