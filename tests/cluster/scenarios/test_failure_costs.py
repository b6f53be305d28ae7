"""What a failure costs by the rules of onFailure, on the real Job controller and with the real leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.objects import account, condition, ended
from tests.cluster.scenarios.conftest import MANIFESTS, program
from tests.documents import document_of
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene, Scene

INDEX = "batch.kubernetes.io/job-completion-index"


def is_complete(found: Object) -> Object:
    return condition(found, "Complete")


def failed_for(found: Object) -> tuple[str, str]:
    """Return reason and message of a Job's end by failure, empty if it has not failed."""
    end = condition(found, "Failed")
    return str(end.get("reason", "")), str(end.get("message", ""))


def has_failed(found: Object) -> Object:
    return condition(found, "Failed")


def dies(here: Scene, pod: Object, code: int, reason: str = "Error", message: str = "", *, time: str = "") -> None:
    """Let all containers of a running pod end as the kubelet reports it, with a reason and a termination message.

    `time`: when they end, RFC 3339; at once by default.
    """
    began = condition(pod, "Ready")["lastTransitionTime"]
    ended = {"exitCode": code, "reason": reason, "message": message, "startedAt": began, "finishedAt": time or began}
    kept = ("name", "image", "imageID", "ready", "restartCount")
    statuses = [
        {**{key: one[key] for key in kept}, "state": {"terminated": ended}}
        for one in pod["status"]["containerStatuses"]
    ]
    path = f"api/v1/namespaces/{here.team.name}/pods/{pod['metadata']['name']}/status"
    answer = here.team.api.send("PATCH", path, {"status": {"phase": "Failed", "containerStatuses": statuses}})
    assert answer["kind"] == "Pod", answer


def by_rules(found: Object) -> list[tuple[str, int | None]]:
    """Return the cost of each counted attempt, and the rule of onFailure that decided about it."""
    return [(one["cost"], one.get("onFailure")) for one in account(found)["last"]]


def index(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][INDEX])


@pytest.mark.first
def test_a_free_exit_code_costs_no_retry_and_fails_the_job_beyond_the_limit_of_retries(scene: NewScene) -> None:
    here = scene("free")
    here.create("one-pod.yaml", {"retry-policy-test/exit-code": "75"})
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[0] == "FreeRestartLimitExceeded"
    assert "free restart 3 exceeds the limit of 2" in failed_for(failed)[1]
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 3))
    assert by_rules(counted)[:3] == [("free", 0)] * 3
    assert failed["status"].get("failed", 0) == 0


def test_a_fatal_exit_code_fails_the_job_at_once_and_others_are_retried_as_the_rules_say(scene: NewScene) -> None:
    here = scene("costs")
    here.create("one-pod.yaml", program(3, 42))
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[0] == "PodFailurePolicy"
    assert "exit code 42 matching FailJob rule" in failed_for(failed)[1]
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 2))
    assert by_rules(counted) == [("retry", 3), ("fatal", 2)]


def test_a_bug_still_fails_the_job_at_once_where_the_api_can_tell_it(scene: NewScene) -> None:
    here = scene("free")
    here.create("one-pod.yaml", program(1))
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert "exit code 1 matching FailJob rule" in failed_for(failed)[1]


def test_a_child_that_is_killed_for_its_memory_is_retried_and_the_ledger_fails_the_job_after_another_bug(
    scene: NewScene,
) -> None:
    here = scene("costs")
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    dies(here, first, 1, "OOMKilled")
    (second,) = here.team.running("train", 1, but=first)
    dies(here, second, 1)
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[1].endswith("failed with exit code 1, and no rule of onFailure retries it")


def test_a_kill_for_memory_is_retried_and_the_ledger_fails_the_job_after_any_other_kill(scene: NewScene) -> None:
    here = scene("costs")
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    dies(here, first, 137, "OOMKilled")
    (second,) = here.team.running("train", 1, but=first)
    assert not has_failed(here.team.get("job", "train"))
    dies(here, second, 137)
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[0] == "PodFailurePolicy"
    assert failed_for(failed)[1].endswith("failed with exit code 137, and no rule of onFailure retries it")
    settled = here.team.wait_for("jobs", "train", lambda found: account(found)["cost"].get("fatal"))
    assert by_rules(settled) == [("retry", 0), ("fatal", None)]


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        ("step 7: checkpoint is corrupt", "which rule 1 of onFailure makes fatal"),
        ("ValueError: x", "failed with exit code 1, and no rule of onFailure retries it"),
    ],
)
def test_the_ledger_judges_by_the_message_what_the_api_cannot_see(scene: NewScene, message: str, ends: str) -> None:
    here = scene("costs-by-message")
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    dies(here, first, 1, message="NCCL error: unhandled system error")
    (second,) = here.team.running("train", 1, but=first)
    dies(here, second, 1, message=message)
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[0] == "PodFailurePolicy"
    assert failed_for(failed)[1].endswith(ends)


def test_a_fatal_exit_code_fails_only_its_index_where_indexes_have_budgets(scene: NewScene) -> None:
    here = scene("costs")
    here.create("indexes-with-budgets.yaml")
    pods = {index(pod): pod for pod in here.team.running("shards", 3)}
    here.team.ends(pods["1"], 42)
    for number in "02":
        here.team.ends(pods[number], 0)
    done = here.team.wait_for("jobs", "shards", has_failed)
    assert (done["status"]["failedIndexes"], done["status"]["completedIndexes"]) == ("1", "0,2")


