"""Log lines: one JSON object each, on stderr, without requests' bodies and secrets; and how many users may cause."""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer

PERIOD: Final = 60.0  # seconds
LINES: Final = 300  # of all namespaces in a period; of 300 bytes each, 130 MB a day
NAMESPACE_LINES: Final = 60  # of one namespace in a period

log = structlog.get_logger()


def to_stderr() -> None:
    """Configure structlog, and the standard library's loggers, which other libraries use for warnings."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Without the frames' locals: they contain the object, and so its author's secrets.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class LogLines:
    """Says which lines to write: in a period each line once, and of one namespace and of all only so many.

    `now`: a clock, in seconds. The number of lines that were left out is logged with the first line of a later period.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self.end = now() + PERIOD
        self.written: set[tuple[str, Hashable]] = set()
        self.of_namespace: Counter[str] = Counter()
        self.left_out = 0

    def has_room(self, namespace: str, line: Hashable) -> bool:
        """Return True if a line about a namespace is to be written now; `line` is the same for equal lines."""
        if self.now() >= self.end:
            self.begin_period()
        if (namespace, line) in self.written:
            return False
        if len(self.written) >= LINES or self.of_namespace[namespace] >= NAMESPACE_LINES:
            self.left_out += 1
            return False
        self.written.add((namespace, line))
        self.of_namespace[namespace] += 1
        return True

    def begin_period(self) -> None:
        """Begin another period, and log how many lines were left out."""
        if self.left_out:
            log.warning("lines left out", lines=self.left_out, most=LINES, most_of_a_namespace=NAMESPACE_LINES)
        self.end = self.now() + PERIOD
        self.written.clear()
        self.of_namespace.clear()
        self.left_out = 0
