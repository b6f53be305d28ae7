"""`make cluster`, the tutorial, and how to uninstall, with only the printed and documented commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.awaiting import until
from tests.cluster import tutorial
from tests.cluster.conftest import OWN_CONTROL_PLANE
from tests.cluster.installation import INSTALLED, PROBE, built
from tests.cluster.kubectl import Kubectl
from tests.cluster.test_control_plane import stopped
from tests.documents import document_of
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LABEL = "kubectl label namespace default retry-policy.dev/profile=default"
PROGRAMS = {"etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kwok", "retry-policy"}
CREATE = "kubectl create --dry-run=server -f manifests/samples/job.yaml -o yaml"

pytestmark = [
    pytest.mark.first,
    pytest.mark.skipif(not OWN_CONTROL_PLANE, reason="has a control plane of its own, which it would build"),
]


@dataclass(frozen=True, slots=True)
class Playground:
    """A cluster of `make cluster`, and the text that it has printed."""

    runner: subprocess.Popen[str]
    text: str

    @property
    def exports(self) -> str:
        """The printed lines that export variables."""
        return "\n".join(re.findall(r"^  (export .*)$", self.text, re.MULTILINE))

    def command(self, pattern: str) -> str:
        """Return the only printed command that matches a pattern."""
        (found,) = self.commands(pattern)
        return found

    def commands(self, pattern: str) -> list[str]:
        """Return the printed commands that match a pattern."""
        return re.findall(rf"^  ({pattern})(?:  +#.*)?$", self.text, re.MULTILINE)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a shell with the printed exports."""
        return subprocess.run(
            ["sh", "-c", f"{self.exports}\n{command}"], cwd=ROOT, capture_output=True, text=True, check=False
        )

    def next_line(self) -> str:
        assert self.runner.stdout
        return self.runner.stdout.readline()


@pytest.fixture
def playground() -> Iterator[Playground]:
    """Run what `make cluster` runs, in a shell that exports the KUBECONFIG of another cluster, that of the tests."""
    with subprocess.Popen(
        # A run in the background of a script ignores SIGINT, and its children would inherit that.
        ["env", "--default-signal=INT", sys.executable, "-m", "tests.cluster"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as runner:
        try:
            assert runner.stdout
            text = ""
            while "\nLogs: " not in text:
                line = runner.stdout.readline()
                assert line, text
                text += line
            yield Playground(runner, text)
        finally:
            runner.send_signal(signal.SIGTERM)


@pytest.mark.first
def test_make_cluster_prints_in_the_tutorial_what_the_page_shows_is_uninstalled_and_ends_without_a_trace(
    playground: Playground, kubectl: Kubectl
) -> None:
    exported = os.environ["KUBECONFIG"]
    assert f"KUBECONFIG={exported} is not used" in playground.text
    assert f"make … KUBECONFIG={exported}" in playground.text
    assert playground.command("export KUBECONFIG=.*") != f"export KUBECONFIG={exported}"
    assert playground.run("retry-policy --version && kubectl version").returncode == 0
    stored = playground.run("kubectl -n retry-policy-system get configmap retry-policy -o yaml").stdout
    assert document_of(stored)["data"][KEY] == (ROOT / "manifests" / "samples" / "policy-gke.yaml").read_text()
    tutorial.assert_it_prints_what_the_page_shows(tutorial.PAGE, playground.exports)
    assert playground.run("kubectl delete --filename docs/tutorial/train.yaml").returncode == 0

    assert playground.run(playground.command(LABEL)).returncode == 0
    until(lambda: "podFailurePolicy" in playground.run(CREATE).stdout)
    assert_it_survives_an_outage(playground)
    assert_the_documented_uninstall_leaves_nothing(playground, kubectl)
    (logs,) = re.findall(r"^Logs: (.*)$", playground.text, re.MULTILINE)
    assert Path(logs).exists()
    if sys.platform != "linux":
        return  # there is no /proc
    assert stopped(playground.runner, signal.SIGINT) >= PROGRAMS
    assert not Path(logs).exists()


def assert_it_survives_an_outage(playground: Playground) -> None:
    webhook, controller = playground.commands(r"kill \d+")
    playground.run(controller)
    assert "The controller has ended" in playground.next_line()
    assert "podFailurePolicy" in playground.run(CREATE).stdout
    playground.run(webhook)
    assert "Start it again: kill -USR1" in playground.next_line()
    refused = playground.run(CREATE)
    assert (refused.returncode, "connection refused" in refused.stderr) == (1, True)

    playground.run(playground.command(r"kill -USR1 \d+"))
    assert "Stop it: kill" in playground.next_line()
    assert "The controller is started again" in playground.next_line()
    until(lambda: "podFailurePolicy" in playground.run(CREATE).stdout)


def assert_the_documented_uninstall_leaves_nothing(playground: Playground, kubectl: Kubectl) -> None:
    commands = documented("Uninstall without Helm")
    assert commands
    for command in commands:
        done = playground.run(command)
        assert done.returncode == 0, done.stderr

    manifests = yaml.safe_dump_all(built(kubectl, INSTALLED))
    kubeconfig = playground.command("export KUBECONFIG=.*").partition("=")[2]
    left = Kubectl(kubectl.program, Path(kubeconfig)).run(
        "get", "--filename=-", "--ignore-not-found", "--output=name", stdin=manifests
    )
    assert (left.stdout, left.stderr) == ("", "")
    every = "kubectl api-resources --verbs=list -o name | paste -sd, | xargs -I{} kubectl get {} -A -o name"
    names = set(playground.run(every).stdout.split())
    assert {name for name in names if "retry-policy" in name} <= {f"namespace/{PROBE}"}
    assert "retry-policy.dev" not in playground.run("kubectl get namespaces --show-labels").stdout
    assert "podFailurePolicy" not in playground.run(CREATE).stdout


def documented(heading: str) -> list[str]:
    """Return the commands of the section of the docs with that heading."""
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    (section,) = [page.partition(f"\n## {heading}\n")[2] for page in pages if f"\n## {heading}\n" in page]
    return re.findall(r"^\$ (.*)$", section.partition("\n## ")[0], re.MULTILINE)
