"""The test cluster itself, without the webhook: the other tests depend on this behaviour."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import LONGEST, until
from tests.cluster.manifests import CONTAINER, DELETION_EXIT_CODE, EXIT_CODE, exits, job, pod
from tests.cluster.nodes import MARK, POLICY, POOL, SPOT, USER
from tests.cluster.objects import condition, exit_codes, phase
from webhook.kube.names import ATTEMPT

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl

ROOT = Path(__file__).parents[2]
AS_KWOK = (f"--as={USER}", "--as-group=system:masters")
API_SERVER_LOG = Path(os.environ.get("RETRY_POLICY_TEST_LOGS", ".")) / "kube-apiserver.log"


def test_a_job_runs_to_its_completion_on_kwok_nodes(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = namespace()
    team.create(job("train", exits(0), completions=2, parallelism=2))

    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))

    nodes = {one["metadata"]["name"] for one in kubectl.get("nodes", f"--selector={MARK}=fake")["items"]}
    assert {one["spec"]["nodeName"] for one in team.get("pods")["items"]} <= nodes


def test_kwok_deletes_no_pod_that_nobody_has_deleted(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pod("next-of-its-name"))

    refused = team.run("delete", "pod", "next-of-its-name", *AS_KWOK)

    assert POLICY in refused.stderr


def test_kwok_starts_and_ends_no_pod_twice(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pod("twice"))
    team.wait_for("pods", "twice", lambda found: found["status"]["phase"] == "Running")
    patch = ("patch", "pod", "twice", "--subresource=status", *AS_KWOK)

    started = team.run(*patch, '--patch={"status": {"startTime": "2026-01-01T00:00:00Z"}}')
    first = team.run(*patch, '--patch={"status": {"phase": "Failed"}}')
    again = team.run(*patch, '--patch={"status": {"reason": "Late"}}')

    assert [POLICY in one.stderr for one in (started, first, again)] == [True, False, True]


def test_exit_code_1_is_retried_until_the_backoff_limit(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(job("train", exits(1), backoffLimit=1))

    found = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))

    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
    assert found["status"]["failed"] == 2
    assert [exit_codes(one) for one in team.get("pods")["items"]] == [{"main": 1}, {"main": 1}]


def test_a_pod_runs_until_an_annotation_tells_it_to_end(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pod("lasting"))
    team.wait_for("pods", "lasting", lambda found: condition(found, "Ready"))

    team.annotate("pod/lasting", {EXIT_CODE: "143"})

    found = team.wait_for("pods", "lasting", lambda found: phase(found) == "Failed")
    assert exit_codes(found) == {"main": 143}


def test_the_exit_code_follows_the_attempt_and_an_attempt_beyond_the_list_runs_on(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(pod("attempt-3", {**exits(143, 1, 0), ATTEMPT: "3"}))
    for attempt in ("2", "1", "0"):
        team.create(pod(f"attempt-{attempt}", {**exits(143, 1, 0), ATTEMPT: attempt}))
    team.create(pod("attempt-unknown", exits(143, 1, 0)))

    ended = team.wait_for_all("pods", lambda pods: sum(bool(exit_codes(one)) for one in pods) == 4)

    assert {one["metadata"]["name"]: (phase(one), exit_codes(one).get("main")) for one in ended} == {
        "attempt-0": ("Failed", 143),
        "attempt-1": ("Failed", 1),
        "attempt-2": ("Succeeded", 0),
        "attempt-3": ("Running", None),
        "attempt-unknown": ("Failed", 143),
    }


@pytest.mark.parametrize(
    ("annotations", "codes"), [({}, {"main": 1, "logs": 0}), ({CONTAINER: "logs"}, {"main": 0, "logs": 1})]
)
def test_one_container_ends_with_the_exit_code_and_the_others_with_0(
    namespace: NewNamespace, annotations: dict[str, str], codes: dict[str, int]
) -> None:
    team = namespace()
    manifest = pod("two", {**exits(1), **annotations})
    manifest["spec"]["containers"].append({"name": "logs", "image": "example.invalid/logs"})
    manifest["spec"]["initContainers"] = [
        {"name": "setup", "image": "example.invalid/setup"},
        {"name": "sidecar", "image": "example.invalid/sidecar", "restartPolicy": "Always"},
    ]
    team.create(manifest)

    found = team.wait_for("pods", "two", lambda found: phase(found) == "Failed")

    assert exit_codes(found) == codes


def test_a_container_that_a_kubelet_would_restart_in_place_does_not_end_its_pod(namespace: NewNamespace) -> None:
    team = namespace()
    for name, code in (("restarted", 1), ("done", 0)):
        manifest = pod(name, exits(code))
        manifest["spec"]["restartPolicy"] = "OnFailure"
        team.create(manifest)
        team.wait_for("pods", name, lambda found: phase(found) != "Pending")

    team.wait_for("pods", "done", lambda found: phase(found) == "Succeeded")

    assert phase(team.get("pod", "restarted")) == "Running"


@pytest.mark.parametrize(("annotations", "code"), [({}, 137), ({DELETION_EXIT_CODE: "143"}, 143)])
def test_an_evicted_pod_fails_as_disrupted_with_its_exit_code_before_it_is_deleted(
    namespace: NewNamespace, annotations: dict[str, str], code: int
) -> None:
    team = namespace()
    team.create(job("train", annotations))
    (running,) = team.pods_of("train", lambda pods: pods and condition(pods[0], "Ready"))

    team.evict(running["metadata"]["name"])

    evicted, *_ = team.pods_of("train", lambda pods: phase(pods[0]) == "Failed")
    assert exit_codes(evicted) == {"main": code}
    assert condition(evicted, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"
    assert evicted["metadata"]["deletionTimestamp"]
    team.pods_of("train", lambda pods: running["metadata"]["uid"] not in [one["metadata"]["uid"] for one in pods])


def test_a_pod_that_exits_0_when_it_is_deleted_succeeds(namespace: NewNamespace) -> None:
    team = namespace()
    manifest = pod("graceful", {DELETION_EXIT_CODE: "0"})
    manifest["metadata"]["finalizers"] = ["retry-policy-test/look"]  # so that the pod still exists
    team.create(manifest)
    team.wait_for("pods", "graceful", lambda found: condition(found, "Ready"))

    team.delete("pod/graceful")

    team.wait_for("pods", "graceful", lambda found: phase(found) == "Succeeded")
    team.patch("pod/graceful", {"metadata": {"finalizers": None}})
    team.wait_for_all("pods", lambda pods: not pods)


def test_spot_nodes_keep_out_pods_that_do_not_tolerate_them(namespace: NewNamespace) -> None:
    team = namespace()
    for name in ("refused", "tolerant"):
        manifest = pod(name)
        manifest["spec"]["nodeSelector"][SPOT] = "true"
        if name == "tolerant":
            manifest["spec"]["tolerations"].append({"key": SPOT, "operator": "Exists"})
        team.create(manifest)

    tolerant = team.wait_for("pods", "tolerant", lambda found: condition(found, "Ready"))
    team.wait_for("pods", "refused", lambda found: found["status"]["conditions"][0]["reason"] == "Unschedulable")

    assert team.get("node", tolerant["spec"]["nodeName"])["metadata"]["labels"][POOL] == "spot"


@pytest.mark.skipif(sys.platform != "linux", reason="finds the programs in /proc")
@pytest.mark.skipif(not API_SERVER_LOG.exists(), reason="would build a control plane beside the foreign cluster")
def test_a_runner_that_is_stopped_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster", "--", "true"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}) as runner:
        until(lambda: any(log.stat().st_size for log in tmp_path.glob("*/logs/kube-apiserver.log")))
        assert stopped(runner, signal.SIGTERM) == {"etcd", "kube-apiserver"}  # SIGINT: test_playground.py
    assert not any(tmp_path.iterdir())


# A program as those of a control plane, and a command as the one that runs in it; each says its process's id.
STARTS_BOTH: Final = """
import pathlib, sys
from tests.cluster.__main__ import _call
from tests.cluster.processes import Processes
processes = Processes(pathlib.Path(sys.argv[1]))
processes.start("program", ["sleep", "1000"])
print(processes.running["program"].pid, flush=True)
_call(["sh", "-c", "echo $$; exec sleep 1000"], {})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a killed process")
def test_programs_and_the_command_end_with_a_runner_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_BOTH, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        alive = [os.pidfd_open(int(killed.stdout.readline())) for _ in range(2)]
        killed.kill()
    for one in alive:
        ended, _, _ = select.select([one], [], [], LONGEST)
        os.close(one)
        assert ended


def stopped(runner: subprocess.Popen[Any], number: signal.Signals) -> set[str]:
    """Stop a runner by a signal; fail unless each of its programs ends, and then it; return their names."""
    children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()
    names = {Path(f"/proc/{child}/comm").read_text().strip() for child in children}
    alive = {os.pidfd_open(int(child)) for child in children}
    if number == signal.SIGINT:
        os.killpg(runner.pid, number)  # as a terminal does at Ctrl-C
    else:
        runner.send_signal(number)
    while alive:
        ended, _, _ = select.select(alive, [], [], LONGEST)
        assert ended
        alive -= set(ended)
        for descriptor in ended:
            os.close(descriptor)
    runner.wait(LONGEST)
    return names
