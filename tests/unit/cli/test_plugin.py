"""The kubectl plugin: its commands, their help, and how it names workloads and the cluster."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from webhook import __version__
from webhook.cli import console, kubectl, suspend
from webhook.cli.console import PLUGIN
from webhook.cli.main import COMMANDS, OFFLINE, main
from webhook.kube.kubeconfig import Kubeconfig

KUBECONFIG = """
current-context: lab
contexts:
- {name: lab, context: {cluster: c, namespace: ml}}
- {name: prod, context: {cluster: c, namespace: web}}
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Kubeconfig]]:
    """Replace what suspends; return a list of what it was called with, and let KUBECONFIG name a file."""
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    calls: list[tuple[str, Kubeconfig]] = []
    monkeypatch.setattr(suspend, "switch", lambda target, kubeconfig, **_: calls.append((target, kubeconfig)))
    return calls


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(kubectl.plugin, arguments, prog_name=PLUGIN, catch_exceptions=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_plugin_has_the_commands_that_ask_a_cluster(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    asks = any(param.name == "context" for param in command.params)
    remedy = "add a command that asks no cluster to OFFLINE in webhook/cli/main.py, and to others @kubeconfig_option"
    assert asks == (name not in OFFLINE), remedy
    listed = invoke("--help").stdout.partition("Commands:\n")[2]
    assert (f"  {name} " in listed) == asks


def test_a_command_that_asks_no_cluster_is_no_command_of_the_plugin() -> None:
    assert "No such command 'render'" in invoke("render").stderr


def test_help_and_version_name_the_plugin_as_kubectl_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspend.suspend, "epilog", "Example: retry-policy suspend etl/cronjob/nightly")
    assert f"Example: {PLUGIN} suspend etl/cronjob/nightly\n" in invoke("suspend", "--help").stdout
    assert invoke("suspend", "--help").stdout.startswith(f"Usage: {PLUGIN} suspend [OPTIONS] [KIND/]NAME\n")
    assert f"until {PLUGIN} resume" in " ".join(invoke("suspend", "--help").stdout.split())
    assert invoke("--version").stdout == f"{PLUGIN}, version {__version__}\n"


def test_the_help_of_the_command_line_stays_as_it_is() -> None:
    invoke("suspend", "--help")
    done = CliRunner().invoke(main, ["suspend", "--help"], prog_name="retry-policy")
    assert "[OPTIONS] NAMESPACE/[KIND/]NAME" in done.stdout
    assert PLUGIN not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["train"], "ml/train"),
        (["job/train"], "ml/job/train"),
        (["--context", "prod", "train"], "web/train"),
        (["-n", "batch", "job/train"], "batch/job/train"),
        (["batch/job/train"], "batch/job/train"),
        (["-n", "batch", "batch/job/train"], "batch/job/train"),
    ],
)
def test_a_workload_is_in_the_namespace_that_kubectl_would_use(
    called: list[tuple[str, Kubeconfig]], arguments: list[str], target: str
) -> None:
    assert invoke("suspend", *arguments).exit_code == 0
    assert [one for one, _ in called] == [target]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["-n", "ml", "web/job/train"], "'web/job/train' and -n ml name two namespaces; leave one out"),
        (["-n", "a/b", "train"], "'a/b' is not the name of a namespace; list them: kubectl get namespaces"),
        (["--kubeconfig", "broken", "train"], "broken is no kubeconfig: must hold a mapping; name it with -n"),
    ],
)
def test_a_namespace_that_cannot_be_meant_is_refused(
    called: list[tuple[str, Kubeconfig]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken").write_text("- a")
    done = invoke("suspend", *arguments)
    assert (done.exit_code, called) == (2, [])
    assert what in done.stderr


def test_the_command_line_takes_the_namespace_as_an_option_too(called: list[tuple[str, Kubeconfig]]) -> None:
    for arguments in (["suspend", "-n", "web", "job/train"], ["suspend", "web/job/train"], ["suspend", "web/train"]):
        assert CliRunner().invoke(main, arguments, prog_name="retry-policy").exit_code == 0
    assert [target for target, _ in called] == ["web/job/train", "web/job/train", "web/train"]


def test_kubeconfig_and_context_reach_the_command(called: list[tuple[str, Kubeconfig]]) -> None:
    for arguments in ([], ["--kubeconfig", "/a", "--context", "b"]):
        CliRunner().invoke(main, ["resume", "ml/train", *arguments], prog_name="retry-policy")
    assert [kubeconfig for _, kubeconfig in called] == [Kubeconfig(), Kubeconfig("/a", "b")]


def test_a_remedy_names_a_command_as_the_user_calls_it() -> None:
    others = (
        "retry-policy render is offline; a retry-policy is none; retry-policy-webhook; kubectl\n retry-policy report"
    )
    text = f"to rerun it: retry-policy retry ml/train; {others}"
    assert console.as_called(text) == text
    with click.Context(kubectl.plugin, info_name=PLUGIN):
        said = console.as_called(text)
        assert console.printable("run: retry-policy retry") == f"run: {PLUGIN} retry"
    assert said == text.replace("retry-policy retry", f"{PLUGIN} retry")
