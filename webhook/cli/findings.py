"""What check found: each finding with its place, its rule and its severity; collected, or printed at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

import click
import msgspec

from webhook.cli import line_numbers
from webhook.cli.console import printable
from webhook.cli.documents import Document, Unusable
from webhook.objects import bounds
from webhook.objects.problem import Path, Problem, cut, field

# Where the documentation is published. Findings link to it.
SITE: Final = "https://retry-policy.dev"
PAGE: Final = f"{SITE}/reference/check/"

# By its name, what a rule finds. The names of webhook/rules/registry.py are among them; docs/reference/check.md has a
# heading for each.
RULES: Final[dict[str, str]] = {
    "retries": "More retries than the profile allows, or retries without a bound.",
    "schema": "A podFailurePolicy or another field of a Job that the API server rejects.",
    "shape": "A field of a wrong type.",
    "size": "An object that is larger than a request to the API server may be.",
    "annotations": "A label or annotation of retry-policy.dev with a value that is not allowed.",
    "owner": "An owner reference or a label by which a Job would pass as a part of another workload.",
    "failure_policy": "No podFailurePolicy is injected, or one does not do what its author may expect.",
    "back_off": "A back-off for each completion index is not possible.",
    "many_pods": "A completion index gets no retries of its own.",
    "timeouts": "The time limit of an attempt is not set.",
    "placement": "A pod is not placed on spot or on-demand nodes.",
    "environment": "The variables that tell a program its attempt are not set.",
    "last_words": "The end of the log of a container that fails is not kept.",
    "memory": "A container that was killed for its memory does not get more.",
    "reapply": "What an earlier admission injected is not taken out.",
    "own_keys": "An annotation that only the server writes is removed.",
    "unknown_keys": "A misspelt label or annotation of retry-policy.dev, which has no effect.",
    "lint": "A field that the API server accepts, but that does not do what its author probably wants.",
    "opt_in": "A label of a Namespace, or of a template of the whole cluster, that opts it in.",
    "duplicate_key": "A key that is written twice in one object.",
    "incomplete_object": "A document that has only one of apiVersion and kind, so that nothing was judged.",
    "unreadable": "A file or document that cannot be read, so that nothing in it was judged.",
    "policy": "A field of the policy itself.",
}


def help_of(rule: str) -> str:
    """Return the address of the documentation of a rule."""
    return f"{PAGE}#{rule}"


Level = Literal["problem", "warning", "unreadable"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding; its texts have no unprintable character.

    - `rule`: a key of RULES. `file`: as the user named it, `-` for stdin.
    - `document`: its number in the file, from 1; None if the file cannot be read as documents.
    - `line`: in the file, from 1: that of the field, else of the nearest object around it; None if that is unknown.
    - `object`: NAMESPACE/KIND/NAME, without what it does not have; empty if the finding is about no object.
    - `path`: of the field in the document, such as `spec.backoffLimit`; empty for the document itself.
    - `what` is wrong, and by which `remedy` it would be right.
    """

    level: Level
    rule: str
    file: str
    document: int | None = None
    line: int | None = None
    object: str = ""
    path: str = ""
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """The finding without its place in a file: `path: what; remedy (NAMESPACE/KIND/NAME)`."""
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.what}; {self.remedy}" + (f" ({self.object})" if self.object else "")


def finding_of(level: Level, rule: str, file: str, document: int | None, problem: Problem, name: str = "") -> Finding:  # noqa: PLR0913, PLR0917 - what a finding consists of
    """Return a problem of the object `name` in a document as a finding without a line."""
    return Finding(
        level=level,
        rule=rule,
        file=printable(file),
        document=document,
        object=printable(name),
        path=printable(field(problem.path)),
        what=printable(cut(problem.what, bounds.MAX_PROBLEM)),
        remedy=printable(cut(problem.remedy, bounds.MAX_PROBLEM)),
    )


MOST_FINDINGS: Final = 25_000  # that are kept; GitHub accepts as many in one SARIF file
MOST_OBJECTS: Final = 100_000  # that are kept, for JUnit

Sourced = Iterable[tuple[str, Problem]]  # problems or warnings, each with the name of its rule
COLOURS: Final[dict[Level, str]] = {"problem": "red", "warning": "yellow"}


class Printed:
    """Prints what is found, a line each: problems to stdout or stderr, everything else to stderr."""

    def __init__(self, *, problems_to_stderr: bool = False) -> None:
        self.problems_to_stderr = problems_to_stderr

    def judged(self, document: Document, name: str) -> None:
        """Print nothing."""

    def add(self, level: Level, document: Document, name: str, found: Sourced) -> None:
        """Print problems or warnings."""
        for _, problem in found:
            line = _line_of(document, level, problem, name)
            start = f"{printable(document.file)}:{document.number} "
            marked = "warning: " if level == "warning" else printable(field(problem.path))
            text = coloured(line, start, marked, COLOURS[level])
            click.echo(text, err=level == "warning" or self.problems_to_stderr)

    def refuse(self, unusable: Unusable) -> None:
        """Print what cannot be read."""
        click.echo(printable(str(unusable)), err=True)


def _line_of(document: Document, level: Level, problem: Problem, name: str) -> str:
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

    @property
    def what_is_unlisted(self) -> str:
        """That findings are not listed, in words; empty if all are."""
        return f"{self.unlisted} more findings are not listed; check fewer files at once" if self.unlisted else ""


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


FindingsTaker = Printed | Collected  # takes what is found, in the order of the files
