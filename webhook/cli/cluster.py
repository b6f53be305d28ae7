"""Shared by the commands that ask a cluster: the kubeconfig, an object that a user names, and what is printed else."""

import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from webhook.cli.console import DEFAULT_KUBECONFIG, UNUSABLE, ObjectArgument, one_of, printable
from webhook.kinds import KindSpec
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.objects.problem import Json, Problem
from webhook.retry import reading

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


class NotOneError(Exception):
    """No object has the name that a user gave, or several have it; `problem` says what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))


async def find(api: Api, target: ObjectArgument, rows: Sequence[KindSpec]) -> tuple[KindSpec, Json]:
    """Return the kind and the object that a user names; raise NotOneError, and what `Api` raises.

    `rows`: the kinds of the command, of which one must have an object of that name if the user left the kind out. A
    kind that the user may not read has none.
    """
    if target.row is not None:
        one = await api.find(target.row.path(target.namespace, target.name))
        if one is None:
            absent = await reading.absent(api, target.row, target.namespace, target.name)
            raise NotOneError(absent.what, absent.remedy)
        return target.row, one
    found: list[tuple[KindSpec, Json]] = []
    for row in rows:
        try:
            one = await api.find(row.path(target.namespace, target.name))
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            continue
        found += [(row, one)] if one is not None else []
    if len(found) == 1:
        return found[0]
    if found:
        choice = one_of([str(target._replace(row=row)) for row, _ in found])
        raise NotOneError(f"several objects are named {target}", f"write {choice}")
    remedy = f"write NAMESPACE/KIND/NAME, and list what there is: kubectl get -n {target.namespace} jobs,cronjobs"
    raise NotOneError(f"there is no {one_of([row.kind for row in rows])} {target} that you may read", remedy)
