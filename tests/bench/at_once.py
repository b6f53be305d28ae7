"""Many Jobs at the same time on 200 nodes: with our webhook, with one that does nothing, and without a webhook.

Each run starts its own control plane, with all controllers and very high client rate limits: `python -m
tests.bench.at_once [JOBS …]`, by default 100 1000 10000, which takes twenty minutes. Writes docs/reference/at-once.json
and draws docs/reference/at-once.svg.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from tests.bench.asking import cpu_seconds, resident
from tests.bench.simulation import new_namespace
from tests.cluster import binaries, control_plane, installation, nodes
from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.credentials import Credentials
from tests.cluster.kubectl import Kubectl
from tests.cluster.manifests import exits, job
from tests.cluster.nodes import own_node
from tests.cluster.processes import Processes
from webhook.kube.client import METADATA_ONLY, Api

mpl.use("svg")
WEBHOOKS = {"none": "no webhook", "yes": "a webhook that does nothing", "ours": "this webhook"}
EACH = 10  # Jobs in each namespace
NODES = 100  # of each pool
AT_ONCE = 32  # requests of this program at the same time
DOCS = Path(__file__).parents[2] / "docs" / "reference"
DURATION = "apiserver_admission_webhook_admission_duration_seconds"
POST = "apiserver_request_duration_seconds"
COMPLETE = {"fieldSelector": "status.successful=1", "watch": "1", "timeoutSeconds": "3600"}


@dataclass
class Run:
    """Figures of one run; times in seconds, latencies in milliseconds, memory in MiB, CPU in cores."""

    webhook: str
    jobs: int
    created: float  # until the last Job was accepted
    complete: float  # until the last Job was complete
    admissions: float  # webhook calls a second, over the whole time
    webhook_ms: dict[str, float]  # mean of the calls, by configuration, from the API server's metrics
    within_5_ms: float  # share of the calls
    post_ms: dict[str, float]  # mean of the creates, by resource, from the API server's metrics
    errors: int
    memory: float  # peak of the server
    cpu: dict[str, float]


@contextmanager
def cluster(webhook: str) -> Iterator[tuple[Processes, Kubectl]]:
    programs = binaries.build(binaries.own_cluster())
    with tempfile.TemporaryDirectory(prefix="retry-policy-scale-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            kubectl = Kubectl(programs["kubectl"], control_plane.start(programs, processes, folder))
            nodes.start(programs, processes, kubectl, foreign=False)
            if webhook == "ours":
                installation.start(processes, kubectl, folder, for_tests=True)
            elif webhook == "yes":
                start_webhook_that_does_nothing(processes, kubectl, folder)
            yield processes, kubectl
        finally:
            processes.stop()


def start_webhook_that_does_nothing(processes: Processes, kubectl: Kubectl, folder: Path) -> None:
    """Start the webhook that does nothing in the place of ours."""
    (port,) = free_ports(1)
    credentials = Credentials.create(folder / "yes")
    certificate, key = credentials.server("yes", [HOST])
    processes.start("retry-policy", [sys.executable, "-m", "tests.bench.allow_all", str(port), certificate, key])
    for manifest in installation.built(kubectl, installation.BASE):
        if "webhooks" in manifest:
            kubectl.apply(
                installation.pointed_at(f"https://{HOST}:{port}", manifest, credentials.authority.certificate)
            )


async def measure(webhook: str, jobs: int, processes: Processes, kubectl: Kubectl) -> Run:
    async with await Api.connect(str(kubectl.kubeconfig)) as api:
        for number in range(2 * NODES):
            node = own_node(f"scale-{number}", spot=number % 2 == 0)
            await api.create("/api/v1/nodes", node)
        spaces = [f"team-{number}" for number in range(max(1, jobs // EACH))]
        await asyncio.gather(*(new_namespace(api, name) for name in spaces))
        done = asyncio.Event()
        watching = asyncio.create_task(completions(api, jobs, done))
        before, cpu_before = metrics(kubectl), cpu(processes)
        begin = time.monotonic()
        todo = iter(range(jobs))
        await asyncio.gather(*(create(api, todo, spaces) for _ in range(AT_ONCE)))
        created = time.monotonic() - begin
        await done.wait()
        complete = time.monotonic() - begin
        watching.cancel()
        after, cpu_after = metrics(kubectl), cpu(processes)
    change = {key: value - before.get(key, 0) for key, value in after.items()}
    calls = total(change, DURATION + "_count")
    return Run(
        webhook,
        jobs,
        round(created, 1),
        round(complete, 1),
        round(calls / complete, 1),
        mean_by(change, DURATION, "name"),
        round(total(change, DURATION + "_bucket", 'le="0.005"') / calls, 3) if calls else 0,
        mean_by(change, POST, "resource", 'verb="POST"', 'subresource=""'),
        int(
            total(change, "apiserver_admission_webhook_rejection_count")
            + total(change, "apiserver_admission_webhook_fail_open_count")
        ),
        round(resident(processes.running["retry-policy"].pid, "VmHWM"), 1) if webhook != "none" else 0,
        {name: round((cpu_after[name] - cpu_before[name]) / complete, 2) for name in cpu_before},
    )


async def create(api: Api, todo: Iterator[int], spaces: list[str]) -> None:
    for number in todo:
        manifest = job(f"job-{number}", exits(0), backoffLimit=3)
        await api.create(f"/apis/batch/v1/namespaces/{spaces[number % len(spaces)]}/jobs", manifest)


async def completions(api: Api, jobs: int, done: asyncio.Event) -> None:
    """Count the complete Jobs; set `done` when all are."""
    seen = 0
    async with api.stream("/apis/batch/v1/jobs", COMPLETE, METADATA_ONLY) as lines:
        async for line in lines:
            seen += b'"type":"ADDED"' in line
            if seen == jobs:
                done.set()


def metrics(kubectl: Kubectl) -> dict[str, float]:
    """Return the API server's metrics by name and labels."""
    text = kubectl.run("get", "--raw", "/metrics").stdout
    split = (line.rpartition(" ") for line in text.splitlines() if line.startswith(("apiserver_admission_w", POST)))
    return {key: float(value) for key, _, value in split}


