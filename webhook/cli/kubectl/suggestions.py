"""What a shell offers while a user types: contexts of the kubeconfig, and names from the cluster.

Nothing is offered, and nothing is said, if the cluster cannot be asked or does not answer in a second.
"""

import asyncio
import importlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from webhook.kinds import WORDS, KindSpec
from webhook.kube import kubeconfig as kubeconfigs
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import is_name, path_of

SECONDS: Final = 1.0  # for the API server
LIST_SECONDS: Final = 0.7  # of these, for the lists of all kinds: those that arrive later are left out
ALL_SECONDS: Final = 1.5  # until the process ends, whatever it waits for: a name server, say, cannot be interrupted
MOST: Final = 500  # names of one kind: what the API server returns in one page
MOST_SHOWN: Final = 100  # above this, the kinds are offered before the names
# The API server sends the columns that kubectl prints, which are a fraction of the objects.
TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
QUERY: Final = {"limit": str(MOST), "includeObject": "None"}

Answer = TypeVar("Answer")
Work = Callable[[Api], Coroutine[Any, Any, Answer]]


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str


class Row(msgspec.Struct, frozen=True):
    """An object in a table."""

    cells: list[Any]


class Table(msgspec.Struct, frozen=True):
    """A list of objects, as kubectl prints it."""

    columns: list[Column] = msgspec.field(name="columnDefinitions")
    rows: list[Row] | None = None


def contexts(kubeconfig: Kubeconfig, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig that begin with what is typed."""
    with suppress(OSError, ValueError):
        found = kubeconfigs.contexts(kubeconfig.paths)
        return sorted(one for one in found.namespaces if one.startswith(incomplete))
    return []


def namespaces(kubeconfig: Kubeconfig, incomplete: str) -> list[str]:
    """Return the namespaces that begin with what is typed."""
    found = asked(kubeconfig, all_namespaces) or []
    return [one for one in found if one.startswith(incomplete)]


def workloads(kubeconfig: Kubeconfig, incomplete: str, rows: list[KindSpec], namespace: str | None) -> list[str]:
    """Return the workloads of these kinds that begin with what is typed.

    As [KIND/]NAME if the namespace is known; as NAMESPACE/[KIND/]NAME, namespaces first, if it is None.
    """
    return asked(kubeconfig, lambda api: offered(api, rows, namespace, incomplete)) or []


async def offered(api: Api, rows: list[KindSpec], namespace: str | None, incomplete: str) -> list[str]:
    """Return what `workloads` does; raise what `Api` raises."""
    if namespace is not None:
        return matching(await names_by_kind(api, rows, namespace), "", incomplete)
    typed, slash, _ = incomplete.partition("/")
    if not slash:
        found = [one for one in await all_namespaces(api) if one.startswith(typed)]
        if len(found) != 1:
            return [f"{one}/" for one in found]
        typed = found[0]  # a shell would add a space to the only suggestion: offer what comes next
    objects = await names_by_kind(api, rows, typed)
    return matching(objects, f"{typed}/", incomplete) or ([] if slash else [f"{typed}/"])


def matching(found: dict[str, list[str]], before: str, incomplete: str) -> list[str]:
    """Return KIND/NAME of the objects, by kind, that match what is typed, and NAME if the kind was left out."""
    full = [f"{before}{kind}/{name}" for kind, names in found.items() for name in names]
    matches = [one for one in full if one.startswith(incomplete)]
    if len(matches) > MOST_SHOWN and "/" not in incomplete[len(before) :]:
        matches = [f"{before}{kind}/" for kind, names in found.items() if names]
        matches = [one for one in matches if one.startswith(incomplete)]
    if len(incomplete) <= len(before):
        return matches
    bare = dict.fromkeys(f"{before}{name}" for names in found.values() for name in names)
    return [*matches, *(one for one in bare if one.startswith(incomplete))]


async def names_by_kind(api: Api, rows: Iterable[KindSpec], namespace: str) -> dict[str, list[str]]:
    """Return the names of the objects of each kind, of the kinds whose list arrived in time."""
    if not is_name(namespace):
        return {}
    tasks = {WORDS[row]: asyncio.create_task(names(api, row.path(namespace))) for row in rows}
    await asyncio.wait(tasks.values(), timeout=LIST_SECONDS)
    return {kind: task.result() for kind, task in tasks.items() if task.done()}


async def all_namespaces(api: Api) -> list[str]:
    """Return the names of all namespaces."""
    return await names(api, path_of("v1", "namespaces"))


async def names(api: Api, path: str) -> list[str]:
    """Return the names in a list, none if there is no such kind or the user may not list it."""
    try:
        table: Table = await api.get(path, QUERY, TABLE, Table)
    except (ApiError, *UNREACHABLE, msgspec.DecodeError):
        return []
    index = next((place for place, column in enumerate(table.columns) if column.name == "Name"), 0)
    return sorted(str(row.cells[index]) for row in table.rows or () if len(row.cells) > index)


def asked(kubeconfig: Kubeconfig, work: Work[Answer]) -> Answer | None:
    """Return what `work` returns, which asks the cluster; None if it cannot be asked, or not in time."""
    importlib.import_module("kubernetes.aio.config")  # what this machine takes for it is no time of the cluster
    logging.disable()  # the official client logs errors of credential plugins
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, ALL_SECONDS)
    try:
        return asyncio.run(answer(kubeconfig, work))
    except Exception:  # noqa: BLE001 - whatever it is, a user who types has no use for it
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


async def answer(kubeconfig: Kubeconfig, work: Work[Answer]) -> Answer:
    """Return what `work` returns; raise TimeoutError, and what `Api` raises."""
    context = kubeconfig.context or kubeconfigs.contexts(kubeconfig.paths).current
    async with asyncio.timeout(SECONDS), await Api.connect(Kubeconfig(kubeconfig.paths, context)) as api:
        return await work(api)