def test_a_fatal_exit_code_does_not_end_a_job_that_may_succeed_without_the_pod(scene: NewScene) -> None:
    here = scene("costs")
    here.create("leader-decides.yaml")
    pods = {index(pod): pod for pod in here.team.running("mpi", 3)}
    here.team.ends(pods["1"], 42)
    here.team.wait_for("jobs", "mpi", lambda found: found["status"].get("failed") == 1)
    here.team.ends(pods["0"], 0)
    here.team.wait_for("jobs", "mpi", is_complete)


def test_an_authors_rule_about_the_same_exit_code_decides(scene: NewScene) -> None:
    here = scene("costs")
    here.create("counted-codes.yaml", program(42, 0))
    done = here.team.wait_for("jobs", "converter", is_complete)
    assert done["status"]["failed"] == 1


def test_an_author_who_turns_the_rules_off_has_a_bug_after_a_free_exit_code(scene: NewScene) -> None:
    here = scene("costs")
    here.create("without-rules.yaml", program(75))
    failed = here.team.wait_for("jobs", "once", has_failed)
    assert "exit code 75 matching FailJob rule" in failed_for(failed)[1]


def test_peers_of_a_pod_that_was_killed_for_its_memory_do_not_fail_the_job(scene: NewScene) -> None:
    here = scene("costs-late")
    here.create("ranks.yaml")
    pods = {index(pod): pod for pod in here.team.running("ranks", 3)}
    dies(here, pods["0"], 137, "OOMKilled")
    here.team.ends(pods["1"], 1)  # it lost its peer
    here.team.pods_of("ranks", lambda found: len(found) == 5)
    counted = here.team.wait_for("jobs", "ranks", lambda found: ended(found, 2))
    assert account(counted)["cost"] == {"retry": 2}
    assert not has_failed(counted)


def test_a_code_that_a_rule_makes_fatal_fails_a_job_of_several_pods(scene: NewScene) -> None:
    here = scene("costs")
    here.create("ranks.yaml")
    here.team.ends(here.team.running("ranks", 3)[0], 42)
    failed = here.team.wait_for("jobs", "ranks", has_failed)
    assert failed_for(failed)[1].endswith("exit code 42, which rule 2 of onFailure makes fatal")


@pytest.mark.first
def test_an_attempt_that_exceeds_its_deadline_fails_the_job_where_a_rule_makes_that_fatal(scene: NewScene) -> None:
    here = scene("costs-by-cause")
    here.create("one-pod.yaml", program(at_sigterm=143))
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[1].endswith("exceeded its deadline, which rule 0 of onFailure makes fatal")


def test_the_second_failure_on_the_same_node_fails_the_job_and_one_for_another_reason_does_not(scene: NewScene) -> None:
    here = scene("costs-by-cause", spot=1)
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    dies(here, first, 128, "StartError")
    (second,) = here.team.running("train", 1, but=first)
    assert second["spec"]["nodeName"] == first["spec"]["nodeName"]
    dies(here, second, 1)
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[1].endswith("with exit code 1, which rule 2 of onFailure makes fatal")
    counted = here.team.wait_for("jobs", "train", lambda found: ended(found, 2))
    assert [rule for _, rule in by_rules(counted)] == [1, 2]


def test_any_exit_code_is_retried_where_a_rule_says_so(scene: NewScene) -> None:
    here = scene("costs-by-cause")
    here.create("one-pod.yaml", program(1, 0))
    done = here.team.wait_for("jobs", "train", is_complete)
    assert done["status"]["failed"] == 1


def test_a_disruption_fails_the_job_where_a_rule_makes_it_fatal(scene: NewScene) -> None:
    here = scene("fatal-disruptions")
    here.create("one-pod.yaml")
    (pod,) = here.team.running("train", 1)
    here.team.evict(pod["metadata"]["name"])
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert "has condition DisruptionTarget matching FailJob rule at index 0" in failed_for(failed)[1]


def test_the_ledger_fails_the_job_after_a_disruption_of_a_fatal_reason(scene: NewScene) -> None:
    here = scene("fatal-evictions")
    here.create("one-pod.yaml")
    (pod,) = here.team.running("train", 1)
    here.team.evict(pod["metadata"]["name"])
    failed = here.team.wait_for("jobs", "train", has_failed)
    assert failed_for(failed)[1].endswith(
        "was disrupted (EvictionByEvictionAPI), which rule 0 of onFailure makes fatal"
    )
    settled = here.team.wait_for("jobs", "train", lambda found: account(found)["cost"].get("fatal"))
    assert by_rules(settled) == [("fatal", 0)]


def test_an_unchanged_manifest_can_be_applied_again(scene: NewScene) -> None:
    here = scene("costs")
    manifest = document_of((MANIFESTS / "counted-codes.yaml").read_text())
    first = here.team.apply(manifest)
    again = here.team.apply(manifest)
    assert [one["action"] for one in first["spec"]["podFailurePolicy"]["rules"]] == [
        "Ignore",  # disruptions
        "Count",  # the author's
        "Ignore",  # 75; about all other codes the ledger decides, because a rule is about memory
    ]
    assert again["spec"]["podFailurePolicy"] == first["spec"]["podFailurePolicy"]
    assert names.POLICY in again["metadata"]["annotations"]
