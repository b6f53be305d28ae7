"""retry-policy test."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from webhook.cli.console import PROBLEMS, UNUSABLE, printable
from webhook.cli.policy_tests import cases, results
from webhook.cli.policy_tests.judge import differences
from webhook.cli.policy_tests.results import Result
from webhook.cli.terminal.examples import WithExamples
from webhook.cli.terminal.progress import Progress

FORMS: Final[dict[str, Callable[[list[Result]], str]]] = {
    "json": results.as_json,
    "junit": results.as_junit,
    "github": results.as_github,
}


@click.command(
    cls=WithExamples,
    examples=(
        ("The tests of a policy, before it is installed", "retry-policy test -f cases.yaml"),
        ("In CI, with a report that it shows", "retry-policy test -f cases.yaml -o junit > report.xml"),
    ),
    options_metavar="-f FILE [OPTIONS]",
)
@click.option(
    "-f",
    "files",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Cases: manifests, each with what admission is expected to do. May be repeated.",
)
@click.option("-o", "output", type=click.Choice(["text", *FORMS]), default="text", show_default=True)
def test(files: tuple[Path, ...], output: str) -> None:
    """Test a policy: admit the manifests of FILE as the webhook would, and compare that with what FILE expects.

    A case expects that an object is denied, and why, or what is stored of it, which warnings its author gets, and
    whether an attempt runs on spot or on-demand nodes. FILE names the policy; without it the packaged policy is tested.
    Needs no cluster. Exit 0 if all cases pass, 1 if one fails, 2 if FILE or what it names cannot be used.
    """
    found: list[Result] = []
    progress = Progress()
    unusable = False
    for file in files:
        try:
            policy, prepared = cases.load(file)
        except cases.UnusableError as error:
            unusable = True
            for problem in error.problems:
                click.echo(printable(f"{file}: {problem}"), err=True)
            continue
        for one in prepared:
            progress.show(f"{file}: {one.case.name}")
            name = printable(one.case.name)
            found.append(
                Result(file=printable(str(file)), line=one.line, name=name, differences=differences(one, policy))
            )
    progress.clear()
    if output != "text":
        click.echo(FORMS[output](found), nl=False)
    elif found:
        for line in results.text(found):
            click.echo(line)
    sys.exit(UNUSABLE if unusable else PROBLEMS if any(one.differences for one in found) else 0)
