"""Make X.509 certificates: a certificate authority, and the server and client certificates that it signs, as PEM."""

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

# A client's clock may be behind ours by this much: certificates are valid from so long before they are made.
CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key (PKCS #8, not encrypted), both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)  # keeps the key out of logs and tracebacks


def new_authority(common_name: str, *, now: datetime, lifetime: timedelta) -> KeyPair:
    """Make a self-signed certificate authority, valid from five minutes before `now` until `now + lifetime`.

    `now` is timezone-aware. Two authorities with the same name may be in one caBundle during a rotation: a certificate
    names its issuer by key identifier too.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, name, key, now)
        .not_valid_after(now + lifetime)
        # Path length 0: this authority can sign leaf certificates, but no other authority.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, SHA256())
    )
    return _pem(certificate, key)


def issue(  # noqa: PLR0913  # all but two arguments are keyword-only
    authority: KeyPair,
    common_name: str,
    *,
    now: datetime,
    lifetime: timedelta,
    hosts: Iterable[str] = (),
    organizations: Iterable[str] = (),
    client: bool = False,
) -> KeyPair:
    """Return a new key and its certificate, signed by `authority`.

    With `hosts` (DNS names and IP addresses) it is a server certificate, with `client` a client certificate, with
    both it is both. It is valid from five minutes before `now` (timezone-aware) until `now + lifetime`, but not after
    its authority expires. Kubernetes takes the common name of a client certificate as the user, the organizations as
    the groups (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
    Raise ValueError if there are neither hosts nor `client`, or if a name does not fit into a certificate.
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
    """Return the first and the last moment of a certificate's validity; raise ValueError if it is not a certificate."""
    certificate = x509.load_pem_x509_certificate(chain.certificate)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def valid(chain: KeyPair, now: datetime) -> bool:
    """Return True if a certificate is valid at `now`, or will be within five minutes.

    The five minutes allow for a clock that is behind.
    """
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
    # RFC 5280, 4.2.1.3: an authority signs certificates and revocation lists, a leaf signs TLS handshakes. The other
    # usages do not apply to ECDSA keys.
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
