"""`retry-policy control`: its options, what it needs to start, and whether it is ready."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.awaiting import LONGEST
from tests.served import COMMAND
from webhook.cli import control as command
from webhook.controller import app
from webhook.controller.app import ControlOptions, hosts_of, troubles
from webhook.policy.parse import load_default
from webhook.program import logs
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.state_key import SharedStateKey


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ControlOptions]:
    """Return the options with which the controller is started in place of a start."""
    found: list[ControlOptions] = []

    async def control(options: ControlOptions, *_: Any) -> None:
        found.append(options)

    monkeypatch.setattr(app, "control", control)
    monkeypatch.setattr(logs, "to_stderr", lambda: None)
    return found


def controlled(*arguments: str) -> Result:
    return CliRunner().invoke(command.control, arguments)


def test_each_option_is_passed_to_the_controller(started: list[ControlOptions]) -> None:
    paths: dict[str, Any] = {name: Path(f"/etc/{name}") for name in ("policy", "history")}
    files = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    rest = ["--host", "::", "--health-port", "9090", "--kubeconfig", "admin.conf", "--requested-retries"]
    assert controlled(*files, *rest, "--no-certificates", "--certificate-host", "10.0.0.1").exit_code == 0
    assert started == [
        ControlOptions(
            **paths,
            host="::",
            health_port=9090,
            kubeconfig="admin.conf",
            requested_retries=True,
            certificates=False,
            certificate_hosts=("10.0.0.1",),
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy-configmap", "policy"], "write NAMESPACE/NAME"),
        (["--history", "a", "--history-url", "https://b/"], "exclude each other"),
        (["--history-token-file", "a"], "needs --history-url"),
        (["--history-url", "vector"], "no URL of a collector"),
        (["--history-url", "https://me:s3cret@vector/"], "use --history-token-file"),
        (["--history-url", "http://vector/", "--history-token-file", "a"], "begin with https://"),
    ],
)
def test_invalid_options_are_refused_before_the_controller_starts(
    started: list[ControlOptions], arguments: list[str], problem: str
) -> None:
    found = controlled(*arguments)
    assert (found.exit_code, started) == (2, [])
    assert problem in found.stderr


def test_without_a_cluster_the_controller_says_what_it_needs() -> None:
    done = subprocess.run((COMMAND, "control"), capture_output=True, check=False, timeout=LONGEST)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"add --kubeconfig, and set POD_NAMESPACE" in done.stderr


def test_the_certificate_is_for_this_machine_the_service_and_the_named_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    hosts = hosts_of(ControlOptions(certificate_hosts=("10.0.0.1",)))
    assert hosts == ["localhost", "127.0.0.1", "::1", "10.0.0.1", "retry-policy-webhook.ops.svc"]


def test_the_controller_is_not_ready_without_a_policy_and_without_its_caches() -> None:
    no_api: Any = None
    key = SharedStateKey(no_api, "ops")
    found = troubles(PolicySource(), Cluster(no_api), key)
    assert [one.partition(":")[0] for one in found] == ["no policy in force", "caches not filled yet"]
    assert len(troubles(PolicySource(load_default()), Cluster(no_api), key)) == 1
