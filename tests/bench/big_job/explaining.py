"""What `retry-policy explain` costs: the real command, against a server that answers as the API server would."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from webhook.objects.problem import Json


@dataclass
class Explained:
    """What one run has taken; CPU and time in seconds. `cpu_of_start`: the CPU of the same command without a cluster.

    `listed`: the objects that were sent; `mebibytes`: their size; `lines`: those that were printed.
    """

    cpu: float
    seconds: float
    cpu_of_start: float
    lines: int
    listed: int = 0
    mebibytes: float = 0.0


def explained(workload: str, *flags: str) -> Explained:
    """Run the command."""
    cpu, seconds, lines = ran("explain", workload, *flags)
    return Explained(round(cpu, 2), round(seconds, 2), round(ran("explain", "--help")[0], 2), lines)


def ran(*arguments: str) -> tuple[float, float, int]:
    """Run the command line; return its CPU and its time in seconds, and the number of lines that it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [str(Path(sys.executable).with_name("retry-policy")), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began, answer.stdout.count("\n")


def explained_of(job: Json, account: Json, pods: list[Json]) -> Explained:
    """Run the command against a server with a Job, its Account and its pods."""
    with serving(job, account, pods) as (url, sent), tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig")
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        cluster, user = {"name": "c", "cluster": {"server": url}}, {"name": "u", "user": {}}
        known = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
        file.write_text(json.dumps({**known, "contexts": [context], "clusters": [cluster], "users": [user]}))
        found = explained("ml/job/train", f"--kubeconfig={file}")
        found.listed, found.mebibytes = len(sent), round(sum(sent) / 2**20, 1)
        return found


@contextmanager
def serving(job: Json, account: Json, pods: list[Json]) -> Iterator[tuple[str, list[int]]]:
    """Serve a Job, its Account, its pods page by page, and no Events.

    Yield the address, and the sizes of the pods that are sent.
    """
    by_phase: list[tuple[str, bytes]] = [(pod["status"]["phase"], json.dumps(padded(pod)).encode()) for pod in pods]
    sent: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if url.path.endswith("/jobs/train"):
                body = json.dumps(job).encode()
            elif "/accounts/" in url.path:
                body = json.dumps(account).encode()
            elif url.path.endswith("/pods"):
                body = self.page(query)
            else:
                body = b'{"metadata": {}, "items": []}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def page(self, query: dict[str, list[str]]) -> bytes:
            """Return a page of the pods that the field selector leaves."""
            without = query.get("fieldSelector", [""])[0].rpartition("!=")[2]
            chosen = [one for phase, one in by_phase if phase != without]
            begin, most = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["500"])[0])
            items = chosen[begin : begin + most]
            sent.extend(map(len, items))
            following = str(begin + most) if begin + most < len(chosen) else ""
            head = json.dumps({"resourceVersion": "1", "continue": following}).encode()
            return b'{"metadata": ' + head + b', "items": [' + b",".join(items) + b"]}"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def padded(pod: Json) -> Json:
    """Return a pod with the managedFields of three writers, as real ones have: 3 KiB."""
    fields: list[Json] = [
        {"manager": name, "fieldsV1": {f"f:{number}": {} for number in range(90)}} for name in ("a", "b", "c")
    ]
    return {**pod, "metadata": {**pod["metadata"], "managedFields": fields}}
