"""retry-policy doctor."""

import sys
from typing import Final

import click

from webhook import __version__
from webhook.cli.cluster import ask, kubeconfig_or_default
from webhook.cli.console import (
    NAMESPACE,
    PROBLEMS,
    UNUSABLE,
    WorkloadArgument,
    in_namespace,
    kubeconfig_option,
    leaving_out,
    object_argument,
    printable,
)
from webhook.cli.terminal import command
from webhook.doctor.judge import judge
from webhook.doctor.load import Question, load
from webhook.doctor.render import as_json, lines, numbers
from webhook.doctor.snapshot import Snapshot
from webhook.kube.client import Api
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut
from webhook.systems.kinds import FIRST

ROWS: Final = [kind for kind in FIRST.values() if kind.namespaced]


@command(
    ("Is the installation healthy?", "retry-policy doctor"),
    ("Why does nothing happen in this namespace?", "retry-policy doctor -n ml"),
    ("Why was this Job left alone?", "retry-policy doctor -n ml job/train"),
)
@click.argument("workload", cls=WorkloadArgument, kinds=ROWS, required=False)
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    help="Why does nothing happen in this namespace? Or: the namespace of [KIND/]NAME.",
)
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@kubeconfig_option
@leaving_out
def doctor(workload: str | None, namespace: str | None, output: str, kubeconfig: Kubeconfig, left_out: LeftOut) -> None:
    """Check an installation, and print for each problem what is wrong and the command that corrects it.

    With -n it says why nothing happens in a namespace, and with an object why that was left alone. The kind can be
    left out: then every object of that name is looked at.
    Changes nothing: it only reads, and creates two Jobs in a dry run. What you may not read is named with the right
    that you lack. Exit 0 if there is no problem, 1 if there is one, 2 if the cluster cannot be read.
    """
    question = _asked(workload, namespace, kubeconfig)
    file = kubeconfig_or_default(kubeconfig)
    snapshot = ask(file, _seen(file, question, left_out))
    sections = judge(snapshot)
    if output == "json":
        click.echo(as_json(sections))
    else:
        for line in lines(sections):
            click.echo(printable(line))
    if snapshot.nothing_read:
        sys.exit(UNUSABLE)
    sys.exit(PROBLEMS if numbers(sections)["problem"] else 0)


def _asked(workload: str | None, namespace: str | None, kubeconfig: Kubeconfig) -> Question:
    if workload is not None:
        target = object_argument(in_namespace(workload, namespace, kubeconfig), ROWS)
        return Question(target.namespace, [target.kind] if target.kind is not None else ROWS, target.name)
    return Question(namespace)


async def _seen(kubeconfig: Kubeconfig, question: Question, left_out: LeftOut) -> Snapshot:
    warnings: list[str] = []
    async with await Api.connect(kubeconfig, warnings.append) as api:
        api.left_out = left_out
        return await load(api, question, __version__, warnings, left_out)
