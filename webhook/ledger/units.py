"""Disruptions by unit: a completion index, in a JobSet with its Job's name before it, or "" for all pods of a Job.

Written as the units that had so many, those with consecutive numbers as a range: {"2": "0-3,7", "1": "workers-0/5"}.
Where that grows too long, the units with the fewest disruptions are let go of; each of them then counts as having had
as many as the most that was let go, too many perhaps and never too few (the Space-Saving algorithm of Metwally et al.).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

LONGEST: Final = 800  # characters
MOST: Final = 100_000  # units that are read: no Indexed Job has more indexes
OTHERS: Final = "others"  # the key of what a unit may have had that is not named


class Units:
    """How many disruptions each unit has had."""

    def __init__(self, counts: dict[str, int] | None = None, others: int = 0) -> None:
        self.counts = counts or {}
        self.others = others

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Units) and (self.counts, self.others) == (other.counts, other.others)

    __hash__ = None  # type: ignore[assignment]

    def of(self, unit: str) -> int:
        """Return the disruptions of a unit; no fewer than there were."""
        return self.counts.get(unit, self.others)

    def at_least(self, unit: str) -> int:
        """Return the disruptions of a unit; no more than there were."""
        return max(0, self.of(unit) - self.others)

    def add(self, unit: str) -> None:
        """Count one more."""
        self.counts[unit] = self.of(unit) + 1

    def written(self) -> dict[str, str]:
        """Return them as they are written; what does not fit is let go of."""
        by_count: dict[int, list[str]] = {}
        for unit, number in self.counts.items():
            by_count.setdefault(number, []).append(unit)
        found, length = {}, 0
        for number in sorted(by_count, reverse=True):
            text = ",".join(ranges(by_count[number]))
            length += len(text) + len(f'"{number}":"",')
            if length > LONGEST:
                self.others = max(self.others, number)
                self.counts = {unit: kept for unit, kept in self.counts.items() if kept > self.others}
                break
            found[str(number)] = text
        return {**found, OTHERS: str(self.others)} if self.others else found


def read(written: Any) -> Units:
    """Read what was written; raise ValueError where it was not."""
    units = Units()
    if not isinstance(written, dict) or not all(isinstance(text, str) for text in written.values()):
        raise ValueError("units must be an object of strings")
    for number, text in written.items():
        if number == OTHERS:
            units.others = int(text)
            continue
        for unit in expanded(text):
            units.counts[unit] = int(number)
            if len(units.counts) > MOST:
                raise ValueError(f"more than {MOST} units")
    return units


def ranges(units: Iterable[str]) -> Iterator[str]:
    """Yield units, those with consecutive numbers as one range."""
    for prefix, group in groupby(sorted(split(unit) for unit in units), key=lambda one: one[0]):
        numbers = [number for _, number in group]
        first = last = numbers[0]
        for number in (*numbers[1:], None):
            if number is not None and number == last + 1 and last >= 0:
                last = number
                continue
            name = prefix if first < 0 else f"{prefix}{first}"
            yield name if first == last else f"{name}-{last}"
            if number is not None:
                first = last = number


def expanded(text: str) -> Iterator[str]:
    """Yield the units of what `ranges` yielded, joined by commas; raise ValueError at a range beyond reason."""
    for part in text.split(","):
        prefix, slash, numbers = part.rpartition("/")
        first, dash, last = numbers.partition("-")
        if not (dash and first.isdecimal() and last.isdecimal()):
            yield part
            continue
        if int(last) - int(first) > MOST:
            raise ValueError(f"more than {MOST} units")
        for number in range(int(first), int(last) + 1):
            yield f"{prefix}{slash}{number}"


def split(unit: str) -> tuple[str, int]:
    """Return what stands before a unit's number, and the number; -1 where it has none."""
    prefix, slash, number = unit.rpartition("/")
    return (prefix + slash, int(number)) if number.isdecimal() else (unit, -1)
