"""The number of disruptions, or of retries, of each scope.

A scope is what has a disruption budget of its own: a completion index, such as `3`; "" for all pods of a Job without
indexes; in a JobSet either of them after the Job's name, such as `workers-0/3`; in a workload of another kind what
webhook/systems/places.py says.

The account stores the scopes by their number of disruptions, consecutive indexes as a range: 2 for `0-3,7`, 1 for
`workers-0/5`. If this grows too long, the scopes with the fewest disruptions are dropped. From then on, each dropped
scope counts with the highest number that was dropped: perhaps too many, never too few (the Space-Saving algorithm of
Metwally et al.).

30,000 random ones of 100,000 completion indexes have an entropy of 11 KiB: no text of an account can hold them. But the
pods of these indexes can: each says how many disruptions its scope had before it. As long as every dropped scope is
counted on with that number, all numbers that are stored are exact.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple, Self

import msgspec

from webhook.policy.settings import count

LONGEST: Final = 4000  # bytes of all groups as JSON
MOST_GROUPS: Final = LONGEST // len('{"number":1,"scopes":"0"},')
NO_NUMBER: Final = -1  # of a scope that is no completion index


class ScopeRun(NamedTuple):
    """Scopes with consecutive numbers and equally many disruptions each.

    `prefix`: the part of the scope before the number. `first` and `last`: the numbers, NO_NUMBER for a scope without.
    """

    prefix: str
    first: int
    last: int
    disruptions: int


class Scopes:
    """How many disruptions each scope has had.

    `runs`: sorted, without a scope in common. `others`: the number with which every scope counts that is in no run.
    `exact`: whether the numbers in `runs` are; else each may be too high by `others`.
    """

    def __init__(self, counts: dict[str, int] | None = None, others: int = 0) -> None:
        self.runs: list[ScopeRun] = []
        self.others = others
        self.exact = not others
        for scope, number in (counts or {}).items():
            self.put(scope, number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scopes) and (_merged(self.runs), self.others) == (_merged(other.runs), other.others)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, _: object) -> Self:
        """Return a copy with the same runs, which cannot change."""
        found = type(self)(others=self.others)
        found.runs, found.exact = [*self.runs], self.exact
        return found

    def of(self, scope: str) -> int:
        """Return the disruptions of a scope: at least as many as there were."""
        place = self.place(scope)
        return self.others if place is None else self.runs[place].disruptions

    def at_least(self, scope: str) -> int:
        """Return the disruptions of a scope: at most as many as there were."""
        place = self.place(scope)
        if place is not None and self.exact:
            return self.runs[place].disruptions
        return max(0, self.of(scope) - self.others)

    def total(self) -> int:
        """Return the sum of all scopes that are known."""
        return sum(run.disruptions * (run.last - run.first + 1) for run in self.runs)

    def is_dropped(self, scope: str) -> bool:
        """Return True if only the pods of a scope may know how many disruptions it has had."""
        return bool(self.others) and self.place(scope) is None

    def add(self, scope: str, before: int | None = None) -> None:
        """Count one more disruption of a scope; `before`: how many it had, by its pod; None if that is not known."""
        if self.is_dropped(scope):
            if before is None:
                self.exact = False
            else:
                self.put(scope, min(before, self.others) + 1)
                return
        self.put(scope, self.of(scope) + 1)

    def take_back(self, scope: str) -> None:
        """Count one disruption of a scope less, if it has any."""
        if self.of(scope):
            self.put(scope, self.of(scope) - 1)
        if not self.others:
            self.runs = [run for run in self.runs if run.disruptions]

    def place(self, scope: str) -> int | None:
        """Return the position in `runs` of the run that contains a scope; None if no run does."""
        prefix, number = _split(scope)
        place = bisect_right(self.runs, (prefix, number), key=_start_of) - 1
        is_in = place >= 0 and self.runs[place].prefix == prefix and number <= self.runs[place].last
        return place if is_in else None

    def put(self, scope: str, disruptions: int) -> None:
        """Set the disruptions of a scope; split the run that contained it."""
        prefix, number = _split(scope)
        new = ScopeRun(prefix, number, number, disruptions)
        place = self.place(scope)
        if place is None:
            place = bisect_right(self.runs, (prefix, number), key=_start_of)
            self.runs.insert(place, new)
            return
        run = self.runs[place]
        before, after = run._replace(last=number - 1), run._replace(first=number + 1)
        self.runs[place : place + 1] = [one for one in (before, new, after) if one.first <= one.last]

    def written(self) -> list[tuple[int, str]]:
        """Return the scopes by number, the highest first, in at most LONGEST bytes; drop the scopes that do not fit."""
        self.runs = _merged(self.runs if self.others else (run for run in self.runs if run.disruptions))
        by_count: dict[int, list[str]] = {}
        for run in self.runs:
            by_count.setdefault(run.disruptions, []).append(_text_of(run))
        found, length = [], 0
        for number in sorted(by_count, reverse=True):
            text = ",".join(by_count[number])
            length += len(msgspec.json.encode(text)) - 2
            length += len(f'{{"number":{number},"scopes":""}},')
            if length > LONGEST:
                self.others = max(self.others, number)
                self.runs = [run for run in self.runs if run.disruptions > self.others]
                break
            found.append((number, text))
        return found


def read(groups: Iterable[tuple[int, str]], others: int = 0) -> Scopes:
    """Return the Scopes of groups, without expanding ranges; raise ValueError if they are malformed."""
    scopes = Scopes(others=others)
    for number, text in groups:
        scopes.runs += (ScopeRun(*_run_of(part), number) for part in text.split(","))
    scopes.runs.sort()
    if any(one.prefix == other.prefix and other.first <= one.last for one, other in pairwise(scopes.runs)):
        raise ValueError("a scope stands there twice")
    return scopes


def ranges(scopes: Iterable[str]) -> str:
    """Write scopes in order, those with consecutive numbers as a range: `0-3,7`."""
    runs = (ScopeRun(prefix, number, number, 0) for prefix, number in map(_split, set(scopes)))
    return ",".join(map(_text_of, _merged(sorted(runs))))


def _merged(runs: Iterable[ScopeRun]) -> list[ScopeRun]:
    found: list[ScopeRun] = []
    for run in runs:
        before = found[-1] if found else None
        if before and run.first >= 1 and before == (run.prefix, before.first, run.first - 1, run.disruptions):
            found[-1] = before._replace(last=run.last)
        else:
            found.append(run)
    return found


def _start_of(run: ScopeRun) -> tuple[str, int]:
    return run.prefix, run.first


def _text_of(run: ScopeRun) -> str:
    """Return the text of a run: a scope, or a range such as `workers-0/1-3`."""
    name = run.prefix if run.first == NO_NUMBER else f"{run.prefix}{run.first}"
    return name if run.first == run.last else f"{name}-{run.last}"


def _run_of(text: str) -> tuple[str, int, int]:
    prefix, slash, numbers = text.rpartition("/")
    first, last = (count(number) for number in numbers.partition("-")[::2])
    if first is None or last is None:
        name, number = _split(text)
        return name, number, number
    if last <= first:
        raise ValueError("a range must end after its beginning")
    return prefix + slash, first, last


def _split(scope: str) -> tuple[str, int]:
    prefix, slash, number = scope.rpartition("/")
    index = count(number)
    return (scope, NO_NUMBER) if index is None else (prefix + slash, index)
