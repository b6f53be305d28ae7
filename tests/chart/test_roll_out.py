"""Helm installs, upgrades and rolls back under 100 admissions a second; two versions share accounts and policies.

No kubelet runs pods here: the pods of the Deployment are processes on this machine, behind a balancer in place of the
Service (kubelet.py). Deployment controller, scheduler, API server and Helm are real. Revision 1 runs the last version
(last_version.py), revision 2 this one, and the rollback the last one again; while Helm waits, both serve side by side.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.chart.cluster import LAST, NAMESPACE, done
from tests.chart.helm import RELEASE
from tests.chart.last_version import program
from tests.cluster.manifests import job
from tests.cluster.objects import account, disruptions, is_running
from webhook import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chart.cluster import Cluster
    from tests.cluster.kubectl import Object

LIMIT = 5
POLICY = {"profiles": {"default": {"disruptions": {"limit": LIMIT}, "placement": {"provider": "gke"}}}}
STRICTER = {"profiles": {"default": {**POLICY["profiles"]["default"], "retries": {"limit": 9}}}}
TRAIN = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=batch.kubernetes.io/job-name=train"
UNTOUCHED = ("a Job was accepted and not mutated", "a Job with 25 retries was accepted")


def test_install_upgrade_and_rollback_lose_no_admission_and_the_versions_read_each_other(cluster: Cluster) -> None:
    with cluster.under_load("helm install: last version, namespace not opted in") as watched:
        cluster.install(f"--set=image.tag={LAST}", f"--set-json=policy={json.dumps(POLICY)}", replicas=2)
        watched.note = "wrong, because it must be: without the label every Job is stored as it was written"
    tally = watched.tally
    assert (tally.failed, tally.api, tally.wrong) == (0, 0, tally.sent), tally
    assert [message for message in tally.messages if not message.endswith(UNTOUCHED)] == []
    cluster.opt_in()
    team = cluster.team
    team.create(job("train", backoffLimit=3))
    disrupt(cluster, 1)
    old = [container.process for container in cluster.kubelet.containers.values()]

    with cluster.under_load("helm upgrade: last version to this one") as watched:
        cluster.upgrade(f"--set-json=policy={json.dumps(STRICTER)}", "--set=labels.team=batch", replicas=2)
        until_only(cluster, __version__)
    assert watched.tally.lost == 0, watched.tally
    assert [process.wait() for process in old] == [0, 0]
    assert "limit: 9" in cluster.policy()
    disrupt(cluster, 2)

    with cluster.under_load("helm rollback: this version to the last one") as watched:
        done(cluster.run("rollback", RELEASE, "1", "--wait"))
        until_only(cluster, LAST)
    assert watched.tally.lost == 0, watched.tally
    assert "limit: 9" not in cluster.policy()
    disrupt(cluster, 3)

    found = team.get("job", "train")
    assert account(found)["left"] == {"retries": 3, "disruptions": LIMIT - 3}
    by_version = {sources: explained(cluster, sources) for sources in cluster.kubelet.sources.values()}
    for rows in by_version.values():
        assert [row["cost"] for row in rows if row["cost"]] == ["disruption"] * 3


def until_only(cluster: Cluster, tag: str) -> None:
    """Wait until the pods of other images have ended."""
    cluster.kubelet.until(lambda: cluster.images() == [tag])


def disrupt(cluster: Cluster, number: int) -> None:
    """Evict the Job's pod for the nth time, and wait until the account counts it."""
    found: list[Object] = []

    def runs() -> bool:
        found[:] = [pod for pod in cluster.api.get(TRAIN)["items"] if is_running(pod)]
        return bool(found)

    cluster.kubelet.until(runs)
    assert disruptions(found[0]) == str(number - 1)
    cluster.team.evict(found[0]["metadata"]["name"])
    cluster.kubelet.until(lambda: account(cluster.team.get("job", "train")).get("ended") == number)


def explained(cluster: Cluster, sources: Path) -> list[Object]:
    """Return the attempts of the Job as a version's `retry-policy explain` shows them."""
    command = [*program(sources), "explain", f"{NAMESPACE}/train", "-o", "json"]
    options = [f"--kubeconfig={cluster.kubectl.kubeconfig}"]
    answer = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    rows: list[Object] = json.loads(answer.stdout)["rows"]
    return rows
