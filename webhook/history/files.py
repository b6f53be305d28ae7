"""Writes records into NDJSON files of a folder, which it rotates and of which it deletes the oldest."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LARGEST_FILE: Final = 64 * 2**20  # bytes after which a file is closed
LARGEST_FOLDER: Final = 2**30  # bytes of all files
KEPT: Final = 30 * 86400.0  # seconds from the last line of a file to its deletion
PATTERN: Final = "history-*.ndjson"
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
CLEANED: Final = 600.0  # seconds between two looks at the folder


class FileSink:
    """Appends lines to a file of its own: history-REPLICA-TIME-NUMBER.ndjson. `now`: Unix time, in seconds.

    The folder is made if its parent exists. All work is done in a thread: a volume may be slow.
    """

    most: Final = 1000

    def __init__(self, folder: Path, replica: str, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.replica = replica
        self.now = now
        self.opened: int | None = None
        self.path = folder
        self.size = 0
        self.files = 0
        self.cleaned = float("-inf")

    async def write(self, lines: list[bytes]) -> None:
        """Append lines; raise OSError."""
        await asyncio.to_thread(self.append, b"".join(line + b"\n" for line in lines))

    def append(self, text: bytes) -> None:
        """Append text to the current file; leave none of it there if not all of it can be written."""
        self.clean()
        if self.opened is not None and not os.fstat(self.opened).st_nlink:  # somebody has deleted it
            self.close()
        opened = self.file() if self.opened is None else self.opened
        try:
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(opened, rest) :]
        except OSError as error:
            self.give_up(opened)
            if error.errno in FULL:
                self.make_room()
            raise
        self.size += len(text)
        if self.size >= LARGEST_FILE:
            self.close()

    def give_up(self, opened: int) -> None:
        """Leave in a file what was written whole, and close it; the next try begins another one."""
        with contextlib.suppress(OSError):
            os.ftruncate(opened, self.size)
            if not self.size:
                self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.close()

    def make_room(self) -> None:
        """Delete the oldest file of a volume that is full, but never the newest of this replica."""
        for path in [path for _, _, path in sorted(self.found()) if path != self.path][:1]:
            with contextlib.suppress(OSError):
                path.unlink()

    def found(self) -> list[tuple[float, int, Path]]:
        """Return the files, with the time of the last line and the size of each."""
        found = []
        for path in self.folder.glob(PATTERN):
            with contextlib.suppress(OSError):  # another replica has deleted it, or it is not ours to read
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        return found

    def file(self) -> int:
        """Create a file, and return its descriptor."""
        self.folder.mkdir(exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now()))
        while True:
            self.files += 1
            self.path = self.folder / f"history-{self.replica}-{stamp}-{self.files}.ndjson"
            with contextlib.suppress(FileExistsError):
                self.opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
                self.size = 0
                return self.opened

    def close(self) -> None:
        """Close the current file."""
        opened, self.opened = self.opened, None  # Linux has closed it even if it reports an error
        if opened is not None:
            os.close(opened)

    def clean(self) -> None:
        """Delete the files that are too old, and the oldest of those that are too large together, at intervals."""
        if self.opened is not None and self.now() - self.cleaned < CLEANED:
            return
        self.cleaned = self.now()
        found = self.found()
        total = sum(size for _, size, _ in found) + LARGEST_FILE
        for written, size, path in sorted(found):
            if path != self.path and (total > LARGEST_FOLDER or written < self.now() - KEPT):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                total -= size
