"""The results of a load's admissions."""

from typing import Self

import msgspec

KEPT = 5  # messages


class Tally(msgspec.Struct):
    """Counts of results; times are seconds since the load program began.

    `failed`: the API server got no answer from the webhook. `wrong`: accepted and not mutated, or not denied, or
    denied although valid. `api`: the API server did not answer, or answered with its own error: not an admission.
    `skipped`: not sent, because too many were unanswered or the API server was down.
    """

    sent: int = 0
    failed: int = 0
    wrong: int = 0
    api: int = 0
    skipped: int = 0
    first: float | None = None
    last: float | None = None
    messages: list[str] = msgspec.field(default_factory=list)

    def add(self, what: str, at: float, message: str) -> None:
        """Count a result that is not right, under `failed`, `wrong` or `api`."""
        setattr(self, what, getattr(self, what) + 1)
        if what != "api":
            self.first = at if self.first is None else self.first
            self.last = at
        if sum(kept.startswith(what) for kept in self.messages) < KEPT:
            self.messages.append(f"{what} at {at:.2f} s: {message}")

    @property
    def admissions(self) -> int:
        """The number of admissions that the API server has answered."""
        return self.sent - self.api

    @property
    def seconds(self) -> float:
        """The time from the first lost admission to the last."""
        return 0.0 if self.first is None or self.last is None else self.last - self.first

    @property
    def lost(self) -> int:
        """The number of admissions that failed or were wrong."""
        return self.failed + self.wrong

    def __add__(self, later: "Tally") -> Self:
        counts = {
            name: getattr(self, name) + getattr(later, name) for name in ("sent", "failed", "wrong", "api", "skipped")
        }
        return type(self)(
            **counts,
            first=later.first if self.first is None else self.first,
            last=self.last if later.last is None else later.last,
            messages=self.messages + later.messages,
        )
