"""The command `retry-policy dashboard`, on an API that has lists alone: a write would fail."""

import asyncio
import gzip
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self, cast

import aiohttp
import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.objects import job, job_spec
from tests.unit.cli.test_check_cluster_lists import Lists, stored
from webhook.cli import dashboard as command
from webhook.cli.dashboard import DashboardReader
from webhook.insight.dashboard import NothingReadableError
from webhook.insight.report.load import ReportScope
from webhook.insight.report.model import Report
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import RAISING
from webhook.objects.problem import Json

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
TRAIN: Json = stored({**job(job_spec()), "metadata": {"name": "train"}}, labels={names.PROFILE: "default"})


class Cluster(Lists):
    """Counts its connections; the first `refusals` of them are refused."""

    connections = 0
    refusals = 0

    async def objects(self, path: str, query: dict[str, str], *_: Any, kind: Any = None) -> AsyncIterator[Json]:  # noqa: ARG002
        if self.connections <= self.refusals:
            raise ApiError(401, "Unauthorized")
        async for one in super().objects(path, query):
            yield one

    async def __aenter__(self) -> Self:
        self.connections += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster({JOBS: [TRAIN]})

    async def connect(_: object) -> Cluster:
        return found

    monkeypatch.setattr(Api, "connect", connect)
    return found


def invoke(folder: Path, *arguments: str) -> Result:
    (folder / "config").touch()
    return CliRunner().invoke(command.dashboard, [*arguments, f"--kubeconfig={folder / 'config'}"])


def reader() -> DashboardReader:
    return DashboardReader(Kubeconfig("", None), ReportScope("ml"), RAISING)


def test_the_report_is_that_of_the_scope_and_only_lists_are_read(cluster: Cluster) -> None:
    async def work() -> Report:
        async with reader() as read:
            await read()
            return await read()

    report = asyncio.run(work())
    assert [row.name for row in report.workloads] == ["train"]
    assert report.scope == "Namespace ml"
    namespaced = {path for path, _ in cluster.asked if "/namespaces/" in path and "retry-policy-system" not in path}
    assert all("/namespaces/ml/" in path for path in namespaced)
    assert cluster.connections == 1


def test_refused_credentials_are_taken_from_the_kubeconfig_again(cluster: Cluster) -> None:
    cluster.refusals = 1

    async def work() -> Report:
        async with reader() as read:
            return await read()

    assert len(asyncio.run(work()).workloads) == 1
    assert cluster.connections == 2


def test_a_user_who_may_read_nothing_is_told_what_to_do(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lists = {JOBS: ApiError(403, "forbidden"), "/apis/batch/v1/jobs": ApiError(403, "forbidden")}
    with pytest.raises(NothingReadableError):
        asyncio.run(reader()())
    done = invoke(tmp_path)
    assert done.exit_code == 2
    assert done.stderr.endswith("name a namespace with -n\n")


@pytest.mark.usefixtures("cluster")
def test_a_port_in_use_and_a_name_that_is_none_are_errors(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = invoke(tmp_path, "-n", "ml", "--port", str(taken.getsockname()[1]))
    assert (done.exit_code, "choose another port" in done.stderr) == (2, True)
    assert "is not the name of a namespace" in invoke(tmp_path, "-n", "a/b").stderr


@pytest.mark.usefixtures("cluster")
def test_the_address_opens_the_dashboard_until_a_signal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--open hands the address to the browser; this one looks at the report, and then ends the dashboard."""
    seen: list[Report] = []

    async def look(address: str) -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), auto_decompress=False) as session:
            await session.get(address)
            async with session.get(f"{address.partition('?')[0]}report") as answer:
                seen.append(msgspec.json.decode(gzip.decompress(await answer.read()), type=Report))

    def browse(address: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        asyncio.run(look(address))
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("webbrowser.open", browse)
    done = invoke(tmp_path, "-n", "ml", "--open")
    assert (done.exit_code, cast("Any", done.exception)) == (0, None)
    assert done.stdout.startswith("http://127.0.0.1:")
    assert "it works once" in done.stderr
    assert [row.name for row in seen[0].workloads] == ["train"]
