"""Collects the judgements of all objects, and prints them as a table, worst first.

Its memory is bounded, unless every name is to be printed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webhook.audit.judge import WORST_FIRST, Judgement, Verdict
from webhook.objects import columns
from webhook.objects.columns import Part
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import full_name

MOST_ROWS: Final = 1_000  # of each verdict
LONGEST_FINDING: Final = 300  # characters
HEADINGS: Final = ("VERDICT", "OBJECT", "WHAT")


class Key(NamedTuple):
    """What the objects of one row have in common."""

    namespace: str
    row: KindSpec
    findings: tuple[str, ...]


@dataclass(slots=True)
class Entry:
    """The objects of one row: the name of the first one by name, their number, and all names if they are printed."""

    name: str
    number: int = 0
    names: list[str] = field(default_factory=list)


class Report:
    """The judgements so far; `every_name`: whether each object has a line of its own."""

    def __init__(self, *, every_name: bool = False) -> None:
        self.every_name = every_name
        self.rows: dict[Verdict, dict[Key, Entry]] = {verdict: {} for verdict in WORST_FIRST}
        self.numbers: Counter[Verdict] = Counter()
        self.unlisted: Counter[Verdict] = Counter()

    def add(self, row: KindSpec, namespace: str, name: str, judgement: Judgement) -> None:
        """Add the judgement of one object; `namespace` is empty for an object of the whole cluster."""
        verdict, findings = judgement
        self.numbers[verdict] += 1
        if verdict not in self.rows:
            return
        rows = self.rows[verdict]
        key = Key(namespace, row, tuple(cut(finding) for finding in findings))
        if key not in rows and len(rows) >= MOST_ROWS:
            self.unlisted[verdict] += 1
            return
        entry = rows.setdefault(key, Entry(name))
        entry.name = min(entry.name, name)
        entry.number += 1
        if self.every_name:
            entry.names.append(name)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table, and a summary."""
        return columns.lines(self.parts())

    def parts(self) -> Iterator[Part]:
        """Yield the table, and the lines of a summary."""
        cells = [*self.cells()]
        if cells:
            yield [HEADINGS, *cells]
            yield ""
        for verdict, number in self.unlisted.items():
            yield f"{number} more {verdict}, not listed; audit one namespace: -n NAMESPACE"
        yield self.summary()

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the cells of each line: a line for each finding."""
        for verdict in WORST_FIRST:
            for key, name, others in sorted(self.named(verdict), key=place):
                for finding in key.findings:
                    yield verdict.upper(), f"{full_name(key.row, key.namespace, name)}{others}", finding

    def named(self, verdict: Verdict) -> Iterator[tuple[Key, str, str]]:
        """Yield the key of each row, a name in it, and how many others the row stands for."""
        for key, entry in self.rows[verdict].items():
            if self.every_name:
                yield from ((key, name, "") for name in entry.names)
            else:
                yield key, entry.name, f" and {entry.number - 1} more" if entry.number > 1 else ""

    def summary(self) -> str:
        """Return how many objects there are of each verdict."""
        numbers = self.numbers
        objects = "1 object" if numbers.total() == 1 else f"{numbers.total():,} objects"
        return (
            f"{objects}: {numbers['denied']:,} would be denied, {numbers['changed']:,} changed, "
            f"{numbers['warned']:,} admitted with a warning, {numbers['unchanged']:,} admitted as they are"
        )


def place(one: tuple[Key, str, str]) -> tuple[str, str, str]:
    """Return by what the rows of a verdict are sorted: namespace, kind and name."""
    key, name, _ = one
    return key.namespace, key.row.kind, name


def cut(finding: str) -> str:
    """Return a finding without its end if it is too long for a table."""
    return finding if len(finding) <= LONGEST_FINDING else f"{finding[: LONGEST_FINDING - 1]}…"
