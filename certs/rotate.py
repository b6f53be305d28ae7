"""When a certificate is renewed and what takes its place: one step at a time, so that any replica can take the next.

A leaf is replaced by another of the same authority. An authority is replaced in three steps: its successor is
announced (trusted, signs nothing), takes over once it has been seen in every caBundle for a while, and the one that it
replaced is forgotten when no leaf of it can be in use any more. Nothing here waits, reads a clock or writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.issue import CLOCK_SKEW, KeyPair, issue, new_authority, validity
from certs.store import Shared

if TYPE_CHECKING:
    from collections.abc import Collection

# Of a certificate's life, by wall clock: what is left is the time to find out why a renewal fails.
RENEWED_AFTER: Final = 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long what lives.

    `announcement` is for how long a new authority stands in every caBundle before the first leaf of it is served: the
    caBundle is read back from one API server, and another one may see it a moment later.
    """

    authority: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=30)
    announcement: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The rules for one server: its name, the hosts that its leaf is for, the lifetimes."""

    name: str
    hosts: Collection[str]
    lifetimes: Lifetimes

    def begin(self, now: datetime, trusted: bytes = b"") -> Shared:
        """Make an authority and its first leaf.

        `trusted` (PEM) is what callers trust today: leaves may be in use that it has signed, so it stays for as long as
        a leaf can live.
        """
        authority = self._new_authority(now)
        begun = Shared(authority=authority, leaf=self._leaf(authority, now))
        return self.keep_trusted(begun, trusted, now)

    def restart(self, shared: Shared, now: datetime) -> Shared:
        """Announce a successor of the authority, due or not; `shared` as it is where one is announced already."""
        if shared.next_authority is not None:
            return shared
        return replace(shared, next_authority=self._new_authority(now))

    def step(self, shared: Shared, now: datetime, *, announced: bool) -> Shared | None:
        """Return what is to be stored next, None where nothing is due.

        `announced`: the next authority, where there is one, has been in every caBundle for long enough.
        """
        # An authority that has expired is trusted by nobody: nobody has to be waited for.
        expired = validity(shared.authority)[1] <= now
        if shared.next_authority is not None and (announced or expired):
            authority = shared.next_authority
            promoted = Shared(
                authority=authority,
                leaf=self._leaf(authority, now, shared.leaf),
                retired=shared.retired,
                retired_until=shared.retired_until,
            )
            return self.keep_trusted(promoted, shared.authority.certificate, now)
        if expired:
            return self.begin(now)
        if self._leaf_due(shared, now):
            return replace(shared, leaf=self._leaf(shared.authority, now, shared.leaf))
        if shared.next_authority is None and renewal_of(shared.authority) <= now:
            return self.restart(shared, now)
        if shared.retired_until is not None and shared.retired_until <= now:
            return replace(shared, retired=b"", retired_until=None)
        return None

    def keep_trusted(self, shared: Shared, authorities: bytes, now: datetime) -> Shared:
        """Add authorities (PEM) to those that are trusted for as long as a leaf of theirs can live."""
        retiring = [
            certificate.public_bytes(Encoding.PEM)
            for certificate in _certificates(shared.retired + authorities)
            if certificate.not_valid_after_utc > now
        ]
        if not retiring:
            return replace(shared, retired=b"", retired_until=None)
        until = (now + self.lifetimes.leaf + CLOCK_SKEW).astimezone(UTC).replace(microsecond=0)
        return replace(shared, retired=b"".join(dict.fromkeys(retiring)), retired_until=until)

    def due(self, shared: Shared) -> datetime:
        """Return when `step` next has something to do by the clock alone."""
        times = [renewal_of(shared.leaf)]
        if shared.next_authority is None:
            times.append(renewal_of(shared.authority))
        if shared.retired_until is not None:
            times.append(shared.retired_until)
        return min(times)

    def _leaf_due(self, shared: Shared, now: datetime) -> bool:
        if not set(self.hosts) <= set(hosts_of(shared.leaf)):
            return True
        # A leaf never outlives its authority: close to that one's end another leaf would not live any longer.
        longest = min(now + self.lifetimes.leaf, validity(shared.authority)[1])
        return renewal_of(shared.leaf) <= now and longest > validity(shared.leaf)[1]

    def _leaf(self, authority: KeyPair, now: datetime, before: KeyPair | None = None) -> KeyPair:
        # The hosts of the one before stay: two versions of the server, or two replicas, may not agree on them.
        hosts = dict.fromkeys(chain(self.hosts, () if before is None else hosts_of(before)))
        return issue(authority, self.name, now=now, lifetime=self.lifetimes.leaf, hosts=hosts)

    def _new_authority(self, now: datetime) -> KeyPair:
        return new_authority(self.name, now=now, lifetime=self.lifetimes.authority)


def renewal_of(pair: KeyPair) -> datetime:
    """Return when a certificate that `issue` made is to be renewed."""
    begin, end = validity(pair)
    issued = begin + CLOCK_SKEW
    return issued + (end - issued) * RENEWED_AFTER


def hosts_of(leaf: KeyPair) -> list[str]:
    """Return the DNS names and IP addresses that a leaf is for."""
    extensions = x509.load_pem_x509_certificate(leaf.certificate).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


def _certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem) if pem else []
