"""How an explanation is printed."""

import pytest

from webhook.explain.render import duration


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("2026-11-23T12:00:08Z", "8s"),
        ("2026-11-23T12:01:59Z", "119s"),
        ("2026-11-23T12:10:21Z", "10m21s"),
        ("2026-11-23T14:05:30Z", "2h5m"),
        ("", "-"),
    ],
)
def test_a_duration_has_the_unit_that_people_read(end: str, shown: str) -> None:
    assert duration("2026-11-23T12:00:00Z", end) == shown
