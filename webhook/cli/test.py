"""retry-policy test."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from webhook.cli import policy_tests
from webhook.cli.console import FILE, PROBLEMS, UNUSABLE, printable
from webhook.cli.policy_tests import Result, differences
from webhook.cli.terminal import Progress, command

FORMS: Final[dict[str, Callable[[list[Result]], str]]] = {
    "json": policy_tests.as_json,
    "junit": policy_tests.as_junit,
    "github": policy_tests.as_github,
}


@command(
    ("The tests of a policy, before it is installed", "retry-policy test -f policy_tests.yaml"),
    ("In CI, with a report that it shows", "retry-policy test -f policy_tests.yaml -o junit > report.xml"),
    options_metavar="-f FILE [OPTIONS]",
)
@click.option(
    "-f",
    "files",
    multiple=True,
    required=True,
    type=FILE,
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
            policy, prepared = policy_tests.load(file)
        except policy_tests.UnusableTestsError as error:
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
        for line in policy_tests.text(found):
            click.echo(line)
    sys.exit(UNUSABLE if unusable else PROBLEMS if any(one.differences for one in found) else 0)
