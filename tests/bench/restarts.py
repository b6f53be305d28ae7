"""The API server is killed and started again twenty times, always right after a change that must not be missed.

Starts its own control plane: `python -m tests.bench.restarts`.
"""

import tempfile
from pathlib import Path

from tests.admission import review_of
from tests.awaiting import until
from tests.cluster import binaries, control_plane
from tests.cluster.installation import TEST_POLICY
from tests.cluster.kubectl import Kubectl
from tests.cluster.objects import noted
from tests.cluster.processes import Processes
from tests.cluster.test_webhook_caches import watching
from tests.cluster.test_webhook_server import mutated, pod_of, with_failures
from tests.served import Served, serving
from webhook.kube import names
from webhook.objects.problem import Json

RESTARTS = 20
NAMESPACE = "restarts"
API_SERVER = "kube-apiserver"


def main() -> None:
    programs = binaries.build(binaries.own_cluster())
    with tempfile.TemporaryDirectory(prefix="retry-policy-restarts-") as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            kubeconfig = control_plane.start(programs, processes, folder)
            kubectl = Kubectl(programs["kubectl"], kubeconfig)
            metadata = {"name": NAMESPACE, "labels": {names.PROFILE: "default"}}
            kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            pod = pod_of(with_failures(kubectl, NAMESPACE, 0))
            with serving(folder, "--kubeconfig", str(kubeconfig), "--policy", str(TEST_POLICY)) as served:
                until(lambda: watching(served))
                wrong = sum(restart(processes, kubectl, served, pod, number) for number in range(1, RESTARTS + 1))
        finally:
            processes.stop()
    print(f"API server killed and started again {RESTARTS} times: {wrong} answers were not of the last state")


def restart(processes: Processes, kubectl: Kubectl, served: Served, pod: Json, number: int) -> int:
    """Change the state and restart the API server; return how many of two answers are wrong.

    The answers are the first one, and one after the caches are filled.
    """
    profile = ("require", "default")[number % 2]
    kubectl.run("label", "namespace", NAMESPACE, "--overwrite", f"{names.PROFILE}={profile}")
    patch = f'{{"status":{{"failed":{number}}}}}'
    kubectl.run("patch", "job/train", f"--namespace={NAMESPACE}", "--subresource=status", "--patch", patch)
    process = processes.running[API_SERVER]
    process.kill()
    process.wait()
    processes.start(API_SERVER, [str(argument) for argument in process.args])  # type: ignore[union-attr]
    review = review_of(pod, namespace=NAMESPACE)
    until(lambda: served.post("/mutate", review).status == 200)
    first = right(served, pod, number, profile)
    until(lambda: watching(served))
    return [first, right(served, pod, number, profile)].count(False)


def right(served: Served, pod: Json, number: int, profile: str) -> bool:
    """Return True if the answer for a pod follows from the last state."""
    answer = mutated(served, pod, NAMESPACE)
    return noted(answer)["attempt"] == str(number) and answer["metadata"]["labels"][names.PROFILE] == profile


if __name__ == "__main__":
    main()
