"""The explanation of a Job or JobSet."""

import contextlib
import io
import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounts import apart, held, holding, status_from
from tests.costs import assert_affordable, assert_grows_with_its_input
from tests.objects import DISRUPTION, exit_codes, job_spec
from webhook.capacity.recognition import NodeFacts
from webhook.cli import explain as command
from webhook.cli.explain import UnexplainableError
from webhook.cli.main import main
from webhook.explain import build, render
from webhook.explain.build import NOT_RECOGNISED, REPORTED, UNPLACED, Explanation, placed_by_nodes
from webhook.explain.rows import Row
from webhook.kube.names import AFTER_FAILURE, PLACEMENT, POLICY, RETRY_HISTORY, SKIP
from webhook.objects import columns
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Disruptions, FailurePolicy, Profile, Retries
from webhook.rules.undo import Record
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET

BUG = exit_codes("FailJob", "NotIn", 143, container="main")
ACCOUNT: Json = {
    "ended": 12,
    "cost": {"retry": 2, "disruption": 10},
    "causes": {"Disruption": {"EvictionByEvictionAPI": 10}, "ExitCode": {"main 143": 2}},
    "left": {"retries": 4, "disruptions": 10},
    "units": {"10": ""},
    "last": [
        {"attempt": 0, "pod": "train-a", "node": "n1", "placement": "Spot", "start": "2026-01-01T00:00:00Z",
         "end": "2026-01-01T00:01:30Z", "cause": "ExitCode", "reason": "main 143", "cost": "retry",
         "left": {"retries": 5, "disruptions": 11}},
        {"attempt": 1, "pod": "train-b", "cause": "Disruption", "reason": "EvictionByEvictionAPI", "rule": 0,
         "action": "Ignore", "cost": "disruption", "left": {"retries": 5, "disruptions": 10}},
        {"attempt": 1, "pod": "train-c", "cause": "ExitCode", "reason": "main 143", "cost": "retry",
         "left": {"retries": 4, "disruptions": 10}},
    ],
}  # fmt: skip


PROFILE = Profile(disruptions=Disruptions(limit=20))
POLICY_TEXT = msgspec.json.encode(Record("default", applied=applied(PROFILE), retriable_exit_codes=(143,))).decode()


def job(account: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    annotations = {"annotations": {POLICY: POLICY_TEXT}}
    root = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "ml", "name": "train", "uid": "job-uid", **annotations},
        "spec": job_spec(rules=[DISRUPTION, BUG], backoffLimit=6, **spec),
        "status": status or {},
    }
    return holding(batch.JOB, root, None if account is None else status_from(**account))


def explain(root: Json, jobs: list[Json], parts: Iterable[Json]) -> Explanation:
    row = JOB_SET if root["kind"] == JOB_SET.kind else batch.JOB
    return build.explain(row, root, jobs, [*parts, *held(root)])


def pod(name: str, phase: str, code: int | None = None, **metadata: Any) -> Json:
    terminated = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T02:00:00Z"}
    statuses = [] if code is None else [{"name": "main", "state": {"terminated": terminated}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "ml",
            "name": name,
            "uid": name,
            "labels": {"batch.kubernetes.io/job-name": "train"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
            ],
            "annotations": {"retry-policy.dev/placement": "OnDemand"},
            **metadata,
        },
        "spec": {"nodeName": "n2"},
        "status": {"phase": phase, "startTime": "2026-01-01T01:00:00Z", "containerStatuses": statuses},
    }


def rows_of(explanation: Explanation) -> list[tuple[str, str, str, int | None, int | None]]:
    return [(row.pod, row.ended, row.cost, row.retries_left, row.disruptions_left) for row in explanation.rows]


def test_each_attempt_is_shown_with_what_was_left_after_it() -> None:
    found = explain(job(ACCOUNT), [job(ACCOUNT)], [pod("train-d", "Running")])
    assert rows_of(found) == [
        ("train-a", "container main exit code 143", "retry", 5, 11),
        ("train-b", "disruption EvictionByEvictionAPI", "disruption", 5, 10),
        ("train-c", "container main exit code 143", "retry", 4, 10),
        ("train-d", "running", "", None, None),
    ]
    assert (found.summary, found.earlier, found.state) == ("12 attempts ended: 2 retries, 10 disruptions", 9, "running")


