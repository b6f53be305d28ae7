"""The recipes in docs/gallery/: tests/cluster/scenarios/test_gallery.py has what happens to them in a cluster."""

from pathlib import Path
from typing import Final

import pytest

from tests.cluster import command_line
from tools.generate.gallery import CHANGED, FOLDERS, GALLERY, POLICY, parts, profile, render
from webhook.kube.names import PROFILE

DENIED: Final = "too-many-retries.yaml"

recipes = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def page(folder: Path) -> str:
    return (GALLERY / f"{folder.name}.md").read_text()


@recipes
def test_the_policy_of_a_recipe_is_valid(folder: Path) -> None:
    checked = command_line.run("check", "--policy", str(folder / POLICY))
    assert (checked.exit_code, checked.stderr) == (0, "")


@recipes
def test_a_recipe_has_no_problem_under_its_own_policy(folder: Path) -> None:
    files = [
        part for file in sorted(folder.iterdir()) if file.name not in {POLICY, DENIED} for part in ("-f", str(file))
    ]
    checked = command_line.run("check", *files, "--policy", str(folder / POLICY), "--profile", profile(folder))
    assert (checked.exit_code, checked.stdout) == (0, "")


def test_a_manifest_that_a_page_calls_denied_is_denied() -> None:
    for folder in FOLDERS:
        for file in folder.glob(DENIED):
            options = ("--policy", str(folder / POLICY), "--profile", profile(folder))
            assert command_line.run("check", "-f", str(file), *options).exit_code == 1


@recipes
def test_rendering_a_recipe_twice_changes_nothing_more(folder: Path) -> None:
    options = ("--policy", str(folder / POLICY), "--profile", profile(folder))
    files = [file for file in folder.iterdir() if file.stem in CHANGED]
    for file in files:
        once = command_line.run("render", "-f", str(file), *options)
        again = command_line.run("render", "-f", "-", *options, stdin=once.stdout)
        assert again.stdout == once.stdout
        assert "retry-policy.dev/policy" in once.stdout


def test_the_webhook_leaves_the_run_of_a_pipeline_as_it_is() -> None:
    folder = GALLERY / "ci-on-tekton"
    rendered = command_line.run(*render(str(folder / "build.yaml"), str(folder / POLICY), profile(folder)))
    assert (rendered.exit_code, rendered.output) == (0, "")


@recipes
def test_a_page_opts_in_with_the_profile_of_its_recipe(folder: Path) -> None:
    assert f" {PROFILE}={profile(folder)}\n" in page(folder)


def test_every_page_has_a_recipe_and_shows_its_files() -> None:
    assert {file.stem for file in GALLERY.glob("*.md")} == {folder.name for folder in FOLDERS}
    for folder in FOLDERS:
        assert all(file.read_text() in page(folder) for file in folder.iterdir())
    assert len(parts()) == len(FOLDERS) >= 4
