"""GitHub's workflows, and the script that makes a release."""

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from webhook import __version__

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED: Final = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# The permissions to write of each job; all others are to read at most.
WRITES: Final = {("release.yaml", "release"): {"contents", "packages"}}
BASE_DIGEST: Final = f"sha256:{'a' * 64}"
DIGEST: Final = f"sha256:{'b' * 64}"
SBOM: Final = {"spdxVersion": "SPDX-2.3"}
# A program that answers like docker buildx, and records its arguments.
DOCKER: Final = f"""#!/usr/bin/env python3
import json, pathlib, sys
arguments = sys.argv[1:]
with pathlib.Path(__file__).with_name("asked").open("a") as asked:
    print(json.dumps(arguments), file=asked)
if arguments[:3] == ["buildx", "imagetools", "inspect"]:
    base = {{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "{BASE_DIGEST}"}}
    print(json.dumps({json.dumps(SBOM)} if "SBOM" in arguments[-1] else base))
else:
    file = arguments[arguments.index("--metadata-file") + 1]
    pathlib.Path(file).write_text(json.dumps({{"containerimage.digest": "{DIGEST}"}}))
"""


def jobs(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    return found


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_pinned_by_its_commit(file: Path) -> None:
    uses = [line.strip().removeprefix("- ") for line in file.read_text().splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_job_has_only_the_permissions_that_it_needs(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert set(workflow["permissions"].items()) <= {("contents", "read")}
    for name, job in jobs(file).items():
        granted = job.get("permissions", {})
        written = {scope for scope, right in granted.items() if right != "read"}
        assert written == WRITES.get((file.name, name), set())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_job_has_a_timeout_and_leaves_no_token_in_the_checkout(file: Path) -> None:
    for job in jobs(file).values():
        assert job["timeout-minutes"] <= 30
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}


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
        text = (ROOT / file).read_text()
        assert "index-url" not in text
        pins = re.findall(r"^\S+==.*$", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^\S+==\S+(?: ;.*)? \\\n    --hash=sha256:", text, re.MULTILINE)) > 10


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Return the folder with the files that hack/release.sh writes."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}"}
    script = [str(ROOT / "hack" / "release.sh"), "registry.example/retry", str(tmp_path / "release")]
    subprocess.run(script, env=environment, check=True)
    return tmp_path / "release"


def test_a_release_is_built_from_the_digest_of_its_base_image_which_it_records(released: Path) -> None:
    asked = [json.loads(line) for line in (released.parent / "bin" / "asked").read_text().splitlines()]
    base = re.search("^ARG BASE_IMAGE=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    (build,) = (arguments for arguments in asked if arguments[:2] == ["buildx", "build"])
    assert build[build.index("--build-arg") + 1] == f"BASE_IMAGE={base[1]}@{BASE_DIGEST}"
    assert build[build.index("--tag") + 1] == f"registry.example/retry:{__version__}"
    assert {"--push", "--sbom=true", "--provenance=mode=max"} <= set(build)
    images = (released / "images.md").read_text()
    assert f"`{base[1]}@{BASE_DIGEST}`" in images
    assert f"`registry.example/retry@{DIGEST}`" in images
    assert json.loads((released / "sbom.spdx.json").read_text()) == SBOM


def test_the_manifests_of_a_release_name_its_image_by_digest(released: Path) -> None:
    with tarfile.open(released / f"manifests-{__version__}.tgz") as archive:
        file = archive.extractfile("manifests/base/kustomization.yaml")
        assert file is not None
        kustomization = yaml.safe_load(file)
        names = set(archive.getnames())
    image = {"name": "retry-policy-webhook", "newName": "registry.example/retry", "digest": DIGEST}
    assert kustomization["images"] == [image]
    before = yaml.safe_load((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())
    assert {**kustomization, "images": before["images"]} == before
    assert {"manifests/base/deployment.yaml", "manifests/overlays/fail-open/kustomization.yaml"} <= names


@pytest.mark.parametrize("answer", ["{}", '{"digest": "python:3.11-slim"}', "nonsense"])
def test_without_the_digest_of_its_base_image_no_release_is_made(tmp_path: Path, answer: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{answer}'\n")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = [str(ROOT / "hack" / "release.sh"), "registry.example/retry", str(tmp_path / "release")]
    done = subprocess.run(script, env=environment, check=False, capture_output=True)
    assert done.returncode != 0
    assert list((tmp_path / "release").iterdir()) == []