def test_the_rule_of_on_failure_that_decided_is_shown_beside_that_of_the_failure_policy() -> None:
    first, second, third = ACCOUNT["last"]
    last = [{**first, "onFailure": 1}, {**second, "onFailure": 0}, third]
    found = explain(job({**ACCOUNT, "last": last}), [job()], [])
    assert [row.on_failure for row in found.rows] == [1, 0, None]
    by_pod = {line.split()[1]: line for line in columns.lines(render.parts(found)) if " train-" in line}
    assert "no rule, onFailure 1" in by_pod["train-a"]
    assert "rule 0 (Ignore), onFailure 0" in by_pod["train-b"]
    assert "onFailure" not in by_pod["train-c"]


def test_what_the_rules_of_on_failure_ask_of_a_running_pod_is_shown() -> None:
    running = pod("train-d", "Running")
    running["metadata"]["annotations"][AFTER_FAILURE] = '{"rule":0,"cause":"OOMKilled","kills":{"main":2}}'
    found = list(
        columns.lines(render.parts(explain(job(ACCOUNT), [job(ACCOUNT)], [running, pod("train-e", "Running")])))
    )
    assert found[found.index("By the rules of onFailure:") :][1:3] == [
        "  train-d: rule 0 decided after OOMKilled; container main was killed for its memory 2 times",
        "",
    ]


def test_the_last_words_of_attempts_are_shown_after_the_table() -> None:
    last = [{**ACCOUNT["last"][0], "message": "loss is NaN"}, *ACCOUNT["last"][1:]]
    found = explain(job({**ACCOUNT, "last": last}), [job()], [])
    lines = list(columns.lines(render.parts(found)))
    assert lines[lines.index("Last words:") :][:2] == ["Last words:", "  train-a: loss is NaN"]
    assert json.loads(render.as_json(found))["rows"][0]["last_words"] == "loss is NaN"
    assert "Last words:" not in list(columns.lines(render.parts(explain(job(ACCOUNT), [job(ACCOUNT)], []))))


def test_the_last_words_of_an_uncounted_pod_are_shown_if_the_account_keeps_those_of_others() -> None:
    dead = pod("train-d", "Failed", 1)
    dead["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "loss is NaN"
    keeping = {**ACCOUNT, "last": [{**ACCOUNT["last"][0], "message": "step 7"}, *ACCOUNT["last"][1:]]}
    for account, first, last in ((keeping, "step 7", "loss is NaN"), (ACCOUNT, "", "")):
        rows = explain(job(account), [job(account)], [dead]).rows
        assert (rows[0].last_words, rows[-1].last_words) == (first, last)


def test_a_pod_that_the_ledger_has_not_counted_is_judged_by_the_jobs_policy() -> None:
    found = explain(job(), [job()], [pod("train-a", "Failed", 1)])
    (row,) = found.rows
    assert (row.ended, row.rule, row.cost) == ("container main exit code 1", "rule 1 (FailJob)", "fatal")
    assert (row.node, row.placement, row.end) == ("n2", "on-demand", "2026-01-01T02:00:00Z")


def test_the_effect_of_the_next_failure_is_shown_rule_by_rule() -> None:
    assert explain(job(ACCOUNT), [job(ACCOUNT)], []).next == [
        "a disruption: costs no retry; then 9 disruptions left; the next pod goes to spot nodes (rule 0)",
        "any exit code but 143 of main: ends the Job at once (rule 1)",
        "anything else: costs a retry; then 3 retries left; the next pod goes to spot nodes",
    ]


def unplaced(name: str) -> Json:
    return pod(name, "Failed", 143, annotations={PLACEMENT: "None"}, creationTimestamp="2026-01-01T00:59:00Z")


def test_where_nothing_was_placed_no_node_is_foretold_and_the_reason_is_said() -> None:
    placed_before = pod("train-d", "Failed", 143, creationTimestamp="2026-01-01T00:58:00Z")
    made = explain(job(ACCOUNT), [job(ACCOUNT)], [placed_before, unplaced("train-e")])
    assert not any("nodes" in text for text in made.next)
    assert made.placement == UNPLACED
    bare = NodeFacts({"kubernetes.io/hostname": "n2"})
    assert placed_by_nodes(made, {"n2": bare}).placement == NOT_RECOGNISED
    assert f"  {NOT_RECOGNISED}" in [*columns.lines(render.parts(placed_by_nodes(made, {"n2": bare})))]


def test_the_nodes_of_attempts_are_spot_or_on_demand_by_their_labels_as_in_a_report() -> None:
    made = explain(job(ACCOUNT), [job(ACCOUNT)], [unplaced("train-e")])
    spot = NodeFacts({"cloud.google.com/gke-nodepool": "p", "cloud.google.com/gke-spot": "true"})
    other = NodeFacts({"cloud.google.com/gke-nodepool": "q"})
    assert [row.placement for row in placed_by_nodes(made, {"n2": spot}).rows] == ["spot", "", "", "spot"]
    assert [row.placement for row in placed_by_nodes(made, {"n2": other}).rows] == ["spot", "", "", "on-demand"]


def test_a_skipped_job_is_explained_without_a_disruption_limit_and_without_a_node() -> None:
    root = job()
    root["metadata"]["annotations"][SKIP] = "true"
    assert explain(root, [root], []).next == [
        "a disruption: costs no retry (rule 0)",
        "any exit code but 143 of main: ends the Job at once (rule 1)",
        "anything else: costs a retry; then 5 retries left",
    ]


def test_an_ended_job_has_no_next_failure_and_shows_why_it_ended() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "exit code 1"}
    found = explain(job(status={"conditions": [failed]}), [job()], [])
    assert found.state == "Failed: PodFailurePolicy: exit code 1"
    assert found.next == []


