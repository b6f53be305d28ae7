"""Stands in for spark-submit: creates the driver that its options describe, and its executors as that driver would.

`python spark_submit.py KUBECTL OPTION …`, with KUBECONFIG set. As spark-submit it exits with 1 if the driver cannot be
created; a process that it leaves behind creates the executors once the driver runs. Labels, annotations and names are
those that Spark 4.0 writes (resource-managers/kubernetes). An executor that ends is not replaced: that is the driver's
work, and KWOK's driver does none.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from itertools import pairwise
from typing import Any, Final

from tests.awaiting import LONGEST

KUBERNETES: Final = "spark.kubernetes."
LAUNCHED: Final = "sparkoperator.k8s.io/launched-by-spark-operator"


def confs(arguments: list[str]) -> dict[str, str]:
    """Return the configuration properties among the options."""
    return dict(value.partition("=")[::2] for option, value in pairwise(arguments) if option == "--conf")


def below(found: dict[str, str], prefix: str) -> dict[str, str]:
    """Return the properties with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


def pod(found: dict[str, str], role: str, name: str, labels: dict[str, str], owner: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of the driver or of an executor."""
    own = {"spark-role": role, **labels, **below(found, f"{KUBERNETES}{role}.label.")}
    container = {"name": f"spark-kubernetes-{role}", "image": found.get(f"{KUBERNETES}container.image") or "spark"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": own,
            "annotations": below(found, f"{KUBERNETES}{role}.annotation."),
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "nodeSelector": below(found, f"{KUBERNETES}node.selector."),
        },
    }


def main() -> None:
    kubectl, *arguments = sys.argv[1:]
    found = confs(arguments)
    scope = f"--namespace={found[f'{KUBERNETES}namespace']}"

    def run(*command: str, stdin: dict[str, Any] | None = None) -> dict[str, Any]:
        body = None if stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [kubectl, scope, "--output=json", *command], input=body, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    driver_name = found[f"{KUBERNETES}driver.pod.name"]
    application = found[f"{KUBERNETES}driver.label.sparkoperator.k8s.io/app-name"]
    owner = run("get", "sparkapplications.sparkoperator.k8s.io", application)
    selector = {"spark-app-selector": f"spark-{secrets.token_hex(16)}"}
    driver = run("create", "--filename=-", stdin=pod(found, "driver", driver_name, selector, reference(owner)))
    if os.fork():
        return
    os.setsid()
    for stream in (0, 1, 2):  # the operator waits for the end of its output
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    run("wait", f"pod/{driver_name}", "--for=condition=Ready", f"--timeout={LONGEST:g}s")
    for number in range(1, int(found.get("spark.executor.instances") or 0) + 1):
        labels = {**selector, "spark-exec-id": str(number)}
        name = f"{driver_name.removesuffix('-driver')}-exec-{secrets.token_hex(3)}-{number}"
        run("create", "--filename=-", stdin=pod(found, "executor", name, labels, reference(driver)))


def reference(owner: dict[str, Any]) -> dict[str, Any]:
    """Return the ownerReference to an object."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


if __name__ == "__main__":
    main()
