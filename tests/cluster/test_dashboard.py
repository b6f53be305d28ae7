"""`retry-policy dashboard` with a user who may list the Jobs and pods of one namespace, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.awaiting import LONGEST
from tests.cluster import command_line
from tests.cluster.conftest import opted_in
from tests.cluster.manifests import exits, job
from tests.cluster.objects import condition
from tests.cluster.test_retry import new_user
from tests.served import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

LISTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "lists"},
    "rules": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ],
}


@contextmanager
def shown(*options: str) -> Iterator[str]:
    """Run the dashboard; yield its address, and end it as Ctrl-C does."""
    with subprocess.Popen((COMMAND, "dashboard", *options), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(LONGEST) == 0


class Page:
    """What a page of the dashboard does: it opens the address, listens for news, and reads the report."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.base = address.partition("/?")[0]

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), auto_decompress=False)
        async with self.session.get(self.address) as answer:
            assert answer.status == 200
        self.stream = await self.session.get(f"{self.base}/events")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stream.close()  # else its connection, which stays open for news, waits for the garbage collector
        await self.session.close()

    async def until(self, wanted: str) -> str:
        """Return the text of the next event of this name."""
        async with asyncio.timeout(LONGEST):
            while True:
                line = (await self.stream.content.readline()).decode()
                if line == f"event: {wanted}\n":
                    return (await self.stream.content.readline()).decode().removeprefix("data: ").strip()

    async def report(self) -> Any:
        """Return the report; None if there is none."""
        async with self.session.get(f"{self.base}/report") as answer:
            body = await answer.read()
            return json.loads(gzip.decompress(body)) if answer.status == 200 else None


def finished(team: Namespace, name: str) -> Object:
    team.create(job(name, exits(0), backoffLimit=3))
    return team.wait_for("jobs", name, lambda found: condition(found, "Complete"))


def test_a_user_sees_what_the_own_lists_show_until_they_may_list_no_more(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    """The role allows `list` alone, so whatever else the dashboard did would be refused, and told."""
    other, team = opted_in(namespace), opted_in(namespace)
    finished(other, "secret")
    finished(team, "first")
    team.create(LISTS)
    user = new_user(team, tmp_path, "Role/lists")

    async def look(address: str) -> None:
        async with Page(address) as page:
            await page.until("checked")
            found = await page.report()
            assert [(row["name"], row["state"]) for row in found["workloads"]] == [("first", "Complete")]
            assert other.name not in json.dumps(found)
            await asyncio.to_thread(finished, team, "second")
            while len((await page.report())["workloads"]) < 2:
                await page.until("report")
            team.delete("rolebinding/lists")
            assert "you may not list the Jobs" in await page.until("withdrawn")
            assert await page.report() is None

    with shown("-n", team.name, f"--kubeconfig={user}") as address:
        asyncio.run(look(address))


def test_a_user_who_may_list_nothing_there_gets_no_dashboard(namespace: NewNamespace, tmp_path: Path) -> None:
    other, team = opted_in(namespace), opted_in(namespace)
    team.create(LISTS)
    user = new_user(team, tmp_path, "Role/lists")
    for options in (["-n", other.name], []):
        done = command_line.run("dashboard", *options, f"--kubeconfig={user}")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "you may not list the Jobs" in done.stderr
