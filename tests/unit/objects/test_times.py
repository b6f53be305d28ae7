"""Times in objects, whatever their authors write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.times import LATEST, between, seconds, shifted, time_of


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-01-01T00:00:00Z" + " " * 100,
        5,
        None,
        ["2026-01-01T00:00:00Z"],
    ],
)
def test_a_text_without_a_zone_or_of_a_year_that_no_cluster_has_is_no_time(text: object) -> None:
    assert (time_of(text), seconds(text)) == (None, None)


def test_a_time_is_read_in_any_zone() -> None:
    assert seconds("1970-01-01T01:00:00+01:00") == 0.0
    assert between("2026-01-01T00:00:00Z", "2026-01-01T01:00:01+01:00") == 1.0
    assert between("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z") == 0.0
    assert shifted("2026-01-01T00:00:00Z", -1) == "2025-12-31T23:59:59Z"


@pytest.mark.parametrize("by", [1e18, -1e18, float("inf"), float("nan"), 10**30])
def test_a_time_that_is_shifted_out_of_bounds_is_none(by: float) -> None:
    assert shifted("2026-01-01T00:00:00Z", by) == ""


@given(
    st.text(max_size=80)
    | st.datetimes().map(str)
    | st.datetimes(timezones=st.timezones()).map(lambda one: one.isoformat())
)
def test_any_text_is_a_time_within_bounds_or_none(text: str) -> None:
    found = time_of(text)
    assert found is None or found <= LATEST
    assert time_of(shifted(text, 1.5)) is not None or not shifted(text, 1.5)
