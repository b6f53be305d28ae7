"""What `retry-policy explain` shows of a CronJob."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.accounts import held, holding
from tests.objects import cron_job, exit_codes, job, job_spec
from webhook.accounts.account import Account
from webhook.cli.main import main
from webhook.explain import build_cron_job
from webhook.explain.build_cron_job import MOST_JOBS, CronJobExplanation, parts
from webhook.kube import names
from webhook.objects import columns
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch

FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
INJECTED = {names.POLICY: "{}"}


def explain(root: Json, jobs: list[Json]) -> CronJobExplanation:
    return build_cron_job.explain(root, jobs, held(*jobs))


def nightly(backoff_limit: int = 3, **spec: object) -> Json:
    root = cron_job(job_spec(rules=[exit_codes("FailJob", "NotIn", 143)], backoffLimit=backoff_limit), uid="cron")
    root["spec"].update(spec)
    return root


def job_of(number: int, status: Json | None = None, **metadata: object) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "cron", "controller": True}
    created = f"2026-01-{number:02}T00:00:00Z"
    metadata = {"name": f"nightly-{number}", "ownerReferences": [owner], "creationTimestamp": created, **metadata}
    return {**job(job_spec(backoffLimit=1), uid=f"job-{number}", **metadata), "status": status or {}}


def test_explain_shows_what_each_job_gets_from_the_template() -> None:
    found = explain(nightly(), [])
    assert found.gets_from == "its template"
    assert found.gets[0] == "3 retries"
    assert found.gets[1].startswith("any exit code but 143: ends the Job at once")


def test_explain_shows_what_the_last_job_got_if_the_template_is_from_before_the_opt_in() -> None:
    found = explain(nightly(), [job_of(1), job_of(2, annotations=INJECTED)])
    assert (found.gets_from, found.gets[0]) == ("its last Job, nightly-2", "1 retry")


def test_explain_shows_what_each_job_gets_from_a_template_that_was_admitted() -> None:
    root = nightly()
    root["metadata"]["annotations"] = INJECTED
    assert explain(root, [job_of(2, annotations=INJECTED)]).gets_from == "its template"


def test_what_each_job_gets_does_not_include_what_the_last_job_has_spent() -> None:
    spent = holding(batch.JOB, job_of(2, annotations=INJECTED), Account(ended=1, cost={"retry": 1}))
    found = explain(nightly(), [spent])
    assert "costs a retry; then 0 retries left" in found.gets[-1]
    assert found.jobs[0].summary == "1 attempt ended: 1 retry"


def test_the_last_jobs_are_listed_with_their_end_and_the_newest_stands_last() -> None:
    found = explain(nightly(), [job_of(number, FAILED) for number in reversed(range(1, 20))])
    assert [row.name for row in found.jobs] == [f"nightly-{number}" for number in range(20 - MOST_JOBS, 20)]
    assert {row.state for row in found.jobs} == {"Failed: BackoffLimitExceeded"}


@pytest.mark.parametrize(
    ("spec", "jobs", "expected"),
    [
        ({}, [], ["a Job by schedule 0 3 * * *, which starts beside those that still run"]),
        (
            {"concurrencyPolicy": "Forbid"},
            [],
            ["a Job by schedule 0 3 * * *, which is left out while one still runs"],
        ),
        ({"suspend": True}, [], ["no Job until it is resumed: retry-policy resume ml/cronjob/nightly"]),
        (
            {"suspend": True},
            [job_of(1, FAILED)],
            [
                "no Job until it is resumed: retry-policy resume ml/cronjob/nightly",
                "the last Job has failed; to rerun it: retry-policy retry ml/cronjob/nightly",
            ],
        ),
    ],
)
def test_explain_says_what_happens_next(spec: Json, jobs: list[Json], expected: list[str]) -> None:
    assert explain(nightly(**spec), jobs).next == expected


def test_the_text_output_shows_the_schedule_the_budgets_the_jobs_and_what_happens_next() -> None:
    root = nightly(timeZone="Europe/Berlin", suspend=True)
    found = list(columns.lines(parts(explain(root, [job_of(1, FAILED)]))))
    assert found[:3] == [
        "CronJob ml/nightly: schedule 0 3 * * * (Europe/Berlin), suspended",
        "Each Job gets, by its template:",
        "  3 retries",
    ]
    table = found[found.index("") + 1 :]
    assert [row.split() for row in table[:2]] == [
        ["JOB", "CREATED", "ATTEMPTS", "STATE"],
        ["nightly-1", "2026-01-01T00:00:00Z", "0", "attempts", "ended", "Failed:", "BackoffLimitExceeded"],
    ]
    assert table[2] == "Each attempt of one: retry-policy explain ml/job/nightly-1"
    assert found[-3] == "Next:"


def explained(folder: Path, *arguments: str) -> Result:
    file = folder / "dump.yaml"
    items = [nightly(), job_of(1), job_of(2)]
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return CliRunner().invoke(main, ["explain", *arguments, "-f", str(file)])


def test_a_cron_job_is_explained_from_a_file_with_the_jobs_that_it_controls(tmp_path: Path) -> None:
    found = explained(tmp_path, "ml/nightly")
    assert found.exit_code == 0, found.output
    assert found.output.startswith("CronJob ml/nightly: schedule 0 3 * * *\n")
    assert "nightly-1" in found.output
    assert explained(tmp_path, "ml/cronjob/nightly", "-o", "json").output.startswith('{\n  "kind": "CronJob",')
    assert explained(tmp_path, "ml/job/nightly-2").output.startswith("Job ml/nightly-2: ")
