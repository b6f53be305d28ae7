"""The policies of Volcano Jobs: merged with the author's, accepted by Volcano, and undone."""

from copy import deepcopy
from typing import Any, Literal

import pytest

from tests.admission import OPTED_IN, mutate, policy
from tests.volcano import exits, on, refusals, task, volcano_job
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, Profile
from webhook.systems.volcano import rules as volcano
from webhook.systems.volcano.spec import CRON_JOB, FAILED, JOB, JOB_TEMPLATE

ENDS = on(FAILED, action="TerminateJob")


def restarts(action: str, *codes: int, **more: Any) -> list[Json]:
    return [exits(code, action, **more) for code in codes or (137, 143)]


# Each case: the author's policies of the Job, and those that are stored.
CASES: dict[str, tuple[list[Json], list[Json]]] = {
    "none": ([], []),
    "restarts failed pods": ([on("PodFailed", action="RestartPod")], [*restarts("RestartPod"), ENDS]),
    "restarts the task": ([on("PodFailed", action="RestartTask")], [*restarts("RestartTask"), ENDS]),
    "restarts the Job": ([on("PodFailed", action="RestartJob")], [*restarts("RestartJob"), ENDS]),
    "restarts failed and evicted pods": (
        [on("PodFailed", "PodEvicted", action="RestartJob")],
        [*restarts("RestartJob"), {"action": "RestartJob", "events": ["PodEvicted"]}, ENDS],
    ),
    "restarts after a time": (
        [on("PodFailed", action="RestartPod", timeout="10s")],
        [*restarts("RestartPod", timeout="10s"), ENDS],
    ),
    "restarts only evicted pods": ([on("PodEvicted", action="RestartJob")], [on("PodEvicted", action="RestartJob")]),
    "completes with a task": (
        [on("TaskCompleted", action="CompleteJob"), on("PodFailed", action="RestartTask")],
        [on("TaskCompleted", action="CompleteJob"), *restarts("RestartTask"), ENDS],
    ),
    "names a code before": (
        [exits(143, "RestartJob"), on("PodFailed", action="RestartPod")],
        [exits(143, "RestartJob"), exits(137, "RestartPod"), ENDS],
    ),
    "names a code after": (
        [on("PodFailed", action="RestartPod"), exits(1, "AbortJob")],
        [*restarts("RestartPod"), exits(1, "AbortJob"), ENDS],
    ),
    "says that a bug is worth a restart": (
        [exits(1, "RestartTask"), on("PodFailed", action="RestartTask")],
        [exits(1, "RestartTask"), *restarts("RestartTask"), ENDS],
    ),
    "aborts at any failure": ([on("PodFailed", action="AbortJob")], [on("PodFailed", action="AbortJob")]),
    "restarts at any event": ([on("*", action="RestartJob")], [on("*", action="RestartJob")]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_policies_of_the_job_and_those_of_a_task_are_merged_with_the_authors(case: str) -> None:
    own, stored = CASES[case]
    for root in (volcano_job(*own), volcano_job(tasks=[task(*own)])):
        made = mutate(root).object
        assert [one["policies"] for one in (made["spec"], *made["spec"]["tasks"]) if one.get("policies")] == (
            [stored] if stored else []
        )
        assert refusals(made) == []


@pytest.mark.parametrize("case", CASES)
def test_an_unchanged_manifest_can_be_applied_again_though_volcano_allows_no_change(case: str) -> None:
    manifest = volcano_job(*CASES[case][0], tasks=[task(*CASES[case][0])])
    stored = mutate(deepcopy(manifest)).object
    assert mutate(deepcopy(manifest), old=stored).object["spec"] == stored["spec"]
    assert mutate(deepcopy(stored), old=stored).patch == []


def test_each_list_that_restarts_failed_pods_is_changed_by_itself() -> None:
    restarting = on("PodFailed", action="RestartPod")
    tasks = [task(restarting), task(name="other"), task(on("PodFailed", action="AbortJob"), name="third")]
    spec = mutate(volcano_job(on("PodFailed", action="RestartJob"), tasks=tasks)).object["spec"]
    assert spec["policies"] == [*restarts("RestartJob"), ENDS]
    assert [one.get("policies") for one in spec["tasks"]] == [
        [*restarts("RestartPod"), ENDS],
        None,
        [on("PodFailed", action="AbortJob")],
    ]


def unchanged(root: Json, under: Any = None) -> bool:
    return bool(mutate(deepcopy(root), OPTED_IN, under).object["spec"] == root["spec"])


RESTARTING = on("PodFailed", action="RestartTask")


@pytest.mark.parametrize("restart_policy", ["OnFailure", "Always", None])
def test_where_containers_restart_in_place_the_policies_stay_as_they_are(restart_policy: str | None) -> None:
    tasks = [task(RESTARTING, restart_policy=restart_policy), task(RESTARTING, name="other")]
    made = mutate(volcano_job(RESTARTING, maxRetry=3, tasks=tasks)).object["spec"]
    assert (made["policies"], made["tasks"][0]["policies"]) == ([RESTARTING], [RESTARTING])
    assert made["tasks"][1]["policies"] != [RESTARTING]


@pytest.mark.parametrize(
    ("plugins", "coupled", "stays"),
    [
        ({}, "Settle", False),
        ({"env": []}, "Settle", False),
        ({"svc": []}, "Settle", True),
        ({"env": [], "pytorch": ["--master=m"]}, "Retry", True),
        ({"svc": [], "ssh": []}, "FailJob", False),
    ],
)
def test_where_a_crash_may_follow_from_a_disruption_volcano_may_not_judge_it(
    plugins: Json, coupled: Literal["FailJob", "Retry", "Settle"], *, stays: bool
) -> None:
    root = volcano_job(RESTARTING, maxRetry=3, plugins=plugins, tasks=[task(), task(name="worker", replicas=3)])
    under = policy(default=Profile(failure_policy=FailurePolicy(coupled=coupled)))
    assert unchanged(root, under) is stays


@pytest.mark.parametrize(
    ("spec", "stays"),
    [
        ({}, False),
        ({"minAvailable": 0}, False),
        ({"minAvailable": 4}, False),
        ({"minAvailable": 3}, True),
        ({"minSuccess": 4}, True),
    ],
)
def test_a_job_that_may_succeed_without_the_pod_stays_as_it_is(spec: Json, *, stays: bool) -> None:
    assert unchanged(volcano_job(RESTARTING, maxRetry=3, tasks=[task(replicas=4)], **spec)) is stays


@pytest.mark.parametrize("inject", ["IfAbsent", "Never"])
def test_a_profile_that_keeps_policies_of_authors_keeps_these(inject: Literal["IfAbsent", "Never"]) -> None:
    under = policy(default=Profile(failure_policy=FailurePolicy(inject=inject)))
    assert unchanged(volcano_job(RESTARTING, maxRetry=3), under)


def test_a_skipped_job_stays_as_it_is() -> None:
    root = volcano_job(RESTARTING, maxRetry=3)
    root["metadata"]["annotations"] = {names.SKIP: "true"}
    assert unchanged(root)


def test_the_codes_that_are_worth_a_retry_are_those_of_the_profile_and_of_disrupted_pods() -> None:
    under = policy(default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=(75, 143))))
    made = mutate(volcano_job(RESTARTING), OPTED_IN, under).object
    assert made["spec"]["policies"] == [*restarts("RestartTask", 75, 137, 143), ENDS]


@pytest.mark.parametrize("tasks", [1, bounds.MAX_RULES + 1])
def test_more_policies_than_can_be_undone_are_left_out_with_a_warning(tasks: int) -> None:
    codes = tuple(range(1, 2 + (bounds.MAX_RULES if tasks == 1 else 0)))
    under = policy(default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=codes)))
    root = volcano_job(maxRetry=3, tasks=[task(RESTARTING, name=f"t{number}") for number in range(tasks)])
    answer = mutate(deepcopy(root), OPTED_IN, under)
    assert answer.object["spec"] == root["spec"]
    assert [warning.partition(",")[0] for warning in answer.warnings] == [
        f"spec.tasks[0].policies: more than {bounds.MAX_RULES} with those of the policy"
    ]


def test_jobs_that_are_made_of_a_template_get_them_when_they_are_created() -> None:
    template = {**volcano_job(RESTARTING, maxRetry=3), "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"}
    assert unchanged(template)
    assert volcano.writes(JOB)
    assert volcano.writes(JOB_TEMPLATE) == volcano.writes(CRON_JOB) == ()
