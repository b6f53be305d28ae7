"""Lays the tables of attempts in docs out anew, as `explain` prints them now. Their cells are kept."""

import re
from itertools import takewhile
from typing import Final

from webhook.explain.render import COLUMNS, UNITS
from webhook.objects.columns import lines

CELL: Final = re.compile(r"\S+(?: {1,2}\S+)*")  # between cells there are three spaces or more
UNKNOWN: Final = "?"  # in a cell of a column that a table has not had; a person or tests.page.tutorials fills it in


def relaid(text: str) -> str:
    """Return a page with the columns of its tables of attempts as COLUMNS has them: added, taken out, moved, padded."""
    found = text.split("\n")
    for number, line in enumerate(found):
        if line.startswith(f"{next(iter(COLUMNS))} "):
            table = [*takewhile(lambda one: one and not one.startswith(("(", "```")), found[number:])]
            found[number : number + len(table)] = _table(table)
    return "\n".join(found)


def _table(table: list[str]) -> list[str]:
    """Return the lines of a table, whose second column may be the part that has retries of its own."""
    headings, *rows = (CELL.findall(line) for line in table)
    first, *others = COLUMNS
    shown = [first, *(unit for unit in headings[1:2] if unit in UNITS.values()), *others]
    cells = [dict(zip(headings, row, strict=True)) for row in rows]
    return [*lines([[shown, *([row.get(heading, UNKNOWN) for heading in shown] for row in cells)]])]
