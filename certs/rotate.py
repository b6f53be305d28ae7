"""Decide when a certificate is renewed, and make its replacement, one step at a time: any replica can do the next one.

A leaf is replaced by another leaf of the same authority. An authority is replaced in three steps. Its successor is
announced: trusted, but signs nothing. It signs once it has been in every caBundle for `Lifetimes.announcement`. The
old authority is no longer trusted once all its leaves have expired. Functions here do not wait, read a clock or write.
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

# The part of a certificate's lifetime after which it is renewed. The rest is time to repair a renewal that fails.
RENEWED_AFTER: Final = 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long certificates are valid.

    `announcement`: how long a new authority is in every caBundle before its first leaf is served. The caBundle is read
    back from one API server, and another API server may see it later.
    """

    authority: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=30)
    announcement: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The certificates of one server: its name, the hosts that its leaf is for, the lifetimes."""

    name: str
    hosts: Collection[str]
    lifetimes: Lifetimes

    def begin(self, now: datetime, trusted: bytes = b"") -> Shared:
        """Return a new authority and its first leaf.

        `trusted` (PEM): the authorities that callers trust now. They stay trusted for the lifetime of a leaf, because
        leaves that they have signed may be in use.
        """
        authority = self._new_authority(now)
        begun = Shared(authority=authority, leaf=self._leaf(authority, now))
        return self.keep_trusted(begun, trusted, now)

    def restart(self, shared: Shared, now: datetime) -> Shared:
        """Return `shared` with a new authority announced, whether or not one is due.

        Return `shared` unchanged if one is announced already.
        """
        if shared.next_authority is not None:
            return shared
        return replace(shared, next_authority=self._new_authority(now))

    def step(self, shared: Shared, now: datetime, *, announced: bool) -> Shared | None:
        """Return the next state to store; None if nothing is due.

        `announced`: whether the next authority, if there is one, has been in every caBundle for long enough.
        """
        # No caller trusts an authority that has expired, so its successor need not be announced for any time.
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
        """Return `shared` with more retired authorities (PEM), trusted for the lifetime of a leaf from `now`."""
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
        """Return the next time at which `step` has something to do, apart from `announced`."""
        times = [renewal_of(shared.leaf)]
        if shared.next_authority is None:
            times.append(renewal_of(shared.authority))
        if shared.retired_until is not None:
            times.append(shared.retired_until)
        return min(times)

    def _leaf_due(self, shared: Shared, now: datetime) -> bool:
        if not set(self.hosts) <= set(hosts_of(shared.leaf)):
            return True
        # A leaf expires with its authority at the latest. Close to that time a new leaf would not be valid for longer.
        longest = min(now + self.lifetimes.leaf, validity(shared.authority)[1])
        return renewal_of(shared.leaf) <= now and longest > validity(shared.leaf)[1]

    def _leaf(self, authority: KeyPair, now: datetime, before: KeyPair | None = None) -> KeyPair:
        # The hosts of the former leaf stay: two versions of the server, or two replicas, may have different hosts.
        hosts = dict.fromkeys(chain(self.hosts, () if before is None else hosts_of(before)))
        return issue(authority, self.name, now=now, lifetime=self.lifetimes.leaf, hosts=hosts)

    def _new_authority(self, now: datetime) -> KeyPair:
        return new_authority(self.name, now=now, lifetime=self.lifetimes.authority)


def renewal_of(pair: KeyPair) -> datetime:
    """Return the time at which a certificate made by `issue` is due for renewal."""
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
