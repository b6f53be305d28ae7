"""Keep the last good policy of a pod in a file, for the next container of the pod.

The folder is an emptyDir, which a container's end leaves as it is and the pod's end removes. A new pod therefore never
begins with an old policy, and nobody but this pod can write the file.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

import structlog

NAME: Final = "retry-policy-last-good.yaml"
LARGEST: Final = 1024 * 1024  # bytes; a ConfigMap cannot be larger

log = structlog.get_logger()


class LastGood:
    """The file in a folder; what goes wrong with it is logged, and else of no consequence."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME

    def write(self, text: str) -> None:
        """Replace the content of the file."""
        new = self.file.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            with open(new, "x", encoding="utf-8", opener=_private) as opened:
                opened.write(text)
            new.replace(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)  # else it would take the room of the next certificate's key
            log.warning("last good policy not kept", file=str(self.file), error=error.strerror)

    def read(self) -> str | None:
        """Return the content of the file; None if there is none, or it is not this user's."""
        try:
            with open(self.file, encoding="utf-8", opener=_private) as opened:
                own = os.fstat(opened.fileno()).st_uid == os.getuid()
                return opened.read(LARGEST) if own else None
        except (OSError, UnicodeDecodeError):
            return None


def _private(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NOFOLLOW, 0o600)