def total(change: dict[str, float], name: str, *labels: str) -> float:
    return sum(
        value
        for key, value in change.items()
        if key.startswith(name + "{") and "retry-policy" in key and all(label in key for label in labels)
    )


def mean_by(change: dict[str, float], name: str, label: str, *chosen: str) -> dict[str, float]:
    """Return means in milliseconds by the values of a label."""
    found: dict[str, list[float]] = {}
    for key, value in change.items():
        if not key.startswith((name + "_sum{", name + "_count{")) or not all(one in key for one in chosen):
            continue
        if label == "resource" and 'resource="pods"' not in key and 'resource="jobs"' not in key:
            continue
        of = key.partition(f'{label}="')[2].partition('"')[0]
        sums = found.setdefault(of, [0, 0])
        sums["_count{" in key] += value
    return {of: round(1000 * seconds / count, 2) for of, (seconds, count) in found.items() if count}


def cpu(processes: Processes) -> dict[str, float]:
    """Return the CPU seconds that each program has used, including this one."""
    pids = {name: process.pid for name, process in processes.running.items()} | {"client": os.getpid()}
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def draw(runs: list[Run]) -> None:
    """Draw the Jobs a second and the mean latency of creating a pod, by the number of Jobs."""
    plt.rcParams.update({"svg.hashsalt": "scale", "font.size": 9})
    figure, (rates, latencies) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for webhook, words in WEBHOOKS.items():
        of = [run for run in runs if run.webhook == webhook]
        jobs = [run.jobs for run in of]
        rates.plot(jobs, [run.jobs / run.complete for run in of], marker="o", label=words)
        latencies.plot(jobs, [run.post_ms["pods"] for run in of], marker="o", label=words)
    for axes, title in ((rates, "Jobs complete in a second"), (latencies, "creating a pod, mean in ms")):
        axes.set(xscale="log", xlabel="Jobs at once", title=title, ylim=(0, None))
        axes.grid(alpha=0.3)
    rates.legend()
    figure.savefig(DOCS / "at-once.svg", metadata={"Date": None})


def main(sizes: list[int]) -> None:
    runs = []
    for jobs in sizes:
        for webhook in WEBHOOKS:
            with cluster(webhook) as (processes, kubectl):
                runs.append(asyncio.run(measure(webhook, jobs, processes, kubectl)))
            print(json.dumps(asdict(runs[-1])), flush=True)
    (DOCS / "at-once.json").write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    draw(runs)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [100, 1000, 10_000])
