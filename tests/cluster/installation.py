"""The product in a test cluster: the shipped manifests, and its two programs as processes on this machine.

Every manifest of the base, and of the overlay requested-retries, is applied as it is shipped, except the clientConfig
of the webhooks: the API server calls the process, and for tests waits for it as long as it can. Each has the
permissions of its ServiceAccount in the manifests. The Deployments' pods get no requests: KWOK simulates them on our
own control plane, and on another cluster they start if their image exists there.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import yaml

from tests.cluster import on_failure_matrix
from tests.cluster.control_plane import free_ports
from tests.cluster.kubectl import KubectlError
from tests.cluster.manifests import job
from tests.cluster.processes import HarnessError
from tests.documents import document_of, documents_of
from webhook.kube.names import POLICY, PROFILE
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.processes import Processes

BASE = Path(__file__).parents[2] / "manifests" / "base"
INSTALLED = Path(__file__).parent / "installed"
SYSTEM = "retry-policy-system"
SERVICE_ACCOUNT = "retry-policy-webhook"
CONTROLLER_ACCOUNT = "retry-policy-controller"
LIFETIME = "168h"  # `make cluster` may run for days; some providers limit it to less
FIRST_POLICY = BASE.parent / "samples" / "policy-gke.yaml"
TEST_POLICY = Path(__file__).parent / "policy.yaml"
GALLERY = BASE.parents[1] / "docs" / "gallery"
PROBE = "retry-policy-probe"
ANSWER = "serve.json"  # the one line that the webhook prints: its addresses
CONTROLLER_ANSWER = "control.json"  # that of the controller
CONFIG_MAP = "retry-policy-system/retry-policy"
SERVER = "retry-policy"
CONTROLLER = "retry-policy-control"
MOST_TIMEOUT = 30  # seconds of a call of a webhook, the most that the API server allows


def start(
    processes: Processes, kubectl: Kubectl, folder: Path, *, for_tests: bool, options: Sequence[str] = ()
) -> Path:
    """Install the manifests, start both programs, register the webhooks, and wait until the API server calls them.

    For tests the policy is TEST_POLICY with the profiles of the gallery; its file is returned, and the server reads it
    again when it changes.
    Otherwise it is a ConfigMap, as in an installation, with the first policy of the README, and the programs have fixed
    ports, so that it can be started again. The API server reaches this machine at RETRY_POLICY_WEBHOOK_HOST, by default
    127.0.0.1. `options`: further ones of `control`.
    """
    policy = policy_for(folder, for_tests=for_tests)
    program = Path(sys.executable).with_name("retry-policy")
    if not program.exists():
        raise HarnessError(f"{program} does not exist; run: make install")
    manifests = built(kubectl, INSTALLED)
    webhooks = [manifest for manifest in manifests if "webhooks" in manifest]
    others = [manifest for manifest in manifests if manifest not in webhooks]
    if not for_tests:
        (config_map,) = [manifest for manifest in others if manifest["kind"] == "ConfigMap"]
        config_map["data"] = {KEY: policy.read_text()}
    https, http, http_of_controller = (0, 0, 0) if for_tests else free_ports(3)
    kubectl.apply({"apiVersion": "v1", "kind": "List", "items": others})
    host = os.environ.get("RETRY_POLICY_WEBHOOK_HOST")
    answer = folder / ANSWER
    source = f"--policy={policy}" if for_tests else f"--policy-configmap={CONFIG_MAP}"
    # POD_NAMESPACE is as in the Deployments. TMPDIR: files that a killed program leaves are deleted with the folder.
    env = {**os.environ, "POD_NAMESPACE": SYSTEM, "TMPDIR": str(folder)}
    processes.start(
        CONTROLLER,
        [
            *(program, "control", source, f"--kubeconfig={kubeconfig_of(kubectl, folder, CONTROLLER_ACCOUNT)}"),
            *(f"--health-port={http_of_controller}", "--requested-retries"),
            *([f"--certificate-host={host}"] if host else []),
            *options,
        ],
        env=env,
        stdout=folder / CONTROLLER_ANSWER,
    )
    processes.start(
        SERVER,
        [
            program,
            "serve",
            source,
            f"--kubeconfig={kubeconfig_of(kubectl, folder, SERVICE_ACCOUNT)}",
            f"--port={https}",
            f"--health-port={http}",
            "--requested-retries",
            *([f"--host={host}"] if host else []),
        ],
        env=env,
        stdout=answer,
    )
    processes.wait_until(lambda: answer.read_text().endswith("\n"), "the server to listen", log=SERVER)
    server = json.loads(answer.read_text())
    for configuration in webhooks:
        pointed = pointed_at(server["https"], configuration)
        kubectl.apply(awaited(pointed) if for_tests else pointed)
    wait_until_effective(processes, kubectl, log=SERVER)
    return policy


def policy_for(folder: Path, *, for_tests: bool) -> Path:
    """Write the policy of tests, or the first one of the README, into a folder; return the file."""
    policy = folder / "policy.yaml"
    policy.write_text(policy_of_tests() if for_tests else FIRST_POLICY.read_text())
    return policy


def policy_of_tests() -> str:
    """Return TEST_POLICY as it is written, then profiles for the pairs of onFailure, and those of the docs' gallery."""
    profiles: Object = on_failure_matrix.profiles()
    for file in sorted(GALLERY.glob("*/policy.yaml")):
        profiles.update(document_of(file.read_text())["profiles"])
    return TEST_POLICY.read_text() + indent(yaml.safe_dump(profiles), "  ")


