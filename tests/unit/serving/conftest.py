"""One server for the tests that leave it as it was; servers in the process of a test look at connections often."""

from collections.abc import Iterator

import pytest

from tests.awaiting import INTERVAL
from tests.served import Served, serving
from webhook.serving import connections


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(autouse=True)
def _swept_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_INTERVAL", INTERVAL)
