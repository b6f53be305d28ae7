"""Shared by the commands that ask a cluster: the kubeconfig, an object that a user names, and what is printed else."""

import asyncio
import os
from collections.abc import Awaitable, Coroutine, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from webhook.cli.console import ObjectArgument, fail, kinds_of
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.kubeconfig import Contexts, Kubeconfig, contexts
from webhook.objects.problem import Json, Problem, one_of
from webhook.retry import reading
from webhook.systems.kind_spec import KindSpec

OTHER_KUBECONFIG: Final = "name another with --kubeconfig"
MOST_CONTEXTS: Final = 20  # in a message

Found = TypeVar("Found")


def kubeconfig_or_default(kubeconfig: Kubeconfig) -> Kubeconfig:
    """Return the files and the context that are named, or else those that kubectl uses; exit 2 if there are none.

    KUBECONFIG may name several files, which are merged.
    """
    files, context = kubeconfig.paths, kubeconfig.context
    if not any(Path(one).exists() for one in files.split(os.pathsep)):
        fail(f"kubeconfig {files}: file does not exist; {OTHER_KUBECONFIG}")
    found = _contexts_in(files)
    if context is not None and context not in found.namespaces:
        known = ", ".join(sorted(found.namespaces)[:MOST_CONTEXTS])
        fail(f"kubeconfig {files}: there is no context {context!r}; it has: {known or 'none'}")
    used = context or found.current
    if used in found.without_user:
        remedy = f"add one: kubectl config set-context {used} --user=NAME"
        fail(f"kubeconfig {files}: the context {used!r} names no user; {remedy}")
    return Kubeconfig(files, used, found.clusters.get(used or "", ""))


def _contexts_in(files: str) -> Contexts:
    """Return the contexts in the files of a kubeconfig; exit 2 if one of them cannot be read."""
    try:
        return contexts(files)
    except OSError as error:
        fail(f"kubeconfig {files}: cannot be read: {error.strerror}; {OTHER_KUBECONFIG}")
    except ValueError as error:
        fail(f"kubeconfig {error}; {OTHER_KUBECONFIG}")


def ask(kubeconfig: Kubeconfig, work: Coroutine[Any, Any, Found]) -> Found:
    """Return what `work` returns, which asks the cluster of a kubeconfig; exit 2 if the cluster cannot be asked."""
    try:
        return asyncio.run(work)
    except ApiError as error:
        fail(f"the API server refused the request: {error}")
    except UNREACHABLE as error:
        fail(f"the cluster of {kubeconfig.files} cannot be reached: {_why(error)}; {OTHER_KUBECONFIG}")


def _why(error: BaseException) -> str:
    """Return why there was no answer; of a connection that failed, its address and the system's words."""
    cause = getattr(error, "os_error", None)  # of aiohttp's errors, whose own text is for programmers
    if isinstance(cause, OSError) and cause.errno is not None:
        said = os.strerror(cause.errno) if cause.errno > 0 else cause.strerror
        return f"{getattr(error, 'host', '')}:{getattr(error, 'port', '')}: {said}"
    return str(error) or repr(error)


class NotOneError(Exception):
    """No object has the name that a user gave, or several have it; `problem` says what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))


async def find(api: Api, target: ObjectArgument, kinds: Sequence[KindSpec]) -> tuple[KindSpec, Json]:
    """Return the kind and the object that a user names; raise NotOneError, and what `Api` raises.

    `kinds`: the kinds of the command, of which one must have an object of that name if the user left the kind out. A
    kind that the user may not read has none.
    """
    if target.kind is not None:
        one = await api.find(target.kind.path(target.namespace, target.name))
        if one is None:
            absent = await reading.absent(api, target.kind, target.namespace, target.name)
            raise NotOneError(absent.what, absent.remedy)
        return target.kind, one
    objects = await asyncio.gather(*(_readable(api.find(kind.path(target.namespace, target.name))) for kind in kinds))
    found = [(kind, one) for kind, one in zip(kinds, objects, strict=True) if one is not None]
    if len(found) == 1:
        return found[0]
    if found:
        choice = one_of([str(target._replace(kind=kind)) for kind, _ in found])
        raise NotOneError(f"several objects are named {target}", f"write {choice}")
    remedy = f"write NAMESPACE/KIND/NAME, and list what there is: kubectl get -n {target.namespace} jobs,cronjobs"
    raise NotOneError(f"there is no {kinds_of(kinds)} {target} that you may read", remedy)


async def _readable(reading: Awaitable[Json | None]) -> Json | None:
    """Return an object that is read; None if there is none that the user may read."""
    try:
        return await reading
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return None
