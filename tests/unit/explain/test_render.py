"""How an explanation is printed."""

from pathlib import Path

import pytest

from webhook.explain.render import COLUMNS, UNITS, duration

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


def test_the_tables_in_docs_have_the_columns_that_explain_prints() -> None:
    shown = [*COLUMNS]
    known = [shown, *([*shown[:1], unit, *shown[1:]] for unit in UNITS.values())]
    tables = {
        f"{page.relative_to(DOCS)}:{number}": line.split()
        for page in sorted(DOCS.rglob("*.md"))
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        if line.startswith(f"{shown[0]} ")
    }
    assert tables
    differ = [where for where, headings in tables.items() if headings not in known]
    assert differ == [], "run python -m tests.page.tutorials, and change by hand what differs then"
