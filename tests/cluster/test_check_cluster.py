"""`retry-policy check --cluster` reports what admission would do, and needs only permission to list."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster import command_line
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.manifests import job, job_set, replicated_job
from tests.cluster.test_retry import cron_job, new_user
from webhook.kube import names

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

TOO_MANY = "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
POLICY = f"--policy={os.environ.get('RETRY_POLICY_TEST_POLICY', '')}"


def checked(team: Namespace, *options: str, kubeconfig: Path | None = None) -> tuple[int, list[list[str]], str]:
    """Check one namespace; return the exit code, the cells of the table, and stderr."""
    kubeconfig_option = f"--kubeconfig={kubeconfig or team.kubeconfig}"
    done = command_line.run("check", "--cluster", "-n", team.name, POLICY, *options, kubeconfig_option)
    table, _, summary = done.stdout.rpartition("\n\n")
    assert " would be denied, " in (summary or done.stdout)
    rows = [[cell for cell in line.split("   ") if cell] for line in table.splitlines()[1:]]
    return done.exit_code, [[cell.strip() for cell in row] for row in rows], done.stderr


def is_denied(team: Namespace, manifest: Object) -> bool:
    return "denied the request" in team.refusal(manifest)


def greedy_cron_job(name: str) -> Object:
    manifest = cron_job(name)
    manifest["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 25
    return manifest


def test_check_before_opt_in_reports_what_admission_does_after_it(namespace: NewNamespace) -> None:
    team = namespace()
    greedy, good, nightly = job("greedy", backoffLimit=25), job("good", backoffLimit=3), greedy_cron_job("nightly")
    for manifest in (greedy, good, nightly):
        team.create(manifest)
    assert team.run("create", "job", "nightly-1", "--from=cronjob/nightly").returncode == 0
    code, rows, said = checked(team)
    assert code == 1
    assert said == f"warning: not opted in, judged under profile 'default': {team.name}\n"
    name = team.name
    assert rows[:2] == [
        ["DENIED", f"{name}/cronjob/nightly", TOO_MANY.replace("spec.", "spec.jobTemplate.spec.", 1)],
        ["DENIED", f"{name}/job/greedy", TOO_MANY],
    ]
    assert [row[:2] for row in rows[2:]] == [["CHANGED", f"{name}/job/good"]]
    assert "spec.podFailurePolicy would be added" in rows[2][2]
    team.label({names.PROFILE: "default"})
    until(lambda: is_denied(team, greedy))
    assert [is_denied(team, one) for one in (greedy, nightly, good)] == [True, True, False]
    assert checked(team)[1:] == (rows, "")


def test_check_does_not_report_admitted_objects_and_can_try_another_profile(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    team.create(cron_job("nightly"))
    code, rows, said = checked(team)
    assert (code, [row for row in rows if row[0] != "WARNED"], said) == (0, [], "")
    code, rows, _ = checked(team, "--profile=one-retry")
    assert code == 1
    assert rows[0][:2] == ["DENIED", f"{team.name}/job/train"]
    assert "3 retries exceed the limit of 1 in profile 'one-retry'" in rows[0][2]


@with_operators
def test_check_reports_a_job_set_and_not_its_jobs(namespace: NewNamespace) -> None:
    team = namespace()
    team.create(job_set("train", {**replicated_job("workers"), "replicas": 2}, failurePolicy={"maxRestarts": 25}))
    team.wait_for_all("jobs", lambda jobs: len(jobs) == 2)
    code, rows, _ = checked(team)
    assert code == 1
    assert [row[:2] for row in rows] == [["DENIED", f"{team.name}/jobset/train"]]


@with_operators
def test_check_reports_nothing_about_an_admitted_job_set(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job_set("train", {**replicated_job("workers"), "replicas": 2}, failurePolicy={"maxRestarts": 2}))
    team.wait_for_all("jobs", lambda jobs: len(jobs) == 2)
    code, rows, _ = checked(team)
    assert (code, [row for row in rows if row[0] != "WARNED"]) == (0, [])


def test_check_needs_only_permission_to_list_and_names_what_it_may_not_list(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "lists"}, "rules": rules}
    team.create(role)
    lists = new_user(team, tmp_path, "Role/lists")
    code, rows, said = checked(team, "--profile=one-retry", kubeconfig=lists)
    assert code == 2
    assert [row[:2] for row in rows] == [["DENIED", f"{team.name}/job/train"]]
    assert f"cronjobs.batch in {team.name} cannot be listed: 403 " in said
    assert f"pods in {team.name} cannot be listed: 403 " in said
    assert "\njobs.batch in" not in said
    assert json.dumps(said).isascii()
