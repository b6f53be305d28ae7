"""retry-policy dashboard."""

import asyncio
import time
import webbrowser
from pathlib import Path

import click

from webhook.cli.cluster import ask, fail, kubeconfig_or_default
from webhook.cli.console import completed, kubeconfig_option
from webhook.cli.policy_file import usable_policy
from webhook.cli.report import facts_in, made_of, named
from webhook.cli.terminal.examples import WithExamples
from webhook.dashboard import server
from webhook.dashboard.feed import NothingReadableError
from webhook.dashboard.server import CannotListenError
from webhook.kube.client import Api
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import is_name
from webhook.policy.model import Policy
from webhook.report.build import About
from webhook.report.known import Window
from webhook.report.load import NothingReadError, Scope
from webhook.report.model import Report


@click.command(
    cls=WithExamples,
    examples=(
        ("The cluster, as far as you may read it, in your browser", "retry-policy dashboard --open"),
        ("One team; open the address that is printed", "retry-policy dashboard -n ml"),
    ),
    options_metavar="[OPTIONS]",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    shell_complete=completed("namespaces"),
    help="Only this namespace.  [default: all that you may read]",
)
@click.option("--profile", metavar="NAME", help="Only workloads under this profile.")
@click.option("-l", "--selector", metavar="SELECTOR", help="Only Jobs and JobSets that this label selector selects.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Policy whose prices apply.  [default: the policy in the cluster]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Default: a free one.")
@click.option("--open", "opens", is_flag=True, help="Open the address in your browser.")
@kubeconfig_option
def dashboard(  # noqa: PLR0913 - one parameter for each option
    *,
    namespace: str | None,
    profile: str | None,
    selector: str | None,
    policy: Path | None,
    port: int,
    opens: bool,
    kubeconfig: Kubeconfig,
) -> None:
    """Show the report of a cluster in your browser, live, until Ctrl+C.

    Serves on this machine alone, reads the cluster with your rights, and changes nothing.
    """
    if namespace is not None and not is_name(namespace):
        raise click.UsageError(f"{namespace!r} is not the name of a namespace; list them: kubectl get namespaces")
    given = None if policy is None else usable_policy(policy)
    found = kubeconfig_or_default(kubeconfig)
    try:
        ask(found, serve(found, Scope(namespace, profile, selector), given, port, opens=opens))
    except (CannotListenError, NothingReadableError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        click.echo(err=True)


async def serve(kubeconfig: Kubeconfig, scope: Scope, policy: Policy | None, port: int, *, opens: bool) -> None:
    """Serve the dashboard until cancelled; raise CannotListenError, NothingReadableError, and what `Api` raises."""
    async with await Api.connect(kubeconfig) as api:

        async def read() -> Report:
            window = Window(None, None)
            try:
                facts = await facts_in(api, scope, window, policy, lambda _: None)
            except NothingReadError as error:
                raise NothingReadableError(str(error)) from None
            return made_of(facts, None, About("cluster", named(scope), window, time.time()))

        async with server.dashboard(read, port) as address:
            click.echo(f"{address}\nOnly this address opens it, in one browser. Ctrl+C ends it.")
            if opens:
                webbrowser.open(address)
            await asyncio.Event().wait()
