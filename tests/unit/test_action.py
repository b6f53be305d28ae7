"""The GitHub Action and the hooks of pre-commit."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documents import document_of
from tests.unit.test_workflows import PINNED
from tools.generate import ROOT
from webhook.cli.main import COMMANDS

ACTION: Final[dict[str, Any]] = document_of((ROOT / "action.yml").read_text())
STEPS: Final[list[dict[str, Any]]] = ACTION["runs"]["steps"]
HOOKS: Final[list[dict[str, Any]]] = document_of((ROOT / ".pre-commit-hooks.yaml").read_text())
SAMPLES: Final = ROOT / "manifests" / "samples"


def test_each_action_that_it_uses_is_pinned_by_its_commit() -> None:
    lines = [line.strip().removeprefix("- ") for line in (ROOT / "action.yml").read_text().splitlines()]
    uses = [line for line in lines if line.startswith("uses: ")]
    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


def test_no_input_is_a_part_of_a_script() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_each_input_reaches_the_script() -> None:
    given = "".join(step.get("env", {}).get(name, "") for step in STEPS for name in step.get("env", {}))
    assert set(re.findall(r"inputs\.([\w-]+)", given)) == set(ACTION["inputs"])
    names = {name for step in STEPS for name in step.get("env", {})}
    script = (ROOT / "hack" / "action.sh").read_text()
    assert {name for name in names if f"${name}" not in script} == set()


def test_what_it_installs_is_pinned_by_hashes() -> None:
    install = next(step["run"] for step in STEPS if step.get("name") == "Install")
    assert "--require-hashes" in install
    (file,) = re.findall(r"\$GITHUB_ACTION_PATH/(\S+\.txt)", install)
    assert (ROOT / file).exists()


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a step, with the packages of this environment in place of installed ones."""
    folder = tmp_path / "runner" / "retry-policy" / "bin"
    folder.mkdir(parents=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    inputs = {name: str(one["default"]) for name, one in ACTION["inputs"].items()}
    step = next(step for step in STEPS if "env" in step)
    variables = {
        name: inputs[re.sub(r"^\$\{\{ inputs\.([\w-]+) \}\}$", r"\1", text)] for name, text in step["env"].items()
    }
    own = {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(tmp_path / "runner")}
    return {**os.environ, **own, **variables}


def run(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    script = next(step["run"] for step in STEPS if "env" in step)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_problems_are_annotations_and_fail_the_step(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a b.yaml").write_text((SAMPLES / "job-with-25-retries.yaml").read_text())
    done = run({**runner, "FILES": "jobs\n", "CASES": f"{SAMPLES / 'cases.yaml'}\n"}, tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "::error file=jobs/a b.yaml,line=7,title=retry-policy retries::spec.backoffLimit: 25 retries"
    )


HOSTILE: Final = ("click", "yaml", "msgspec", "webhook", "os", "json", "venv", "sitecustomize", "usercustomize", "pip")


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}], ids=["", "PYTHONPATH"])
def test_no_python_of_the_checked_out_folder_runs(
    runner: dict[str, str], tmp_path: Path, variables: dict[str, str]
) -> None:
    for name in HOSTILE:
        (tmp_path / f"{name}.py").write_text("import sys\nsys.exit('hostile')\n")
    (tmp_path / "job.yaml").write_text((SAMPLES / "job.yaml").read_text())
    done = run({**runner, **variables}, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_is_isolated_from_the_checked_out_folder_as_it_is_installed() -> None:
    scripts = [step["run"] for step in STEPS if "run" in step] + [(ROOT / "hack" / "action.sh").read_text()]
    calls = [found for script in scripts for found in re.findall(r"python\"? (-\S+)", script)]
    assert calls == ["-I", "-I", "-I"]


def test_by_default_all_files_are_checked_under_the_packaged_policy(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text((SAMPLES / "job.yaml").read_text())
    assert run(runner, tmp_path).returncode == 0


def test_warnings_fail_the_step_if_they_are_to(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "half.yaml").write_text("kind: Job\n")
    assert run(runner, tmp_path).returncode == 0
    assert run({**runner, "FAIL_ON": "warning"}, tmp_path).returncode == 1


def test_a_failed_test_of_the_policy_fails_the_step(runner: dict[str, str], tmp_path: Path) -> None:
    for file in SAMPLES.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text().replace("placement: Spot", "placement: OnDemand"))
    inputs = {"FILES": "job.yaml", "CASES": "cases.yaml", "POLICY": "policy-gke.yaml", "PROFILE": "default"}
    done = run({**runner, **inputs}, tmp_path)
    assert done.returncode == 1
    assert "\n::error file=cases.yaml,line=" in done.stdout


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_is_a_command_with_options_that_it_accepts(hook: dict[str, Any]) -> None:
    program, command = hook["entry"].split()
    assert program == "retry-policy"
    assert command in COMMANDS
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    assert re.search(hook["files"], "jobs/train.yaml")


def test_the_hook_checks_the_folder_in_which_it_runs(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text((SAMPLES / "job-with-25-retries.yaml").read_text())
    (hook,) = (one for one in HOOKS if one["id"] == "retry-policy-check")
    program = Path(sys.executable).parent / "retry-policy"
    words = [str(program), *hook["entry"].split()[1:], *hook["args"]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.partition(" ")[0]) == (1, "job.yaml:1")


@pytest.mark.parametrize(
    "command",
    [
        ("check_jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"),
        ("pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"),
    ],
    ids=lambda command: command[0],
)
def test_the_action_and_the_hooks_are_valid_by_the_programs_that_check_them(command: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
