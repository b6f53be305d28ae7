"""retry-policy suspend and resume: let what runs give way, and go on later."""

import re
from typing import Final

import click

from webhook.cli.cluster import kubeconfig_or_default
from webhook.cli.console import kubeconfig_option
from webhook.cli.retry import Outcome, Target, conclude, target_of
from webhook.kube import terminal
from webhook.kube.client import Api
from webhook.objects.problem import Json, Problem
from webhook.retry import reading
from webhook.retry.kinds.adapter import Right
from webhook.retry.kinds.refusals import named

WARNING: Final = re.compile(r'\d{3} \S+ "(.*)"')  # a header, as the API server writes it


@click.command(options_metavar="[OPTIONS]")
@click.argument("target", metavar="NAMESPACE/KIND/NAME")
@kubeconfig_option
def suspend(target: str, kubeconfig: str | None) -> None:
    """Let a Job, CronJob or JobSet give way: its pods end, and it goes on when it is resumed."""
    switch(target, kubeconfig, suspend=True)


@click.command(options_metavar="[OPTIONS]")
@click.argument("target", metavar="NAMESPACE/KIND/NAME")
@kubeconfig_option
def resume(target: str, kubeconfig: str | None) -> None:
    """Let a Job, CronJob or JobSet go on that is suspended."""
    switch(target, kubeconfig, suspend=False)


def switch(target: str, kubeconfig: str | None, *, suspend: bool) -> None:
    """Suspend or resume."""
    try:
        wanted = target_of(target, None, None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    file = kubeconfig_or_default(kubeconfig)
    conclude(file, switch_in_cluster(file, wanted, suspend=suspend))


async def switch_in_cluster(kubeconfig: str, target: Target, *, suspend: bool) -> Outcome:
    """Suspend an object, or resume it; raise what `Api` raises."""
    outcome = Outcome()
    async with await Api.connect(kubeconfig, lambda header: outcome.warnings.append(text_of(header))) as api:
        path = target.adapter.row.path(target.namespace, target.name)
        root = await api.find(path)
        if root is None:
            outcome.refused.append(await reading.absent(api, target.adapter.row, target.namespace, target.name))
            return outcome
        why = refusal(target, root, suspend=suspend)
        right = Right("patch", target.adapter.row.group, target.adapter.row.resource)
        if why is None and await reading.missing_rights(api, target.namespace, [right]):
            why = Problem(
                (), f"{named(target.adapter.row.kind, root)} stays as it is: you may not {right}", "ask for the right"
            )
        if why is not None:
            outcome.refused.append(why)
            return outcome
        await api.patch(path, [{"op": "add", "path": "/spec/suspend", "value": suspend}])
        outcome.done.append(f"{named(target.adapter.row.kind, root)}: {'suspended' if suspend else 'goes on'}")
    return outcome


def refusal(target: Target, root: Json, *, suspend: bool) -> Problem | None:
    """Return why an object cannot be suspended, or resumed; None if it can."""
    name = named(target.adapter.row.kind, root)
    if problem := target.adapter.cannot_be_suspended(root):
        return problem
    if terminal.condition_of(root) is not None:
        return Problem((), f"{name} has ended", "nothing of it runs")
    if bool(root["spec"].get("suspend")) == suspend:
        return Problem((), f"{name} {'is suspended already' if suspend else 'is not suspended'}", "nothing was done")
    return None


def text_of(header: str) -> str:
    """Return what a Warning header says."""
    found = WARNING.fullmatch(header)
    return header if found is None else found[1].replace('\\"', '"').replace("\\\\", "\\")
