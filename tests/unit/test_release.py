"""hack/release: what a release checks, and what it makes with a docker that is replaced by a program."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest

from hack.release import image, krew, versions
from tests.documents import document_of
from webhook import __version__

ROOT: Final = Path(__file__).parents[2]
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
CHART: Final = f'name: retry-policy-webhook\nversion: {__version__}\nappVersion: "{__version__}"\n'
VALUES: Final = 'image:\n  repository: retry-policy-webhook\n  tag: ""\n  digest: ""\nreplicas: 2\n'
CHANGELOG: Final = "# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-11-23\n\n### Added\n\n- All of it.\n"


def run(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    command = (sys.executable, "-m", "hack.release", *arguments)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of all that has the version, as at a release."""
    for name in (versions.SOURCE, *(place.file for place in versions.PLACES)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("Chart.yaml"):
            (tmp_path / name).write_text(CHART)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(version=__version__))
    return tmp_path


def test_every_place_that_repeats_the_version_agrees_with_it() -> None:
    done = run("check")
    assert (done.returncode, done.stdout) == (0, f"everything names {__version__}\n")


def test_no_other_file_names_the_version() -> None:
    known = {versions.SOURCE, *(place.file for place in versions.PLACES), "CHANGELOG.md"}
    pattern = rf"retry-policy-webhook:{re.escape(__version__)}|ersion:? \"?{re.escape(__version__)}\b"
    found = subprocess.run(["git", "grep", "-lE", pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    assert set(found.stdout.split()) <= known


@pytest.mark.parametrize("place", versions.PLACES, ids=lambda place: place.file)
def test_a_place_with_another_version_is_named_and_written_anew(checkout: Path, place: versions.Place) -> None:
    file = checkout / place.file
    before = file.read_text()
    file.write_text(before.replace(__version__, "9.8.7", 1))
    (problem,) = versions.disagreements(checkout, None)
    assert re.fullmatch(
        rf"{place.file}:\d+: is 9\.8\.7; must be {re.escape(__version__)}, run: python3 -m hack\.release write", problem
    )
    assert list(versions.write(checkout)) == [place.file]
    assert file.read_text() == before
    assert list(versions.write(checkout)) == []


def test_a_new_version_is_written_everywhere(checkout: Path) -> None:
    source = checkout / versions.SOURCE
    source.write_text(source.read_text().replace(__version__, "9.8.7"))
    assert list(versions.write(checkout)) == [place.file for place in versions.PLACES]
    assert list(versions.disagreements(checkout, None)) == []


@pytest.mark.parametrize("place", versions.PLACES, ids=lambda place: place.file)
def test_a_place_that_names_no_version_is_a_problem(checkout: Path, place: versions.Place) -> None:
    (checkout / place.file).write_text("")
    (problem,) = versions.disagreements(checkout, None)
    assert problem.startswith(f"{place.file}: names the version 0 times; must name {__version__} ")
    (checkout / place.file).unlink()
    (problem,) = versions.disagreements(checkout, None)
    assert problem == f"{place.file}: does not exist; must name the version {__version__}"


def test_a_checkout_without_the_chart_can_be_checked_and_written(checkout: Path) -> None:
    shutil.rmtree(checkout / "charts")
    (checkout / "Dockerfile").write_text((checkout / "Dockerfile").read_text().replace(__version__, "9.8.7"))
    assert len(list(versions.disagreements(checkout, None))) == 1
    assert list(versions.write(checkout)) == ["Dockerfile"]


def test_a_release_has_a_tag_and_a_heading_of_its_version(checkout: Path) -> None:
    assert list(versions.disagreements(checkout, f"v{__version__}")) == []
    (problem,) = versions.disagreements(checkout, __version__)
    assert problem.startswith(f"the tag {__version__}: is not v{__version__}; ")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (CHANGELOG.format(version="0.0.9"), "the newest version is not"),
        (CHANGELOG.format(version=__version__).replace(" - 2026-11-23", ""), "the newest version is not"),
        ("## [Unreleased]\n", "the newest version is not"),
        ("", "the newest version is not"),
        (CHANGELOG.format(version=__version__).replace("[Unreleased]\n", "[Unreleased]\n- New."), "has entries under"),
    ],
)
def test_a_changelog_of_another_version_is_no_release(checkout: Path, text: str, what: str) -> None:
    (checkout / "CHANGELOG.md").write_text(text)
    (problem,) = versions.disagreements(checkout, f"v{__version__}")
    assert problem.startswith(f"CHANGELOG.md: {what} ")


