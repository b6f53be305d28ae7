"""Disruptions by scope: a completion index, in a JobSet with its Job's name before it, or "" for all pods of a Job.

Written as the scopes that had so many, those with consecutive numbers as a range: {"2": "0-3,7", "1": "workers-0/5"}.
Where that grows too long, the scopes with the fewest disruptions are let go of; each of them then counts as having had
as many as the most that was let go, too many perhaps and never too few (the Space-Saving algorithm of Metwally et al.).
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from webhook.policy.settings import count

LONGEST: Final = 800  # characters
OTHERS: Final = "others"  # the key of what a scope may have had that is not named
NO_NUMBER: Final = -1


class Run(NamedTuple):
    """Scopes with consecutive numbers that had equally many disruptions; one without a number is NO_NUMBER."""

    prefix: str
    first: int
    last: int
    disruptions: int


class Scopes:
    """How many disruptions each scope has had: as runs, in order, of which no two have a scope in common."""

    def __init__(self, counts: dict[str, int] | None = None, others: int = 0) -> None:
        self.runs: list[Run] = []
        self.others = others
        for scope, number in (counts or {}).items():
            self.put(scope, number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scopes) and (merged(self.runs), self.others) == (merged(other.runs), other.others)

    __hash__ = None  # type: ignore[assignment]

    def of(self, scope: str) -> int:
        """Return the disruptions of a scope; no fewer than there were."""
        place = self.place(scope)
        return self.others if place is None else self.runs[place].disruptions

    def at_least(self, scope: str) -> int:
        """Return the disruptions of a scope; no more than there were."""
        return max(0, self.of(scope) - self.others)

    def add(self, scope: str) -> None:
        """Count one more."""
        self.put(scope, self.of(scope) + 1)

    def place(self, scope: str) -> int | None:
        """Return the index of the run that a scope is in, None where it is in none."""
        prefix, number = split(scope)
        place = bisect_right(self.runs, (prefix, number), key=start_of) - 1
        is_in = place >= 0 and self.runs[place].prefix == prefix and number <= self.runs[place].last
        return place if is_in else None

    def put(self, scope: str, disruptions: int) -> None:
        """Set the disruptions of a scope, taking it out of the run that it is in."""
        prefix, number = split(scope)
        new = Run(prefix, number, number, disruptions)
        place = self.place(scope)
        if place is None:
            place = bisect_right(self.runs, (prefix, number), key=start_of)
            self.runs.insert(place, new)
            return
        run = self.runs[place]
        before, after = run._replace(last=number - 1), run._replace(first=number + 1)
        self.runs[place : place + 1] = [one for one in (before, new, after) if one.first <= one.last]

    def written(self) -> dict[str, str]:
        """Return them as they are written; what does not fit is let go of."""
        self.runs = merged(self.runs)
        by_count: dict[int, list[str]] = {}
        for run in self.runs:
            by_count.setdefault(run.disruptions, []).append(text_of(run))
        found, length = {}, 0
        for number in sorted(by_count, reverse=True):
            text = ",".join(by_count[number])
            length += len(text) + len(f'"{number}":"",')
            if length > LONGEST:
                self.others = max(self.others, number)
                self.runs = [run for run in self.runs if run.disruptions > self.others]
                break
            found[str(number)] = text
        return {**found, OTHERS: str(self.others)} if self.others else found


def read(written: Any) -> Scopes:
    """Read what was written, without expanding any range; raise ValueError where it was not."""
    scopes = Scopes()
    if not isinstance(written, dict) or not all(isinstance(text, str) for text in written.values()):
        raise ValueError("units must be an object of strings")
    if sum(len(text) for number, text in written.items() if number != OTHERS) > LONGEST:
        raise ValueError(f"units are longer than {LONGEST} characters")
    for number, text in written.items():
        disruptions = count(text if number == OTHERS else number)
        if disruptions is None:
            raise ValueError("disruptions must be a whole number")
        if number == OTHERS:
            scopes.others = disruptions
        else:
            scopes.runs += (Run(*run_of(part), disruptions) for part in text.split(","))
    scopes.runs.sort()
    if any(one.prefix == other.prefix and other.first <= one.last for one, other in pairwise(scopes.runs)):
        raise ValueError("a unit stands there twice")
    return scopes


def ranges(scopes: Iterable[str]) -> str:
    """Write scopes in order, those with consecutive numbers as a range: `0-3,7`."""
    runs = (Run(prefix, number, number, 0) for prefix, number in map(split, set(scopes)))
    return ",".join(map(text_of, merged(sorted(runs))))


def merged(runs: Iterable[Run]) -> list[Run]:
    """Return runs, in order, with those that go on one another as one."""
    found: list[Run] = []
    for run in runs:
        before = found[-1] if found else None
        if before and run.first >= 1 and before == (run.prefix, before.first, run.first - 1, run.disruptions):
            found[-1] = before._replace(last=run.last)
        else:
            found.append(run)
    return found


def start_of(run: Run) -> tuple[str, int]:
    """Return what runs are in the order of."""
    return run.prefix, run.first


def text_of(run: Run) -> str:
    """Write a run."""
    name = run.prefix if run.first == NO_NUMBER else f"{run.prefix}{run.first}"
    return name if run.first == run.last else f"{name}-{run.last}"


def run_of(text: str) -> tuple[str, int, int]:
    """Read what `text_of` wrote: a prefix, the first number and the last; raise ValueError where it did not."""
    prefix, slash, numbers = text.rpartition("/")
    first, last = (count(number) for number in numbers.partition("-")[::2])
    if first is None or last is None:
        name, number = split(text)
        return name, number, number
    if last <= first:
        raise ValueError("a range must end after its beginning")
    return prefix + slash, first, last


def split(scope: str) -> tuple[str, int]:
    """Return what stands before a scope's number, and the number; NO_NUMBER where it has none."""
    prefix, slash, number = scope.rpartition("/")
    index = count(number)
    return (scope, NO_NUMBER) if index is None else (prefix + slash, index)
