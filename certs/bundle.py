"""The caBundle of webhook configurations: the CAs that the API server trusts when it calls a webhook.

Reads and compares caBundles, and makes the JSON Patch that replaces them.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.store import issued_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A `configuration` is a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration, as decoded JSON.


def edits(configuration: Mapping[str, Any], trusted: bytes) -> list[dict[str, Any]]:
    """Return the JSON Patch that makes every webhook entry trust exactly the CAs in `trusted` (PEM).

    Empty if every entry does already. The patch contains the resourceVersion of `configuration`: if the stored
    configuration has another one, the API server answers 409 and changes nothing.
    """
    wanted = _certificates(trusted)
    operations = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": base64.b64encode(trusted).decode()}
        for index, webhook in enumerate(configuration.get("webhooks") or ())
        if _certificates(_bundle(webhook)) != wanted
    ]
    if not operations:
        return []
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def trust(configurations: Iterable[Mapping[str, Any]], chain: bytes) -> bool:
    """Return True if every webhook entry of all configurations trusts a signer of `chain`.

    `chain` is PEM: a certificate chain, or the certificate of a CA.
    """
    return all(
        issued_by(chain, _bundle(webhook))
        for configuration in configurations
        for webhook in configuration.get("webhooks") or ()
    )


def trusted_by_any(configurations: Iterable[Mapping[str, Any]]) -> bytes:
    """Return all CAs that at least one webhook entry trusts, each once, as PEM."""
    found: set[bytes] = set()
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            found |= _certificates(_bundle(webhook))
    return b"".join(sorted(found))


def _bundle(webhook: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(webhook["clientConfig"].get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""


def _certificates(pem: bytes) -> set[bytes]:
    """Return the certificates of a PEM text, encoded again without the text between them; empty if it is not PEM."""
    try:
        return {one.public_bytes(Encoding.PEM) for one in x509.load_pem_x509_certificates(pem)}
    except ValueError:
        return set()
