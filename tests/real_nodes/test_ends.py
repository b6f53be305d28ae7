"""How pods end on a real kubelet, what that costs, and where the next one runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster import command_line
from tests.cluster.conftest import opted_in
from tests.cluster.objects import account, condition, ended, has_failed, last, noted
from tests.cluster.test_retry import run_retry
from tests.real_nodes.workloads import FOR_EVER, UNTIL_SIGTERM, container, job, preferring, running
from webhook.kube import names
from webhook.objects.times import seconds

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace


def complete(found: Object) -> Object:
    return condition(found, "Complete")


def explained(team: Namespace) -> str:
    done = command_line.run("explain", f"{team.name}/job/train", f"--kubeconfig={team.kubeconfig}")
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_a_bug_ends_the_job_at_once(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("exit 1", backoffLimit=3))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1) and has_failed(one))
    assert last(found) == [("ExitCode", "main 1", "fatal")]
    assert condition(found, "Failed")["reason"] == "PodFailurePolicy"


def test_a_retriable_exit_code_costs_a_retry_and_the_last_attempt_runs_on_demand(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("exit 143", backoffLimit=1))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 2) and has_failed(one))
    assert last(found) == [("ExitCode", "main 143", "retry"), ("ExitCode", "main 143", "fatal")]
    pods = sorted(team.pods_of("train", bool), key=lambda one: noted(one)["attempt"])
    assert [one["spec"]["nodeName"].rpartition("-")[0] for one in pods] == ["spot", "on-demand"]


def test_retries_that_count_for_a_time_let_a_job_fail_more_often_than_its_backoff_limit(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "renewed")
    team.create(job("sleep 12; exit 143", backoffLimit=1))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 3))
    assert last(found) == [("ExitCode", "main 143", "retry")] * 3
    assert "backoffLimit raised from 1 to 2: retries count no more" in team.told("train", "BackoffLimitRaised")
    assert not has_failed(found)


def test_a_failure_that_nothing_explains_is_a_bug_once_it_has_happened_again(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "confirm")
    team.create(job("exit 1", backoffLimit=5))
    found = team.wait_for("jobs", "train", lambda one: has_failed(one) and account(one).get("cost", {}).get("fatal"))
    assert account(found)["cost"] == {"retry": 1, "fatal": 1}
    assert (
        "the second failure that nothing explains; the one before it: main 1" in condition(found, "Failed")["message"]
    )


def test_a_bug_of_one_of_many_pods_ends_its_index_after_one_more_try(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "confirm")
    team.create(job("[ $JOB_COMPLETION_INDEX != 2 ]", completionMode="Indexed", completions=5, parallelism=2))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 2) and has_failed(one))
    assert (found["status"]["failedIndexes"], found["status"]["completedIndexes"]) == ("2", "0,1,3,4")
    assert last(found) == [("ExitCode", "main 1", "retry"), ("ExitCode", "main 1", "fatal")]


def test_a_bug_of_all_pods_ends_the_job_after_a_few_of_them(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "many-pods")
    team.create(job("exit 1", completionMode="Indexed", completions=40, parallelism=2))
    found = team.wait_for("jobs", "train", has_failed)
    assert condition(found, "Failed")["reason"] == "JobWideFailure"


@pytest.mark.parametrize("script", [UNTIL_SIGTERM, FOR_EVER], ids=["ends by SIGTERM, 143", "is killed, 137"])
def test_a_drain_costs_a_disruption_however_the_pod_ends(namespace: NewNamespace, script: str) -> None:
    team = opted_in(namespace)
    team.create(job(script, backoffLimit=2))
    before = running(team)
    team.evict(before["metadata"]["name"])
    running(team, but=before)
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "EvictionByEvictionAPI", "disruption")]


def test_an_evicted_pod_that_ends_with_0_costs_nothing_and_has_a_row(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("trap 'exit 0' TERM; while :; do sleep 1 & wait; done", backoffLimit=2))
    team.evict(running(team)["metadata"]["name"])
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1) and complete(one))
    assert last(found) == [("Succeeded", "EvictionByEvictionAPI", "none")]
    assert "disruption EvictionByEvictionAPI; it succeeded" in explained(team)


def test_a_taint_costs_a_disruption(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = opted_in(namespace)
    team.create(job(UNTIL_SIGTERM, backoffLimit=2, pod=preferring("tainted")))
    before = running(team)
    assert before["spec"]["nodeName"] == "tainted"
    assert kubectl.run("taint", "node", "tainted", "test/repaired=x:NoExecute").returncode == 0
    assert running(team, but=before)["spec"]["nodeName"] != "tainted"
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "DeletionByTaintManager", "disruption")]


def test_preemption_by_priority_costs_a_disruption(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = opted_in(namespace)
    name = f"first-{team.name[-6:]}"
    kubectl.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}
    )
    large = {"requests": {"cpu": "1200m", "memory": "16Mi"}}  # of two cores
    on = {"nodeSelector": {"kubernetes.io/hostname": "spot-0"}}
    team.create(job(container(UNTIL_SIGTERM, resources=large), backoffLimit=2, pod=on))
    running(team)
    urgent = container(UNTIL_SIGTERM, resources=large)
    team.create(job(urgent, "urgent", backoffLimit=2, pod={**on, "priorityClassName": name}))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Disruption", "PreemptionByScheduler", "disruption")]


def test_a_container_that_is_killed_for_its_memory_gets_more_until_it_succeeds(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "memory")
    eats = "x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo ${#x}"
    small = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    team.create(job(container(eats, resources=small), backoffLimit=5))
    found = team.wait_for("jobs", "train", complete)
    causes = {cause for cause, _, _ in last(found)}
    assert causes == {"OOMKilled"}, account(found)
    pods = team.pods_of("train", bool)
    limits = [one["spec"]["containers"][0]["resources"]["limits"]["memory"] for one in pods]
    assert limits[0] == "32Mi"
    assert len(set(limits)) == len(limits)


def test_a_child_that_is_killed_for_its_memory_gets_more_although_the_program_ends_with_1(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "memory")
    eats = "(x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo ${#x}) || exit 1"
    small = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    team.create(job(container(eats, resources=small), backoffLimit=5))
    found = team.wait_for("jobs", "train", complete)
    assert {cause for cause, _, _ in last(found)} == {"OOMKilled"}, account(found)


def test_the_last_words_are_the_end_of_the_log(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "telling")
    team.create(job("echo first; echo 'ValueError: no such shard' >&2; exit 1", backoffLimit=1))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1) and has_failed(one))
    assert "ValueError: no such shard" in account(found)["last"][0]["message"]


def test_a_container_that_restarts_in_place_is_counted_and_its_job_fails_at_its_limit(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("exit 1", backoffLimit=1, pod={"restartPolicy": "OnFailure"}))
    found = team.wait_for("jobs", "train", lambda one: has_failed(one) and account(one))
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
    restarts = sum(account(found)["inPlace"].values())
    assert restarts >= 1
    # The pod's second run may end by itself before the end of its Job ends it, and then it is a failed pod as well.
    assert f"retries: {restarts} spent in place, " in explained(team)


def test_a_delay_holds_the_next_pod_back(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "delay")
    team.create(job("exit 143", backoffLimit=1))
    team.pods_of("train", lambda pods: any(one["spec"].get("schedulingGates") for one in pods))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 2) and has_failed(one))
    first, second = account(found)["last"]
    assert (first["cost"], second["cost"]) == ("retry", "fatal")


DATA = [{"name": "data", "mountPath": "/data"}]
EMPTY = [{"name": "data", "emptyDir": {}}]
MISSING = {"name": "none"}  # a ConfigMap
CANNOT_START: dict[str, tuple[Object, Object, str]] = {
    "an image that cannot be pulled": ({"image": "registry.invalid/none:1", "imagePullPolicy": "Always"}, {}, "Pull"),
    "a variable of a missing ConfigMap": ({"envFrom": [{"configMapRef": MISSING}]}, {}, "CreateContainerConfigError"),
    "a volume of a missing ConfigMap": (
        {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"volumes": [{"name": "data", "configMap": MISSING}]},
        "ContainerCreating",
    ),
}


@pytest.mark.parametrize(("fields", "pod", "reason"), CANNOT_START.values(), ids=CANNOT_START)
def test_a_container_that_cannot_start_fails_the_job_with_the_reason_of_the_kubelet(
    namespace: NewNamespace, fields: Object, pod: Object, reason: str
) -> None:
    team = opted_in(namespace, "start-timeout")
    team.create(job(container("exit 0", **fields), backoffLimit=1, pod=pod))
    found = team.wait_for("jobs", "train", has_failed)
    why = condition(found, "Failed")
    assert why["reason"] == "NeverStarted"
    assert reason in why["message"]


def test_an_init_container_that_fails_is_retried_and_no_event_says_that_it_ends_the_job(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "memory")
    team.create(job("exit 0", backoffLimit=1, pod={"initContainers": [container("exit 4", "prepare")]}))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 2) and has_failed(one))
    assert last(found) == [("ExitCode", "prepare 4", "retry"), ("ExitCode", "prepare 4", "fatal")]
    assert not any("no rule of onFailure" in one for one in team.event_messages("train"))


def test_an_init_container_that_fails_costs_what_the_main_container_would(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("exit 0", backoffLimit=0, pod={"initContainers": [container("exit 4", "prepare")]}))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1) and has_failed(one))
    assert last(found) == [("ExitCode", "prepare 4", "fatal")]


def test_the_next_attempt_is_told_its_number(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "telling")
    team.create(job('test "$RETRY_ATTEMPT" = 1 || exit 143', backoffLimit=2))
    found = team.wait_for("jobs", "train", complete)
    assert [cost for _, _, cost in last(found)] == ["retry"]


def test_a_pod_that_a_user_deletes_costs_a_retry_if_it_ends_by_sigterm(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job(UNTIL_SIGTERM, backoffLimit=2))
    before = running(team)
    team.run("delete", "pod", before["metadata"]["name"], "--wait=false")
    running(team, but=before)
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("ExitCode", "main 143", "retry")]


def test_an_index_with_a_bug_fails_and_the_others_go_on(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    script = 'test "$JOB_COMPLETION_INDEX" != 1'
    shards: Object = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2}
    team.create(job(script, **shards))
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1) and has_failed(one))
    assert last(found) == [("ExitCode", "main 1", "fatal")]
    assert (found["status"]["failedIndexes"], found["status"]["completedIndexes"]) == ("1", "0,2")


def test_a_requested_retry_reruns_a_failed_job(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    manifest = job("exit 1", backoffLimit=1)
    manifest["metadata"]["annotations"] = {names.RETRYABLE: "true"}
    team.create(manifest)
    before = team.wait_for("jobs", "train", lambda one: ended(one, 1) and has_failed(one))
    code, _, complaints = run_retry(team, "job/train", "--yes")
    assert (code, complaints) == (0, "")
    again = team.wait_for("jobs", "train", lambda one: ended(one, 2) and has_failed(one))
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    assert [cost for _, _, cost in last(again)] == ["fatal", "fatal"]


def test_a_sidecar_that_fails_again_and_again_costs_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    sidecar = container("test -e /data/again && touch /data/twice; touch /data/again; exit 1", "proxy")
    sidecar |= {"restartPolicy": "Always", "volumeMounts": DATA}
    main = container("until test -e /data/twice; do sleep 1; done", volumeMounts=DATA)
    team.create(job(main, backoffLimit=1, pod={"initContainers": [sidecar], "volumes": EMPTY}))
    found = team.wait_for("jobs", "train", complete)
    (pod,) = team.pods_of("train", bool)
    assert pod["status"]["initContainerStatuses"][0]["restartCount"] >= 1
    assert account(found).get("cost", {}) == {}


def test_a_sidecar_that_fails_at_the_end_costs_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    sidecar = container(UNTIL_SIGTERM, "proxy", restartPolicy="Always")
    team.create(job("sleep 1", backoffLimit=1, pod={"initContainers": [sidecar]}))
    found = team.wait_for("jobs", "train", complete)
    assert account(found).get("cost", {}) == {}


def test_a_rule_of_a_container_restarts_it_in_place(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [143]}}
    script = "test -e /data/again || { touch /data/again; exit 143; }"
    main = container(script, restartPolicy="Never", restartPolicyRules=[rule], volumeMounts=DATA)
    team.create(job(main, backoffLimit=2, pod={"volumes": EMPTY}))
    found = team.wait_for("jobs", "train", complete)
    (pod,) = team.pods_of("train", bool)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert condition(found, "Failed") == {}


SAYS = "echo retry-policy.dev/progress=0.75 > /dev/termination-log"
SAVES = f"trap '{SAYS}; exit 143' TERM; while :; do sleep 1 & wait; done"


@pytest.mark.parametrize(
    ("script", "said", "saved"),
    [
        pytest.param(SAVES, {}, 0.75 * 300, id="what its last words say"),
        pytest.param(FOR_EVER, {names.CHECKPOINT: "1s"}, 3, id="what it ran less a checkpoint"),
    ],
)
def test_a_drained_pod_of_a_job_with_a_deadline_leaves_what_it_has_saved(
    namespace: NewNamespace, script: str, said: dict[str, str], saved: float
) -> None:
    team = opted_in(namespace)
    root = job(script, backoffLimit=2)
    root["metadata"]["annotations"] = {names.WORK: "5m", names.DEADLINE: "9x", **said}
    team.create(root)
    before = running(team)
    begun = seconds(before["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]) or 0.0
    until(lambda: time.time() > begun + 6)
    team.evict(before["metadata"]["name"])
    after = running(team, but=before)
    assert noted(after)["placement"] == "Spot"
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    (number,) = map(int, account(found)["work"])
    assert saved <= number <= max(saved, 60)
    assert "of work left; on-demand nodes would be done with" in explained(team)


def hangs(team: Namespace, pod: Object) -> Object:
    """Let a program tell its progress, and then nothing more; return the pod that its kubelet has ended."""
    team.tells(pod, "0.42")
    return team.wait_for("pods", pod["metadata"]["name"], lambda one: one["status"].get("phase") == "Failed")


def test_a_program_that_hangs_is_killed_which_costs_a_retry_and_at_the_same_place_again_it_is_a_bug(
    namespace: NewNamespace,
) -> None:
    """It ignores SIGTERM, as a program does that hangs in a call; without the rule for it, 137 would be a bug."""
    team = opted_in(namespace, "progress")
    team.create(job(FOR_EVER, backoffLimit=3))
    first = running(team)
    ended_first = hangs(team, first)
    assert ended_first["status"]["reason"] == "DeadlineExceeded"
    assert ended_first["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    found = team.wait_for("jobs", "train", lambda one: ended(one, 1))
    assert last(found) == [("Stalled", "", "retry")]
    hangs(team, running(team, but=first))
    failed = team.wait_for("jobs", "train", has_failed)
    assert condition(failed, "Failed")["reason"] == "NoProgress"
    assert "stalled: no progress in time" in explained(team)


def test_a_program_that_gets_further_on_its_last_attempt_gets_another_one(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "progress")
    team.create(job(UNTIL_SIGTERM, backoffLimit=1))
    first = running(team)
    team.tells(first, "0.30")
    killed(team, first)
    second = running(team, but=first)
    assert noted(second)["placement"] == "OnDemand"
    team.tells(second, "0.60")
    team.wait_for("jobs", "train", lambda one: one["spec"]["backoffLimit"] == 2)
    killed(team, second)
    third = running(team, but=second)
    assert account(team.wait_for("jobs", "train", lambda one: ended(one, 2)))["cost"] == {"retry": 2}
    assert noted(third)["attempt"] == "2"


def killed(team: Namespace, pod: Object) -> None:
    """Let a program get SIGTERM by nobody's hand but its own."""
    done = team.run("exec", pod["metadata"]["name"], "--", "kill", "1")
    assert done.returncode in {0, 137}, done.stderr  # it may end with the container
    team.wait_for("pods", pod["metadata"]["name"], lambda one: one["status"].get("phase") == "Failed")
