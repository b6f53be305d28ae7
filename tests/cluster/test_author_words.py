"""Fields that the author of a Job sets explicitly, and what the real Job controller then does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.conftest import opted_in
from tests.cluster.manifests import exits, job
from tests.cluster.objects import account, condition, ended, noted, required
from tests.cluster.test_webhook_jobs import OFF_SPOT, ON_SPOT
from tests.objects import DISRUPTION, exit_codes
from webhook.kube import names

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

INDEXED = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
LISTED = {"rules": [exit_codes("FailJob", "In", 42)]}


def warnings_of(team: Namespace, manifest: Object, *command: str) -> list[str]:
    """Return the warnings that kubectl prints."""
    done = team.run(*(command or ("create",)), "--filename=-", stdin=manifest)
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("Warning: ") for line in done.stderr.splitlines() if line.startswith("Warning: ")]


def test_an_eviction_fails_a_job_with_backoff_limit_0(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    assert warnings_of(team, job("train", backoffLimit=0)) == [
        f"Job {team.name}/train: spec.backoffLimit: 0: disruptions fail the Job too; max-disruptions allows some"
    ]
    (pod,) = team.running("train", 1)
    assert required(pod) == [{"matchExpressions": [OFF_SPOT]}]
    assert (noted(pod)["placement"], noted(pod)["max-retries"]) == ("OnDemand", "0")
    team.evict(pod["metadata"]["name"])
    found = team.wait_for("jobs", "train", lambda found: ended(found, 1) and condition(found, "Failed"))
    assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
    assert "podFailurePolicy" not in found["spec"]
    assert account(found)["cost"] == {"fatal": 1}


def test_a_job_with_backoff_limit_0_and_max_disruptions_continues_after_an_eviction(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    manifest = job("train", backoffLimit=0)
    manifest["metadata"]["annotations"] = {names.MAX_DISRUPTIONS: "2"}
    assert warnings_of(team, manifest) == []
    (first,) = team.running("train", 1)
    assert required(first) == [{"matchExpressions": [ON_SPOT]}]
    assert team.get("job", "train")["spec"]["podFailurePolicy"]["rules"][0] == DISRUPTION
    team.evict(first["metadata"]["name"])
    (second,) = team.running("train", 1, but=first)
    team.ends(second, 0)
    assert team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))["status"].get("failed", 0) == 0


def test_exit_codes_that_are_not_in_the_authors_list_are_retried(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("flaky", exits(1, 0), backoffLimit=1, podFailurePolicy=LISTED))
    team.create(job("broken", exits(42), backoffLimit=1, podFailurePolicy=LISTED))
    done = team.wait_for("jobs", "flaky", lambda found: condition(found, "Complete"))
    assert done["status"]["failed"] == 1
    broken = team.wait_for("jobs", "broken", lambda found: condition(found, "Failed"))
    assert (condition(broken, "Failed")["reason"], broken["status"]["failed"]) == ("PodFailurePolicy", 1)


def test_the_ledger_does_not_fail_a_job_for_an_exit_code_that_is_not_in_the_authors_list(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace, "settle")
    team.create(job("listed", backoffLimit=6, **INDEXED, podFailurePolicy=LISTED))
    team.ends(team.running("listed", 3)[0], 1)
    team.wait_for("jobs", "listed", lambda found: ended(found, 1))
    team.create(job("bug", backoffLimit=6, **INDEXED))
    team.ends(team.running("bug", 3)[0], 1)
    team.wait_for(
        "jobs", "bug", lambda found: condition(found, "Failed")
    )  # by then the crash of the other Job has been settled too
    listed = team.get("job", "listed")
    assert account(listed)["cost"] == {"retry": 1}
    assert not condition(listed, "FailureTarget")
    assert len(team.running("listed", 3)) == 3


def test_an_author_gets_one_warning_about_explicit_retries(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    warning = "spec.backoffLimit: only exit code 143 is retried; add a podFailurePolicy rule Count In [CODES]"
    assert warnings_of(team, job("said", backoffLimit=4)) == [f"Job {team.name}/said: {warning}"]
    assert warnings_of(team, job("defaulted")) == []
    assert warnings_of(team, job("listed", backoffLimit=4, podFailurePolicy=LISTED)) == []
    template = {"spec": job("x", backoffLimit=4)["spec"]}
    nightly: Object = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
    }
    in_template = warning.replace("spec.", "spec.jobTemplate.spec.")
    assert warnings_of(team, nightly, "apply", "--server-side") == [f"CronJob {team.name}/nightly: {in_template}"]
    assert warnings_of(team, nightly, "apply", "--server-side") == []
    assert team.run("create", "job", "tonight", "--from=cronjob/nightly").stderr == ""
