"""One server for the tests that leave it as it was."""

from collections.abc import Iterator

import pytest

from tests.served import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running
