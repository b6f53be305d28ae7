"""`retry-policy explain` of a CronJob, whose Jobs the real controllers run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.conftest import opted_in
from tests.cluster.test_ledger import explained
from tests.cluster.test_retry import cron_job, failed_job_of_cron_job, has_failed
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace


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
    team.run("label", "namespace", team.name, f"{names.PROFILE}=default")
    team.run("create", "job", "nightly-1", "--from=cronjob/nightly")
    team.ends(team.running("nightly-1", 1)[0], 1)
    team.wait_for("jobs", "nightly-1", has_failed)  # by the rule that admission injected
    explanation = explained(team, "nightly")
    assert explanation["gets_from"] == "its last Job, nightly-1"
    assert any("ends the Job at once" in line for line in explanation["gets"])
