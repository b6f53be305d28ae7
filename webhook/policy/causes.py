"""Why an attempt ended, and to what it was lost: one row for each, with all that depends on it. Pure.

How a pod's end is told from its status is in webhook/pods/outcomes.py.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, get_args

Cause = Literal[
    "Succeeded",
    "Disruption",
    "Hardware",
    "OOMKilled",
    "DeadlineExceeded",
    "Stalled",
    "ExitCode",
    "WorkloadEvicted",
    "NeverStarted",
    "Other",
]
# Those that a rule of onFailure may name.
MatchedCause = Literal["Disruption", "OOMKilled", "DeadlineExceeded", "Stalled", "ExitCode", "NeverStarted", "Other"]
Loss = Literal["Bugs", "Disruptions", "Capacity", "NeverStarted", "Other"]


class Colour(NamedTuple):
    """A colour of the page, in CSS: of an area, and of the text on it."""

    area: str
    text: str


class CauseRow(NamedTuple):
    """What depends on a cause.

    Attributes:
        label: its name in the page of a report. letter: what stands for it there, without its `colour`.
        how: how an attempt ended, in words, from the attempt's reason.
        loss: to what the attempt was lost; None if it was not.
        is_failure: whether the program failed.
        has_codes: whether containers have exit codes of their own choice then.
        is_matched: whether a rule of onFailure may name it.
        is_verdict: whether the pod does not say it: the ledger finds it elsewhere.
    """

    label: str
    letter: str
    colour: Colour
    how: Callable[[str], str]
    loss: Loss | None
    is_failure: bool = False
    has_codes: bool = False
    is_matched: bool = True
    is_verdict: bool = False


class LossRow(NamedTuple):
    """What depends on a loss: label and colour in the page, `told` in a text."""

    label: str
    colour: Colour
    told: str


def _exit_code(reason: str) -> str:
    container, _, code = reason.rpartition(" ")
    return f"container {container} exit code {code}"


CAUSES: Final[dict[Cause, CauseRow]] = {
    # An account has only those that were disrupted, and whose containers ended with 0 all the same.
    "Succeeded": CauseRow(
        "Succeeded",
        "S",
        Colour("light-dark(#8cc4b0, #3f7d69)", "light-dark(#0b1f18, #fff)"),
        lambda reason: f"disruption {reason}; it succeeded",
        loss=None,
        is_matched=False,
    ),
    "Disruption": CauseRow(
        "Disruption",
        "D",
        Colour("light-dark(#e69f00, #e0a020)", "#1a1200"),
        lambda reason: f"disruption {reason}",
        loss="Disruptions",
    ),
    # A verdict of the ledger about a crash (webhook/pods/hardware.py); its reason is the fact.
    "Hardware": CauseRow(
        "Hardware",
        "H",
        Colour("light-dark(#8a5a2b, #b98a52)", "light-dark(#fff, #140c02)"),
        lambda reason: f"hardware fault: {reason}",
        loss="Disruptions",
        is_matched=False,
        is_verdict=True,
    ),
    "ExitCode": CauseRow(
        "Exit code",
        "E",
        Colour("light-dark(#c2410c, #d9582a)", "light-dark(#fff, #170500)"),
        _exit_code,
        loss="Bugs",
        is_failure=True,
        has_codes=True,
    ),
    "OOMKilled": CauseRow(
        "Out of memory",
        "M",
        Colour("light-dark(#6f3c97, #8e55bf)", "#fff"),
        lambda reason: f"container {reason} OOMKilled",
        loss="Bugs",
        is_failure=True,
        has_codes=True,
    ),
    "DeadlineExceeded": CauseRow(
        "Deadline",
        "T",
        Colour("light-dark(#d68bb4, #cf86ad)", "#240a18"),
        lambda reason: reason or "DeadlineExceeded",
        loss="Bugs",
        is_failure=True,
        has_codes=True,
    ),
    # The leader has ended it, because its program told no progress for stallTimeout.
    "Stalled": CauseRow(
        "Stalled",
        "L",
        Colour("light-dark(#5b6f2b, #8fa653)", "light-dark(#fff, #0f1404)"),
        lambda _reason: "stalled: no progress in time",
        loss="Bugs",
        is_failure=True,
    ),
    "WorkloadEvicted": CauseRow(
        "Evicted by Kueue",
        "K",
        Colour("light-dark(#8a7400, #b8a12e)", "light-dark(#fff, #141000)"),
        lambda reason: f"evicted by Kueue ({reason})",
        loss="Other",
        is_matched=False,
        is_verdict=True,
    ),
    "NeverStarted": CauseRow(
        "Never started",
        "N",
        Colour("light-dark(#0b7285, #4fb3c4)", "light-dark(#fff, #04181c)"),
        lambda reason: "never started" + (f" ({reason})" if reason else ""),
        loss="NeverStarted",
    ),
    "Other": CauseRow(
        "Other",
        "?",
        Colour("light-dark(#666d78, #7d8591)", "light-dark(#fff, #0b0d10)"),
        lambda reason: reason or "Other",
        loss="Other",
        is_failure=True,
    ),
}
LOSSES: Final[dict[Loss, LossRow]] = {
    "Bugs": LossRow("Bugs", CAUSES["ExitCode"].colour, "to bugs"),
    "Disruptions": LossRow("Disruptions", CAUSES["Disruption"].colour, "to disruptions"),
    # A disruption with the reason SpotUnavailable.
    "Capacity": LossRow("No capacity", Colour("light-dark(#56a9e0, #58a8dc)", "#04121d"), "to missing capacity"),
    "NeverStarted": LossRow("Never started", CAUSES["NeverStarted"].colour, "to containers that did not start"),
    "Other": LossRow("Other ends", CAUSES["Other"].colour, "to other ends"),
}


def need_rows(rows: Iterable[str], names: Iterable[str], what: str = f"{__name__}: rows and names") -> None:
    """Raise ImportError unless each name has a row, and no other; `what`: the start of its message."""
    lacking, needless = sorted({*names} - {*rows}), sorted({*rows} - {*names})
    said = [f"{of} {', '.join(some)}" for of, some in (("no row for", lacking), ("a row for", needless)) if some]
    if said:
        raise ImportError(f"{what} differ: {' and '.join(said)}")


need_rows(CAUSES, get_args(Cause))
need_rows((cause for cause, row in CAUSES.items() if row.is_matched), get_args(MatchedCause))
need_rows(LOSSES, get_args(Loss))
