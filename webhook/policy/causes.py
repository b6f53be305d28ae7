"""Why an attempt ended, and to what it was lost: one row for each, with all that depends on it. Pure.

How a pod's end is told from its status is in webhook/pods/outcomes.py.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, get_args

Cause = Literal[
    "Succeeded", "Disruption", "OOMKilled", "DeadlineExceeded", "ExitCode", "WorkloadEvicted", "NeverStarted", "Other"
]
# Those that a rule of onFailure may name.
MatchedCause = Literal["Disruption", "OOMKilled", "DeadlineExceeded", "ExitCode", "NeverStarted", "Other"]
Loss = Literal["Bugs", "Disruptions", "Capacity", "NeverStarted", "Other"]


class CauseRow(NamedTuple):
    """What depends on a cause.

    Attributes:
        label: its name in the page of a report. letter: what stands for it there, without its colour.
        how: how an attempt ended, in words, from the attempt's reason.
        loss: to what the attempt was lost; None if it was not.
        is_failure: whether the program failed.
        has_codes: whether containers have exit codes of their own choice then.
        is_matched: whether a rule of onFailure may name it.
    """

    label: str
    letter: str
    how: Callable[[str], str]
    loss: Loss | None
    is_failure: bool = False
    has_codes: bool = False
    is_matched: bool = True


class LossRow(NamedTuple):
    """What depends on a loss: its `label` in the page, `told` in a text, and whether it `may_be_absent` from both."""

    label: str
    told: str
    may_be_absent: bool = False


def _exit_code(reason: str) -> str:
    container, _, code = reason.rpartition(" ")
    return f"container {container} exit code {code}"


CAUSES: Final[dict[Cause, CauseRow]] = {
    # An account has only those that were disrupted, and whose containers ended with 0 all the same.
    "Succeeded": CauseRow(
        "Succeeded", "S", lambda reason: f"disruption {reason}; it succeeded", loss=None, is_matched=False
    ),
    "Disruption": CauseRow("Disruption", "D", lambda reason: f"disruption {reason}", "Disruptions"),
    "ExitCode": CauseRow("Exit code", "E", _exit_code, "Bugs", is_failure=True, has_codes=True),
    "OOMKilled": CauseRow(
        "Out of memory", "M", lambda reason: f"container {reason} OOMKilled", "Bugs", is_failure=True, has_codes=True
    ),
    "DeadlineExceeded": CauseRow(
        "Deadline", "T", lambda reason: reason or "DeadlineExceeded", "Bugs", is_failure=True, has_codes=True
    ),
    "WorkloadEvicted": CauseRow(
        "Evicted by Kueue", "K", lambda reason: f"evicted by Kueue ({reason})", "Other", is_matched=False
    ),
    "NeverStarted": CauseRow(
        "Never started", "N", lambda reason: "never started" + (f" ({reason})" if reason else ""), "NeverStarted"
    ),
    "Other": CauseRow("Other", "?", lambda reason: reason or "Other", "Other", is_failure=True),
}
LOSSES: Final[dict[Loss, LossRow]] = {
    "Bugs": LossRow("Bugs", "to bugs"),
    "Disruptions": LossRow("Disruptions", "to disruptions"),
    "Capacity": LossRow("No capacity", "to missing capacity"),  # a disruption with the reason SpotUnavailable
    "NeverStarted": LossRow("Never started", "to containers that did not start", may_be_absent=True),
    "Other": LossRow("Other ends", "to other ends", may_be_absent=True),
}


def need_rows(rows: Iterable[str], names: Iterable[str], what: str = f"{__name__}: rows and names") -> None:
    """Raise ImportError unless each name has a row, and no other; `what`: the start of its message."""
    if different := {*rows} ^ {*names}:
        raise ImportError(f"{what} differ: {', '.join(sorted(different))}")


need_rows(CAUSES, get_args(Cause))
need_rows((cause for cause, row in CAUSES.items() if row.is_matched), get_args(MatchedCause))
need_rows(LOSSES, get_args(Loss))
