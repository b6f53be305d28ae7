"""The time from an edit of the policy's ConfigMap to its effect: 50 edits, valid and invalid in turn, under load."""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.admission import review_of
from tests.awaiting import until
from tests.bench.load import load
from tests.objects import job, job_spec
from tests.served import Served, serving
from webhook.kube import names

EDITS = 50
BETWEEN = 0.2  # seconds, so that each policy is in force for a while
PER_SECOND = 100
NAMESPACE = "policy-edits"
POLICY = "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles: {default: {retries: {limit: LIMIT}}}\n"
GOOD_LIMITS = (4, 9)
JUDGED = review_of(job(job_spec(backoffLimit=20)), namespace=NAMESPACE)


def main() -> None:
    config.load_kube_config(os.environ["KUBECONFIG"])
    core: Any = client.CoreV1Api()
    core.create_namespace({"metadata": {"name": NAMESPACE, "labels": {names.PROFILE: "default"}}})
    metadata = {"name": "retry-policy"}
    core.create_namespaced_config_map(
        NAMESPACE, {"metadata": metadata, "data": {"policy.yaml": POLICY.replace("LIMIT", "9")}}
    )
    arguments = ("--kubeconfig", os.environ["KUBECONFIG"], "--policy-configmap", f"{NAMESPACE}/retry-policy")
    seconds: list[float] = []
    try:
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *arguments) as served:
            until(lambda: served.get("/readyz").status == 200)
            with load(served, "/validate", JUDGED, PER_SECOND, is_right) as tally:
                for number in range(EDITS):
                    seconds.append(edit(core, served, number))
                    time.sleep(BETWEEN)
    finally:
        core.delete_namespace(NAMESPACE)
    print(f"edits: {EDITS}, good and bad in turn, under {PER_SECOND} admissions/s")
    print(f"seconds from the edit to its effect: median {statistics.median(seconds):.3f}, most {max(seconds):.3f}")
    print(f"admissions: {tally.sent}, unavailable {tally.unavailable}, wrong {len(tally.wrong)} {tally.wrong}")


def edit(core: Any, served: Served, number: int) -> float:
    """Write one policy; return the seconds until the server uses it or has refused it."""
    good = number % 2 == 0
    limit = GOOD_LIMITS[number // 2 % 2] if good else 99
    refusals = served.log_text().count("policy refused")
    begin = time.monotonic()
    core.patch_namespaced_config_map(
        "retry-policy", NAMESPACE, {"data": {"policy.yaml": POLICY.replace("LIMIT", str(limit))}}
    )
    if good:
        until(lambda: f"limit of {limit} in".encode() in served.post("/validate", JUDGED).body)
    else:
        until(lambda: served.log_text().count("policy refused") > refusals)
    return time.monotonic() - begin


def data(limit: int) -> dict[str, str]:
    return {"policy.yaml": POLICY.replace("LIMIT", str(limit))}


def is_right(status: int, body: bytes) -> bool:
    """Return True if a Job with 20 retries is denied by one of the valid policies."""
    return status == 200 and any(f"20 retries exceed the limit of {limit} in".encode() in body for limit in GOOD_LIMITS)


if __name__ == "__main__":
    main()
