"""The image as a command in CI: `retry-policy check` without Python on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.image.container import restrictions
from webhook import __version__

if TYPE_CHECKING:
    import subprocess

    from tests.image.engine import Engine

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"


def retry_policy(engine: Engine, image: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    options = ("--rm", "--interactive", "--network=none", *engine.run_options, *restrictions())
    return engine.run("run", *options, image, *arguments, stdin=stdin)


def test_the_image_prints_its_version(engine: Engine, image: str) -> None:
    assert retry_policy(engine, image, "--version").stdout == f"retry-policy, version {__version__}\n"


@pytest.mark.parametrize(
    ("sample", "code", "words"), [("job.yaml", 0, ""), ("job-with-25-retries.yaml", 1, "set 10 or less")]
)
def test_the_image_checks_a_manifest(engine: Engine, image: str, sample: str, code: int, words: str) -> None:
    done = retry_policy(engine, image, "check", "-f", "-", stdin=(SAMPLES / sample).read_text())
    assert (done.returncode, bool(done.stdout)) == (code, bool(words)), done.stderr
    assert words in done.stdout