def test_a_checkout_without_a_version_is_an_error(checkout: Path) -> None:
    (checkout / versions.SOURCE).write_text('__version__ = "1.0"\n')
    with pytest.raises(ValueError, match="has no line __version__ = "):
        list(versions.disagreements(checkout, None))


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the files that are written beside the image."""
    folder = tmp_path_factory.mktemp("released")
    docker = folder / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    done = run("image", "registry.example/retry", str(folder / "release"), path=str(docker.parent))
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "release"


def asked(released: Path) -> list[list[str]]:
    return [json.loads(line) for line in (released.parent / "bin" / "asked").read_text().splitlines()]


def test_a_release_is_built_from_the_digest_of_its_base_image_which_it_records(released: Path) -> None:
    base = re.search("^ARG BASE_IMAGE=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    (build,) = (arguments for arguments in asked(released) if arguments[:2] == ["buildx", "build"])
    assert build[build.index("--build-arg") + 1] == f"BASE_IMAGE={base[1]}@{BASE_DIGEST}"
    assert build[build.index("--platform") + 1] == "linux/amd64,linux/arm64"
    assert build[build.index("--tag") + 1] == f"registry.example/retry:{__version__}"
    assert {"--push", "--sbom=true", "--provenance=mode=max"} <= set(build)
    images = (released / "images.md").read_text()
    assert f"`{base[1]}@{BASE_DIGEST}`" in images
    assert f"`registry.example/retry@{DIGEST}`" in images
    assert (released / "image.txt").read_text() == f"registry.example/retry@{DIGEST}\n"


def test_a_release_has_the_packages_of_the_image_for_each_architecture(released: Path) -> None:
    for architecture in ("amd64", "arm64"):
        assert json.loads((released / f"sbom-{architecture}.spdx.json").read_text()) == SBOM
        template = f'{{{{json (index .SBOM "linux/{architecture}").SPDX}}}}'
        question = ["buildx", "imagetools", "inspect", f"registry.example/retry@{DIGEST}", "--format", template]
        assert question in asked(released)


def test_the_manifests_of_a_release_name_its_image_by_digest(released: Path) -> None:
    with tarfile.open(released / f"manifests-{__version__}.tgz") as archive:
        file = archive.extractfile("manifests/base/kustomization.yaml")
        assert file is not None
        kustomization = document_of(file)
        names = set(archive.getnames())
    named = {"name": "retry-policy-webhook", "newName": "registry.example/retry", "digest": DIGEST}
    assert kustomization["images"] == [named]
    before = document_of((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())
    assert {**kustomization, "images": before["images"]} == before
    assert {"manifests/base/deployment.yaml", "manifests/overlays/fail-open/kustomization.yaml"} <= names


def test_the_chart_of_a_release_names_its_image_by_digest(tmp_path: Path) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "values.yaml").write_text(VALUES)
    image.write_chart(tmp_path / "chart", "registry.example/retry", DIGEST, tmp_path / "copy")
    values = document_of((tmp_path / "copy" / "values.yaml").read_text())
    named = {"repository": "registry.example/retry", "tag": "", "digest": DIGEST}
    assert values == {**document_of(VALUES), "image": named}


@pytest.mark.parametrize("answer", ["{}", '{"digest": "python:3.11-slim"}', "nonsense", "[]"])
def test_without_the_digest_of_its_base_image_no_release_is_made(tmp_path: Path, answer: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{answer}'\n")
    docker.chmod(0o755)
    done = run("image", "registry.example/retry", str(tmp_path / "release"), path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("docker says no digest of python:3.11-slim: ")
    assert list((tmp_path / "release").iterdir()) == []


def test_if_docker_fails_no_release_is_made(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 3\n")
    docker.chmod(0o755)
    done = run("image", "registry.example/retry", str(tmp_path / "release"), path=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


# krew's own checks of a manifest, internal/index/validation: the fields that it needs, and their form.
PLATFORM: Final = {"selector", "uri", "sha256", "bin"}


def test_the_manifest_for_krew_has_the_checksums_of_the_archives(tmp_path: Path) -> None:
    names = krew.archives(krew.TEMPLATE.read_text())
    for name in names:
        (tmp_path / name).write_text(name)
    assert run("krew", "example/retry-policy", str(tmp_path)).returncode == 0
    plugin = document_of((tmp_path / "retry-policy.yaml").read_text())
    assert (plugin["apiVersion"], plugin["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert plugin["metadata"] == {"name": "retry-policy"}
    assert plugin["spec"]["version"] == f"v{__version__}"
    assert 0 < len(plugin["spec"]["shortDescription"]) <= 50
    selected = [platform["selector"]["matchLabels"] for platform in plugin["spec"]["platforms"]]
    assert [(one["os"], one["arch"]) for one in selected] == [
        ("linux", "amd64"),
        ("linux", "arm64"),
        ("darwin", "amd64"),
        ("darwin", "arm64"),
    ]
    for name, platform in zip(names, plugin["spec"]["platforms"], strict=True):
        assert set(platform) == PLATFORM
        assert platform["uri"] == f"https://github.com/example/retry-policy/releases/download/v{__version__}/{name}"
        assert platform["sha256"] == hashlib.sha256(name.encode()).hexdigest()
        assert platform["bin"] == "kubectl-retry_policy"


def test_a_missing_archive_and_a_repository_without_an_owner_are_errors(tmp_path: Path) -> None:
    done = run("krew", "example/retry-policy", str(tmp_path))
    assert (done.returncode, "has no kubectl-retry_policy-linux-amd64.tar.gz, " in done.stderr) == (1, True)
    assert run("krew", "retry-policy", str(tmp_path)).stderr == "'retry-policy' is no repository; must be OWNER/NAME\n"
