"""Annotations of GitHub Actions: workflow commands, which GitHub shows at the lines of a pull request."""

from collections.abc import Iterable
from typing import Final, Literal

from webhook.cli.offline.documents import STDIN
from webhook.cli.output.finding import Finding
from webhook.cli.output.report import Summary

# As the runner decodes them (actions/toolkit, command.ts).
IN_TEXT: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def annotation(level: Literal["error", "warning"], text: str, *, file: str, line: int | None, title: str) -> str:
    """Return one annotation; `line`: None if it is unknown."""
    properties = {} if file == STDIN else {"file": file.removeprefix("./")}
    if line is not None and properties:
        properties["line"] = str(line)
    properties["title"] = title
    written = ",".join(f"{key}={value.translate(IN_PROPERTY)}" for key, value in properties.items())
    return f"::{level} {written}::{text.translate(IN_TEXT)}\n"


def of_check(findings: Iterable[Finding], summary: Summary) -> str:
    """Return what `check` found."""
    lines = [
        annotation(
            "warning" if one.level == "warning" else "error",
            one.text,
            file=one.file,
            line=one.line,
            title=f"retry-policy {one.rule}",
        )
        for one in findings
    ]
    if summary.unlisted:
        said = f"{summary.unlisted} more findings are not listed; check fewer files at once"
        lines.append(annotation("error", said, file=STDIN, line=None, title="retry-policy check"))
    return "".join(lines)
