"""How an explanation is printed."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from webhook.explain.render import COLUMNS, UNITS, duration

DOCS = Path(__file__).parents[3] / "docs"
CELL = re.compile(r"\S+(?: {1,2}\S+)*")  # between cells there are three spaces or more


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("2026-11-23T12:00:08Z", "8s"),
        ("2026-11-23T12:01:59Z", "119s"),
        ("2026-11-23T12:10:21Z", "10m21s"),
        ("2026-11-23T14:05:30Z", "2h5m"),
        ("", "-"),
    ],
)
def test_a_duration_has_the_unit_that_people_read(end: str, shown: str) -> None:
    assert duration("2026-11-23T12:00:00Z", end) == shown


def tables() -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each table of attempts in docs, and its lines."""
    for page in sorted(DOCS.rglob("*.md")):
        lines = page.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.startswith(f"{next(iter(COLUMNS))} "):
                place = f"{page.relative_to(DOCS)}:{number + 1}"
                yield place, [*takewhile(lambda one: one and not one.startswith(("(", "```")), lines[number:])]


def test_the_tables_in_docs_have_the_columns_that_explain_prints() -> None:
    shown = [*COLUMNS]
    known = [shown, *([*shown[:1], unit, *shown[1:]] for unit in UNITS.values())]
    headings = {place: lines[0].split() for place, lines in tables()}
    assert headings
    differ = [place for place, found in headings.items() if found not in known]
    assert differ == [], "run python -m tests.page.tutorials, and change by hand what differs then"


def test_each_row_of_the_tables_in_docs_has_a_cell_below_each_heading() -> None:
    differ = [
        f"{place}: {row}"
        for place, (headings, *rows) in tables()
        for row in rows
        if [cell.start() for cell in CELL.finditer(row)] != [cell.start() for cell in CELL.finditer(headings)]
    ]
    assert differ == [], "run python -m tests.page.tutorials, and change by hand what differs then"
