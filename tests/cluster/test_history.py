"""Records of history in the server's log, and what accounts say was lost, against a watch of the test's own."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.conftest import opted_in
from tests.cluster.ended_pods import EndedPods, records_in, workloads_in
from tests.cluster.installation import CONTROLLER
from tests.cluster.manifests import exits, job
from tests.cluster.objects import ACCOUNT, ended
from webhook.accounts.account import Account
from webhook.accounts.stored import decode
from webhook.history.record import AttemptRecord, Capacity, Record

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

REQUESTS = {"requests": {"cpu": "1", "memory": "512Mi"}}


def history(team: Namespace) -> dict[str, Record]:
    """Return the records of a namespace that the server has written into its log."""
    found = records_in([Path(os.environ["RETRY_POLICY_TEST_LOGS"], f"{CONTROLLER}.log")])
    return {uid: one for uid, one in found.items() if one.namespace == team.name}


def attempts(team: Namespace) -> list[AttemptRecord]:
    """Return the records of attempts in the order of their ends."""
    found = [one for one in history(team).values() if isinstance(one, AttemptRecord)]
    return sorted(found, key=lambda one: (one.end, one.start))


def requesting(manifest: Object) -> Object:
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = REQUESTS
    return manifest


def account_of(team: Namespace, name: str) -> Account:
    stored = team.get("job", name).get(ACCOUNT)
    found: Account = decode(None if stored is None else json.dumps(stored["status"]))
    return found


def capacity_of(node: str) -> Capacity:
    return "Spot" if node.startswith("spot") else "OnDemand"


def test_each_attempt_and_the_end_of_a_job_are_recorded(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    created = team.create(requesting(job("train", exits(143, 0), backoffLimit=3)))
    team.wait_for("jobs", "train", lambda found: bool(found["status"].get("succeeded")))
    until(lambda: len(history(team)) == 3)
    first, second = attempts(team)
    assert (first.cause, first.reason, first.cost, first.retries_left) == ("ExitCode", "main 143", "retry", 2)
    assert (second.cause, second.cost, second.attempt) == ("Succeeded", "", 1)
    for one in (first, second):
        assert (one.workload, one.workload_uid, one.kind) == ("train", created["metadata"]["uid"], "Job")
        assert (one.capacity, one.zone) == (capacity_of(one.node), "europe-west1-b")
        assert one.resources == {"cpu": 1.0, "memory": 2.0**29}
    end = workloads_in(history(team))["train"]
    assert (end.outcome, end.retries, end.completions) == ("Complete", 3, 1)


def test_what_evictions_cost_is_in_the_account_to_the_second(namespace: NewNamespace) -> None:
    team, truth = opted_in(namespace), EndedPods()
    watching = threading.Thread(target=watch, args=(team, truth), daemon=True)
    watching.start()
    for number in range(4):
        team.create(requesting(job(f"train-{number}", backoffLimit=3)))
    seen: set[str] = set()
    for _ in range(3):
        pods = team.wait_for_all("pods", lambda found: len(running_of(found, seen)) == 4)
        for pod in running_of(pods, seen):
            seen.add(pod["metadata"]["uid"])
            team.evict(pod["metadata"]["name"])
    for number in range(4):
        team.wait_for("jobs", f"train-{number}", lambda found: ended(found, 3))
    until(lambda: len(attempts(team)) == sum(map(len, truth.failed.values())) == 12)
    for number in range(4):
        name = f"train-{number}"
        lost = account_of(team, name).lost
        true = truth.rows(name, capacity_of, Spot=0, OnDemand=0)
        for row in true["Disruption"].values():
            row.priced = 0  # the policy of the cluster tests has no prices
        assert lost == true
    records = {one.uid: one.seconds for one in attempts(team)}
    assert records == {uid: one.seconds for of_job in truth.failed.values() for uid, one in of_job.items()}


def watch(team: Namespace, truth: EndedPods) -> None:
    for _, pod in team.api.watch(f"api/v1/namespaces/{team.name}/pods", timeoutSeconds="3600"):
        truth.see(pod)


def running_of(pods: list[Object], but: set[str]) -> list[Object]:
    return [
        pod
        for pod in pods
        if pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"]["uid"] not in but
    ]
