"""retry-policy audit."""

import asyncio
import sys
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

import click

from webhook.admission.engine import read_policy
from webhook.audit.load import POLICY_CONFIGMAP, Audit, stored_policy
from webhook.audit.namespaces import Scope
from webhook.audit.report import Report
from webhook.cli import terminal
from webhook.cli.cluster import ask, fail, kubeconfig_or_default
from webhook.cli.console import PROBLEMS, UNUSABLE, kubeconfig_option, leaving_out, printable
from webhook.cli.policy_file import profile_of, usable_policy
from webhook.cli.terminal import EVERY, Progress, WithExamples
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut
from webhook.policy.model import Policy
from webhook.policy.parse import load_default


@click.command(
    cls=WithExamples,
    examples=(
        ("What the policy would do to all namespaces that are opted in", "retry-policy audit"),
        ("To one namespace, before it is opted in", "retry-policy audit -n ml"),
        (
            "To the whole cluster, under a policy that is not installed yet",
            "retry-policy audit -A --policy policy.yaml",
        ),
    ),
    options_metavar="[OPTIONS]",
)
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Only this namespace, opted in or not.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Also the namespaces that are not opted in.")
@click.option(
    "--profile",
    "profile_name",
    metavar="NAME",
    help="Judge every object under this profile.  [default: that of its namespace; if not opted in, default]",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Policy, or the ConfigMap with it. Default: the policy in the cluster, else the packaged policy.",
)
@click.option("--names", "every_name", is_flag=True, help="A line for each object, without `and NUMBER more`.")
@kubeconfig_option
@leaving_out
def audit(  # noqa: PLR0913 - one parameter for each option
    namespace: str | None,
    profile_name: str | None,
    policy: Path | None,
    kubeconfig: Kubeconfig,
    *,
    all_namespaces: bool,
    every_name: bool,
    left_out: LeftOut,
) -> None:
    """Print the objects in a cluster that admission would deny, change or warn about if they were created now.

    Judges the opted-in namespaces, each under its own profile, whatever their mode. Changes nothing, and needs only the
    right to list. Of what a controller creates only the controller's object is named. Exit 0 if nothing would be
    denied, 1 if something would, 2 if the cluster or a kind cannot be read.
    """
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n and -A exclude each other; leave one out")
    file = kubeconfig_or_default(kubeconfig)
    given = None if policy is None else usable_policy(policy)
    report = Report(every_name=every_name)
    done = ask(file, audited(file, given, Scope(namespace, all_namespaces, profile_name), report, left_out))
    terminal.show(done.report.parts())
    for line in [*(f"warning: {one}" for one in done.warnings), *done.unread]:
        click.echo(printable(line), err=True)
    sys.exit(UNUSABLE if done.unread else PROBLEMS if done.report.numbers["denied"] else 0)


async def audited(
    kubeconfig: Kubeconfig, policy: Policy | None, scope: Scope, report: Report, left_out: LeftOut
) -> Audit:
    """Audit a cluster, and add its objects to `report`; raise what `Api` raises."""
    async with await Api.connect(kubeconfig) as api:
        api.left_out = left_out
        warnings: list[str] = []
        if policy is None:
            policy = await policy_in(api, warnings)
        if scope.profile is not None:
            profile_of(policy, scope.profile)
        done = Audit(api, policy, scope, report, warnings=warnings, left_out=left_out)
        telling = asyncio.create_task(tell(report, Progress()))
        try:
            await done.run()
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        return done


async def tell(report: Report, progress: Progress) -> NoReturn:
    """Show how many objects are judged so far, until it is cancelled."""
    try:
        while True:
            progress.show(f"{report.numbers.total():,} objects judged")
            await asyncio.sleep(EVERY)
    finally:
        progress.clear()


async def policy_in(api: Api, warnings: list[str]) -> Policy:
    """Return the policy in a cluster, or the packaged policy with a warning; exit 2 if it has problems."""
    name = "/".join(POLICY_CONFIGMAP)
    try:
        text = await stored_policy(api)
    except ApiError as error:
        namespace, config_map = POLICY_CONFIGMAP
        right = f"ask for the right to get configmaps/{config_map} in namespace {namespace}, or "
        remedy = f"{right if error.status == HTTPStatus.FORBIDDEN else ''}name one with --policy FILE"
        fail(f"the policy in ConfigMap {name} cannot be read: {error}; {remedy}")
    if text is None:
        what = f"there is no policy in ConfigMap {name}: judged by the packaged policy"
        warnings.append(f"{what}; name another with --policy FILE")
        return load_default()
    policy, problems = read_policy(text)
    if policy is None:
        fail(f"the policy in ConfigMap {name} has problems: {' | '.join(map(str, problems))}")
    return policy
