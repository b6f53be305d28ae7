"""Records that wait to be written: bounded, and fair to namespaces."""

from collections import deque
from typing import Final

MOST: Final = 10_000  # lines


class WaitingLines:
    """The lines that wait, by namespace, the oldest first.

    Beyond MOST lines, the oldest of the namespace with the most lines is dropped: the noise of one namespace does not
    displace the history of another.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.lines: dict[str, deque[bytes]] = {}
        self.number = 0

    def put(self, namespace: str, line: bytes) -> bool:
        """Add a line; return False if another one was dropped for it."""
        self.lines.setdefault(namespace, deque()).append(line)
        self.number += 1
        if self.number <= self.most:
            return True
        fullest = max(self.lines, key=lambda name: len(self.lines[name]))
        self.pop(fullest)
        return False

    def take(self, most: int, size: int) -> list[bytes]:
        """Remove and return lines: at most so many, and about `size` bytes; the namespaces take turns."""
        found: list[bytes] = []
        while self.lines and len(found) < most and size > 0:
            for namespace in list(self.lines):
                if len(found) < most and size > 0:
                    found.append(self.pop(namespace))
                    size -= len(found[-1])
        return found

    def pop(self, namespace: str) -> bytes:
        """Remove and return the oldest line of a namespace."""
        lines = self.lines[namespace]
        line = lines.popleft()
        self.number -= 1
        if not lines:
            del self.lines[namespace]
        return line
