"""The cost of the ledger: memory with 10,000 Jobs and 50,000 pods, and the time of an admission with and without it.

Starts its own API server: `python -m tests.bench.ledger_cost [JOBS PODS_OF_EACH]`.
"""

import asyncio
import contextlib
import http.client
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from tests.admission import review_of
from tests.awaiting import until
from tests.bench.asking import cpu_seconds, resident
from tests.cluster.manifests import job
from tests.faults.stage import Stage, new_stage
from tests.objects import pod
from tests.served import request, serving
from webhook.kube import names
from webhook.kube.client import Api
from webhook.objects.problem import Json

NAMESPACE = "many"
CLIENTS = 16
ROUNDS = 15
REQUESTS = 300
READY = 200


async def fill(stage: Stage, jobs: int, pods: int) -> Json:
    """Create Jobs as the webhook stores them, with their pods; return one of them."""
    async with await Api.connect(str(stage.admin)) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {names.PROFILE: "default"}}})
        await api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        numbers = iter(range(jobs))

        async def client() -> None:
            for number in numbers:
                await create(api, number, pods)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        found: Json = await api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/job-0")
        return found


async def create(api: Api, number: int, pods: int) -> None:
    name = f"job-{number}"
    root = job(name, backoffLimit=3, parallelism=pods + 1, completions=pods + 1)
    root["metadata"]["labels"] = {names.PROFILE: "default"}
    root["metadata"]["annotations"] = {names.POLICY: "{}"}
    root["spec"]["podReplacementPolicy"] = "Failed"
    root["spec"]["podFailurePolicy"] = {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
    await api.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", root)
    stored = await api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}")
    for index in range(pods):
        metadata = {
            "name": f"{name}-{index}",
            "labels": {names.PROFILE: "default", "batch.kubernetes.io/job-name": name},
            "annotations": {names.PLACEMENT: "Spot", names.ATTEMPT: "0"},
            "ownerReferences": [reference(stored)],
        }
        spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
        await api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": metadata, "spec": spec})


def reference(root: Json) -> Json:
    metadata = root["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


@contextlib.contextmanager
def connected(url: str, ca: str) -> Iterator[http.client.HTTPSConnection]:
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection("127.0.0.1", urlsplit(url).port, context=context, timeout=30)
    with contextlib.closing(connection):
        yield connection


def compare(with_ledger: Json, without: Json, body: bytes) -> None:
    """Send a pod of a Job to both servers in turn; print the median times."""
    took: dict[str, list[float]] = {"with": [], "without": []}
    with (
        connected(with_ledger["https"], with_ledger["ca"]) as one,
        connected(without["https"], without["ca"]) as other,
    ):
        for _ in range(ROUNDS):
            for name, connection in (("with", one), ("without", other)):
                begin = time.perf_counter()
                for _ in range(REQUESTS):
                    assert request(connection, "POST", "/mutate", body).status == READY
                took[name].append((time.perf_counter() - begin) / REQUESTS)
    mine, theirs = median(took["with"]), median(took["without"])
    print(f"/mutate of a pod: {mine * 1e6:.0f} us with the ledger, {theirs * 1e6:.0f} without ({mine / theirs:.2f})")


def main(jobs: int, pods: int) -> None:
    with new_stage() as stage, tempfile.TemporaryDirectory() as folder:
        stage.reset()
        stage.delete_configurations()  # so that the API server calls no webhook when the objects are created
        begin = time.monotonic()
        stored = asyncio.run(fill(stage, jobs, pods))
        print(f"{jobs} Jobs and {jobs * pods} pods created in {time.monotonic() - begin:.0f} s")
        with serving(Path(folder), "--kubeconfig", str(stage.kubeconfig)) as served:
            until(lambda: served.get("/readyz").status == READY)
            without = resident(served.process.pid)
            stage.configure()
            begin = time.monotonic()
            replica = stage.start()
            until(lambda: settled(replica.process.pid))
            print(
                f"memory with the Jobs {without:.0f} MiB, with the ledger {resident(replica.process.pid):.0f} MiB, "
                f"all read after {time.monotonic() - begin:.0f} s"
            )
            new = pod(ownerReferences=[reference(stored)], labels={"batch.kubernetes.io/job-name": "job-0"})
            compare(dict(replica.addresses), served.addresses, review_of(new, namespace=NAMESPACE))


def settled(pid: int) -> bool:
    """Return True if a process used almost no CPU time in three seconds."""
    before = cpu_seconds(pid)
    time.sleep(3)
    return cpu_seconds(pid) - before < 0.3


if __name__ == "__main__":
    main(*((int(text) for text in sys.argv[1:]) if len(sys.argv) > 1 else (10_000, 5)))