def test_the_number_of_times_that_a_job_was_resumed_is_shown() -> None:
    root = job({"ended": 1, "grants": 2})
    assert "resumed 2 times after reaching the disruption limit" in explain(root, [root], []).budgets


SUSPENDING = Profile(disruptions=Disruptions(limit=1, on_exceed="Suspend"))
RESUME = 'kubectl patch job train -n ml --type=merge -p \'{"spec":{"suspend":false}}\''


def suspending(account: Json | None = None, **spec: Any) -> Explanation:
    root = job(account, **spec)
    root["metadata"]["annotations"][POLICY] = msgspec.json.encode(
        Record("default", applied=applied(SUSPENDING), retriable_exit_codes=(143,))
    ).decode()
    return explain(root, [root], [])


def explained_under(profile: Profile, *parts: Json, account: Json | None = None, **spec: Any) -> Explanation:
    """Return the explanation of a Job that was stored under a profile."""
    root = job(account, **spec)
    record = Record("default", applied=applied(profile), retriable_exit_codes=(143,))
    root["metadata"]["annotations"][POLICY] = msgspec.json.encode(record).decode()
    return explain(root, [root], parts)


def test_where_actions_are_only_reported_nothing_is_foretold_that_the_leader_does() -> None:
    limit = Disruptions(limit=1, on_exceed="Fail")
    spent = {"ended": 1, "cost": {"disruption": 1}, "units": {"1": ""}}
    crash = pod("train-a", "Failed", 1)
    coupled: Json = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    coupled["podFailurePolicy"] = {"rules": [DISRUPTION]}
    says = {}
    each: tuple[Literal["Act", "Report"], ...] = ("Act", "Report")
    for actions in each:
        found = explained_under(Profile(disruptions=limit, actions=actions), account=spent)
        settles = FailurePolicy(coupled="Settle")
        settled = explained_under(Profile(failure_policy=settles, actions=actions), crash, **coupled)
        text = "\n".join(one for one in render.parts(found) if isinstance(one, str))
        says[actions] = (found.next[0], REPORTED in text, len(settled.verdicts))
    assert says["Act"] == ("a disruption: ends the Job: disruptions exceed the limit of 1 (rule 0)", False, 1)
    assert says["Report"] == (
        "a disruption: costs no retry; then 0 disruptions left; the next pod goes to on-demand nodes (rule 0)",
        True,
        0,
    )


def test_where_retries_are_renewed_by_progress_the_same_end_at_the_same_place_is_foretold_as_a_bug() -> None:
    before = {"pod": "train-a", "attempt": 0, "cause": "ExitCode", "reason": "main 143", "cost": "retry"}
    account = {"ended": 1, "cost": {"retry": 1}, "last": [{**before, "progress": 420}]}
    says = "container main exit code 143 again, with 42.0% of its work saved: ends the Job: it ended so before, and got"
    for renews in (True, False):
        found = explained_under(Profile(retries=Retries(renew_on_progress=renews)), account=account)
        assert any(one.startswith(says) for one in found.next) is renews


