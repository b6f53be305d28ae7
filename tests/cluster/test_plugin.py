"""`kubectl retry-policy`, and its completion, as kubectl runs both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.awaiting import LONGEST
from tests.cluster.manifests import job
from tests.cluster.test_retry import cron_job
from tests.documents import document_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.namespace import Namespace

PROGRAMS = Path(sys.executable).parent
Run = subprocess.CompletedProcess[str]


@pytest.fixture
def team(namespace: NewNamespace) -> Namespace:
    """Return a namespace with two suspended Jobs and a CronJob."""
    created = namespace()
    for manifest in (job("train", suspend=True), job("test", suspend=True), cron_job("nightly")):
        created.create(manifest)
    return created


@pytest.fixture
def run(kubectl: Kubectl, team: Namespace, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a program where `team` is the namespace of the context `team`, the current one."""
    content = document_of(kubectl.kubeconfig.read_text())
    (current,) = (one for one in content["contexts"] if one["name"] == content["current-context"])
    of_team = {"name": "team", "context": {**current["context"], "namespace": team.name}}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({**content, "contexts": [current, of_team], "current-context": "team"}))
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "KUBECONFIG": str(file)}

    def run(*command: str, **variables: str) -> Run:
        variables = {**environment, **variables}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=LONGEST)

    return run


@pytest.mark.parametrize("name", ["train", "job/train", "{team}/job/train"])
def test_kubectl_runs_the_plugin_in_the_namespace_of_its_context(
    run: Callable[..., Run], team: Namespace, name: str
) -> None:
    done = run("kubectl", "retry-policy", "explain", name.format(team=team.name))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Job {team.name}/train: ")


def test_the_plugin_changes_what_the_options_name(run: Callable[..., Run], team: Namespace) -> None:
    assert run("kubectl", "retry-policy", "resume", "-n", team.name, "--context", "team", "job/train").returncode == 0
    assert not team.get("job", "train")["spec"]["suspend"]
    assert run("retry-policy", "suspend", "-n", team.name, "train", "--context=team").returncode == 0
    assert team.get("job", "train")["spec"]["suspend"]


def test_an_absent_context_is_refused_with_those_that_there_are(run: Callable[..., Run]) -> None:
    done = run("kubectl", "retry-policy", "explain", "train", "--context=absent")
    assert done.returncode == 2
    assert "there is no context 'absent'; it has: " in done.stderr


def test_kubectl_completes_the_plugins_command_line(run: Callable[..., Run]) -> None:
    done = run("kubectl", "__complete", "retry-policy", "explain", "--context", "tea")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["team", ":4"]), done.stderr
