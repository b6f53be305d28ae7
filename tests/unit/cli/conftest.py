"""Invokes commands in this process."""

from pathlib import Path

import pytest


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
