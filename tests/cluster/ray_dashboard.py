"""Stands in for the dashboards of all Ray heads: `python -m tests.cluster.ray_dashboard PORT KUBECONFIG`.

Like a dashboard it knows the jobs that were submitted to its head, and forgets them when the head is replaced. A job
runs until its head has the annotation EXIT_CODE. KWOK only simulates submitters, so a job counts as submitted if the
head has one as a container (SidecarMode), or if a pod of the submitter's Job runs that is newer than the head
(K8sJobMode).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.cluster.control_plane import HOST
from tests.cluster.namespace import Api
from tests.cluster.objects import is_running
from webhook.systems.job import spec as batch

EXIT_CODE: Final = "retry-policy-test/entrypoint-exit-code"
JOBS: Final = "/api/jobs/"
SERVICE: Final = "-head-svc"
CLUSTER: Final = "ray.io/cluster"
NODE_TYPE: Final = "ray.io/node-type"
SUBMITTER: Final = "ray-job-submitter"


@dataclass(slots=True)
class Dashboards:
    """The submitted jobs: by the uid of the head and the id of the job, when they were submitted, in ms since 1970."""

    api: Api
    submitted: dict[tuple[str, str], int] = field(default_factory=dict)

    def head_of(self, host: str) -> dict[str, Any] | None:
        """Return the running head behind a Service; None if there is none."""
        service, namespace = host.split(".")[:2]
        selector = f"{CLUSTER}={service.removesuffix(SERVICE)},{NODE_TYPE}=head"
        found = self.api.list(f"api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"]
        return next((pod for pod in found if is_running(pod) and not pod["metadata"].get("deletionTimestamp")), None)

    def submit(self, head: dict[str, Any], job: str) -> dict[str, Any]:
        self.submitted.setdefault((head["metadata"]["uid"], job), int(time.time() * 1000))
        return {"job_id": job, "submission_id": job}

    def has_submitter(self, head: dict[str, Any]) -> bool:
        """Return True if a submitter runs that would have submitted a job to this head."""
        metadata = head["metadata"]
        if any(one["name"] == SUBMITTER for one in head["spec"]["containers"]):
            return True
        name = metadata["labels"][CLUSTER].rpartition("-")[0]
        path, selector = f"api/v1/namespaces/{metadata['namespace']}/pods", f"{batch.JOB_NAME}={name}"
        pods = [pod for pod in self.api.list(path, labelSelector=selector)["items"] if is_running(pod)]
        return any(pod["metadata"]["creationTimestamp"] >= metadata["creationTimestamp"] for pod in pods)

    def job(self, head: dict[str, Any], job: str) -> dict[str, Any] | None:
        """Return what a dashboard says about a job; None if its head does not know it."""
        if self.has_submitter(head):
            self.submit(head, job)
        since = self.submitted.get((head["metadata"]["uid"], job))
        if since is None:
            return None
        said = {"submission_id": job, "type": "SUBMISSION", "start_time": since}
        code = (head["metadata"].get("annotations") or {}).get(EXIT_CODE)
        if code is None:
            return {**said, "status": "RUNNING", "message": "Job is currently running."}
        said["end_time"] = since
        if code == "0":
            return {**said, "status": "SUCCEEDED", "message": "Job finished successfully."}
        return {**said, "status": "FAILED", "message": f"Job entrypoint command failed with exit code {code}"}


class Handler(BaseHTTPRequestHandler):
    dashboards: Dashboards

    def do_GET(self) -> None:
        self.answer(self.dashboards.job)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        if self.path.endswith("/stop"):
            self.answer(lambda *_: {"stopped": True})
        else:
            self.answer(lambda head, _: self.dashboards.submit(head, body["submission_id"]))

    def answer(self, made: Any) -> None:
        url = urlsplit(self.path)
        head = self.dashboards.head_of(url.hostname or "")
        said = None if head is None else made(head, url.path.removeprefix(JOBS))
        # A proxy that reaches no dashboard says 502; a dashboard that does not know the job says 404.
        self.send_response(502 if head is None else 404 if said is None else 200)
        content = json.dumps(said).encode() if said is not None else b"nothing here"
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    Handler.dashboards = Dashboards(Api.connect(Path(sys.argv[2])))
    ThreadingHTTPServer((HOST, int(sys.argv[1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
