"""retry-policy check."""

import sys
from pathlib import Path

import click

from webhook.cli import forms
from webhook.cli.console import PROBLEMS, printable
from webhook.cli.findings import Collected, Printed
from webhook.cli.manifests import Run, on_files
from webhook.cli.policy_file import policy_or_problems, policy_text, profile_of
from webhook.cli.terminal import Progress, WithExamples


@click.command(
    cls=WithExamples,
    examples=(
        ("The manifests of a repository", "retry-policy check -f manifests/"),
        (
            "In a GitHub workflow: problems and warnings at the lines of a pull request, both fail the step",
            "retry-policy check -f manifests/ --policy policy.yaml -o github --fail-on warning",
        ),
        ("What Helm renders", "helm template my-chart | retry-policy check -f -"),
        (
            "What a cluster has, before its namespaces are opted in",
            "kubectl get namespaces,jobs,cronjobs -A -o yaml | retry-policy check -f -",
        ),
        ("The policy itself", "retry-policy check --policy policy.yaml"),
    ),
    options_metavar="-f FILE|FOLDER|- [OPTIONS]",
)
@on_files
@click.option(
    "-o",
    "output",
    type=click.Choice(forms.NAMES),
    default=forms.TEXT,
    show_default=True,
    help="json, sarif, junit and github have the warnings too, and the line of each finding.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["problem", "warning"]),
    default="problem",
    show_default=True,
    help="Least severe finding with which the exit code is 1.",
)
def check(files: tuple[str, ...], policy: Path | None, profile_name: str | None, output: str, fail_on: str) -> None:
    """Print every problem that admission would deny, as FILE:DOC path: what; what would be right (NAMESPACE/KIND/NAME).

    DOC is the number of the document in the file, from 1. Judges as in the mode Enforce, whatever the mode of the
    Namespace. Checks the policy alone, not the schema of Kubernetes: it reports neither misspelt fields nor values that
    the API server rejects. Exit 0 if there is no problem, 1 if there are, 2 if some input cannot be read. Warnings go
    to stderr. With --policy and no -f, checks the policy itself.
    """
    warnings_fail = fail_on == "warning"
    if policy is not None and not files:
        check_policy(policy, profile_name, output)
        return
    collected = Collected()
    report = Printed() if output == forms.TEXT else collected
    run = Run(files, policy, profile_name, report, Progress(), warnings_fail=warnings_fail)
    for document in run.documents():
        for path, root in document.objects():
            run.judge(document, path, root, None)
    if output != forms.TEXT:
        findings = collected.findings(run.text_of)
        forms.write(output, collected, findings, run.exit_code, warnings_fail=warnings_fail)
    sys.exit(run.exit_code)


def check_policy(policy: Path, profile_name: str | None, output: str) -> None:
    """Check a policy; exit 1 if it has problems."""
    checked = policy_or_problems(policy)
    problems = checked if isinstance(checked, list) else []
    if profile_name is not None and not isinstance(checked, list):
        profile_of(checked, profile_name)
    if output != forms.TEXT:
        forms.write_policy(output, str(policy), policy_text(policy), problems)
    elif isinstance(checked, list):
        for problem in problems:
            click.echo(printable(f"{policy}: {problem}"))
    else:
        click.echo(printable(f"{policy}: policy is valid; profiles: {', '.join(checked.profiles)}"))
    sys.exit(PROBLEMS if problems else 0)
