"""Where `check` and `render` report to: at once to the terminal, or collected for a form that programs read."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import click
import msgspec

from webhook.cli.console import printable
from webhook.cli.offline import line_numbers
from webhook.cli.offline.documents import Document, Unusable
from webhook.cli.output.finding import Finding, Level, finding_of
from webhook.objects.problem import Path, Problem, field

MOST_FINDINGS: Final = 25_000  # that are kept; GitHub accepts as many in one SARIF file
MOST_OBJECTS: Final = 100_000  # that are kept, for JUnit

Sourced = Iterable[tuple[str, Problem]]  # problems or warnings, each with the name of its rule
COLOURS: Final[dict[Level, str]] = {"problem": "red", "warning": "yellow"}


class Report(Protocol):
    """Takes what is found, in the order of the files."""

    def judged(self, document: Document, name: str) -> None:
        """Take the name of an object that is judged."""

    def add(self, level: Level, document: Document, name: str, found: Sourced) -> None:
        """Take problems or warnings about a document, or about the object `name` in it."""

    def refuse(self, unusable: Unusable) -> None:
        """Take a file or a document that cannot be read."""


class Printed:
    """Prints what is found, a line each: problems to stdout or stderr, everything else to stderr."""

    def __init__(self, *, problems_to_stderr: bool = False) -> None:
        self.problems_to_stderr = problems_to_stderr

    def judged(self, document: Document, name: str) -> None:
        """Print nothing."""

    def add(self, level: Level, document: Document, name: str, found: Sourced) -> None:
        """Print problems or warnings."""
        for _, problem in found:
            line = line_of(document, level, problem, name)
            start = f"{printable(document.file)}:{document.number} "
            marked = "warning: " if level == "warning" else printable(field(problem.path))
            text = coloured(line, start, marked, COLOURS[level])
            click.echo(text, err=level == "warning" or self.problems_to_stderr)

    def refuse(self, unusable: Unusable) -> None:
        """Print what cannot be read."""
        click.echo(printable(str(unusable)), err=True)


def line_of(document: Document, level: Level, problem: Problem, name: str) -> str:
    """Return a problem as a line that names its document, and at its end the object, if `name` is not empty."""
    before = "warning: " if level == "warning" else ""
    of_object = f" ({name})" if name else ""
    return printable(f"{document.file}:{document.number} {before}{problem}{of_object}")


def coloured(line: str, start: str, marked: str, colour: str) -> str:
    """Return a line with its start in bold, and what follows in a colour; click prints both on terminals only."""
    if not line.startswith(start + marked):  # it is very long, and so was cut
        return line
    return click.style(start, bold=True) + click.style(marked, fg=colour) + line[len(start) + len(marked) :]


class Judged(NamedTuple):
    """An object that was judged: its file as the user named it, the number of its document, its name."""

    file: str
    document: int
    name: str


class Pending(NamedTuple):
    """A finding whose line is not looked up yet: its file as the system names it, and the path in its document."""

    finding: Finding
    file: str
    path: Path


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects were judged, and how many findings of each level there are; `unlisted`: that are not listed."""

    objects: int
    problems: int
    warnings: int
    unreadable: int
    unlisted: int


class Collected:
    """Keeps what is found, up to MOST_FINDINGS, and the names of the objects, up to MOST_OBJECTS."""

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.objects: list[Judged] = []
        self.number_of_objects = 0
        self.listed = 0
        self.numbers: Counter[Level] = Counter()

    def judged(self, document: Document, name: str) -> None:
        """Keep the name of an object."""
        self.number_of_objects += 1
        if len(self.objects) < MOST_OBJECTS:
            self.objects.append(Judged(printable(document.file), document.number, printable(name)))

    def add(self, level: Level, document: Document, name: str, found: Sourced) -> None:
        """Keep problems or warnings."""
        for rule, problem in found:
            finding = finding_of(level, rule, document.file, document.number, problem, name)
            self.keep(Pending(finding, document.file, problem.path))

    def refuse(self, unusable: Unusable) -> None:
        """Keep what cannot be read, and print it too: what was not judged must not be overlooked."""
        click.echo(printable(str(unusable)), err=True)
        problem = Problem((), unusable.what, unusable.remedy)
        finding = finding_of("unreadable", "unreadable", unusable.file, unusable.number, problem)
        self.keep(Pending(msgspec.structs.replace(finding, line=unusable.line), unusable.file, ()))

    def keep(self, pending: Pending) -> None:
        """Keep a finding, or only count it."""
        self.numbers[pending.finding.level] += 1
        if self.listed < MOST_FINDINGS:
            self.listed += 1
            self.pending.append(pending)

    def summary(self) -> Summary:
        """Return the numbers."""
        numbers = self.numbers
        return Summary(
            objects=self.number_of_objects,
            problems=numbers["problem"],
            warnings=numbers["warning"],
            unreadable=numbers["unreadable"],
            unlisted=numbers.total() - self.listed,
        )

    def findings(self, text_of: Callable[[str], str]) -> Iterator[Finding]:
        """Yield the findings with their lines; `text_of` returns the text of a file, empty if it cannot be read."""
        wanted: dict[str, set[line_numbers.Place]] = {}
        for finding, file, path in self.pending:
            if finding.document is not None and finding.level != "unreadable":
                wanted.setdefault(file, set()).add((finding.document, path))
        lines = {file: line_numbers.find(text_of(file), places) for file, places in wanted.items()}
        for finding, file, path in self.pending:
            line = finding.line if finding.document is None else lines.get(file, {}).get((finding.document, path))
            yield finding if line is None else msgspec.structs.replace(finding, line=line)
