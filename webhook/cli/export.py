"""retry-policy export."""

from functools import partial
from pathlib import Path

import click

from webhook.cli import writing
from webhook.cli.console import FILE
from webhook.cli.policy_file import usable_policy
from webhook.cli.terminal import command
from webhook.export.limits import objects


@command(
    ("Hold the limits without the webhook", "retry-policy export --policy policy.yaml | kubectl apply -f -"),
)
@click.option(
    "--policy", type=FILE, metavar="FILE", help="Policy, or the ConfigMap with it.  [default: the packaged policy]"
)
@click.option("-o", "output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def export(policy: Path | None, output: str) -> None:
    """Print the retry limits of a policy as admission policies, which the API server holds without the webhook.

    They refuse too many retries of each kind with a limit, also while no replica answers. They apply to the namespaces
    with the policy's profiles, and need Kubernetes 1.33 or newer. Exit 0, or 2 if the policy cannot be used.
    """
    found = objects(usable_policy(policy))
    write = partial(click.echo, nl=False)  # nowhere, if stdout is closed
    if output == "json":
        writing.write_json({"apiVersion": "v1", "kind": "List", "items": list(found)}, write)
        return
    click.echo("# Written by retry-policy export.")
    for one in found:
        click.echo("---")
        writing.write_yaml(one, write)
