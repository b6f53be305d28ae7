"""Demonstrates the webhook: starts the real HTTPS server, and sends it the requests of an API server."""

import base64
import difflib
import http.client
import json
import signal
import ssl
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jsonpatch
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

SAMPLES: Final = Path(__file__).parent.parent / "manifests" / "samples"
ATTEMPTS: Final = 4
DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}

Json = dict[str, Any]


def main() -> None:
    """Run the demonstration, and stop the server at its end."""
    console = Console(highlight=False, soft_wrap=True)
    command = [str(Path(sys.executable).parent / "retry-policy"), "serve", "--policy", str(SAMPLES / "policy-gke.yaml")]
    with subprocess.Popen(  # noqa: S603 - our own server
        [*command, "--port", "0", "--health-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        try:
            started = server.stdout.readline() if server.stdout else b""
            if not started:
                sys.exit("the server did not start; try: retry-policy serve --port 0 --health-port 0")
            show(console, Api(json.loads(started)))
        finally:
            server.send_signal(signal.SIGINT)  # stop at once, without draining
    console.print("\nThe server has stopped. Next: `make cluster` shows it on a real Kubernetes API server.")


class Api:
    """Sends AdmissionReviews as an API server does: HTTP/1.1 over TLS, verified with the server's CA."""

    def __init__(self, addresses: Json) -> None:
        url = urlsplit(addresses["https"])
        context = ssl.create_default_context(cafile=addresses["ca"])
        self.connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=10)

    def admit(self, path: str, root: Json) -> Json:
        """Send the creation of one object; return the response part of the answer."""
        group, _, version = root["apiVersion"].rpartition("/")
        request = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": root["kind"]},
            "operation": "CREATE",
            "namespace": "ml",
            "object": root,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer: Json = json.loads(self.connection.getresponse().read())["response"]
        return answer

    def mutated(self, root: Json) -> Json:
        """Send an object to /mutate; return it with the patch of the answer."""
        patch = json.loads(base64.b64decode(self.admit("/mutate", root).get("patch", "W10=")))
        changed: Json = jsonpatch.apply_patch(root, patch)
        return changed


def show(console: Console, api: Api) -> None:
    """Print a Job before and after admission, the placement of its pods by attempt, and a denial."""
    job = as_stored(yaml.safe_load((SAMPLES / "job.yaml").read_text()))
    after = api.mutated(job)
    console.print("A Job as its author wrote it, and what is stored:\n", style="bold")
    for line in diff(without_bookkeeping(job), without_bookkeeping(after)):
        console.print(Text(line, style=DIFF_STYLES.get(line[:1], "")))

    console.print("\nIts pods, attempt by attempt (3 retries; the last attempt leaves spot nodes):\n", style="bold")
    console.print("  Each line is the admission of a pod; no pod is scheduled or run. The source says how the webhook")
    console.print("  knows the attempt: here from an annotation, in a cluster from the Job, its pods and its ledger.\n")
    table = Table("attempt", "max", "placement", "source", "node affinity", box=None)
    for attempt in range(ATTEMPTS):
        pod = api.mutated(pod_of(after, attempt))
        notes = {key.removeprefix("retry-policy.dev/"): text for key, text in pod["metadata"]["annotations"].items()}
        table.add_row(
            notes["attempt"], notes["max-retries"], notes["placement"], notes["attempt-source"], "\n".join(terms(pod))
        )
    console.print(table)

    console.print("\nA Job that asks for 25 retries:\n", style="bold")
    too_many_retries = as_stored(yaml.safe_load((SAMPLES / "job-with-25-retries.yaml").read_text()))
    denial = api.admit("/validate", too_many_retries)
    console.print(f"  denied ({denial['status']['code']}): {denial['status']['message']}", style="red")


def as_stored(job: Json) -> Json:
    """Return a Job with the defaults that the API server has set before it calls a webhook."""
    job["spec"] = {"completions": 1, "parallelism": 1, "podReplacementPolicy": "TerminatingOrFailed", **job["spec"]}
    return job


def pod_of(job: Json, attempt: int) -> Json:
    """Return the pod that the Job controller would create; its attempt is an annotation, because there is no API."""
    template = job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "3c5e", "controller": True}
    metadata = {
        "generateName": "train-",
        "annotations": {"retry-policy.dev/attempt": str(attempt), "retry-policy.dev/max-retries": "3"},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def without_bookkeeping(job: Json) -> Json:
    """Return a Job without the annotation that records the edits, which is long."""
    annotations = {k: v for k, v in job["metadata"].get("annotations", {}).items() if k != "retry-policy.dev/policy"}
    metadata = {k: v for k, v in job["metadata"].items() if k != "annotations"}
    return {**job, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def diff(before: Json, after: Json) -> list[str]:
    """Return the lines of a diff of two objects as YAML."""
    texts = [yaml.safe_dump(root, sort_keys=False).splitlines() for root in (before, after)]
    return list(difflib.unified_diff(*texts, "as written", "as stored", lineterm="", n=3))


def terms(pod: Json) -> list[str]:
    """Return a pod's required node affinity, one line for each expression."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        f"{expression['key']} {expression['operator']} {expression.get('values', '')}"
        for term in required["nodeSelectorTerms"]
        for expression in term["matchExpressions"]
    ]


if __name__ == "__main__":
    main()
