"""Collects the judgements of all objects in bounded memory, and prints them as a table, worst first."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from webhook.audit.judge import WORST_FIRST, Judgement, Verdict
from webhook.kinds import KindSpec, full_name

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
    """The objects of one row: the name of the first one by name, and their number."""

    name: str
    number: int = 0


class Report:
    """The judgements so far."""

    def __init__(self) -> None:
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

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table, and a summary."""
        cells = [*self.cells()]
        if cells:
            widths = [max(len(row[column]) for row in (HEADINGS, *cells)) for column in range(len(HEADINGS) - 1)]
            for row in (HEADINGS, *cells):
                yield "   ".join((*map(str.ljust, row, widths), row[-1]))
            yield ""
        for verdict, number in self.unlisted.items():
            yield f"{number} more {verdict}, not listed; audit one namespace: -n NAMESPACE"
        yield self.summary()

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the cells of each line: a line for each finding."""
        for verdict in WORST_FIRST:
            for key, entry in sorted(self.rows[verdict].items(), key=place):
                name = full_name(key.row, key.namespace, entry.name)
                others = f" and {entry.number - 1} more" if entry.number > 1 else ""
                for finding in key.findings:
                    yield verdict.upper(), f"{name}{others}", finding

    def summary(self) -> str:
        """Return how many objects there are of each verdict."""
        numbers = self.numbers
        objects = "1 object" if numbers.total() == 1 else f"{numbers.total():,} objects"
        return (
            f"{objects}: {numbers['denied']:,} would be denied, {numbers['changed']:,} changed, "
            f"{numbers['warned']:,} admitted with a warning, {numbers['unchanged']:,} admitted as they are"
        )


def place(one: tuple[Key, Entry]) -> tuple[str, str, str]:
    """Return by what the rows of a verdict are sorted: namespace, kind and name."""
    key, entry = one
    return key.namespace, key.row.kind, entry.name


def cut(finding: str) -> str:
    """Return a finding without its end if it is too long for a table."""
    return finding if len(finding) <= LONGEST_FINDING else f"{finding[: LONGEST_FINDING - 1]}…"
