"""The kubectl plugin as one file, as krew installs it."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import LONGEST
from tests.release.environments import ROOT, Environment, succeed
from webhook import __version__
from webhook.cli.main import COMMANDS, OFFLINE

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "manifests" / "samples" / "job-with-25-retries.yaml"


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive, unpack it, and return the plugin."""
    folder = tmp_path_factory.mktemp("plugin")
    lock = str(ROOT / "requirements" / "one-file.txt")
    environment = Environment.create(folder / "environment", "--only-binary=:all:", "--require-hashes", "-r", lock)
    archive = succeed(environment.program("python"), "-m", "hack.release", "plugin", str(folder)).strip()
    with tarfile.open(archive) as opened:
        assert sorted(opened.getnames()) == ["LICENSE", "kubectl-retry_policy"]
        opened.extractall(folder / "installed", filter="data")
    return folder / "installed" / "kubectl-retry_policy"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program where there is no Python."""
    environment = {"PATH": "/absent", "HOME": "/absent"}
    command = (str(program), *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=LONGEST)


def called(plugin: Path, name: str) -> Path:
    """Return a link to the plugin of another name."""
    link = plugin.with_name(name)
    if not link.exists():
        link.symlink_to(plugin.name)
    return link


def test_the_plugin_runs_without_python(plugin: Path) -> None:
    assert run(plugin, "--version").stdout == f"kubectl retry-policy, version {__version__}\n"


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - OFFLINE))
def test_each_command_of_the_plugin_is_in_the_file(plugin: Path, command: str) -> None:
    done = run(plugin, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plugin_asks_the_cluster_of_the_kubeconfig(plugin: Path, tmp_path: Path) -> None:
    cluster, user = '{server: "https://127.0.0.1:9"}', "{token: none}"
    (tmp_path / "config").write_text(
        f"{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: c}}}}],"
        f" clusters: [{{name: c, cluster: {cluster}}}], users: [{{name: c, user: {user}}}]}}"
    )
    done = run(plugin, "explain", "train", f"--kubeconfig={tmp_path}/config")
    assert done.returncode == 2
    assert done.stderr.startswith(f"the cluster of {tmp_path}/config cannot be reached: 127.0.0.1")


def test_the_file_completes_if_it_is_called_so(plugin: Path) -> None:
    done = run(called(plugin, "kubectl_complete-retry_policy"), "ret")
    assert done.stdout.startswith("retry\t")
    assert done.stdout.endswith("\n:4\n")


def test_the_file_checks_manifests_if_it_is_called_retry_policy(plugin: Path) -> None:
    done = run(called(plugin, "retry-policy"), "check", "-f", str(SAMPLE))
    assert (done.returncode, done.stderr) == (1, "")
    assert "25 retries exceed the limit of 10" in done.stdout
