"""A line on stderr that says what is being done, if it takes long and stderr is a terminal."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from webhook.cli.console import ERASE, printable
from webhook.cli.terminal.colours import is_terminal

SILENT: Final = 1.0  # seconds until the line is shown
EVERY: Final = 0.1  # seconds between two lines


class Progress:
    """Shows one line, each in place of the one before. Call `clear` before anything else is printed."""

    def __init__(
        self,
        *,
        is_shown: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.is_shown = is_shown and is_terminal(self.stream)
        self.clock = clock
        self.next = clock() + SILENT
        self.is_there = False  # whether a line is on the terminal

    def show(self, doing: str) -> None:
        """Show what is being done, unless the last line was shown less than EVERY seconds ago."""
        if not self.is_shown or self.clock() < self.next:
            return
        import shutil  # noqa: PLC0415 - most runs show nothing, and need not pay for it

        width = shutil.get_terminal_size().columns
        self.stream.write(ERASE + printable(doing)[: width - 1])
        self.stream.flush()
        self.is_there = True
        self.next = self.clock() + EVERY

    def clear(self) -> None:
        """Erase the line."""
        if self.is_there:
            self.stream.write(ERASE)
            self.stream.flush()
            self.is_there = False
