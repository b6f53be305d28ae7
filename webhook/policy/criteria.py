"""What a rule of `onFailure` may match: one row for each field of `Match`, with all that depends on it. Pure.

How an ended pod is compared with each of them is in webhook/pods/on_failure.py, which knows pods.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from webhook.policy.causes import need_rows
from webhook.policy.model import Match

OfCodes = Callable[[Match, frozenset[int]], frozenset[int]]
KILLED: Final = 137  # the exit code of a container that was killed, for its memory too


class Criterion(NamedTuple):
    """One field of a match.

    Attributes:
        sure_codes: returns those of some exit codes that are enough for it, whatever else is true of the pod; None if a
            podFailurePolicy cannot see that it holds: then the ledger decides about the exit codes of a match with it.
        simulated: whether a simulation can tell that it holds.
        words: what a match says by it beside its cause and exit codes, such as ` of main`.
    """

    sure_codes: OfCodes | None
    simulated: bool
    words: Callable[[Match], str]


def _nothing(_match: Match) -> str:
    return ""


def _all(_match: Match, codes: frozenset[int]) -> frozenset[int]:
    return codes


def _of_cause(match: Match, codes: frozenset[int]) -> frozenset[int]:
    """Return all codes but 137, which may be a kill for memory; none with another cause than ExitCode."""
    return codes - {KILLED} if match.cause == "ExitCode" else frozenset()


ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth")
CRITERIA: Final[dict[str, Criterion]] = {
    "cause": Criterion(sure_codes=_of_cause, simulated=True, words=_nothing),
    "exit_codes": Criterion(sure_codes=_all, simulated=True, words=_nothing),
    "containers": Criterion(
        sure_codes=_all, simulated=True, words=lambda match: f" of {' or '.join(match.containers)}"
    ),
    "reasons": Criterion(sure_codes=None, simulated=True, words=lambda match: f" for {' or '.join(match.reasons)}"),
    "message": Criterion(sure_codes=None, simulated=False, words=lambda match: f" with a message like {match.message}"),
    "same_node": Criterion(
        sure_codes=None, simulated=False, words=lambda match: f" {match.same_node} times on the same node"
    ),
    "failures": Criterion(
        sure_codes=None, simulated=True, words=lambda match: f" for the {ORDINALS[match.failures or 0]} time"
    ),
}
# The names of the fields, as a policy spells them.
SPELT: Final = dict(zip(Match.__struct_fields__, Match.__struct_encode_fields__, strict=True))
ANY: Final = Match()


def need_all(table: set[str], where: str) -> None:
    """Raise ImportError unless a table in the file `where` has a row for each field of `Match`, and no other."""
    need_rows(table, SPELT, f"{where}: fields of Match and rows")


need_all({*CRITERIA}, __name__)


def named_in(match: Match) -> Iterator[str]:
    """Yield the names of the criteria that a match has."""
    return (name for name in CRITERIA if getattr(match, name) != getattr(ANY, name))


def words_of(match: Match) -> str:
    """Return what a match names beside its cause and exit codes, in words: ` of main with a message like *lost*`."""
    return "".join(CRITERIA[name].words(match) for name in named_in(match))


def is_like(text: str, pattern: str) -> bool:
    """Return True if a whole text is like a pattern, in which * stands for any text; takes linear time for each *."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        place = text.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True
