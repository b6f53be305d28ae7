"""What was read of a cluster, and what could not be read. Pure: values alone.

A list is None if it could not be read, and empty if there is nothing. What may exist once is a list of at most one.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from webhook.doctor.installation import Installation
from webhook.doctor.shipped import MUTATING, VALIDATING, NeededRight
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.policy.model import Policy

Objects = list[Json] | None


class Unread(NamedTuple):
    """What could not be read: the title of the section that needs it, what it is, the missing right, the API's answer.

    `right` is empty if something else than a right is missing.
    """

    section: str
    what: str
    right: str
    why: str


class SeenLease(NamedTuple):
    """A Lease, None if there is none; the API server's time when it was read; whether it was renewed a moment later.

    `renewed` is None if that was not looked at, because the Lease was fresh.
    """

    name: str
    lease: Json | None
    now: datetime
    renewed: bool | None = None


class Probe(NamedTuple):
    """The API server's answers to two Jobs that were created in a dry run, the second one with a wrong annotation.

    `mode`: that of the namespace. `stored`: the first Job as it would be stored, None if it was refused; `refusal`: the
    reason. `warnings`: those of the first Job. `denial`: why the second one was refused, empty if it was not.
    """

    namespace: str
    mode: str | None
    stored: Json | None
    refusal: str
    warnings: tuple[str, ...] = ()
    denial: str = ""


class Stored(NamedTuple):
    """An object that a user asks about, None if there is none; its kind, None if any was meant, and its full name."""

    kind: tuple[str, str] | None
    name: str
    root: Json | None


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """The state of a cluster. `asked`: the namespace that the user asks about; `version`: that of the command line.

    `left_out`: takes the objects that make a check raise.
    """

    version: str
    installed: Installation
    asked: str | None = None
    server_version: str | None = None
    now: datetime | None = None  # by the API server's clock
    mutating: Objects = None
    validating: Objects = None
    deployments: Objects = None
    services: Objects = None
    pods: Objects = None
    slices: Objects = None
    events: Objects = None
    certificates: Objects = None
    leases: list[SeenLease] | None = None
    delayed: Objects = None  # pods that are held back by a delay
    config_maps: Objects = None
    policy: Policy | None = None
    nodes: Objects = None
    node_pools: Objects = None  # of Karpenter, at most one; empty if it is not installed
    namespaces: Objects = None
    kinds: dict[tuple[str, str], list[str]] | None = None  # served versions, by group and resource
    job_set_crd: Objects = None
    missing_rights: list[NeededRight] | None = None
    admission_policies: Objects = None
    admission_bindings: Objects = None
    mutating_policies: Objects = None
    probe: Probe | None = None
    stored: list[Stored] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    cut: dict[str, str] = field(default_factory=dict)  # by section: which list was longer than what is read of it
    left_out: LeftOut = RAISING

    def named(self, objects: Objects, name: str) -> Json | None:
        """Return the object of a list with this name; None if there is none, or the list could not be read."""
        return next((one for one in objects or () if one["metadata"]["name"] == name), None)

    @property
    def configurations(self) -> tuple[tuple[str, Objects], ...]:
        """The mutating and the validating webhook configurations, each with their kind."""
        return (MUTATING, self.mutating), (VALIDATING, self.validating)

    @property
    def nothing_read(self) -> bool:
        """Whether the API server refused to show anything of the installation and of the namespaces."""
        seen = (self.mutating, self.validating, self.deployments, self.namespaces)
        return all(one is None for one in seen) and self.probe is None
