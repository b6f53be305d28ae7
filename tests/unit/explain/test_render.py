"""How an explanation is printed."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tools.generate.attempts import CELL, UNKNOWN, relaid
from webhook.explain.build import Explanation
from webhook.explain.render import COLUMNS, UNITS, duration, parts
from webhook.explain.rows import Row
from webhook.objects.columns import lines
from webhook.systems.tekton import spec as tekton

DOCS = Path(__file__).parents[3] / "docs"


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
    assert differ == [], "run: make generated"


def test_each_row_of_the_tables_in_docs_has_a_cell_below_each_heading() -> None:
    differ = [
        f"{place}: {row}"
        for place, (headings, *rows) in tables()
        for row in rows
        if [cell.start() for cell in CELL.finditer(row)] != [cell.start() for cell in CELL.finditer(headings)]
    ]
    assert differ == [], "run: make generated"


def test_the_page_about_explain_says_what_each_column_means() -> None:
    page = (DOCS / "how-to" / "explain.md").read_text()
    silent = [heading for heading in COLUMNS if f"*{heading}*" not in page]
    assert silent == [], "say it in docs/how-to/explain.md, with the heading between two *"


def test_no_cell_of_the_tables_in_docs_is_unknown() -> None:
    unknown = [f"{place}: {row}" for place, (_, *rows) in tables() for row in rows if UNKNOWN in CELL.findall(row)]
    assert unknown == [], "a new column: fill in each ?, or run python -m tests.page.tutorials for the tutorials"


def test_a_table_in_docs_is_laid_out_as_explain_prints_it_and_keeps_its_cells() -> None:
    table = "ATTEMPT   TASK   POD     OLD\n0         build   a b     x\n1         test   cc   -\n"
    first, second, third, *rest = relaid(f"```\n{table}```\n").split("\n")[1:]
    assert first.split() == ["ATTEMPT", "TASK", *[*COLUMNS][1:]]
    assert [CELL.findall(line) for line in (second, third)] == [
        ["0", "build", "a b", *[UNKNOWN] * (len(COLUMNS) - 2)],
        ["1", "test", "cc", *[UNKNOWN] * (len(COLUMNS) - 2)],
    ]
    assert rest == ["```", ""]


FIELDS = [one.name for one in fields(Row)]
TIMES = {"start": "2026-11-23T12:00:00Z", "end": "2026-11-23T12:00:08Z"}


def row_with(**changed: Any) -> Row:
    """Return a row in which every field has a value."""
    return Row(**{name: TIMES.get(name, "x") if is_text(name) else 1 for name in FIELDS} | changed)


def is_text(field: str) -> bool:
    return get_type_hints(Row)[field] is str


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_row_is_printed(field: str) -> None:
    def printed(row: Row) -> list[str]:
        explanation = Explanation(
            kind=tekton.PIPELINE_RUN.kind,
            namespace="ml",
            name="train",
            state="Running",
            summary="",
            budgets=[],
            earlier=0,
            rows=[row],
        )
        return [*lines(parts(explanation))]

    other = "2026-11-23T12:00:05Z" if field in TIMES else "other" if is_text(field) else 7
    changed = row_with(**{field: other})
    assert printed(changed) != printed(row_with()), f"give {field} a cell in COLUMNS of webhook/explain/render.py"
