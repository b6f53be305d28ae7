"""Invokes commands in this process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a command in an empty folder, and restore the signal handlers of this process that the command resets."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
