"""What the command line writes to a terminal: tables, progress, and the examples of --help."""

import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from webhook.cli.console import ERASE, printable
from webhook.cli.main import is_for_people, is_terminal
from webhook.objects import columns
from webhook.objects.columns import Part, Row
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.causes import CAUSES

if TYPE_CHECKING:
    from rich.table import Table


class WithExamples(click.Command):
    """A command with examples: for each, what it is for, and its command line."""

    def __init__(self, *args: Any, examples: tuple[tuple[str, str], ...], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples; they are not wrapped, so that they can be copied."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            indent = " " * formatter.current_indent
            formatter.write("\n".join(f"{indent}# {what}\n{indent}{line}\n" for what, line in self.examples))


def command(*examples: tuple[str, str], **attributes: Any) -> Callable[[Callable[..., Any]], WithExamples]:
    """Make a command with examples: for each, what it is for, and its command line."""
    return click.command(cls=WithExamples, examples=examples, **attributes)


SILENT: Final = 1.0  # seconds until the line is shown
EVERY: Final = 0.1  # seconds between two lines


class Progress:
    """Shows one line, each in place of the one before. Call `clear` before anything else is printed."""

    def __init__(
        self,
        *,
        is_shown: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.is_shown = is_shown and is_terminal(self.stream)
        self.clock = clock
        self.next = clock() + SILENT
        self.is_there = False  # whether a line is on the terminal

    def show(self, doing: str) -> None:
        """Show what is being done, unless the last line was shown less than EVERY seconds ago."""
        if not self.is_shown or self.clock() < self.next:
            return
        import shutil  # noqa: PLC0415 - most runs show nothing, and need not pay for it

        width = shutil.get_terminal_size().columns
        self.stream.write(ERASE + printable(doing)[: width - 1])
        self.stream.flush()
        self.is_there = True
        self.next = self.clock() + EVERY

    def clear(self) -> None:
        """Erase the line."""
        if self.is_there:
            self.stream.write(ERASE)
            self.stream.flush()
            self.is_there = False


BAD, ODD, GOOD, SPOT = "bold red", "yellow", "green", "cyan"
LOOKS: Final = {"bad": BAD, "odd": ODD}
BUGS: Final = tuple[str, ...](cause for cause, row in CAUSES.items() if row.loss == "Bugs")
# The styles of words that are states, by the first word of a cell.
STATES: Final = {
    **dict.fromkeys(("DENIED", "FAIL", "Failed", *BUGS), BAD),
    **dict.fromkeys(("CHANGED", "WARNED", "Suspended", "restart", "waiting"), ODD),
    **{str(cost): LOOKS[row.looks] for cost, row in ATTEMPT_COSTS.items() if row.looks},
    **dict.fromkeys(("PASS", "Complete", "Succeeded", "succeeded", "Completed"), GOOD),
    **dict.fromkeys(("spot", "on-demand", "running", "Running"), SPOT),
}
GAP: Final = 2  # spaces between two columns
LONGEST_WORD: Final = 20  # longer words are broken; a time has 20 characters
FIRST_WORD: Final = re.compile(r"[\w-]+")
STATE_OF: Final = re.compile(r"(\w+ \S+: )(.*)")  # the first line of an explanation


def show(parts: Iterable[Part]) -> None:
    """Print lines and tables."""
    if not is_for_people():
        for line in columns.lines(parts):
            click.echo(printable(line))
        return
    # Takes a tenth of a second, which output for programs saves.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(
            Text.assemble(*_styled(printable(part))) if isinstance(part, str) else _table_of(part, console.width)
        )


def _styled(line: str) -> list[Any]:
    """Return the parts of a line, each with its style: the state of a workload is coloured."""
    found = STATE_OF.fullmatch(line)
    if found is None:
        return [line]
    return [(found[1], "bold"), (found[2], _style_of(found[2]))]


def _table_of(rows: list[Row], width: int) -> "Table":
    """Return a table that fits a width: of columns, or if these would be too narrow to read, of a line for each cell.

    Cells are texts, in which no markup is read.
    """
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    headings, *others = [[printable(cell) for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    widths = widths_of([headings, *others], width)
    if widths is None:
        made.show_header = False
        made.add_column(style="bold")
        made.add_column(overflow="fold")
        for number, row in enumerate(others):
            if number:
                made.add_row()
            for heading, cell in zip(headings, row, strict=True):
                made.add_row(Text(heading), Text(cell, _style_of(cell)))
        return made
    for heading, column_width in zip(headings, widths, strict=True):
        made.add_column(Text(heading), width=column_width, overflow="fold")
    for row in others:
        made.add_row(*(Text(cell, _style_of(cell)) for cell in row))
    return made


def widths_of(rows: list[list[str]], width: int) -> list[int] | None:
    """Return the widths of columns that fit a width together; None if words would have to be broken, but long ones."""
    columns_of_rows = list(zip(*rows, strict=True))
    longest = [max(map(len, column)) for column in columns_of_rows]
    least = [
        min(LONGEST_WORD, max(len(word) for cell in column for word in (cell.split() or [""])))
        for column in columns_of_rows
    ]
    spare = width - GAP * (len(least) - 1) - sum(least)
    if spare < 0:
        return None
    widths = list(least)
    by_need = sorted(range(len(least)), key=lambda column: longest[column] - least[column])
    for place, column in enumerate(by_need):
        given = min(longest[column] - least[column], spare // (len(by_need) - place))
        widths[column] += given
        spare -= given
    return widths


def _style_of(text: str) -> str:
    word = FIRST_WORD.match(text)
    return "" if word is None else STATES.get(word[0], "")
