"""The forms in which `check` writes what it found for programs."""

from collections.abc import Iterable
from typing import Final

import click
from msgspec.structs import replace

from webhook.cli.console import PROBLEMS, printable
from webhook.cli.offline import line_numbers
from webhook.cli.output.finding import Finding, finding_of
from webhook.cli.output.report import Collected, Judged
from webhook.objects.problem import Problem

TEXT: Final = "text"
NAMES: Final = (TEXT, "json", "sarif", "junit", "github")


def write(
    form: str, collected: Collected, findings: Iterable[Finding], exit_code: int, *, warnings_fail: bool = False
) -> None:
    """Write what was found to stdout, in a form other than TEXT; `warnings_fail`: whether a warning is a failure."""
    summary = collected.summary()
    # Imported here, because each run would pay for the libraries of all forms.
    if form == "json":
        from webhook.cli.output import json_form  # noqa: PLC0415

        text = json_form.of_check(findings, summary)
    elif form == "sarif":
        from webhook.cli.output import sarif  # noqa: PLC0415

        text = sarif.of_check(findings, summary, exit_code)
    elif form == "junit":
        from webhook.cli.output import junit  # noqa: PLC0415

        text = junit.of_check(collected, findings, summary, warnings_fail=warnings_fail)
    else:
        from webhook.cli.output import github  # noqa: PLC0415

        text = github.of_check(findings, summary)
    click.echo(text, nl=False)


def write_policy(form: str, file: str, text: str, problems: list[Problem]) -> None:
    """Write the problems of a policy, of which this is the text, to stdout."""
    collected = Collected()
    lines = line_numbers.find_in_policy(text, [problem.path for problem in problems])
    findings = [
        replace(finding_of("problem", "policy", file, 1, problem), line=lines.get(problem.path)) for problem in problems
    ]
    collected.objects.append(Judged(printable(file), 1, ""))
    collected.number_of_objects = 1
    collected.numbers["problem"] = len(findings)
    collected.listed = len(findings)
    write(form, collected, findings, PROBLEMS if problems else 0)