def test_evictions_by_kueue_are_shown_with_the_budgets_of_a_job_and_of_a_job_set() -> None:
    account = {"evictions": {"reasons": {"Preempted": 2, "PodsReadyTimeout": 1}, "requeues": 1, "limit": 5}}
    line = "evicted by Kueue 3 times (1 PodsReadyTimeout, 2 Preempted); 2 left; requeued 1 time"
    of_set = holding(JOB_SET, {**job(), "kind": "JobSet"}, status_from(**account))
    for root in (job(account), of_set):
        assert line in explain(root, [], []).budgets
    assert not any("Kueue" in one for one in explain(job(), [], []).budgets)


def test_a_job_that_the_disruption_limit_has_suspended_says_why_and_how_to_resume_it() -> None:
    twice = {"ended": 2, "cost": {"disruption": 2}, "units": {"2": ""}, "suspended": True}
    assert suspending(twice, suspend=True).budgets == [
        "retries: 0 of 6 spent",
        "disruptions: 2 so far, 0 left",
        f"suspended: disruptions exceed the limit of 1; to allow as many again: {RESUME}",
    ]


@pytest.mark.parametrize(
    "account",
    [
        {"units": {"2": ""}, "suspended": True},  # the leader has not seen yet that the Job was resumed
        {"grants": 1, "left": {"retries": 6, "disruptions": 0}},
    ],
)
def test_a_resumed_job_has_as_many_disruptions_left_as_its_limit(account: Json) -> None:
    found = suspending({"ended": 2, "cost": {"disruption": 2}, **account})
    assert found.budgets == [
        "retries: 0 of 6 spent",
        "disruptions: 2 so far, 0 since the limit was reset, 1 left",
        "resumed 1 time after reaching the disruption limit",
    ]
    assert found.next[0].startswith("a disruption: costs no retry; then 0 disruptions left; ")


def test_after_a_resume_the_next_disruption_beyond_the_limit_suspends_the_job_again() -> None:
    found = suspending({"ended": 3, "cost": {"disruption": 3}, "units": {"1": ""}, "grants": 1})
    assert found.budgets[1] == "disruptions: 3 so far, 1 since the limit was reset, 0 left"
    assert found.next[0] == "a disruption: suspends the Job: disruptions exceed the limit of 1 (rule 0)"


def test_failures_that_only_the_status_of_an_ended_job_shows_are_told() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "exit code 137"}
    root = job(status={"conditions": [failed], "failed": 1})
    assert explain(root, [root], []).budgets[0] == "1 more pod failed unseen, by status.failed"
    seen = explain(root, [root], [pod("train-a", "Failed", 137)])
    assert seen.budgets[0] == "retries: 0 of 6 spent"


@pytest.mark.parametrize("decision", ["FailureTarget", "SuccessCriteriaMet"])
def test_a_job_whose_end_is_decided_has_no_next_failure_even_if_its_pods_still_run(decision: str) -> None:
    conditions = [{"type": "Suspended", "status": "False"}, {"type": decision, "status": "True", "reason": "Why"}]
    found = explain(job(status={"conditions": conditions}), [job()], [])
    assert (found.state, found.next) == (f"{decision}: Why", [])


def test_with_a_budget_per_index_each_index_shows_what_is_left() -> None:
    spec: Json = {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 2}
    detail = {"attempt": 1, "scope": "1", "pod": "a", "cause": "ExitCode", "reason": "main 143", "cost": "retry"}
    detail["left"] = {"retries": 0, "disruptions": 1}
    root = job({"ended": 1, "cost": {"retry": 5}, "last": [detail]}, **spec)
    found = explain(root, [root], [])
    assert [(row.unit, row.retries_left) for row in found.rows] == [("1", 0)]
    assert (
        found.next[-1] == "anything else: costs the index a retry; then 1 retry left; the next pod goes to spot nodes"
    )


