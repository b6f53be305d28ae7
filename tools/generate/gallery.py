"""The parts of docs/gallery/ that show its files, and what the command line prints about them."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.cluster import command_line
from tests.documents import document_of

ROOT: Final = Path(__file__).parents[2]
GALLERY: Final = ROOT / "docs" / "gallery"
FOLDERS: Final = sorted(folder for folder in GALLERY.iterdir() if folder.is_dir())
POLICY: Final = "policy.yaml"
# The workloads that the webhook changes; the page of any other recipe shows no difference.
CHANGED: Final = ("nightly", "simulate", "train")


def parts() -> dict[str, dict[str, Callable[[], str]]]:
    """Return the makers of the parts of each page: its files, and the difference that the webhook makes to some."""
    return {f"docs/gallery/{folder.name}.md": dict(parts_of(folder)) for folder in FOLDERS}


def parts_of(folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield name and maker of each part of a page."""
    for file in sorted(folder.iterdir()):
        yield file.stem.replace("-", " "), partial(shown, file)
        if file.stem in CHANGED:
            yield "diff", partial(difference, file)


def shown(file: Path) -> str:
    """Return a file as a block of a page."""
    return f"```yaml\n{file.read_text()}```\n"


def difference(workload: Path) -> str:
    """Return the command that shows what the webhook changes in a workload, and what it prints."""
    policy = workload.with_name(POLICY)
    command = render(f"{workload.relative_to(ROOT)}", f"{policy.relative_to(ROOT)}", profile(workload.parent))
    return f"```console\n$ retry-policy {' '.join(command)}\n```\n\n```diff\n{output(*command)}```\n"


def render(workload: str, policy: str, profile: str) -> tuple[str, ...]:
    """Return the arguments of the command that prints a difference."""
    return ("render", "-f", workload, "--policy", policy, "--profile", profile, "-o", "diff")


def profile(folder: Path) -> str:
    """Return the name of the profile in the policy of a recipe."""
    (found,) = document_of((folder / POLICY).read_text())["profiles"]
    return str(found)


def output(*arguments: str) -> str:
    """Return what a command prints to both streams, in this order; paths are relative to the repository."""
    with contextlib.chdir(ROOT):
        done = command_line.run(*arguments)
    return done.stdout + done.stderr
