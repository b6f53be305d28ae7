"""GitHub's workflows: what they may do, and what they run. tests/release has their syntax checked."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documents import document_of

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED: Final = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# The permissions to write of each job; all others are to read at most.
WRITES: Final = {
    ("docs.yaml", "deploy"): {"id-token", "pages"},
    ("release.yaml", "image"): {"packages", "id-token"},
    ("release.yaml", "chart"): {"packages", "id-token"},
    ("release.yaml", "publish-package"): {"id-token"},
    ("release.yaml", "release"): {"contents"},
}
# The minutes of a job that may take more than half an hour.
MINUTES: Final = {("test.yaml", "test"): 90, ("nightly.yaml", "rest"): 180}
# Targets that others make.
PARTS: Final = {"test-unit", "test-cluster", "test-fuzz"}
# What the runners of the workflows, Ubuntu with version 2 of control groups, cannot do yet.
BY_HAND: Final = {"test-real", "test-upstream"}


def jobs(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = document_of(file.read_text())["jobs"]
    return found


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_pinned_by_its_commit(file: Path) -> None:
    uses = [line.strip().removeprefix("- ") for line in file.read_text().splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_job_has_only_the_permissions_that_it_needs(file: Path) -> None:
    workflow = document_of(file.read_text())
    assert set(workflow["permissions"].items()) <= {("contents", "read")}
    for name, job in jobs(file).items():
        granted = job.get("permissions", {})
        written = {scope for scope, right in granted.items() if right != "read"}
        assert written == WRITES.get((file.name, name), set())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_job_has_a_timeout_and_leaves_no_token_in_the_checkout(file: Path) -> None:
    for name, job in jobs(file).items():
        assert job["timeout-minutes"] <= MINUTES.get((file.name, name), 30)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                history = {"fetch-depth": 0} if file.name == "nightly.yaml" else {}
                assert step["with"] == {"persist-credentials": False, **history}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_values_that_other_users_control_are_never_part_of_a_script(file: Path) -> None:
    scripts = [step["run"] for job in jobs(file).values() for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_audit_uses_lock_files_with_hashes_for_its_program_and_for_the_packages() -> None:
    (job,) = jobs(ROOT / ".github" / "workflows" / "audit.yaml").values()
    install, audit = (step["run"] for step in job["steps"] if "run" in step)
    for command, file in ((install, "requirements/audit.txt"), (audit, "requirements/runtime.txt")):
        assert {"--require-hashes", file} <= set(command.split())


@pytest.mark.parametrize("file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda file: file.name)
def test_a_lock_file_has_a_hash_for_each_package_and_names_no_index(file: Path) -> None:
    text = file.read_text()
    assert "index-url" not in text
    pins = re.findall(r"^\S+==.*$", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^\S+==\S+(?: ;.*)? \\\n    --hash=sha256:", text, re.MULTILINE)) > 0


def test_the_nightly_run_and_the_run_of_each_change_leave_out_no_target_of_the_tests() -> None:
    makefile = (ROOT / "Makefile").read_text()
    matrix = jobs(ROOT / ".github" / "workflows" / "nightly.yaml")["rest"]["strategy"]["matrix"]["target"]
    each = re.search(r"set -- (test .*)", (ROOT / ".ci" / "run").read_text())
    assert each is not None
    targets = set(re.findall(r"^(test[a-z-]*|coverage):", makefile, re.MULTILINE))
    assert targets - PARTS - BY_HAND == {*matrix, *each[1].split()}


def test_a_package_is_published_after_all_that_can_fail() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yaml")
    assert set(release["publish-package"]["needs"]) == set(release) - {"check", "publish-package", "release"}
    assert release["release"]["needs"] == "publish-package"
