"""Counts how often Kueue has evicted a workload, and whether that exceeds the limit."""

from typing import Annotated, Final

import msgspec

from webhook.ledger.model.kueue.workload import DEACTIVATED, LARGEST, LONGEST_REASON, MOST_REASONS, OTHER, Workload

ID: Final = 8  # characters of the uid by which a Workload is known again

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Reasons = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)], Count], msgspec.Meta(max_length=MOST_REASONS)
]


class Evictions(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The evictions of a workload, in its account.

    - `reasons`: how often it was evicted, by Kueue's reason. `before`: how many of them the limit no longer counts.
    - `limit`: how many it may have; None for any number.
    - `deactivated`: whether its Workload is not active after the limit was exceeded.
    - `requeues`, `requeue_at`: those of its Workload, at the last write of the account.
    - `workload`: the beginning of the uid of its Workload; `seen`: the evictions of that Workload that are counted.
    """

    reasons: Reasons = msgspec.field(default_factory=dict)
    before: Count = 0
    limit: Count | None = None
    deactivated: bool = False
    requeues: Count = 0
    requeue_at: Annotated[str, msgspec.Meta(max_length=40)] = ""
    workload: Annotated[str, msgspec.Meta(max_length=ID)] = ""
    seen: Reasons = msgspec.field(default_factory=dict)

    @property
    def number(self) -> int:
        """How often it was evicted."""
        return sum(self.reasons.values())

    @property
    def limited(self) -> int:
        """How many evictions the limit is about: all but those because the Workload was deactivated."""
        return sum(number for reason, number in self.reasons.items() if not reason.startswith(DEACTIVATED))

    @property
    def is_exceeded(self) -> bool:
        """Whether there were more evictions than allowed."""
        return self.limit is not None and self.limited - self.before > self.limit

    def see(self, workload: Workload, limit: int | None) -> dict[str, int]:
        """Record the state of the Workload and the limit in force; return the new evictions by reason.

        Once a Workload is activated again that was not active after the limit was exceeded, the limit begins anew.
        """
        if self.workload != workload.uid[:ID]:  # Kueue creates a new one, if the Job has changed
            self.workload, self.seen = workload.uid[:ID], {}
        now, found = dict(workload.evictions), {}
        for reason, number in now.items():
            new = number - self.seen.get(reason, 0)
            if new > 0:
                found[reason] = new
                self.add(reason, new)
        self.seen, self.limit = now, limit
        self.requeues, self.requeue_at = workload.requeues, workload.requeue_at
        if self.deactivated and workload.active:
            self.begin_anew()
        elif self.is_exceeded and not workload.active:
            self.deactivated = True
        return found

    def add(self, reason: str, number: int) -> None:
        """Add evictions to the counts."""
        known = reason if reason in self.reasons or len(self.reasons) < MOST_REASONS - 1 else OTHER
        self.reasons[known] = min(self.reasons.get(known, 0) + number, LARGEST)

    def begin_anew(self) -> None:
        """Let the limit count from now on: after a requested retry, or because a person has activated the Workload."""
        self.before, self.deactivated = self.limited, False
