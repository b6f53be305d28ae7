"""retry-policy suspend and resume."""

import re
from typing import Final

from webhook.cli.cluster import NotOneError, find, kubeconfig_or_default
from webhook.cli.console import ObjectArgument, kubeconfig_option, object_argument, workload_argument
from webhook.cli.retry import RetryOutcome, conclude
from webhook.cli.terminal import command
from webhook.kube import terminal
from webhook.kube.client import Api
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.problem import Json, Problem
from webhook.retry import reading
from webhook.systems import refusals
from webhook.systems.adapter import Adapter, Right
from webhook.systems.reruns import ADAPTERS

WARNING: Final = re.compile(r'\d{3} \S+ "(.*)"')  # a header, as the API server writes it


@command(
    ("A nightly Job, until it is resumed", "retry-policy suspend etl/cronjob/nightly"),
)
@workload_argument("target", ADAPTERS)
@kubeconfig_option
def suspend(target: str, kubeconfig: Kubeconfig) -> None:
    """Suspend a Job, JobSet or RayJob (its pods end) or a CronJob (it starts no Jobs), until retry-policy resume."""
    switch(target, kubeconfig, suspend=True)


@command(
    ("What was suspended", "retry-policy resume etl/cronjob/nightly"),
)
@workload_argument("target", ADAPTERS)
@kubeconfig_option
def resume(target: str, kubeconfig: Kubeconfig) -> None:
    """Resume a suspended Job, CronJob, JobSet or RayJob."""
    switch(target, kubeconfig, suspend=False)


def switch(target: str, kubeconfig: Kubeconfig, *, suspend: bool) -> None:
    """Suspend or resume."""
    wanted = object_argument(target, ADAPTERS)
    file = kubeconfig_or_default(kubeconfig)
    conclude(file, _switch_in_cluster(file, wanted, suspend=suspend))


async def _switch_in_cluster(kubeconfig: Kubeconfig, target: ObjectArgument, *, suspend: bool) -> RetryOutcome:
    outcome = RetryOutcome()
    async with await Api.connect(kubeconfig, lambda header: outcome.warnings.append(text_of(header))) as api:
        try:
            kind, root = await find(api, target, list(ADAPTERS))
        except NotOneError as error:
            outcome.refused.append(error.problem)
            return outcome
        name = refusals.kind_and_name(kind.kind, root)
        why = refusal(ADAPTERS[kind], root, suspend=suspend)
        right = Right("patch", kind.group, kind.resource)
        if why is None and await reading.missing_rights(api, target.namespace, [right]):
            why = Problem((), f"{name} is unchanged: you may not {right}", "ask an admin for this right")
        if why is not None:
            outcome.refused.append(why)
            return outcome
        operations = [{"op": "add", "path": "/spec/suspend", "value": suspend}]
        await api.patch(kind.path(target.namespace, target.name), operations)
        outcome.done.append(f"{name}: {'suspended' if suspend else 'resumed'}")
    return outcome


def refusal(adapter: Adapter, root: Json, *, suspend: bool) -> Problem | None:
    """Return why an object cannot be suspended, or with `suspend` False not resumed; None if it can."""
    name = refusals.kind_and_name(adapter.kind.kind, root)
    if problem := adapter.cannot_be_suspended(root):
        return problem
    if terminal.condition_of(root) is not None:
        return Problem((), f"{name} has ended", "nothing was changed")
    if bool(root["spec"].get("suspend")) == suspend:
        return Problem((), f"{name} {'is suspended already' if suspend else 'is not suspended'}", "nothing was changed")
    return None


def text_of(header: str) -> str:
    """Return the text of a Warning header."""
    found = WARNING.fullmatch(header)
    return header if found is None else found[1].replace('\\"', '"').replace("\\\\", "\\")
