"""AdmissionReviews as a real API server sends them, recorded by a webhook that allows everything."""

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import msgspec

from tests.awaiting import until
from tests.cluster.control_plane import HOST
from tests.cluster.credentials import Credentials
from tests.cluster.kubectl import Kubectl
from webhook.objects.problem import Json

OWNED_BY: Final = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "blockOwnerDeletion": True}
CONFIGURATION: Final = "bench-recorder"
# A leader pod with exclusive topology, so that JobSet's own webhook has work to do.
LEADER: Final[Json] = {
    "annotations": {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "zone",
        "batch.kubernetes.io/job-completion-index": "0",
        "jobset.sigs.k8s.io/jobset-name": "set",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-key": "0123456789012345678901234567890123456789",
        "jobset.sigs.k8s.io/job-index": "0",
    },
    "labels": {"jobset.sigs.k8s.io/jobset-name": "set"},
}


def pod_of(job: Json, variables: int, **metadata: Json) -> Json:
    """Return a pod as the Job controller creates it; each variable of its container adds 130 bytes to the review."""
    name = job["metadata"]["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        **metadata.pop("labels", {}),
    }
    owner = {**OWNED_BY, "name": name, "uid": job["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "labels": labels,
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": pod_spec(variables),
    }


def pod_spec(variables: int) -> Json:
    container = {
        "name": "main",
        "image": "registry.example.test/team/train:v1",
        "command": ["python", "-m", "train"],
        "env": [
            {"name": f"VARIABLE_{number}", "value": f"a value of ordinary length, {number:06}"}
            for number in range(variables)
        ],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    return {"restartPolicy": "Never", "containers": [container]}


def job(name: str, variables: int = 5) -> Json:
    template = {"spec": pod_spec(variables)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 3, "template": template},
    }


def job_set(parts: int, variables: int) -> Json:
    jobs = [{"name": f"part-{number}", "template": {"spec": job("", variables)["spec"]}} for number in range(parts)]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "large"},
        "spec": {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 3}},
    }


class Recorder:
    """A webhook that allows everything and keeps the reviews."""

    def __init__(self, credentials: Credentials) -> None:
        self.reviews: list[bytes] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                recorder.reviews.append(body)
                uid = msgspec.json.decode(body)["request"]["uid"]
                review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
                answer = msgspec.json.encode({**review, "response": {"uid": uid, "allowed": True}})
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer((HOST, 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*credentials.server("recorder", [HOST]))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.server.server_address[1]}/"


@contextmanager
def recording(kubectl: Kubectl, credentials: Credentials, namespaces: list[str]) -> Iterator[Recorder]:
    """Register a recorder for all objects that are created or changed in some namespaces, while the block runs."""
    recorder = Recorder(credentials)
    rule = {
        "apiGroups": ["", "batch", "jobset.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "jobs", "jobsets"],
    }
    kubectl.apply(webhook(CONFIGURATION, recorder.url, credentials, namespaces, rule))
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": pod_spec(0)}
    dry_run = ("create", "--dry-run=server", f"--namespace={namespaces[0]}", "--filename=-")
    until(lambda: kubectl.run(*dry_run, stdin=probe).returncode == 0 and recorder.reviews)
    try:
        yield recorder
    finally:
        kubectl.run("delete", "mutatingwebhookconfiguration", CONFIGURATION)
        recorder.server.shutdown()
        recorder.server.server_close()


def webhook(name: str, url: str, credentials: Credentials, namespaces: list[str], rule: Json) -> Json:
    """Return a webhook configuration that calls a server on this machine."""
    where = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.retry-policy.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "clientConfig": {
                    "url": url,
                    "caBundle": base64.b64encode(credentials.authority.certificate).decode(),
                },
                "namespaceSelector": {"matchExpressions": [where]},
                "rules": [rule],
            }
        ],
    }


def recorded(kubectl: Kubectl, recorder: Recorder, opted_in: str, outside: str, owner: Json) -> dict[str, bytes]:
    """Return the reviews by name; `opted_in` and `outside` are namespaces, `owner` a Job in the first."""
    found: dict[str, bytes] = {}

    def record(name: str, root: Json, namespace: str = opted_in) -> None:
        recorder.reviews.clear()
        kubectl.create(root, "--dry-run=server", f"--namespace={namespace}")
        (found[name],) = recorder.reviews

    record("small pod", pod_of(owner, 1))
    record("6 KB pod", pod_of(owner, 19))
    record("60 KB pod", pod_of(owner, 435))
    record("6 KB pod of a JobSet", pod_of(owner, 12, **LEADER))
    record("Job", job("plain"))
    record("200 KB JobSet", job_set(20, 70))
    record("6 KB pod, not opted in", pod_of(owner, 19), outside)
    kubectl.create(job("changing", 20), f"--namespace={opted_in}")
    recorder.reviews.clear()
    suspended = '{"spec":{"suspend":true}}'
    kubectl.run("patch", "job/changing", "--dry-run=server", f"--namespace={opted_in}", f"--patch={suspended}")
    (found["UPDATE of a Job"],) = recorder.reviews
    return found
