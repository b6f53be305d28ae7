"""The order of the unit tests."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, of which one worker has all: they share what they have made."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
