"""retry-policy export."""

import re
import sys
from pathlib import Path
from typing import Final

import click

from webhook.cli.console import printable
from webhook.cli.offline import writing
from webhook.cli.policy_file import usable_policy
from webhook.cli.terminal.colours import is_for_people
from webhook.cli.terminal.examples import WithExamples
from webhook.export import claims
from webhook.export.manifests import OLDEST, Versions, objects, versions_in
from webhook.policy.model import Policy

NEWEST: Final = "1.36"
VERSION: Final = re.compile(r"v?1\.([0-9]{1,3})(\..*)?")


def versions_of(_context: click.Context, _parameter: click.Parameter, text: str) -> Versions:
    """Read the version of Kubernetes; raise click.BadParameter."""
    found = VERSION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no version of Kubernetes; write one such as {NEWEST}")
    versions = versions_in(int(found[1]))
    if versions is None:
        raise click.BadParameter(f"Kubernetes {text} lacks what the expressions use; upgrade to 1.{OLDEST} or newer")
    return versions


@click.command(
    cls=WithExamples,
    examples=(
        ("Install what holds without the webhook", "retry-policy export --policy policy.yaml | kubectl apply -f -"),
    ),
    options_metavar="[OPTIONS]",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Policy, or the ConfigMap with it.  [default: the packaged policy]",
)
@click.option(
    "--kubernetes-version",
    "versions",
    metavar="VERSION",
    default=NEWEST,
    show_default=True,
    callback=versions_of,
    help="The oldest API server that gets the objects.",
)
@click.option("-o", "output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def export(policy: Path | None, versions: Versions, output: str) -> None:
    """Print the part of a policy that the API server can hold without the webhook, as admission policies.

    They refuse too many retries of every kind while the webhook is away, and give Jobs a podFailurePolicy. They apply
    to the namespaces with the policy's profiles and work beside the webhook. What they do not hold is printed to
    stderr, and at the top of the YAML. Exit 0, or 2 if the policy cannot be used.
    """
    read = usable_policy(policy)
    notes = [*([versions.note] if versions.note else []), *not_held(read)]
    for line in notes if output == "json" or not is_for_people() else ():  # else the YAML beside it shows them
        click.echo(printable(line), err=True)
    if output == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": list(objects(read, versions))}
        writing.write_json(whole, sys.stdout.write)
        return
    for line in ("Written by retry-policy export.", *notes):
        click.echo(f"# {printable(line)}")
    for one in objects(read, versions):
        click.echo("---")
        writing.write_yaml(one, sys.stdout.write)


def not_held(policy: Policy) -> list[str]:
    """Return a line for each thing that only the webhook does."""
    return [f"not exported: {claims.line(claim)}" for claim in claims.of_policy(policy, held=False)]
