"""retry-policy dashboard."""

import asyncio
import signal
import time
import webbrowser
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from typing import Final, Self

import click

from webhook.cli.cluster import ask, kubeconfig_or_default
from webhook.cli.console import fail, kubeconfig_option, leaving_out, namespace_option
from webhook.cli.report import ReportQuestion, facts_in, made_of, named
from webhook.cli.terminal import command
from webhook.insight.dashboard import NothingReadableError, PortTakenError
from webhook.insight.dashboard import dashboard as serving
from webhook.insight.report.build import About
from webhook.insight.report.known import Window
from webhook.insight.report.load import NothingReadError, ReportScope
from webhook.insight.report.model import Report
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut

PORT: Final = click.IntRange(0, 65535)
ENDS: Final = (signal.SIGINT, signal.SIGTERM)


@command(
    ("The whole cluster; it prints an address to open", "retry-policy dashboard"),
    ("One namespace, for a user who may read only this, in the default browser", "retry-policy dashboard -n ml --open"),
    ("On another machine, seen through SSH: ssh -t -L 8090:127.0.0.1:8090 HOST", "retry-policy dashboard --port 8090"),
)
@namespace_option
@click.option("--port", type=PORT, default=0, help="Port of 127.0.0.1.  [default: a free one]")
@click.option("--open", "is_opened", is_flag=True, help="Open the address in the default browser.")
@kubeconfig_option
@leaving_out
def dashboard(namespace: str | None, port: int, kubeconfig: Kubeconfig, *, is_opened: bool, left_out: LeftOut) -> None:
    """Show the report of the cluster in a browser on this machine, live, until Ctrl-C.

    Reads with your rights, every few seconds while a page is open, and never writes. The address that it prints opens
    the page once, in one browser. Exit 0, or 2 if the cluster cannot be read.
    """
    file = kubeconfig_or_default(kubeconfig)
    try:
        ask(file, _serve(DashboardReader(file, ReportScope(namespace), left_out), port, is_opened=is_opened))
    except (NothingReadableError, PortTakenError) as error:
        fail(str(error))


async def _serve(reader: "DashboardReader", port: int, *, is_opened: bool) -> None:
    ended = asyncio.Event()
    for one in ENDS:
        with suppress(NotImplementedError):  # on Windows Ctrl-C raises KeyboardInterrupt instead
            asyncio.get_running_loop().add_signal_handler(one, ended.set)
    async with reader, serving(reader, port) as address:
        click.echo(address)
        click.echo(
            "Open this address in a browser on this machine; it works once. Ctrl-C ends the dashboard.", err=True
        )
        if is_opened:
            await asyncio.to_thread(webbrowser.open, address)
        await ended.wait()


class DashboardReader:
    """Reads the report of a cluster, on one connection; use as an async context manager.

    `left_out`: takes the objects that any reading left out.
    """

    def __init__(self, kubeconfig: Kubeconfig, scope: ReportScope, left_out: LeftOut) -> None:
        self.kubeconfig = kubeconfig
        self.scope = scope
        self.left_out = left_out
        self.connection = AsyncExitStack()
        self.api: Api | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connection; the next reading makes another one."""
        self.api = None
        await self.connection.aclose()

    async def __call__(self) -> Report:
        """Return the report; raise NothingReadableError, and what `Api` raises.

        If the credentials are refused, they are taken from the kubeconfig again: they may have expired.
        """
        try:
            return await self.report()
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            await self.disconnect()
            return await self.report()

    async def report(self) -> Report:
        """Return the report, as `__call__` does."""
        if self.api is None:
            self.api = await self.connection.enter_async_context(await Api.connect(self.kubeconfig))
        window, left_out = Window(), LeftOut(self.left_out.tell)
        try:
            facts = await facts_in(self.api, ReportQuestion(self.scope, window), lambda _: None, left_out)
            about = About("cluster", named(self.scope, self.kubeconfig.cluster), window, time.time())
            return await asyncio.to_thread(made_of, facts, None, about, left_out)
        except NothingReadError as error:
            raise NothingReadableError(str(error)) from None
        finally:
            self.left_out.number += left_out.number
