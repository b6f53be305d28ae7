"""`retry-policy explain` of a CronJob, which the real controllers run, and of a Workflow, whose pods a test makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster import command_line
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import pod
from tests.cluster.objects import ended, is_running
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import cron_job, failed_job_of_cron_job, has_failed
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

NOBODYS = {"workflows.argoproj.io/controller-instanceid": "nobody"}  # where Argo's controller runs, it leaves it alone


def test_explain_of_a_cron_job_shows_what_its_jobs_get_and_how_the_last_ones_ended(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    failed_job_of_cron_job(team)
    explanation = explained(team, "nightly")
    assert (explanation["kind"], explanation["schedule"], explanation["gets_from"]) == (
        "CronJob",
        "0 0 1 1 *",
        "its template",
    )
    assert explanation["gets"][0] == "0 retries"
    (row,) = explanation["jobs"]
    assert row["name"] == "nightly-1"
    assert row["state"].startswith("Failed: ")
    assert explanation["next"][-1].endswith(f"retry-policy retry {team.name}/cronjob/nightly")
    assert explained(team, "cronjob/nightly") == explanation
    assert explained(team, "job/nightly-1")["kind"] == "Job"


def test_explain_of_a_cron_job_from_before_opt_in_reads_its_last_job_instead_of_its_template(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    manifest = cron_job("nightly")
    manifest["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 2
    team.create(manifest)
    assert explained(team, "nightly")["gets_from"] == "its template"
    team.label({names.PROFILE: "default"})
    team.run("create", "job", "nightly-1", "--from=cronjob/nightly")
    team.ends(team.running("nightly-1", 1)[0], 1)
    team.wait_for("jobs", "nightly-1", has_failed)  # by the rule that admission injected
    explanation = explained(team, "nightly")
    assert explanation["gets_from"] == "its last Job, nightly-1"
    assert any("ends the Job at once" in line for line in explanation["gets"])


def workflow_of(team: Namespace) -> Object:
    """Create a Workflow of two steps with three retries each, which no controller runs."""
    template = {"name": "main", "retryStrategy": {"limit": 3}, "container": {"image": "example.invalid/main"}}
    return team.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": "train", "labels": NOBODYS},
            "spec": {
                "entrypoint": "main",
                "templates": [template],
                "templateDefaults": {"retryStrategy": {"limit": 3}},
            },
        }
    )


def step(team: Namespace, workflow: Object, name: str, attempt: int) -> Object:
    """Create the pod of an attempt of a step as Argo would, and return it as soon as it runs."""
    made = pod(f"train-{name}-{attempt}", {"workflows.argoproj.io/node-name": f"train.{name}({attempt})"})
    metadata = workflow["metadata"]
    owner = {"apiVersion": workflow["apiVersion"], "kind": workflow["kind"], "controller": True}
    made["metadata"]["ownerReferences"] = [{**owner, "name": metadata["name"], "uid": metadata["uid"]}]
    made["metadata"]["labels"] = {"workflows.argoproj.io/workflow": metadata["name"]}
    team.create(made)
    return team.wait_for("pods", made["metadata"]["name"], is_running)


@with_operators
def test_explain_of_a_workflow_shows_its_attempts_by_step_and_what_the_next_failure_does(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "costs")
    workflow = workflow_of(team)
    team.ends(step(team, workflow, "build", 0), 3)
    team.wait_for("pods", "train-build-0", lambda found: found["status"]["phase"] == "Failed")
    step(team, workflow, "build", 1)
    team.evict(step(team, workflow, "test", 0)["metadata"]["name"])
    team.wait_for("workflows", "train", lambda found: ended(found, 2))
    found = explained(team, "workflow/train")
    rows = {(row["unit"], row["attempt"], row["ended"], row["cost"]) for row in found["rows"]}
    assert ("build", 0, "container main exit code 3", "retry") in rows
    assert ("build", 1, "running", "") in rows
    assert "step build: 1 of 3 retries spent" in found["budgets"]
    assert any("exit code" in line and "costs a retry; then 1 retry left" in line for line in found["next"])
    assert explained(team, "train") == found


@with_operators
def test_explain_of_a_template_names_the_command_that_explains_what_is_made_of_it(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    answer = command_line.run("explain", f"{team.name}/workflowtemplate/train", f"--kubeconfig={team.kubeconfig}")
    assert answer.exit_code == 2
    assert f"retry-policy explain {team.name}/workflow/NAME" in answer.stderr
