"""retry-policy check."""

import sys
from pathlib import Path

import click

from webhook.cli.console import PROBLEMS, printable
from webhook.cli.offline.manifests import Run, on_files
from webhook.cli.policy_file import policy_or_problems, profile_of


@click.command(options_metavar="-f FILE|FOLDER|- [OPTIONS]")
@on_files
def check(files: tuple[str, ...], policy: Path | None, profile_name: str | None) -> None:
    """Print every problem that admission would deny, as FILE:DOC path: what; what would be right (NAMESPACE/KIND/NAME).

    DOC is the number of the document in the file, from 1. Judges as in the mode Enforce, whatever the mode of the
    Namespace. Checks the policy alone, not the schema of Kubernetes: it reports neither misspelt fields nor values that
    the API server rejects. Exit 0 if there is no problem, 1 if there are, 2 if some input cannot be read. Warnings go
    to stderr. With --policy and no -f, checks the policy itself.
    """
    if policy is not None and not files:
        checked = policy_or_problems(policy)
        if isinstance(checked, list):
            for problem in checked:
                click.echo(printable(f"{policy}: {problem}"))
            sys.exit(PROBLEMS)
        if profile_name is not None:
            profile_of(checked, profile_name)
        click.echo(printable(f"{policy}: policy is valid; profiles: {', '.join(checked.profiles)}"))
        return
    run = Run(files, policy, profile_name)
    for document in run.documents():
        for path, root in document.objects():
            for line in run.lines(document, root, run.judge(document, path, root, None)):
                click.echo(line)
    sys.exit(run.exit_code)
