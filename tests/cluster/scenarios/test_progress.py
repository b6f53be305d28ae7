"""Programs that tell their progress: those that hang are ended, those that get further get their retries back."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.objects import account, condition, ended, is_running, last
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import failed_for, is_complete
from tests.cluster.scenarios.test_tekton import task_that
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry_pipeline_runs import pipeline_run, succeeded_is
from tests.documents import document_of
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

PODS = "api/v1/namespaces/{}/pods"
PAGE = Path(__file__).parents[3] / "docs/how-to/deadlines.md"


def stalled(pod: Object) -> bool:
    marked = any(one["type"] == names.STALLED for one in pod["status"].get("conditions", ()))
    return marked and "activeDeadlineSeconds" in pod["spec"]


@pytest.mark.first
def test_a_program_that_hangs_costs_a_retry_though_it_must_be_killed_and_at_the_same_place_again_it_is_a_bug(
    scene: NewScene,
) -> None:
    """The nodes of these tests run no programs: what a kubelet does is in tests/real_nodes."""
    here = scene("progress", spot=1, on_demand=1)
    here.create("one-small-pod.yaml", program(None, None))
    (first,) = here.team.running("report", 1)
    here.team.tells(first, "0.42")
    here.team.wait_for("pods", first["metadata"]["name"], stalled)
    here.team.ends(first, 137)
    found = here.team.wait_for("jobs", "report", partial(ended, number=1))
    assert last(found) == [("Stalled", "", "retry")]
    (second,) = here.team.running("report", 1, but=first)
    here.team.tells(second, "0.42")
    here.team.wait_for("pods", second["metadata"]["name"], stalled)
    here.team.ends(second, 137)
    failed = here.team.wait_for("jobs", "report", failed_for)
    assert failed_for(failed) == "NoProgress"
    assert condition(failed, "Failed")["message"].endswith(
        "ended as the attempt before it, and got no further: stalled: no progress in time, with 42.0% of its work saved"
    )


@with_operators
def test_a_step_of_a_pipeline_that_hangs_is_ended_and_tekton_retries_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "progress")
    team.create(pipeline_run(task_that("a", does=program(None, 0), retries=1)))
    first = team.wait_for("pods", "build-a-pod", is_running)
    team.tells(first, "0.42")
    team.wait_for("pods", "build-a-pod", stalled)
    team.ends(first, 137)
    run = team.wait_for("pipelineruns", "build", lambda found: succeeded_is("True")(found) and ended(found, 1))
    assert last(run) == [("Stalled", "", "retry")]


@pytest.mark.first
def test_slow_programs_that_get_on_are_left_alone(scene: NewScene) -> None:
    """Each tells something new six times in the timeout of a minute, for twice as long. A unit test has 500 of them."""
    here = scene("slow-progress", spot=1, on_demand=1)
    here.create("ten-slow-pods.yaml", program())
    pods = here.team.running("sweep", 10)
    for step in range(1, 14):
        for pod in pods:
            here.team.tells(pod, f"{step / 100_000:.5f}")
        for kind, pod in here.team.api.watch(PODS.format(here.team.name), timeoutSeconds="10"):
            assert kind == "ERROR" or not stalled(pod)  # a busy API server may end a watch early
    found = here.team.pods_of("sweep", bool)
    assert {one["metadata"]["uid"] for one in found} == {one["metadata"]["uid"] for one in pods}
    assert not any(map(stalled, found))


@pytest.mark.first
def test_an_attempt_that_gets_further_gives_the_job_its_last_retry_back(scene: NewScene) -> None:
    here = scene("progress", spot=1, on_demand=1)
    here.create("one-small-pod.yaml", program(None, None, 0))
    (first,) = here.team.running("report", 1)
    here.team.tells(first, "0.30")
    here.team.ends(first, 143)
    (second,) = here.team.running("report", 1, but=first)
    here.team.tells(second, "0.60")
    raised = here.team.wait_for("jobs", "report", lambda found: found["spec"]["backoffLimit"] == 3)
    assert raised["status"]["active"] == 1
    (message,) = here.team.told("report", "BackoffLimitRaised")
    assert message == "backoffLimit raised from 2 to 3: retries count no more"
    here.team.ends(second, 143)
    done = here.team.wait_for("jobs", "report", is_complete)
    assert account(here.team.wait_for("jobs", "report", partial(ended, number=2)))["cost"] == {"retry": 2}
    assert done["status"]["failed"] == 2


@pytest.mark.first
def test_retries_count_for_the_time_of_the_profile_and_are_there_before_the_next_failure(scene: NewScene) -> None:
    here = scene("renewed", spot=1, on_demand=1)
    here.create("one-small-pod.yaml", program(143, 143, None))
    here.team.wait_for("jobs", "report", partial(ended, number=2))
    job = here.team.wait_for("jobs", "report", lambda found: found["spec"]["backoffLimit"] > 2)
    assert job["spec"]["backoffLimit"] - 2 in {1, 2}
    told = str(explained(here.team, "report")["budgets"])
    assert re.search(r"retries: [01] of 2 spent.* \(backoffLimit is [34]: [12] count no more\)", told)


def test_the_program_of_the_page_tells_its_progress(scene: NewScene, tmp_path: Path) -> None:
    here = scene("default", spot=1, on_demand=0)
    here.create("one-small-pod.yaml", program(None))
    (pod,) = here.team.running("report", 1)
    here.team.permit("tells", {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]})
    here.team.bind("Role/tells", "ServiceAccount", "default", of=here.team.name)
    cluster = document_of(Path(here.team.kubeconfig).read_text())["clusters"][0]["cluster"]
    (tmp_path / "token").write_text(here.team.token())
    (tmp_path / "namespace").write_text(here.team.name)
    (tmp_path / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    (code,) = re.findall(r"```python\n(  import contextlib, json.*?)```", PAGE.read_text(), re.DOTALL)
    code = re.sub(r"^  ", "", code, flags=re.MULTILINE).replace(
        "/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path)
    )
    code = code.replace("https://kubernetes.default.svc", cluster["server"])
    environment = {"HOSTNAME": pod["metadata"]["name"]}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\ntell(0.42)"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = here.team.get("pod", pod["metadata"]["name"])
    assert found["metadata"]["annotations"][names.PROGRESS] == "0.4200"
