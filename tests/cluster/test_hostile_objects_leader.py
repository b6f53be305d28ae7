"""Objects by which users try to stop the leader or all replicas: other admissions and accounts continue."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import exits, job, job_set, replicated_job
from tests.cluster.namespace import PATHS
from tests.cluster.objects import ACCOUNT, account, ended
from tests.served import serving
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.served import Served

MOST_MEMORY = 160  # MiB at the peak; in an empty cluster a server has 90, and 210 if it keeps these objects
GATES = 110_000  # readinessGates of a Job: 2.3 MB of JSON; the API server would need seconds to merge variables instead
LARGE_JOBS = 4  # more than a page may hold


def admits(team: Namespace) -> bool:
    """Return True if a Job of another team is admitted, also by the leader."""
    path = f"apis/batch/v1/namespaces/{team.name}/jobs"
    return names.POLICY in team.api.dry_run(path, job("other"))["metadata"].get("annotations", {})


def peak(served: Served) -> int:
    """Return the peak memory of a server, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{served.process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def hostile_set(pattern: str) -> Object:
    """Return a JobSet with a message pattern of exponential time, whose Job fails with the worst message for it."""
    workers = replicated_job("workers", exits(1), backoffLimit=3)
    spec = workers["template"]["spec"]
    spec["template"]["spec"]["containers"][0]["name"] = "a" * 60
    codes = {"operator": "NotIn", "values": [0, 143]}
    spec["podFailurePolicy"] = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    rule = {"name": "hostile", "action": "FailJobSet", "onJobFailureMessagePatterns": [pattern]}
    return job_set("hostile", workers, failurePolicy={"maxRestarts": 0, "rules": [rule]})


@with_operators
@pytest.mark.parametrize("pattern", ["(a+)+!", "(a?){200}b", "[[:alpha:]]{0,490}x"])
def test_a_message_pattern_of_exponential_time_does_not_block_the_leader(namespace: NewNamespace, pattern: str) -> None:
    team, other = opted_in(namespace), opted_in(namespace)
    team.create(hostile_set(pattern))
    found = team.wait_for("jobsets", "hostile", lambda found: ended(found, 1))
    assert account(found)["causes"] == {"ExitCode": {f"{'a' * 60} 1": 1}}
    assert admits(other)


@pytest.mark.first
def test_a_job_without_annotations_gets_an_account_after_opt_in(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(labelled(job("train", exits(1), backoffLimit=0)))
    team.wait_for("jobs", "train", lambda found: found["status"].get("failed"))
    assert ACCOUNT not in team.get("job", "train")
    assert not team.event_messages("train")
    team.label({names.PROFILE: "default"})
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert account(found)["cost"] == {"fatal": 1}


def labelled(root: Object) -> Object:
    """Return an object with this project's label, which users may set in a namespace that is not opted in."""
    root["metadata"]["labels"] = {names.PROFILE: "default"}
    root["spec"]["template"]["metadata"]["labels"] = {names.PROFILE: "default"}
    return root


def is_created(team: Namespace, root: Object) -> bool:
    """Create an object; return False after a timeout, which a busy API server may give for such a large object."""
    answer = team.api.send("POST", f"{PATHS['jobs']}/namespaces/{team.name}/jobs", root)
    return answer["kind"] == "Job" or bool(answer["reason"] == "AlreadyExists")


def is_labelled(team: Namespace, name: str) -> bool:
    """Label a Job; return True if the API server has done so in time."""
    path = f"{PATHS['jobs']}/namespaces/{team.name}/jobs/{name}"
    return bool(team.api.send("PATCH", path, {"metadata": {"labels": {"seen": "1"}}})["kind"] == "Job")


@pytest.mark.first
def test_large_labelled_jobs_in_namespaces_without_opt_in_cost_a_starting_server_little_memory(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team, other = namespace(), opted_in(namespace)
    for number in range(LARGE_JOBS):
        large = labelled(job(f"large-{number}", suspend=True))
        large["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": "a"}] * GATES
        until(partial(is_created, team, large))
    with serving(tmp_path, "--kubeconfig", os.environ["KUBECONFIG"]) as served:
        until(lambda: served.get("/readyz").status == 200)
        assert peak(served) <= MOST_MEMORY
        for number in range(LARGE_JOBS):
            until(partial(is_labelled, team, f"large-{number}"))
        assert peak(served) <= MOST_MEMORY
    assert admits(other)
    # Else each server that another test starts lists them.
    team.api.send("DELETE", f"{PATHS['jobs']}/namespaces/{team.name}/jobs", {"propagationPolicy": "Background"})
