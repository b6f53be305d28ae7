"""Where records of history go: the log, files, or a collector."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import structlog

from webhook.history.writer import FailedError, RefusedRecordsError

log = structlog.get_logger()


class LogSink:
    """Writes each record as a line with the event `history` and the record's fields beside it.

    `most` bounds what a log collector gets: 200 lines of about 700 bytes a second, 12 GB a day.
    """

    most: Final = 200

    async def write(self, lines: list[bytes]) -> None:
        """Write lines."""
        for line in lines:
            log.info("history", **msgspec.json.decode(line))


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


TIMEOUT: Final = aiohttp.ClientTimeout(total=10)
LARGEST_TOKEN: Final = 16384  # bytes
PRINTABLE: Final = range(0x21, 0x7F)  # bytes of a token
# The answers of the 4xx after which the same request may succeed later.
LATER: Final = frozenset(
    {
        *(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND),
        *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS),
    }
)


class CollectorSink:
    """Posts lines as application/x-ndjson to a URL. `token_file`: a file with a bearer token, read for each batch.

    Certificates are verified by the system's authorities, or by those of SSL_CERT_FILE. Redirections are not followed:
    they would get the token.
    """

    most: Final = 1000

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        self.url = url
        self.token_file = token_file
        self.session: aiohttp.ClientSession | None = None

    async def write(self, lines: list[bytes]) -> None:
        """Post lines; raise as `Sink.write` does."""
        if self.session is None:
            self.session = aiohttp.ClientSession(timeout=TIMEOUT)
        headers = {"Content-Type": "application/x-ndjson", **await asyncio.to_thread(self.authorization)}
        body = b"".join(line + b"\n" for line in lines)
        try:
            async with self.session.post(self.url, data=body, headers=headers, allow_redirects=False) as response:
                status = response.status
        except aiohttp.ClientError as error:
            raise FailedError(f"{type(error).__name__}: {error}") from error
        if status // 100 == 2:  # noqa: PLR2004 - the statuses of success
            return
        if status // 100 == 4 and status not in LATER:  # noqa: PLR2004 - those of the client's faults
            raise RefusedRecordsError(f"the collector answered {status}")
        raise FailedError(f"the collector answered {status}")

    def authorization(self) -> dict[str, str]:
        """Return the header with the token; raise OSError if it cannot be read, and FailedError if it is none."""
        if self.token_file is None:
            return {}
        with self.token_file.open("rb") as opened:
            token = opened.read(LARGEST_TOKEN + 1).strip()
        if not token or len(token) > LARGEST_TOKEN or not all(byte in PRINTABLE for byte in token):
            raise FailedError(f"{self.token_file} has no bearer token")
        return {"Authorization": f"Bearer {token.decode()}"}

    async def close(self) -> None:
        """Close the connections."""
        if self.session is not None:
            await self.session.close()