def remove(kubectl: Kubectl) -> None:
    """Delete everything that was installed, in a cluster that is used further."""
    kubectl.run("delete", f"--kustomize={INSTALLED}", "--ignore-not-found", "--wait=false")
    kubectl.run("delete", "namespace", PROBE, "--ignore-not-found", "--wait=false")


def built(kubectl: Kubectl, folder: Path) -> list[Object]:
    """Return the manifests that kustomize builds from a folder, in its order; raise KubectlError if it fails."""
    result = kubectl.run("kustomize", str(folder))
    if result.returncode:
        raise KubectlError(f"kubectl kustomize {folder}\n{result.stderr}")
    return documents_of(result.stdout)


def kubeconfig_of(kubectl: Kubectl, folder: Path, account: str) -> Path:
    """Write a kubeconfig with a token of one of the manifests' ServiceAccounts into a folder; return the file."""
    file = folder / f"{account}.kubeconfig"
    file.write_text(json.dumps(as_service_account(kubectl, account)))  # JSON is YAML too
    return file


def as_service_account(kubectl: Kubectl, account: str = SERVICE_ACCOUNT) -> Object:
    """Return a kubeconfig with a token of one of the manifests' ServiceAccounts, and without a client certificate."""
    token = kubectl.run("create", "token", account, f"--namespace={SYSTEM}", f"--duration={LIFETIME}")
    if token.returncode:
        raise KubectlError(token.stderr)
    kubeconfig: Object = document_of(kubectl.kubeconfig.read_text())
    (user,) = kubeconfig["users"]
    user["user"] = {"token": token.stdout.strip()}
    return kubeconfig


def pointed_at(server: str, configuration: Object, authority: bytes | None = None) -> Object:
    """Return a webhook configuration that calls a server on this machine by its https URL, not the Service.

    `authority`: the server's CA as PEM; None if the server writes the caBundle itself.
    """
    trusted = {} if authority is None else {"caBundle": base64.b64encode(authority).decode()}
    pointed: Object = {**configuration, "webhooks": []}
    for webhook in configuration["webhooks"]:
        url = server + webhook["clientConfig"]["service"]["path"]
        pointed["webhooks"].append({**webhook, "clientConfig": {"url": url, **trusted}})
    return pointed


def awaited(configuration: Object) -> Object:
    """Return a webhook configuration that waits for MOST_TIMEOUT: on a busy machine, 5 s may be over before an answer.

    A pod is then admitted as its author wrote it, and what a test expects of it never comes.
    """
    return {**configuration, "webhooks": [{**one, "timeoutSeconds": MOST_TIMEOUT} for one in configuration["webhooks"]]}


def wait_until_effective(processes: Processes, kubectl: Kubectl, *, log: str) -> None:
    """Wait until the API server uses both configurations: one mutates a Job, the other one denies a Job.

    `log`: of the program whose log tells why it does not.
    """
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE, "labels": {PROFILE: "default"}}}
    )
    dry_run = ("create", "--dry-run=server", f"--namespace={PROBE}", "--filename=-", "--output=json")

    def mutated() -> bool:
        result = kubectl.run(*dry_run, stdin=job("probe"))
        return result.returncode == 0 and POLICY in json.loads(result.stdout)["metadata"].get("annotations", {})

    def validated() -> bool:
        return "denied the request" in kubectl.run(*dry_run, stdin=job("probe", backoffLimit=25)).stderr

    processes.wait_until(mutated, "a Job to be mutated", log=log)
    processes.wait_until(validated, "a Job with 25 retries to be denied", log=log)
