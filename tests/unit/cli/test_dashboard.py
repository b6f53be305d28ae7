"""The command `retry-policy dashboard`: what it refuses, what it prints, and that it reads as the report does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.audit.test_load import CONFIG_MAPS
from tests.unit.cli.test_audit import Connected
from tests.unit.report.test_live import job, pod
from webhook.cli import dashboard as command
from webhook.dashboard import server
from webhook.dashboard.feed import Read
from webhook.dashboard.server import CannotListenError
from webhook.kube.client import Api, ApiError
from webhook.report.model import Report

FORBIDDEN = ApiError(403, "forbidden")


class Served:
    """Stands for the server: it reads once, as the server does before it says its address, and ends."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.port = -1
        self.refusal: Exception | None = None

    @asynccontextmanager
    async def dashboard(self, read: Read, port: int) -> AsyncIterator[str]:
        if self.refusal is not None:
            raise self.refusal
        self.port, self.report = port, await read()
        yield "http://127.0.0.1:1/?token=t"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    found = Served()
    monkeypatch.setattr(server, "dashboard", found.dashboard)
    monkeypatch.setattr(asyncio.Event, "wait", ended)
    return found


async def ended(_: asyncio.Event) -> bool:
    raise KeyboardInterrupt


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: it, user: {}}]
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.dashboard, arguments)


def connect(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    async def connected(_: object) -> Connected:
        return Connected(answers)

    monkeypatch.setattr(Api, "connect", connected)


def test_the_address_is_printed_once_the_cluster_was_read(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    connect(
        monkeypatch,
        {
            "/apis/batch/v1/namespaces/ml/jobs": [job()],
            "/api/v1/namespaces/ml/pods": [pod("a", "Succeeded")],
            CONFIG_MAPS: [],
            "/api/v1/nodes": [],
        },
    )
    done = run("-n", "ml", "--port", "4711")
    assert done.output.startswith("http://127.0.0.1:1/?token=t\nOnly this address opens it")
    assert served.port == 4711
    assert served.report is not None
    assert [row.name for row in served.report.workloads] == ["train"]


def test_a_namespace_that_is_none_is_refused(served: Served) -> None:
    done = run("-n", "Team_A")
    assert done.exit_code == 2
    assert "'Team_A' is not the name of a namespace; list them: kubectl get namespaces" in done.output
    assert served.report is None


def test_a_user_who_may_list_nothing_reads_what_to_do(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    connect(monkeypatch, {"/apis/batch/v1/jobs": FORBIDDEN, CONFIG_MAPS: FORBIDDEN})
    done = run()
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "name a namespace with -n" in done.output
    assert served.report is None


def test_a_port_that_is_taken_is_one_line(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    connect(monkeypatch, {})
    served.refusal = CannotListenError("cannot listen on 127.0.0.1:80: Permission denied; choose another port")
    done = run()
    assert (done.exit_code, done.output) == (2, f"{served.refusal}\n")
