"""`retry-policy test`."""

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from webhook.cli import test as command

SAMPLES: Final = Path(__file__).parents[3] / "manifests" / "samples"
FIELDS: Final = "denied, warnings, fields, object, manifest or placement"
FAILING: Final = """\
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicyTest
cases:
  - name: a Job is denied
    object: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never,
      containers: [{name: main, image: main}]}}}}
    expect:
      denied: [{path: spec.backoffLimit}]
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.test, arguments, catch_exceptions=False)


def test_the_sample_cases_pass_and_the_guide_shows_what_they_print() -> None:
    found = run("-f", str(SAMPLES / "cases.yaml"))
    assert (found.exit_code, found.stderr) == (0, "")
    page = (SAMPLES.parents[1] / "docs" / "how-to" / "check-in-ci.md").read_text()
    shown = page.split("$ retry-policy test -f manifests/samples/cases.yaml\n")[1].split("```")[0]
    assert found.stdout == shown
    assert found.stdout.splitlines()[-1] == "6 cases: 6 passed, 0 failed"


@pytest.mark.parametrize("field", ["25 retries exceed", "OnDemand", "spec.backoffLimit: 3"])
def test_a_sample_case_fails_if_another_value_is_expected(field: str, tmp_path: Path) -> None:
    for file in SAMPLES.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    cases = tmp_path / "cases.yaml"
    other = {
        "25 retries exceed": "26 retries exceed",
        "OnDemand": "Spot",
        "spec.backoffLimit: 3": "spec.backoffLimit: 4",
    }
    cases.write_text(cases.read_text().replace(field, other[field]))
    found = run("-f", str(cases))
    assert found.exit_code == 1
    assert "\nFAIL  " in f"\n{found.stdout}"


def test_a_case_that_fails_gives_exit_code_1_and_its_line(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(FAILING)
    file = str(tmp_path / "cases.yaml")
    found = run("-f", file)
    assert found.exit_code == 1
    assert found.stdout.splitlines()[:3] == [
        f"FAIL  a Job is denied  ({file}:4)",
        "      denied:",
        "        - spec.backoffLimit",
    ]
    assert json.loads(run("-f", file, "-o", "json").stdout)["cases"][0]["line"] == 4
    assert run("-f", file, "-o", "github").stdout.startswith(f"::error file={file},line=4,title=failed")
    assert "<failure" in run("-f", file, "-o", "junit").stdout


def test_a_file_that_cannot_be_used_gives_exit_code_2_and_the_others_are_run(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(FAILING.replace("denied", "denid"))
    found = run(
        "-f", str(tmp_path / "cases.yaml"), "-f", str(tmp_path / "absent.yaml"), "-f", str(SAMPLES / "cases.yaml")
    )
    assert found.exit_code == 2
    assert [line.partition("yaml: ")[2] for line in found.stderr.splitlines()] == [
        f"cases[0].expect.denid: is not a field; must be {FIELDS} (did you mean denied?)",
        "cannot be read: No such file or directory; name a file with cases",
    ]
    assert "6 cases: 6 passed, 0 failed" in found.stdout


def test_without_a_file_it_says_which_option_is_missing() -> None:
    found = run()
    assert found.exit_code == 2
    assert "Missing option '-f'" in found.stderr
