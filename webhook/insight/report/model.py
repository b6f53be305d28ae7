"""A report as typed values; `retry-policy report -o json` prints it, and the HTML page shows it.

Times are RFC 3339. Resource-seconds are in `Usage`. Money is in `Report.currency`; None where no price is known.
"""

from typing import Final, Literal

import msgspec

from webhook.history.record import Capacity, Cost
from webhook.policy.causes import Cause, Loss

VERSION: Final = 1
MOST_ATTEMPTS: Final = 50  # of a workload that are listed one by one, the newest


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What attempts used.

    - `attempts`: how many. `seconds`: from their start to their end.
    - `resources`: resource-seconds: `cpu` in core-seconds, `memory` in GiB-seconds, others in their unit times seconds.
    - `price`: money; None if the price of any part is not known.
    """

    attempts: int = 0
    seconds: float = 0.0
    resources: dict[str, float] = msgspec.field(default_factory=dict)
    price: float | None = None


class Figures(msgspec.Struct, kw_only=True, rename="camel"):
    """The figures of any group of workloads: of one, of a namespace, of all.

    - `used`: by all attempts. `spot`, `on_demand`, `elsewhere`: its parts on nodes of that capacity, and on nodes whose
      capacity is not known or on none. They add up to it.
    - `lost`: by attempts that did not end well. `lost_to`: its parts lost to bugs (exit codes, OOM kills, deadlines),
      to disruptions, to capacity that did not come (SpotUnavailable), to containers that did not start (NeverStarted),
      and to other ends, such as that of a pod whose Job was suspended. They add up to it.
    - `kept`: the parts of lost attempts that the next ones need not repeat. So goodput, the share of what was used that
      went into work that counts, is used less lost, and kept, over used.
    - `causes`: how many attempts ended by each cause.
    - `saved_retries`: what retries that a bug did not have would have used, if each were like the last attempt.
    - `saved_on_spot`: money that the attempts on spot would have cost more on-demand; None without prices.
    """

    workloads: int = 0
    complete: int = 0
    failed: int = 0
    used: Usage
    spot: Usage
    on_demand: Usage
    elsewhere: Usage
    lost: Usage
    lost_to: dict[Loss, Usage]
    kept: Usage
    causes: dict[Cause, int]
    saved_retries: Usage
    saved_on_spot: float | None = None


class AttemptRow(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One attempt of a workload, running (no `end`, no `cause`) or ended; the fields are those of `AttemptRecord`.

    `rule`: what decided about its cost, in words, such as `podFailurePolicy rule 0: FailJob` or `onFailure rule 2`.
    """

    pod: str
    scope: str = ""
    attempt: int = 0
    node: str = ""
    zone: str = ""
    capacity: Capacity = ""
    placement: str = ""
    start: str = ""
    end: str = ""
    seconds: float = 0.0
    cause: Cause | None = None
    reason: str = ""
    cost: Cost = ""
    settled: bool = False
    rule: str = ""
    retries_left: int | None = None
    disruptions_left: int | None = None
    price: float | None = None


class WorkloadRow(msgspec.Struct, kw_only=True, rename="camel"):
    """One workload, with its figures and its newest attempts, the oldest of them first.

    - `state`: Running, Complete, Failed or Suspended; Unknown if the records do not say it.
    - `retries_left`, `disruptions_left`: of its last attempt; None if not known.
    - `attempts_not_listed`: how many older ones are only in the figures.
    """

    namespace: str
    profile: str
    kind: str
    name: str
    uid: str
    owner: str
    state: Literal["Running", "Complete", "Failed", "Suspended", "Unknown"]
    reason: str
    created: str
    end: str
    retries_left: int | None
    disruptions_left: int | None
    figures: Figures
    attempts: list[AttemptRow]
    attempts_not_listed: int = 0


class GroupRow(msgspec.Struct, kw_only=True, rename="camel"):
    """The figures of a namespace or a profile."""

    name: str
    figures: Figures


class PlaceRow(msgspec.Struct, kw_only=True, rename="camel"):
    """A node or a zone, and what ended there.

    - `workloads`: how many different workloads had attempts there, the Jobs of one owner being one; `failing`: of how
      many an attempt failed there that was no disruption, although they succeeded elsewhere.
    - `expected`: of how many an attempt would fail there if the place were like the others; `suspect`: whether so many
      more failed that chance does not explain it (a "lemon"; webhook/insight/report/places.py has the test).
    - `faults`: how many attempts a fault of the hardware ended there, by the account; they are disruptions. That a node
      is gone or not ready is none.
    """

    name: str
    zone: str = ""
    capacity: Capacity = ""
    attempts: int
    failures: int
    disruptions: int
    workloads: int
    failing: int
    expected: float
    suspect: bool
    lost: Usage
    faults: int = 0


class Bucket(msgspec.Struct, kw_only=True, rename="camel"):
    """What ended in a part of the time: attempts by cause; what they used, by capacity; what was lost, and to what."""

    start: str
    causes: dict[Cause, int]
    spot: Usage
    on_demand: Usage
    lost: Usage
    lost_to: dict[Loss, Usage] = msgspec.field(default_factory=dict)


class Report(msgspec.Struct, kw_only=True, rename="camel"):
    """A whole report.

    - `source`: what it was made of: `cluster` (accounts and pods that exist) or `history` (records).
    - `since`, `until`: the time that it covers; empty if it has no bound. `bucket`: seconds of an entry of `series`.
    - `notes`: what it leaves out or assumes, in sentences.
    - `workloads`: those that lost most first. `nodes`, `zones`: suspects first, then by what was lost there.
    - `near_limit`: uids of workloads that still run and have no retry, or no disruption, left.
    """

    version: int
    written: str
    source: Literal["cluster", "history"]
    scope: str
    since: str
    until: str
    currency: str
    notes: list[str]
    total: Figures
    namespaces: list[GroupRow]
    profiles: list[GroupRow]
    workloads: list[WorkloadRow]
    nodes: list[PlaceRow]
    zones: list[PlaceRow]
    near_limit: list[str]
    bucket: int
    series: list[Bucket]
