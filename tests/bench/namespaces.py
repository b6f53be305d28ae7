"""Memory and start-up of the server with a thousand opted-in namespaces and without, and label changes under load."""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.admission import review_of
from tests.awaiting import until
from tests.bench.asking import resident
from tests.bench.load import load
from tests.objects import job, job_spec
from tests.served import Served, serving
from webhook.kube import names

NAMESPACES = 1000
CHANGED = 200
PER_SECOND = 100


def main() -> None:
    config.load_kube_config(os.environ["KUBECONFIG"])
    core: Any = client.CoreV1Api()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(8) as pool:
        report("before", Path(folder))
        list(pool.map(lambda number: create(core, number), range(NAMESPACES)))
        report("after", Path(folder))
        arguments = ("--kubeconfig", os.environ["KUBECONFIG"])
        body = review_of(job(job_spec(backoffLimit=20)), namespace=name_of(NAMESPACES - 1))
        with serving(Path(folder), *arguments) as served:
            until(lambda: served.get("/readyz").status == 200)
            with load(served, "/validate", body, PER_SECOND, is_right) as tally:
                list(pool.map(lambda number: change(core, number), range(CHANGED)))
            until(lambda: all(b'"warnings"' in judged(served, number) for number in range(CHANGED)))
            print(
                f"{CHANGED} labels changed: all seen; admissions {tally.sent}, wrong {len(tally.wrong)} {tally.wrong}"
            )
            print(f"memory after it: {resident(served.process.pid):.1f} MiB")
        list(pool.map(lambda number: core.delete_namespace(name_of(number)), range(NAMESPACES)))


def report(when: str, folder: Path) -> None:
    """Start a server; print the seconds until it is ready and its memory."""
    begin = time.monotonic()
    with serving(folder, "--kubeconfig", os.environ["KUBECONFIG"]) as served:
        until(lambda: served.get("/readyz").status == 200)
        print(f"{when}: ready after {time.monotonic() - begin:.2f} s, memory {resident(served.process.pid):.1f} MiB")


def create(core: Any, number: int) -> None:
    core.create_namespace({"metadata": {"name": name_of(number), "labels": {names.PROFILE: "default"}}})


def change(core: Any, number: int) -> None:
    core.patch_namespace(name_of(number), {"metadata": {"labels": {names.MODE: "Warn"}}})


def judged(served: Served, number: int) -> bytes:
    return served.post("/validate", review_of(job(job_spec(backoffLimit=20)), namespace=name_of(number))).body


def is_right(status: int, body: bytes) -> bool:
    return status == 200 and b'"allowed":false' in body


def name_of(number: int) -> str:
    return f"many-{number:04}"


if __name__ == "__main__":
    main()
