"""Prints `explain` of a Job after a preemption, exit 143, eviction, taint, exit 143 and exit 1, for Ignore and Count.

Takes five minutes, mostly for back-off:
`python -m tests.cluster --without-operators -- python -m tests.bench.sequence`.
"""

import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster.conftest import new_namespace
from tests.cluster.disruptions import on, own_nodes, preempt, taint, untaint
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.manifests import job
from tests.cluster.namespace import Api, Namespace
from tests.cluster.objects import account, condition, ended
from webhook.kube.names import MAX_RETRIES, PROFILE


def run_sequence(kubectl: Kubectl, api: Api, profile: str) -> str:
    """Let the pods of a Job with 6 retries end in all these ways; return the output of `explain`."""
    team = new_namespace(f"sequence-{secrets.token_hex(2)}", {PROFILE: profile}, kubectl, api)
    with own_nodes(kubectl, spot=1) as nodes:
        (node,) = nodes.nodes
        manifest = on(nodes, job("train"), cpu="40")
        manifest["metadata"]["annotations"] = {MAX_RETRIES: "6"}
        team.create(manifest)
        pod = next_pod(team, None)
        preempt(kubectl, team, pod)
        pod = next_pod(team, pod)
        team.ends(pod, 143)
        pod = next_pod(team, pod)
        team.evict(pod["metadata"]["name"])
        pod = next_pod(team, pod)
        taint(kubectl, node)
        team.wait_for("jobs", "train", lambda found: ended(found, 4))
        untaint(kubectl, node)
        pod = next_pod(team, pod)
        team.ends(pod, 143)
        pod = next_pod(team, pod)
        team.ends(pod, 1)
        found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed") and ended(found, 6))
        print(profile, found["status"].get("failed"), account(found)["cost"], condition(found, "Failed")["reason"])
        return explained(team)


def next_pod(team: Namespace, before: Object | None) -> Object:
    """Return the running pod of the Job, other than `before`, as soon as there is one."""
    (pod,) = team.running("train", 1, but=before)
    return pod


def explained(team: Namespace) -> str:
    program = Path(sys.executable).with_name("retry-policy")
    command: list[str | Path] = [program, "explain", f"{team.name}/train", f"--kubeconfig={team.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    kubectl = Kubectl(Path(shutil.which("kubectl") or "kubectl"), Path(os.environ["KUBECONFIG"]))
    api = Api.connect(kubectl.kubeconfig)
    with ThreadPoolExecutor() as pool:
        for explanation in pool.map(lambda profile: run_sequence(kubectl, api, profile), ("default", "count")):
            print(explanation)
    api.close()


if __name__ == "__main__":
    main()
