"""Checks whether the API server trusts the certificate that the server shows. Pure."""

import base64
import binascii
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from cryptography import x509

from certs import bundle
from webhook.doctor.checks.installed import last_event
from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.shipped import NAME
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed

INJECTED: Final = "cert-manager.io/inject-ca-from"
SOON: Final = timedelta(days=5)  # the certificate should have been renewed long before


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what is right and wrong with the certificate and the caBundles."""
    stored = ((kind, snapshot.named(found, NAME)) for kind, found in snapshot.configurations)
    found = [(kind, root) for kind, root in stored if root is not None]
    yield from _writers(snapshot, found)
    wrong = list(_bundles(snapshot, found))
    yield from wrong
    leaf = _served(snapshot)
    if isinstance(leaf, Diagnosis):
        yield leaf
    if not isinstance(leaf, x509.Certificate):
        return
    trouble = [] if wrong else _untrusted(snapshot, found, leaf)
    findings = [*trouble, *_dates(snapshot, leaf), *_names(snapshot, leaf)]
    yield from findings
    if not findings and not wrong and found:
        until = f"{leaf.not_valid_after_utc:%Y-%m-%d}"
        yield ok(_secret(snapshot), f"every caBundle has its CA; the certificate is valid until {until}")


def _secret(snapshot: Snapshot) -> str:
    """Return the Secret with the certificate, with its kind."""
    return f"Secret {snapshot.installed.namespace}/{snapshot.installed.secret}"


def _writers(snapshot: Snapshot, found: list[tuple[str, Json]]) -> Iterator[Diagnosis]:
    """Yield a problem if cert-manager and the server both write the caBundle."""
    for kind, root in found:
        if not (snapshot.installed.deployment and snapshot.installed.own_certificate):
            return
        if at(root, ("metadata", "annotations", INJECTED)):
            what = f"has the annotation {INJECTED}, and the server writes the caBundle itself: each undoes the other"
            yield problem(f"{kind} {NAME}", what, f"kubectl annotate {kind.lower()} {NAME} {INJECTED}-")


def _bundles(snapshot: Snapshot, found: list[tuple[str, Json]]) -> Iterator[Diagnosis]:
    """Yield a problem for each configuration whose caBundles are empty or no certificates."""
    for kind, root in found:
        wrong = [str(hook.get("name")) for hook in root.get("webhooks") or () if not _authorities(hook)]
        if wrong:
            what = f"has no usable caBundle in {listed(wrong)}, so the API server trusts no server"
            yield problem(f"{kind} {NAME}", f"{what}{_blame(snapshot, root)}", _remedy(snapshot))


def _authorities(hook: Json) -> list[x509.Certificate]:
    """Return the certificates in the caBundle of a webhook; none if it is empty or malformed."""
    try:
        pem = base64.b64decode(at(hook, ("clientConfig", "caBundle")) or "", validate=True)
        return x509.load_pem_x509_certificates(pem) if pem else []
    except (binascii.Error, ValueError):
        return []


def _served(snapshot: Snapshot) -> x509.Certificate | Diagnosis | None:
    """Return the certificate in the Secret, or what is wrong with it; None if it was not read."""
    if snapshot.certificates is None or not snapshot.installed.secret:
        return None
    where = _secret(snapshot)
    if not snapshot.certificates:
        return problem(where, "does not exist, so the server has no certificate", _remedy(snapshot))
    try:
        pem = base64.b64decode(at(snapshot.certificates[0], ("data", "tls.crt")) or "", validate=True)
        return x509.load_pem_x509_certificate(pem)
    except (binascii.Error, ValueError):
        return problem(where, "tls.crt is no certificate", _remedy(snapshot))


def _untrusted(snapshot: Snapshot, found: list[tuple[str, Json]], leaf: x509.Certificate) -> Iterator[Diagnosis]:
    """Yield a problem for each configuration with a caBundle that lacks the CA of the served certificate."""
    pem = base64.b64decode(at((snapshot.certificates or [{}])[0], ("data", "tls.crt")))
    for kind, root in found:
        wrong = [
            str(hook.get("name"))
            for hook in root.get("webhooks") or ()
            if not bundle.trust([{"webhooks": [hook]}], pem)
        ]
        if wrong:
            which = "every caBundle" if len(wrong) == len(root["webhooks"]) else f"the caBundle of {listed(wrong)}"
            what = f"{which} lacks the CA of the served certificate ({leaf.issuer.rfc4514_string()})"
            yield problem(f"{kind} {NAME}", f"{what}{_blame(snapshot, root)}", _remedy(snapshot))


def _blame(snapshot: Snapshot, root: Json) -> str:
    """Return which other program has written the caBundles, if managedFields say so."""
    managers = [
        str(one.get("manager"))
        for one in root["metadata"].get("managedFields") or ()
        if "f:caBundle" in str(one.get("fieldsV1")) and one.get("manager") != "unknown"
    ]
    event = last_event(snapshot, "Secret", snapshot.installed.secret)
    said = f"; written by {listed(list(dict.fromkeys(managers)))}" if managers else ""
    return f"{said}; {event}" if event else said


def _remedy(snapshot: Snapshot) -> str:
    return snapshot.installed.kubectl(snapshot.installed.certificate_command)


def _dates(snapshot: Snapshot, leaf: x509.Certificate) -> Iterator[Diagnosis]:
    now = snapshot.now
    where = _secret(snapshot)
    if now is None:
        return
    begin, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if not begin <= now < end:
        what = f"the certificate is valid from {begin:%FT%TZ} to {end:%FT%TZ}"
        yield problem(where, f"{what}, and the API server's clock says {now:%FT%TZ}", _remedy(snapshot))
    elif end - now < SOON:
        yield warning(where, f"the certificate expires at {end:%FT%TZ} and was not renewed", _remedy(snapshot))


def _names(snapshot: Snapshot, leaf: x509.Certificate) -> Iterator[Diagnosis]:
    host = f"{NAME}.{snapshot.installed.namespace}.svc"
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = found.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, ValueError):
        hosts = []
    if host not in hosts:
        what = f"the certificate is for {listed(hosts) or 'no host'}, and the API server calls {host}"
        yield problem(_secret(snapshot), what, _remedy(snapshot))
