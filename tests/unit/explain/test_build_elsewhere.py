"""What `explain` shows of a workload of another kind than Job and JobSet: a Workflow, by its nodes."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.accounts import apart, holding, status_from
from tests.unit.explain.workflows import exit_with, explain, pod, workflow
from webhook.accounts.account import Account, Attempt, Left, id_of
from webhook.cli.main import main
from webhook.explain.budgets import MOST_SCOPES
from webhook.explain.build import is_counted_for, state_of
from webhook.explain.render import parts
from webhook.explain.rows import MOST_PODS
from webhook.objects import columns
from webhook.objects.left_out import UnfitError
from webhook.objects.problem import Json
from webhook.pods.pods import read
from webhook.policy.model import Profile
from webhook.systems.accounts import SYSTEMS
from webhook.systems.argo import spec as argo
from webhook.systems.core import DISRUPTED
from webhook.systems.tekton import spec as tekton

ARGO = SYSTEMS[argo.WORKFLOW]


def account() -> Account:
    """Return the account of two attempts that cost a retry of the node `build`, and a disruption of `test`."""
    found = Account()
    for attempt in (0, 1):
        left = Left(retries=2 - attempt, disruptions=1)
        found.add(
            Attempt(
                attempt=attempt,
                scope="build",
                pod=f"train-build-{attempt}",
                cause="ExitCode",
                reason="main 137",
                cost="retry",
                left=left,
            )
        )
        found.spend_retry("build", "", None)
    found.add(Attempt(attempt=0, scope="test", pod="gone", cause="Disruption", reason="x", cost="disruption"))
    return found


def test_the_budgets_are_shown_by_node_with_the_nodes_first_that_spent_most() -> None:
    explanation = explain(ARGO, workflow(account()), [pod("build", 2), pod("test", limit=5, minute=1)])
    assert explanation.summary == "3 attempts ended: 2 retries, 1 disruption"
    assert explanation.budgets == [
        "step build: 2 of 3 retries spent",
        "step test: 0 of 5 retries spent, 1 disruption",
    ]


def test_without_a_pod_the_budget_of_a_node_follows_from_what_its_last_attempt_had_left() -> None:
    assert explain(ARGO, workflow(account()), []).budgets[0] == "step build: 2 of 3 retries spent"


def test_a_failed_pod_that_is_not_counted_yet_is_counted_as_the_leader_would() -> None:
    explanation = explain(ARGO, workflow(account()), [pod("build", 2, **exit_with(137))])
    (row,) = [row for row in explanation.rows if row.pod == "train-build-2"]
    assert (row.unit, row.attempt, row.ended, row.cost) == ("build", 2, "container main exit code 137", "retry")
    assert (row.retries_left, row.node, row.placement) == (0, "node-1", "spot")
    assert explanation.budgets[0] == "step build: 3 of 3 retries spent"


def test_a_pod_that_the_account_has_is_not_counted_again_but_another_of_the_same_name_is() -> None:
    failed, found = pod("build", 1, **exit_with(137)), account()
    found.recent.append(id_of(read(failed)))
    assert explain(ARGO, workflow(found), [failed]).summary == "3 attempts ended: 2 retries, 1 disruption"
    failed["metadata"]["uid"] = "0a1b2c3d-0000-4000-8000-000000000000"
    assert explain(ARGO, workflow(found), [failed]).summary == "4 attempts ended: 3 retries, 1 disruption"


def test_attempts_are_listed_with_their_node_and_then_the_pods_that_run() -> None:
    explanation = explain(ARGO, workflow(account()), [pod("test", minute=2), pod("build", 2, minute=1)])
    assert [(row.unit, row.attempt, row.ended, row.cost) for row in explanation.rows] == [
        ("build", 0, "container main exit code 137", "retry"),
        ("build", 1, "container main exit code 137", "retry"),
        ("test", 0, "disruption x", "disruption"),
        ("build", 2, "running", ""),
        ("test", 0, "running", ""),
    ]
    assert any(line.startswith("ATTEMPT   STEP    POD") for line in columns.lines(parts(explanation)))


def test_of_ten_thousand_pods_those_that_run_are_listed_and_the_others_are_added_up() -> None:
    done = [pod(f"step-{number}", phase="Succeeded") for number in range(9_990)]
    running = [pod(f"late-{number}") for number in range(10)]
    explanation = explain(ARGO, workflow(), [*running, *done])
    assert len(explanation.rows) == MOST_PODS
    assert sum(row.ended == "running" for row in explanation.rows) == 10
    assert explanation.others == {"succeeded": 9_990 - (MOST_PODS - 10)}
    assert columns.lines(parts(explanation))
    assert f"(and {10_000 - MOST_PODS} other pods: {10_000 - MOST_PODS} succeeded)" in [
        *columns.lines(parts(explanation))
    ]


def test_of_many_nodes_that_spent_retries_the_first_are_listed_and_the_others_are_added_up() -> None:
    found = Account()
    for number in range(50):
        found.spend_retry(f"n{number}", "", None)
    lines = explain(ARGO, workflow(found), []).budgets
    assert len(lines) == MOST_SCOPES + 1
    assert lines[-1] == "(and 30 other steps, which spent less or as much)"


def test_a_range_of_scopes_as_long_as_any_user_may_write_is_read_in_parts() -> None:
    retries = {"groups": [{"number": 1, "scopes": "a/0-2000000000"}]}
    root = holding(argo.WORKFLOW, workflow(), status_from(scopeRetries=retries))
    assert len(explain(ARGO, root, []).budgets) == MOST_SCOPES + 1


def test_a_workload_that_the_ledger_has_suspended_says_how_often() -> None:
    found = account()
    found.reset_limits()  # as the ledger does when it suspends it
    line = "suspended 1 time after reaching the disruption limit; a resume allows as many again"
    assert explain(ARGO, workflow(found), []).budgets[-1] == line


def test_a_malformed_account_is_an_error() -> None:
    root = holding(argo.WORKFLOW, workflow(), {"attempts": "two"})
    with pytest.raises(UnfitError, match="Expected `int`"):
        explain(ARGO, root, [])


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Failed", "message": "child failed"}, "Failed: child failed"),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Running"),
        ({"applicationState": {"state": "FAILED", "errorMessage": "driver failed"}}, "FAILED: driver failed"),
        ({"currentState": {"currentStateSummary": "RunningHealthy"}}, "RunningHealthy"),
        ({"state": {"phase": "Aborted", "message": "by a person"}}, "Aborted: by a person"),
        ({"conditions": [{"type": "Succeeded", "status": "False", "reason": "Failed", "message": "m"}]}, "Failed: m"),
        ({"conditions": [{"type": "Succeeded", "status": "Unknown", "reason": "Running"}]}, "Running"),
        (
            {
                "conditions": [
                    {"type": "Created", "status": "True", "lastTransitionTime": "2026-11-23T12:00:00Z"},
                    {"type": "Restarting", "status": "True", "lastTransitionTime": "2026-11-23T12:01:00Z"},
                    {"type": "Running", "status": "False", "lastTransitionTime": "2026-11-23T12:02:00Z"},
                ]
            },
            "Restarting",
        ),
        ({}, "running"),
    ],
)
def test_the_state_is_what_the_status_of_the_kind_says(status: Json, shown: str) -> None:
    assert state_of(argo.WORKFLOW, {"status": status}) == shown


def test_only_pods_of_the_workload_itself_are_counted_for_it() -> None:
    root, own, other = workflow(), pod("build"), pod("build")
    other["metadata"]["ownerReferences"] = [{**own["metadata"]["ownerReferences"][0], "uid": "earlier"}]
    assert is_counted_for(own, argo.WORKFLOW, root)
    assert not is_counted_for(other, argo.WORKFLOW, root)
    assert not is_counted_for(own, tekton.TASK_RUN, root)


def test_a_disruption_that_is_not_counted_yet_is_one_of_its_node() -> None:
    condition = {"type": DISRUPTED, "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": "x"}
    evicted = pod("test", phase="Failed", conditions=[condition])
    (row,) = explain(ARGO, workflow(profile=Profile()), [evicted]).rows
    assert (row.unit, row.ended, row.cost) == ("test", "disruption PreemptionByScheduler", "disruption")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_a_dump_with_a_workflow_and_its_pods_is_explained(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(
        yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": apart(pod("build", 2), workflow(account()))})
    )
    for arguments in ((), ("ml/train",), ("ml/workflow/train",)):
        result = run(*arguments, "-f", str(dump))
        assert result.exit_code == 0
        assert result.output.startswith("Workflow ml/train: running\n3 attempts ended: 2 retries, 1 disruption\n")
        assert "train-build-2" in result.output


def test_a_job_of_another_group_is_no_job_of_kubernetes(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    job = {"apiVersion": "other.test/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml"}}
    dump.write_text(yaml.safe_dump(job))
    result = run("-f", str(dump))
    assert result.exit_code == 2
    assert "there is no workload in" in result.output


def test_an_object_without_attempts_is_refused_with_what_to_explain_instead() -> None:
    result = run("ml/cronworkflow/nightly")
    assert result.exit_code == 2
    assert "explain a Workflow that is made from it: retry-policy explain ml/workflow/NAME" in result.output
