"""retry-policy check."""

import sys
from pathlib import Path

import click

from webhook.cli import forms
from webhook.cli.console import NAMESPACE, PROBLEMS, kubeconfig_option, leaving_out, printable
from webhook.cli.findings import Collected, Printed
from webhook.cli.manifests import Run, on_files
from webhook.cli.policy_file import policy_or_problems, policy_text, profile_of
from webhook.cli.terminal import Progress, command
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut


@command(
    ("The manifests of a repository", "retry-policy check -f manifests/"),
    (
        "In a GitHub workflow: problems and warnings at the lines of a pull request, both fail the step",
        "retry-policy check -f manifests/ --policy policy.yaml -o github --fail-on warning",
    ),
    ("What Helm renders", "helm template my-chart | retry-policy check -f -"),
    ("What the namespaces of a cluster have that are opted in", "retry-policy check --cluster"),
    ("What one has, before it is opted in", "retry-policy check --cluster -n ml"),
    (
        "The whole cluster, under a policy that is not installed yet",
        "retry-policy check --cluster -A --policy policy.yaml",
    ),
    ("The policy itself", "retry-policy check --policy policy.yaml"),
    options_metavar="-f FILE|FOLDER|- | --cluster [OPTIONS]",
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
@click.option(
    "--cluster", "in_cluster", is_flag=True, help="Judge what a cluster stores, by its policy, or by --policy."
)
@click.option("-n", "--namespace", type=NAMESPACE, help="In the cluster only this namespace, opted in or not.")
@click.option("-A", "--all-namespaces", is_flag=True, help="In the cluster also the namespaces that are not opted in.")
@click.option(
    "--names", "every_name", is_flag=True, help="In the cluster a line for each object, without `and NUMBER more`."
)
@kubeconfig_option
@leaving_out
def check(  # noqa: PLR0913, PLR0917 - one parameter for each option
    files: tuple[str, ...],
    policy: Path | None,
    profile_name: str | None,
    output: str,
    fail_on: str,
    namespace: str | None,
    kubeconfig: Kubeconfig,
    *,
    in_cluster: bool,
    all_namespaces: bool,
    every_name: bool,
    left_out: LeftOut,
) -> None:
    """Print every problem that admission would deny, as FILE:DOC path: what; what would be right (NAMESPACE/KIND/NAME).

    DOC is the number of the document in the file, from 1. Judges as in the mode Enforce, whatever the mode of the
    Namespace. Checks the policy alone, not the schema of Kubernetes: it reports neither misspelt fields nor values that
    the API server rejects. Exit 0 if there is no problem, 1 if there are, 2 if some input cannot be read. Warnings go
    to stderr. With --policy and no -f, checks the policy itself.

    With --cluster, prints the stored objects that admission would deny, change or warn about if they were created now:
    those of the opted-in namespaces, each under its own profile, by the policy in the cluster. Changes nothing, and
    needs only the right to list. Of what a controller creates only the controller's object is named.
    """
    warnings_fail = fail_on == "warning"
    if in_cluster:
        if files or output != forms.TEXT:
            other = "-f" if files else "-o"
            raise click.UsageError(f"--cluster and {other} exclude each other; leave one out")
        if namespace is not None and all_namespaces:
            raise click.UsageError("-n and -A exclude each other; leave one out")
        from webhook.cli.check_cluster import ClusterScope, check_cluster  # noqa: PLC0415 - files need no client of the API

        scope = ClusterScope(namespace, all_namespaces, profile_name)
        check_cluster(kubeconfig, policy, scope, left_out, every_name=every_name, warnings_fail=warnings_fail)
    if namespace is not None or all_namespaces or every_name or kubeconfig != Kubeconfig("", None):
        raise click.UsageError("-n, -A, --names, --kubeconfig and --context name what is in a cluster; add --cluster")
    if policy is not None and not files:
        _check_policy(policy, profile_name, output)
        return
    collected = Collected()
    report = Printed() if output == forms.TEXT else collected
    run = Run(files, policy, profile_name, report, Progress(), warnings_fail=warnings_fail)
    for document in run.documents():
        for path, root in document.objects():
            run.judge(document, path, root, None)
    if output != forms.TEXT:
        findings = collected.findings(run.text_of)
        summary = collected.summary()
        forms.write(output, collected.objects, summary, findings, run.exit_code, warnings_fail=warnings_fail)
    sys.exit(run.exit_code)


def _check_policy(policy: Path, profile_name: str | None, output: str) -> None:
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
