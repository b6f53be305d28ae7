"""The product in a test cluster: its server as a process on this machine, its webhooks in the API server."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.cluster.manifests import job
from tests.cluster.processes import HarnessError
from webhook.names import POLICY, PROFILE

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

MANIFEST = Path(__file__).parents[2] / "manifests" / "base" / "webhooks.yaml"
TEST_POLICY = Path(__file__).parent / "policy.yaml"
PROBE = "retry-policy-probe"
SERVER = "retry-policy"


def start(processes: Processes, kubectl: Kubectl, folder: Path) -> Path:
    """Start the server, register its webhooks, wait until the API server asks them.

    Returns the policy file in force: a copy, which the server reads again when it changes. The API server reaches this
    machine under RETRY_POLICY_WEBHOOK_HOST (default: 127.0.0.1, as both are on it).
    """
    policy = folder / "policy.yaml"
    shutil.copyfile(TEST_POLICY, policy)
    program = Path(sys.executable).with_name("retry-policy")
    if not program.exists():
        raise HarnessError(f"{program} does not exist; `make install` puts it there")
    host = os.environ.get("RETRY_POLICY_WEBHOOK_HOST")
    answer = folder / "serve.json"
    processes.start(
        SERVER,
        [
            program,
            "serve",
            f"--policy={policy}",
            f"--kubeconfig={kubectl.kubeconfig}",
            "--port=0",
            "--health-port=0",
            *([f"--host={host}"] if host else []),
        ],
        env={**os.environ, "TMPDIR": str(folder)},  # what it leaves there when it is killed goes with the folder
        stdout=answer,
    )
    processes.wait_until(lambda: answer.read_text().endswith("\n"), "the server to listen", log=SERVER)
    _register(kubectl, json.loads(answer.read_text()))
    _wait_until_effective(processes, kubectl)
    return policy


def remove(kubectl: Kubectl) -> None:
    """Take the webhooks away again, from a cluster that lives on."""
    kubectl.run("delete", f"--filename={MANIFEST}", "--ignore-not-found")
    kubectl.run("delete", "namespace", PROBE, "--ignore-not-found", "--wait=false")


def _register(kubectl: Kubectl, server: dict[str, str]) -> None:
    authority = base64.b64encode(Path(server["ca"]).read_bytes()).decode()
    for configuration in yaml.safe_load_all(MANIFEST.read_text()):
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": server["https"] + path, "caBundle": authority}
        kubectl.create(configuration)


def _wait_until_effective(processes: Processes, kubectl: Kubectl) -> None:
    """Wait for both configurations to reach the API server's admission, each seen by what only it does."""
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE, "labels": {PROFILE: "default"}}}
    )
    dry_run = ("create", "--dry-run=server", f"--namespace={PROBE}", "--filename=-", "--output=json")

    def mutated() -> bool:
        result = kubectl.run(*dry_run, stdin=job("probe"))
        return result.returncode == 0 and POLICY in json.loads(result.stdout)["metadata"].get("annotations", {})

    def validated() -> bool:
        return "denied the request" in kubectl.run(*dry_run, stdin=job("probe", backoffLimit=25)).stderr

    processes.wait_until(mutated, "a Job to be mutated", log=SERVER)
    processes.wait_until(validated, "a Job with 25 retries to be denied", log=SERVER)
