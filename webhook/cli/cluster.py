"""Shared by the commands that ask a cluster: the kubeconfig, and what is printed if the cluster cannot be asked."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from webhook.cli.console import DEFAULT_KUBECONFIG, UNUSABLE, printable
from webhook.kube.client import UNREACHABLE, ApiError

OTHER_KUBECONFIG: Final = "name another with --kubeconfig"

Found = TypeVar("Found")


def kubeconfig_or_default(kubeconfig: str | None) -> str:
    """Return `kubeconfig`, or else the path that kubectl uses by default; exit 2 if there is no such file.

    KUBECONFIG may name several files, which are merged.
    """
    found = kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())
    if not any(Path(one).exists() for one in found.split(os.pathsep)):
        fail(f"kubeconfig {found}: file does not exist; {OTHER_KUBECONFIG}")
    return found


def ask(kubeconfig: str, work: Coroutine[Any, Any, Found]) -> Found:
    """Return what `work` returns, which asks the cluster of a kubeconfig; exit 2 if the cluster cannot be asked."""
    try:
        return asyncio.run(work)
    except ApiError as error:
        fail(f"the API server refused the request: {error}")
    except UNREACHABLE as error:
        fail(f"the cluster of {kubeconfig} cannot be reached: {str(error) or repr(error)}; {OTHER_KUBECONFIG}")


def fail(message: str) -> NoReturn:
    """Print why the cluster cannot be asked, and exit 2."""
    click.echo(printable(message), err=True)
    sys.exit(UNUSABLE)
