"""The Python package: the command line alone, and with the server."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tests.release.environments import ROOT, Environment, succeed
from tests.served import serving
from webhook import __version__
from webhook.cli.main import COMMANDS, OFFLINE

SAMPLES = ROOT / "manifests" / "samples"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SERVERS = {bounded.partition("<")[0] for bounded in PROJECT["optional-dependencies"]["server"]}
INSTALL = "install the server: pip install 'retry-policy-webhook[server]'"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as a release does."""
    folder = tmp_path_factory.mktemp("packaged")
    succeed(str(Path(sys.executable).with_name("hatchling")), "build", "--directory", str(folder))
    (found,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    assert {found.name.split("-")[1], source.name.removesuffix(".tar.gz").split("-")[1]} == {__version__}
    return found


def locked(requirement: str) -> tuple[str, ...]:
    """Return the options that install a requirement with the versions of the lock file."""
    return ("--only-binary=:all:", "--constraint", str(ROOT / "requirements" / "runtime.txt"), requirement)


@pytest.fixture(scope="session")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install retry-policy-webhook`."""
    return Environment.create(tmp_path_factory.mktemp("alone") / "environment", *locked(str(wheel)))


@pytest.fixture(scope="session")
def with_server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install retry-policy-webhook[server]`."""
    return Environment.create(tmp_path_factory.mktemp("server") / "environment", *locked(f"{wheel}[server]"))


def test_the_command_line_alone_has_none_of_the_servers_packages(alone: Environment, with_server: Environment) -> None:
    names = {name.replace("_", "-") for name in SERVERS}
    assert names <= with_server.packages()
    assert alone.packages().isdisjoint(names)
    assert "retry-policy-webhook" in alone.packages()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_help_without_the_server(alone: Environment, name: str) -> None:
    done = alone.run("retry-policy", name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: retry-policy {name} ")
    if name not in OFFLINE:
        done = alone.run("kubectl-retry_policy", name, "--help")
        assert done.stdout.startswith(f"Usage: kubectl retry-policy {name} ")


@pytest.mark.parametrize(("sample", "code"), [("job.yaml", 0), ("job-with-25-retries.yaml", 1)])
def test_manifests_are_checked_without_the_server(alone: Environment, sample: str, code: int) -> None:
    done = alone.run("retry-policy", "check", "-f", str(SAMPLES / sample))
    assert done.returncode == code, done.stderr


def test_the_page_of_a_report_is_complete_in_the_package(alone: Environment) -> None:
    done = alone.run(
        "python", "-c", "from webhook.insight.page import render; print(render.live_page(), render.page_style())"
    )
    assert done.stderr == ""
    assert "Retry report" in done.stdout
    done = alone.run("python", "-c", "from webhook.insight.page import render; print(render.page_script())")
    assert done.stdout.rstrip().endswith("})();")


def test_serve_without_the_server_says_what_to_install(alone: Environment) -> None:
    done = alone.run("retry-policy", "serve")
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"is not installed; {INSTALL}")
    assert "Traceback" not in done.stderr


def test_with_the_extra_the_server_serves(with_server: Environment, tmp_path: Path) -> None:
    with serving(tmp_path, program=(with_server.program("retry-policy"),)) as served:
        assert served.get("/readyz").status == 200
