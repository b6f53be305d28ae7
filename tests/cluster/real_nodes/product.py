"""The image of this project for real nodes, and its chart, which Helm installs there as docs/how-to/install.md says."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster import toolchain
from tests.cluster.helm import CHART, RELEASE, ROOT, Helm
from tests.cluster.installation import policy_for, wait_until_effective
from tests.cluster.processes import HarnessError
from tests.image import engine, pip_configuration
from webhook import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes

IMAGE: Final = f"docker.io/library/retry-policy-webhook:{__version__}"  # where a runtime looks for the chart's image
OLD: Final = 24 * 3600.0  # seconds since its last use after which an archive is deleted


def archive() -> Path:
    """Build the image, if it is not in the cache, and return its archive; raise HarnessError if that fails."""
    text = [f"{file.relative_to(ROOT)}\n{file.read_text()}" for file in sources()]
    file = toolchain.cache() / "images" / f"{toolchain.digest(*text, *engine.STAND_IN)}.tar"
    if not file.exists():
        with toolchain.only_one():
            file.parent.mkdir(exist_ok=True)
            for old in file.parent.iterdir():
                if old.stat().st_mtime < time.time() - OLD:
                    old.unlink()
            if not file.exists():
                _build(file)
    os.utime(file)
    return file


def sources() -> Iterator[Path]:
    """Yield the files from which the image is built, in an order that is always the same."""
    ignored = ROOT / ".dockerignore"
    yield from (ROOT / "Dockerfile", ignored)
    for line in sorted(ignored.read_text().splitlines()):
        if line.startswith("!"):
            path = ROOT / line[1:]
            files = [path] if path.is_file() else sorted(path.rglob("*"))
            yield from (one for one in files if one.is_file() and one.suffix != ".pyc")


def _build(file: Path) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            ready = engine.ready(folder, toolchain.say)
            toolchain.say("build the image, two minutes")
            ready.build(IMAGE, ROOT, *pip_configuration.secrets(folder))
            ready.output("save", f"--output={unfinished}", IMAGE)
            ready.output("image", "rm", "--force", IMAGE)
        except engine.EngineError as error:
            raise HarnessError(str(error)) from None
    unfinished.rename(file)


def install(program: Path, processes: Processes, kubectl: Kubectl, folder: Path, *, for_tests: bool) -> Path:
    """Install the chart, and wait until the API server calls the webhook; return the file with its policy.

    Its Service, Deployments and pods are real. The policy is that of `installation.start`.
    """
    policy = policy_for(folder, for_tests=for_tests)
    helm = Helm(program, folder / "helm", kubectl.kubeconfig)
    values = (f"--set-file=policy={policy}", "--set=requestedRetries.enabled=true")
    done = helm.run("install", RELEASE, str(CHART), "--create-namespace", "--wait", *values)
    if done.returncode:
        raise HarnessError(f"helm install failed: {done.stderr}{kubectl.run('get', 'pods', '-A', '-o', 'wide').stdout}")
    wait_until_effective(processes, kubectl, log="kube-apiserver")
    return policy