def test_if_no_pod_runs_the_forecast_of_each_unfinished_index_follows_from_its_last_pod() -> None:
    spec: Json = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 3}

    def of_index(name: str, index: int, failures: int, phase: str, code: int | None) -> Json:
        counts = {"batch.kubernetes.io/job-completion-index": str(index)}
        counts["batch.kubernetes.io/job-index-failure-count"] = str(failures)
        return pod(name, phase, code, annotations=counts)

    pods = [
        of_index("a", 0, 0, "Failed", 143),
        of_index("b", 0, 1, "Succeeded", 0),
        of_index("c", 1, 0, "Failed", 143),
        of_index("d", 1, 1, "Failed", 143),
    ]
    pods[3]["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-01-01T02:00:30Z"
    root = job(**spec)
    shown = [line for line in explain(root, [root], pods).next if line.startswith("anything else")]
    assert shown == [
        "anything else: costs the index a retry; then 0 retries left; the next pod goes to on-demand nodes"
    ]


def test_a_job_set_is_explained_with_its_restarts_the_retries_of_its_jobs_and_the_next_failure() -> None:
    rules = [
        {
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob"],
        },
        {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
    ]
    root: Json = {
        "kind": "JobSet",
        "metadata": {"namespace": "ml", "name": "set"},
        "spec": {"failurePolicy": {"maxRestarts": 2, "rules": rules}},
        "status": {"restarts": 3, "restartsCountTowardsMax": 1},
    }
    child = job(status={"failed": 1})
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/restart-attempt": "3"}
    child["metadata"] |= {"name": "set-workers-0", "labels": {"jobset.sigs.k8s.io/jobset-name": "set", **labels}}
    child["spec"]["podFailurePolicy"]["rules"] = [{**DISRUPTION, "action": "FailJob"}, BUG]
    found = explain(root, [child], [])
    assert found.budgets == ["restarts: 3 in all, 1 of 2 spent", "Job set-workers-0: 1 of 6 retries spent"]
    assert found.next == [
        "a disruption: restarts the set at no cost; then 19 disruptions left; the next pod goes to spot nodes (rule 0)",
        "any exit code but 143 of main: ends the set at once (rule 1)",
        "anything else: costs its Job a retry, of 6; the next pod goes to spot nodes",
    ]
    child["status"]["failed"] = 6
    assert explain(root, [child], []).next[-1] == (
        "anything else: no retry of the Job is left, which restarts the set; then 0 restarts left;"
        " the next pod goes to on-demand nodes"
    )
    root["spec"]["failurePolicy"]["rules"] = []
    assert explain(root, [child], []).next[0].startswith("a disruption: restarts the set; then 0 restarts left; ")


def test_a_job_set_is_explained_with_jobs_restarted_alone_and_each_replicated_jobs_next_failure() -> None:
    rules = [
        {"action": "RestartJob", "targetReplicatedJobs": ["worker"]},
        {"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["leader"]},
    ]
    of_jobs = [{"name": "worker", "jobRestarts": [2], "jobRestartsCountTowardsMax": [1]}]
    root: Json = {
        "kind": "JobSet",
        "metadata": {"namespace": "ml", "name": "set"},
        "spec": {"failurePolicy": {"maxRestarts": 2, "rules": rules}},
        "status": {"replicatedJobsStatus": of_jobs},
    }
    children = []
    for name in ("leader", "worker"):
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": name, "jobset.sigs.k8s.io/job-index": "0"}
        labels |= {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/restart-attempt": "0"}
        labels["jobset.sigs.k8s.io/job-restart-attempt"] = "2" if name == "worker" else "0"
        child = job()
        child["metadata"] |= {"name": f"set-{name}-0", "labels": labels}
        child["spec"]["podFailurePolicy"]["rules"] = [{**DISRUPTION, "action": "FailJob"}]
        children.append(child)
    found = explain(root, children, [])
    assert found.budgets == [
        "restarts: 0 in all, 1 of 2 spent",
        "Job set-leader-0: 0 of 6 retries spent",
        "Job set-worker-0: 0 of 6 retries spent, started again alone 2 times",
    ]
    spot, on_demand = "the next pod goes to spot nodes", "the next pod goes to on-demand nodes"
    assert found.next == [
        f"leader: a disruption: restarts the set at no cost; then 19 disruptions left; {spot} (rule 0)",
        f"leader: anything else: costs its Job a retry, of 6; {spot}",
        f"worker: a disruption: restarts this Job alone; then 0 restarts left; {on_demand} (rule 0)",
        f"worker: anything else: costs its Job a retry, of 6; {spot}",
    ]
    of_jobs[0]["jobRestartsCountTowardsMax"] = [2]
    assert explain(root, children, []).next[2] == "worker: a disruption: ends the set at once (rule 0)"


def test_of_jobs_that_fare_differently_in_one_replicated_job_each_is_told_of() -> None:
    root: Json = {
        "kind": "JobSet",
        "metadata": {"namespace": "ml", "name": "set"},
        "spec": {"failurePolicy": {"maxRestarts": 2}},
    }
    children = []
    for index in range(4):
        child = job(status={"failed": 6 if index == 2 else 0})
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": str(index)}
        child["metadata"] |= {"name": f"set-a-{index}", "uid": f"uid-{index}", "labels": labels}
        children.append(child)
    found = [one for one in explain(root, children, []).forecasts if one.ending == "anything else"]
    assert [(one.job, one.forecast.set_action) for one in found] == [("a-0-1,3", ""), ("a-2", "RestartJobSet")]
    assert found[1].text.startswith("a-2: anything else: no retry of the Job is left, which restarts the set; then 1 ")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def file(folder: Path, *objects: Json) -> str:
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": apart(*objects)}))
    return str(path)


def test_a_file_is_explained_as_a_table(tmp_path: Path) -> None:
    result = run("-f", file(tmp_path, job(ACCOUNT), pod("train-d", "Running")))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:5] == [
        "Job ml/train: running",
        "12 attempts ended: 2 retries, 10 disruptions",
        "retries: 2 of 6 spent",
        "disruptions: 10 so far, 10 left",
        "(9 earlier ones are counted and not kept in detail)",
    ]
    assert lines[6].split() == [*render.COLUMNS]
    assert "train-a   n1     spot        2026-01-01T00:00:00Z   90s" in lines[7]
    assert "At the next failure:" in lines


def test_a_file_is_explained_as_json(tmp_path: Path) -> None:
    result = run("ml/train", "-f", file(tmp_path, job(ACCOUNT)), "-o", "json")
    parsed = json.loads(result.output)
    assert (parsed["name"], len(parsed["rows"])) == ("train", 3)
    columns = "attempt unit pod node placement start end ended rule cost retries_left disruptions_left"
    lacking = {*columns.split(), "on_failure", "after", "last_words"} - parsed["rows"][0].keys()
    assert lacking == set(), "programs read these fields"
    assert [*parsed["rows"][0]] == [field.name for field in fields(Row)]


def test_an_object_that_does_not_exist_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    result = run("ml/other", "-f", file(tmp_path, job(ACCOUNT)))
    assert result.exit_code == 2
    assert "there is no workload ml/other in" in result.output
    assert "kubectl get jobs,pods,accounts -o yaml" in result.output


def test_a_malformed_account_is_an_error_of_its_workload_alone(tmp_path: Path) -> None:
    other = job(ACCOUNT)
    other["metadata"] |= {"name": "other", "uid": "another"}
    result = run("-f", file(tmp_path, job({"ended": "two"}), other))
    assert result.exit_code == 2
    assert result.stderr.startswith("Job ml/train is left out: its account cannot be read: ")
    assert result.stdout.startswith("Job ml/other: running")


MALFORMED = [
    {"name": ["train"], "labels": {}},
    {"name": "train", "labels": ["a"]},
    {"name": "train", "namespace": {"a": 1}},
    {"name": "train", "ownerReferences": [5]},
    {"name": "train", "ownerReferences": {"controller": True}},
    {"name": "train", "labels": {"batch.kubernetes.io/job-name": 5}, "annotations": [5]},
]


@pytest.mark.parametrize("metadata", MALFORMED)
@pytest.mark.parametrize("kind", ["Job", "Pod", "TaskRun"])
def test_a_malformed_object_causes_no_stack_trace(tmp_path: Path, metadata: Json, kind: str) -> None:
    wrong = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    result = run("-f", file(tmp_path, job(ACCOUNT), wrong))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in {0, 2}


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        5,
        2**63,
        1e308,
        -0.5,
        "",
        "x",
        "2026-01-01T00:00:00Z",
        "1e400",
        "NaN",
        [],
        [1],
        [{}],
        {},
        {"a": 1},
    ]
)


@given(st.data())
@settings(max_examples=300)
def test_a_job_with_any_value_in_any_field_brings_an_explanation_or_an_error(data: st.DataObject) -> None:
    root = deepcopy(job(ACCOUNT, {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "x"}]}))
    place: Any = data.draw(st.sampled_from(list(containers_of(root))))
    key = data.draw(st.sampled_from(list(place if isinstance(place, dict) else range(len(place)))))
    place[key] = data.draw(ODD)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": apart(root)})
    lines: list[str] = []
    left_out = LeftOut(lines.append)
    with contextlib.suppress(UnexplainableError):
        for found in command.of_files(("-",), io.BytesIO(text.encode()), None, left_out):
            said = command.told(found, "table", left_out)
            assert list(columns.lines(said)) if isinstance(said, list) else lines
            assert command.told(found, "json", left_out) or lines


