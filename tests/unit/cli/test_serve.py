"""The options of `retry-policy serve`, and errors before it listens."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from webhook.cli import program
from webhook.cli import serve as command
from webhook.program import logs
from webhook.program.start import CannotStartError
from webhook.serving import app
from webhook.serving.app import ServeOptions


class Started:
    """Replaces the server: records its arguments, and raises `error` if there is one."""

    def __init__(self) -> None:
        self.options: list[ServeOptions] = []
        self.error: Exception | None = None

    async def serve(self, options: ServeOptions, *_: Any) -> None:
        self.options.append(options)
        if self.error is not None:
            raise self.error


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started()
    monkeypatch.setattr(app, "serve", found.serve)
    monkeypatch.setattr(logs, "to_stderr", lambda: None)
    return found


def served(*arguments: str) -> Result:
    return CliRunner().invoke(command.serve, arguments)


def test_without_options_the_server_gets_the_defaults(started: Started) -> None:
    assert served().exit_code == 0
    assert started.options == [ServeOptions()]
    assert (started.options[0].port, started.options[0].health_port) == (8443, 8080)


def test_each_option_is_passed_to_the_server(started: Started) -> None:
    paths: dict[str, Any] = {name: Path(f"/etc/{name}") for name in ("policy", "tls_cert", "tls_key", "client_ca")}
    files = [word for name, path in paths.items() for word in (f"--{name.replace('_', '-')}", str(path))]
    rest = ["--host", "::", "--port", "0", "--health-port", "9090", "--kubeconfig", "admin.conf", "--requested-retries"]
    assert served(*files, *rest).exit_code == 0
    assert started.options == [
        ServeOptions(**paths, host="::", port=0, health_port=9090, kubeconfig="admin.conf", requested_retries=True)
    ]


def test_a_config_map_is_named_by_namespace_and_name(started: Started) -> None:
    assert served("--policy-configmap", "retry-policy/policy").exit_code == 0
    assert started.options[0].policy_configmap == ("retry-policy", "policy")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy-configmap", "policy"], "write NAMESPACE/NAME"),
        (["--policy-configmap", "/policy"], "write NAMESPACE/NAME"),
        (["--policy-configmap", "retry-policy/"], "write NAMESPACE/NAME"),
        (
            ["--policy-configmap", "a/b", "--policy", "p.yaml"],
            "--policy and --policy-configmap exclude each other; leave one out",
        ),
        (["--tls-cert", "tls.crt"], "--tls-cert and --tls-key go together; add the other one"),
        (["--tls-key", "tls.key"], "--tls-cert and --tls-key go together; add the other one"),
        (["--port", "65536"], "--port"),
        (["--health-port", "-1"], "--health-port"),
        (["policy.yaml"], "policy.yaml"),
    ],
)
def test_invalid_options_are_refused_before_the_server_starts(
    started: Started, arguments: list[str], problem: str
) -> None:
    found = served(*arguments)
    assert found.exit_code == 2
    assert problem in found.stderr
    assert started.options == []


def test_a_server_that_cannot_start_prints_the_reason_in_one_line(started: Started) -> None:
    started.error = CannotStartError("policy.yaml: cannot be read; name a policy file")
    found = served()
    assert (found.exit_code, found.stderr) == (1, "Error: policy.yaml: cannot be read; name a policy file\n")


def test_both_programs_have_the_same_options_about_policy_ports_and_cluster() -> None:
    shared = {"policy", "policy_configmap", "host", "health_port", "kubeconfig"}

    @program.options_of_a_program
    def of_a_program(**_: Any) -> None: ...

    assert {one.name for one in of_a_program.__click_params__} == shared  # type: ignore[attr-defined]
    assert shared < {one.name for one in command.serve.params}
