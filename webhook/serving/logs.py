"""Log lines: one JSON object each, on stderr, without requests' bodies and without secrets."""

import logging
import sys

import structlog
from structlog.tracebacks import ExceptionDictTransformer


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