def containers_of(value: Any) -> Iterator[Any]:
    """Yield the objects and lists in a value that have entries."""
    if isinstance(value, dict | list) and value:
        yield value
        for entry in value.values() if isinstance(value, dict) else value:
            yield from containers_of(entry)


def test_the_cost_of_explaining_jobs_grows_with_their_number() -> None:
    def made(size: int) -> bytes:
        items: list[Json] = []
        for number in range(size):
            root = job(ACCOUNT)
            root["metadata"]["name"] = f"train-{number}"
            labels = {"batch.kubernetes.io/job-name": f"train-{number}"}
            items += [root, pod(f"train-{number}-x", "Failed", 1, labels=labels)]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()

    def explained(data: bytes) -> None:
        for found in command.of_files(("-",), io.BytesIO(data), None, RAISING):
            command.told(found, "table", RAISING)

    assert_grows_with_its_input(explained, made, 6)


def test_a_name_without_a_namespace_is_refused() -> None:
    result = run("train")
    assert result.exit_code == 2
    assert "write NAMESPACE/train or NAMESPACE/KIND/train" in result.output


def test_an_unreachable_cluster_is_an_error_without_a_stack_trace(tmp_path: Path) -> None:
    result = run("ml/train", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "name another with --kubeconfig" in result.output
    assert "Traceback" not in result.output


def test_a_failure_that_costs_no_retry_keeps_the_next_pod_on_spot_nodes() -> None:
    root = job(ACCOUNT)
    root["spec"]["podFailurePolicy"]["rules"].insert(0, exit_codes("Ignore", "In", 75))
    effect = "costs no retry; the ledger ends the Job after 10 such failures; the next pod goes to spot nodes"
    assert explain(root, [root], []).next[:2] == [
        f"exit code 75: {effect} (rule 0)",
        "a disruption: costs no retry; then 9 disruptions left; the next pod goes to spot nodes (rule 1)",
    ]


def hostile_set(size: int) -> Json:
    """Return a JobSet with this many rules, conditions and patterns."""
    rule = {"action": "FailJobSet", "onJobFailureReasons": ["X"], "onJobFailureMessagePatterns": ["(a+)+!"]}
    condition = {"type": "Suspended", "status": "False", "reason": "x", "message": "y" * 40}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "namespace": "ml",
            "name": "set",
            "uid": "set-uid",
            "annotations": {RETRY_HISTORY: "[" * size},
        },
        "spec": {"failurePolicy": {"maxRestarts": 3, "rules": [rule] * size}},
        "status": {"conditions": [condition] * size},
    }


def job_with_rules(_: int = 0) -> Json:
    """Return a Job with as many rules as the API allows."""
    found = job(parallelism=2)
    codes = [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": list(range(255))}}]
    found["spec"]["podFailurePolicy"]["rules"] = codes * 20
    return found


def test_the_cost_of_explaining_a_job_grows_with_its_pods() -> None:
    def pods(size: int) -> list[Json]:
        return [pod(f"train-{number}", "Failed", 143) for number in range(size)]

    assert_grows_with_its_input(lambda found: explain(job(), [job()], found), pods, 200)


def test_the_largest_job_set_and_the_largest_pod_are_explained_at_little_cost() -> None:
    root = hostile_set(15_000)
    assert len(json.dumps(root)) > 3_000_000
    status = {"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    large = pod("train-0", "Failed", 1)
    large["status"]["containerStatuses"] = [status] * 40_000
    assert_affordable(lambda: explain(root, [job_with_rules()], [large]), lines=150_000)
    assert_affordable(lambda: explain(job_with_rules(), [job_with_rules()], [large]), lines=37_000)
