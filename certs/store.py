"""The certificates that the replicas of a server share, stored in one Secret of type kubernetes.io/tls."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from certs.issue import KeyPair

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE: Final = "kubernetes.io/tls"
LEAF: Final = ("tls.crt", "tls.key")
AUTHORITY: Final = ("ca.crt", "ca.key")
NEXT_AUTHORITY: Final = ("ca-next.crt", "ca-next.key")
RETIRED: Final = "ca-retired.crt"
RETIRED_UNTIL: Final = "ca-retired.until"


class UnusableError(Exception):
    """A certificate, key or file cannot be used; the message says which and why, and contains no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The leaf that is served, the authority that signed it, and other authorities during a rotation.

    `next_authority` is trusted and has signed nothing yet. `retired` (PEM): authorities that no longer sign, trusted
    until `retired_until` because leaves that they have signed may still be in use.
    """

    authority: KeyPair
    leaf: KeyPair
    next_authority: KeyPair | None = None
    retired: bytes = b""
    retired_until: datetime | None = None

    @property
    def trusted(self) -> bytes:
        """All authorities that callers of the server must trust, as PEM."""
        announced = b"" if self.next_authority is None else self.next_authority.certificate
        return self.authority.certificate + announced + self.retired


def to_data(shared: Shared) -> dict[str, str]:
    """Return the `data` of the Secret: base64 by key."""
    data = {**_encoded(LEAF, shared.leaf), **_encoded(AUTHORITY, shared.authority)}
    if shared.next_authority is not None:
        data |= _encoded(NEXT_AUTHORITY, shared.next_authority)
    if shared.retired_until is not None:
        data[RETIRED] = _base64(shared.retired)
        data[RETIRED_UNTIL] = _base64(shared.retired_until.isoformat().encode())
    return data


def from_data(data: Mapping[str, str]) -> Shared:
    """Read the `data` of the Secret; raise UnusableError with all problems in it."""
    problems: list[str] = []
    leaf = _pair(data, LEAF, problems)
    authority = _pair(data, AUTHORITY, problems)
    next_authority = _pair(data, NEXT_AUTHORITY, problems) if data.keys() & set(NEXT_AUTHORITY) else None
    retired = _decoded(data, RETIRED, problems) if RETIRED in data else b""
    until = _until(data, retired, problems) if retired else None
    if leaf is not None and authority is not None and not issued_by(leaf.certificate, authority.certificate):
        problems.append(f"{LEAF[0]}: is not signed by {AUTHORITY[0]}")
    if problems or leaf is None or authority is None:
        raise UnusableError("; ".join(problems))
    return Shared(authority=authority, leaf=leaf, next_authority=next_authority, retired=retired, retired_until=until)


def issued_by(chain: bytes, authorities: bytes) -> bool:
    """Return True if one of these authorities has signed a certificate of the chain; both are PEM."""
    try:
        signed, trusted = x509.load_pem_x509_certificates(chain), x509.load_pem_x509_certificates(authorities)
    except ValueError:
        return False
    return any(_signed_by(certificate, authority) for certificate in signed for authority in trusted)


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pair(data: Mapping[str, str], keys: tuple[str, str], problems: list[str]) -> KeyPair | None:
    """Return a certificate and its key; if they are not a pair, add the reason to `problems` and return None."""
    before = len(problems)
    pair = KeyPair(*(_decoded(data, key, problems) for key in keys))
    if len(problems) > before:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError:
        problems.append(f"{keys[0]}: is no PEM certificate")
        return None
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError):
        problems.append(f"{keys[1]}: is no PEM private key without a password")
        return None
    if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        problems.append(f"{keys[1]}: is not the key of {keys[0]}")
        return None
    return pair


def _until(data: Mapping[str, str], retired: bytes, problems: list[str]) -> datetime | None:
    try:
        x509.load_pem_x509_certificates(retired)
    except ValueError:
        problems.append(f"{RETIRED}: is no PEM certificate")
    try:
        until = datetime.fromisoformat(_decoded(data, RETIRED_UNTIL, problems).decode())
    except ValueError:
        problems.append(f"{RETIRED_UNTIL}: is no time as RFC 3339 writes it")
        return None
    if until.tzinfo is None:
        problems.append(f"{RETIRED_UNTIL}: has no time zone")
        return None
    return until


def _decoded(data: Mapping[str, str], key: str, problems: list[str]) -> bytes:
    if not data.get(key):
        problems.append(f"{key}: is missing")
        return b""
    try:
        return base64.b64decode(data[key], validate=True)
    except binascii.Error:
        problems.append(f"{key}: is not base64")
        return b""


def _encoded(keys: tuple[str, str], pair: KeyPair) -> dict[str, str]:
    return {keys[0]: _base64(pair.certificate), keys[1]: _base64(pair.key)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
