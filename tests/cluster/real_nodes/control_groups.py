"""The control groups (version 1) of a run's nodes: a folder in each hierarchy, which is removed at the end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "retry-policy-nodes-"
COPIED: Final = ("cpuset.cpus", "cpuset.mems")  # a new group of cpuset has neither, and takes no process without them
TRIES: Final = 100
OLD: Final = 3600.0  # seconds after which an empty group is not that of a run which is about to start


def are_version_1() -> bool:
    """Return True if this machine has version 1, with a hierarchy for each resource."""
    return (ROOT / "memory").is_dir()


def create(run: str, node: str) -> str:
    """Create the group of a node in each hierarchy, and return its name; remove those of runs that were killed."""
    name = f"{PREFIX}{run}-{node}"
    for old in ROOT.glob(f"*/{PREFIX}*"):
        if not any(tasks(old)) and old.stat().st_mtime < time.time() - OLD:
            remove_folder(old)
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in COPIED:
            if (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())
    return name


def remove(run: str) -> None:
    """Kill what still runs in the groups of a run, and remove them."""
    for group in ROOT.glob(f"*/{PREFIX}{run}-*"):
        for _ in range(TRIES):
            left = [process for process in tasks(group) if process]  # to kill 0 would kill this program itself
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.05)
        remove_folder(group)


def hierarchies() -> Iterator[Path]:
    """Yield the mounted hierarchies, without links to others."""
    yield from (one for one in sorted(ROOT.iterdir()) if not one.is_symlink() and (one / "cgroup.procs").exists())


def tasks(group: Path) -> Iterator[int]:
    """Yield the processes in a group and in those below it; 0 stands for one of another namespace."""
    with suppress(FileNotFoundError):  # another run removes old ones too
        for file in group.rglob("cgroup.procs"):
            yield from map(int, file.read_text().split())


def remove_folder(group: Path) -> None:
    """Remove a group with those below it, as far as nothing runs in them."""
    for one in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):
            one.rmdir()
    with suppress(OSError):
        group.rmdir()
