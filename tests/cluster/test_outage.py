"""What users see while the webhook does not answer, and the commands of the runbook, on a real API server.

Each test has the webhooks of the manifests for one namespace, and a Service for a port of the test. Before a message of
the API server is compared with the docs, its address and namespace are replaced by those of the docs.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.installation import INSTALLED, SYSTEM, built
from tests.cluster.manifests import EXIT_CODE, job
from tests.cluster.objects import condition
from tests.cluster.test_ledger import explained
from webhook.kube.names import MODE, PROFILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "outage.md").read_text()
NAME = "retry-policy-webhook"
SERVICE = f"{NAME}.{SYSTEM}.svc:443"
CLUSTER_IP = "10.96.17.4:443"


@cache
def shipped(kubectl: Kubectl) -> list[Object]:
    """Return the shipped webhook configurations."""
    return [one for one in built(kubectl, INSTALLED) if "webhooks" in one and one["metadata"]["name"] == NAME]


class Outage:
    """A namespace whose webhooks call a port of this machine on which no server answers."""

    def __init__(self, kubectl: Kubectl, team: Namespace) -> None:
        self.kubectl = kubectl
        self.team = team
        self.name = f"outage-{team.name}"
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        service = {"type": "ExternalName", "externalName": "localhost"}
        team.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": service})

    def begin(self) -> None:
        """Create the webhook configurations, and wait until the API server calls them."""
        for manifest in shipped(self.kubectl):
            self.kubectl.apply(self.limited(manifest))
        until(self.refuses)

    def refuses(self) -> bool:
        """Return True if a Job is refused because no server answers."""
        return "failed calling webhook" in self.team.refusal(job("probe"))

    def limited(self, manifest: Object) -> Object:
        """Return a shipped webhook configuration, limited to this namespace."""
        webhooks = [self.limited_webhook(one) for one in manifest["webhooks"]]
        return {**manifest, "metadata": {"name": self.name}, "webhooks": webhooks}

    def limited_webhook(self, webhook: Object) -> Object:
        """Return a shipped webhook, limited to this namespace; one for cluster-scoped objects then matches none."""
        selector, key = "namespaceSelector", "kubernetes.io/metadata.name"
        if not webhook[selector]:
            selector, key = "objectSelector", "example.test/outage"
        own: Any = {"key": key, "operator": "In", "values": [self.team.name]}
        expressions = [*webhook[selector].get("matchExpressions", ()), own]
        service = {**webhook["clientConfig"]["service"], "namespace": self.team.name, "port": self.port}
        return {**webhook, selector: {"matchExpressions": expressions}, "clientConfig": {"service": service}}

    def error_of(self, verb: str, manifest: Object, *flags: str) -> str:
        """Return kubectl's error for a manifest, with the names of the docs."""
        return self.as_documented(self.team.run(verb, "--filename=-", *flags, stdin=manifest).stderr)

    def as_documented(self, text: str) -> str:
        """Return a text with the names and addresses of the docs."""
        text = text.replace(f"{NAME}.{self.team.name}.svc:{self.port}", SERVICE).replace('"STDIN"', '"job.yaml"')
        return re.sub(rf"(\[::1\]|127\.0\.0\.1):{self.port}", CLUSTER_IP, text)

    def run(self, containing: str) -> str:
        """Run the command of the docs that contains a text, for this namespace; return its output."""
        (command,) = [one for one in re.findall(r"^ *\$ (.*)$", PAGE, re.MULTILINE) if containing in one]
        command = command.replace(NAME, self.name).replace(" ml", f" {self.team.name}")
        environment = {**os.environ, "PATH": f"{self.kubectl.program.parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ("bash", "-o", "pipefail", "-c", command), capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        """Delete the webhook configurations, which are not in the namespace."""
        self.listening.close()
        resources = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        self.kubectl.run("delete", resources, self.name, "--ignore-not-found")


@pytest.fixture
def outage(kubectl: Kubectl, namespace: NewNamespace) -> Iterator[Outage]:
    found = Outage(kubectl, namespace({PROFILE: "default"}))
    yield found
    found.end()


def quoted(containing: str) -> str:
    """Return the only line in the code blocks of the docs that contains a text."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (line,) = [line for block in blocks for line in block.splitlines() if containing in line]
    return str(line)


def test_without_a_ready_replica_users_see_what_the_docs_quote(outage: Outage) -> None:
    outage.begin()
    said = outage.error_of("create", job("train")).strip()
    assert said == next(line for line in PAGE.splitlines() if line.startswith("Error from server"))
    assert said.endswith("connect: connection refused")


def test_without_an_answer_in_time_users_see_what_the_docs_quote(outage: Outage) -> None:
    outage.begin()
    outage.listening.listen()
    assert outage.error_of("create", job("train")).strip() == quoted("context deadline exceeded")


def test_without_the_service_users_see_what_the_docs_quote(outage: Outage) -> None:
    outage.begin()
    outage.team.delete(f"service/{NAME}")
    end = f'service "{NAME}" not found'
    assert f"| `{end}` |" in PAGE
    until(lambda: outage.team.refusal(job("train")).endswith(end))
    assert outage.error_of("create", job("train")).strip().endswith(end)


def test_during_an_outage_updates_are_refused_and_jobs_can_complete_and_be_deleted(outage: Outage) -> None:
    team = outage.team
    team.create(job("done"))
    unchanged = {"apiVersion": "batch/v1", "kind": "Job", **job("unchanged", suspend=True)}
    assert team.run("apply", "--filename=-", stdin=unchanged).returncode == 0
    team.wait_for("jobs", "done", lambda found: found.get("status", {}).get("ready") == 1)
    outage.begin()
    note = {"example.test/note": "x"}
    for name, patch in (
        ("done", {"metadata": {"annotations": note}}),
        ("done", {"metadata": {"labels": note}}),
        ("done", {"spec": {"suspend": True}}),
        ("unchanged", {"spec": {"suspend": False}}),
    ):
        assert 'failed calling webhook "workloads.retry-policy.dev"' in team.patched(f"job/{name}", patch)
    assert team.run("apply", "--filename=-", stdin=unchanged).returncode == 0
    (pod,) = (one["metadata"]["name"] for one in team.get("pods")["items"])
    team.annotate(f"pod/{pod}", {EXIT_CODE: "0"})
    team.wait_for("jobs", "done", lambda found: condition(found, "Complete"))
    for name in ("done", "unchanged"):
        team.delete(f"job/{name}")
    team.label({MODE: "Warn"})


def test_a_job_that_gets_no_pod_has_the_event_that_the_docs_quote(outage: Outage) -> None:
    team = outage.team
    team.create(job("train"))
    team.wait_for("jobs", "train", lambda found: found.get("status", {}).get("ready") == 1)
    outage.begin()
    team.all_end(team.get("pods")["items"], 143)
    line = quoted("FailedCreate")

    def event_is_quoted() -> bool:
        events = team.get("events")["items"]
        messages = [event["message"] for event in events if event["reason"] == "FailedCreate"]
        return line in {f"Warning  FailedCreate  {outage.as_documented(message)}" for message in messages}

    until(event_is_quoted)


def test_the_documented_commands_let_jobs_through_during_an_outage_and_undo_that(outage: Outage) -> None:
    outage.begin()
    outage.run("-n retry-policy-system get deployments,pods")
    outage.run("-n retry-policy-system events")
    outage.run("patch mutatingwebhookconfiguration")
    outage.run("patch validatingwebhookconfiguration")
    until(lambda: not outage.refuses())
    outage.begin()  # applies the shipped configurations again, as an admin does
    outage.run("label namespace ml retry-policy.dev/profile-")
    until(lambda: not outage.refuses())
    outage.team.create(job("without"))
    assert outage.team.name in outage.run("get jobs --all-namespaces")
    outage.run("label namespace ml retry-policy.dev/profile=default")
    until(outage.refuses)
    outage.run("kubectl delete mutatingwebhookconfiguration")
    until(lambda: not outage.refuses())
    assert "created (server dry run)" in outage.run("create job probe")


def test_explain_says_why_a_job_gets_no_pod_and_not_that_it_runs(outage: Outage) -> None:
    team = outage.team
    team.create(job("train"))
    team.wait_for("jobs", "train", lambda found: found.get("status", {}).get("ready") == 1)
    assert explained(team, "train")["state"] == "running"
    outage.begin()
    team.all_end(team.get("pods")["items"], 143)
    until(lambda: explained(team, "train")["state"] != "running")
    state = outage.as_documented(explained(team, "train")["state"])
    assert re.match(r"no pod can be created since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: Error creating: ", state)
    assert state.endswith(quoted("FailedCreate").partition("FailedCreate  ")[2])
    assert explained(team, "train")["waits_until"] == ""
    outage.end()
    team.running("train", 1)
    assert explained(team, "train")["state"] == "running"
