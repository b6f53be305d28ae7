"""Finding: a problem, a warning, or input that cannot be read, as every form of output shows it."""

from typing import Literal

import msgspec

from webhook.cli.console import printable
from webhook.objects import bounds
from webhook.objects.problem import Problem, cut, field

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
