"""Settings for all tests."""

import gc
import signal
import socket
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.awaiting import LONGEST

# No test depends on elapsed time: a busy machine must not fail one.
# Generated objects are the same in every run, so that a failure is due to the change under test; `make test-long` draws
# others each time.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("other", deadline=None)
settings.load_profile("same")

socket.setdefaulttimeout(LONGEST)  # a test that waits for a peer in vain fails

# The default draws each stack trace with the values of all variables, which takes longer than most tests.
plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[plain])


gc.disable()  # until all tests are collected: what they are made of stays


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Exclude what exists before a module's tests from garbage collection, which would examine it again and again."""
    gc.freeze()


# `check` and `render` reset them for `| head`, and a process of tests that runs one of them goes on: with the default
# effect of SIGPIPE, the next write to a connection that is closed would end it.
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Restore the signal handlers that a command in this process has reset."""
    yield
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
