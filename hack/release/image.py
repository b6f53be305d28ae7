"""Build and push the image, and write the manifests and the chart that name it by digest.

Needs docker with buildx, a builder that supports several platforms and attestations (docker buildx create --driver
docker-container --use), and a login to the registry. The project's own tests have no registry: they replace docker by a
fake.
"""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from hack.release.versions import version_of

PLATFORMS: Final = ("linux/amd64", "linux/arm64")
BASE: Final = re.compile(r"^ARG BASE_IMAGE=(.+)$", re.MULTILINE)
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
KUSTOMIZATION: Final = Path("manifests/base/kustomization.yaml")
CHART: Final = Path("charts/retry-policy-webhook")


def release(root: Path, image: str, folder: Path) -> None:
    """Build and push IMAGE:VERSION, and write into `folder`: raise ValueError, or CalledProcessError of docker.

    images.md              the digests of the image and of its base image, for people
    image.txt              IMAGE@DIGEST, for programs
    sbom-ARCH.spdx.json    the software bill of materials of the image, for each architecture
    manifests-VERSION.tgz  manifests/, whose Deployment has the image by digest
    chart/                 the chart, whose values have the image by digest
    """
    folder.mkdir(parents=True, exist_ok=True)
    version = version_of(root)
    base = first(BASE, (root / "Dockerfile").read_text())
    # The tag is resolved once: later it may name another image, but a digest never does.
    base_digest = digest_of(base, inspected(base, "{{json .Manifest}}"), "digest")
    digest = built(root, f"{image}:{version}", f"{base}@{base_digest}", folder)
    for platform in PLATFORMS:
        found = inspected(f"{image}@{digest}", f'{{{{json (index .SBOM "{platform}").SPDX}}}}')
        (folder / f"sbom-{platform.partition('/')[2]}.spdx.json").write_bytes(found)
    write_manifests(root, image, digest, folder / f"manifests-{version}.tgz")
    if (root / CHART).exists():
        write_chart(root / CHART, image, digest, folder / "chart")
    (folder / "image.txt").write_text(f"{image}@{digest}\n")
    rows = [f"| Image | `{image}@{digest}` |", f"| Built from | `{base}@{base_digest}` |"]
    (folder / "images.md").write_text("\n".join(["| | |", "|---|---|", *rows, ""]))


def built(root: Path, tag: str, base: str, folder: Path) -> str:
    """Build and push an image for all platforms; return its digest."""
    metadata = folder / "metadata.json"
    where = ["--platform", ",".join(PLATFORMS), "--build-arg", f"BASE_IMAGE={base}", "--tag", tag, "--push"]
    attestations = ["--sbom=true", "--provenance=mode=max", "--metadata-file", str(metadata)]
    subprocess.run(["docker", "buildx", "build", *where, *attestations, str(root)], check=True)
    answer = metadata.read_bytes()
    metadata.unlink()
    return digest_of(tag, answer, "containerimage.digest")


def inspected(name: str, template: str) -> bytes:
    """Return what the registry says about an image."""
    command = ["docker", "buildx", "imagetools", "inspect", name, "--format", template]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def digest_of(name: str, answer: bytes, field: str) -> str:
    """Return the digest in an answer; raise ValueError if it has none."""
    try:
        found = json.loads(answer)[field]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise ValueError(f"docker says no digest of {name}: {answer[:200]!r}")
    return found


def write_manifests(root: Path, image: str, digest: str, archive: Path) -> None:
    """Write an archive of manifests/, in which the image is named by digest."""
    before = (root / KUSTOMIZATION).read_text()
    after = replaced(before, r"^    newTag: .*$", f"    newName: {image}\n    digest: {digest}")
    copy = archive.with_suffix("")
    shutil.copytree(root / "manifests", copy / "manifests")
    (copy / KUSTOMIZATION).write_text(after)
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(copy / "manifests", "manifests")
    shutil.rmtree(copy)


def write_chart(chart: Path, image: str, digest: str, folder: Path) -> None:
    """Write a copy of the chart, whose values name the image by digest; `helm package` reads it."""
    shutil.copytree(chart, folder)
    values = folder / "values.yaml"
    text = replaced(values.read_text(), r"^  repository: .*$", f"  repository: {image}")
    values.write_text(replaced(text, r"^  digest: .*$", f"  digest: {digest}"))


def replaced(text: str, pattern: str, line: str) -> str:
    """Return a text with the one line that matches replaced; raise ValueError if no line or several match."""
    after, count = re.subn(pattern, line, text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} lines match {pattern}; must be one")
    return after


def first(pattern: re.Pattern[str], text: str) -> str:
    """Return the group of the first match; raise ValueError if there is none."""
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"no line matches {pattern.pattern}")
    return found[1]
