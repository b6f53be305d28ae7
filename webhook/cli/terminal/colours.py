"""Whether output is for people, and with colours: https://no-color.org, https://force-color.org."""

import os
import sys
from typing import Final

NO: Final = "NO_COLOR"
FORCE: Final = "FORCE_COLOR"


def is_for_people() -> bool:
    """Return True if stdout is a terminal, or the user asks for colours wherever it goes."""
    return bool(os.environ.get(FORCE)) or is_terminal(sys.stdout)


def wanted() -> bool | None:
    """Return whether the user asks for colours or for none; None if neither: then terminals get colours."""
    if os.environ.get(NO):
        return False
    return True if os.environ.get(FORCE) else None


def is_terminal(stream: object) -> bool:
    """Return True if a stream is a terminal; it is None if it is closed."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty())
