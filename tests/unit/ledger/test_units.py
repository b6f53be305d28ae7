"""Disruptions by unit, in few characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.ledger.units import LONGEST, MOST, Units, read


def test_consecutive_indexes_are_written_as_a_range() -> None:
    units = Units({**{str(number): 1 for number in (0, 1, 2, 3, 7, 9, 10)}, "4": 2})
    assert units.written() == {"2": "4", "1": "0-3,7,9-10"}


def test_indexes_of_a_sets_jobs_stand_behind_their_job() -> None:
    units = Units({"workers-0/1": 1, "workers-0/2": 1, "driver-0/": 1, "workers-1/0": 1})
    assert units.written() == {"1": "driver-0/,workers-0/1-2,workers-1/0"}


def test_a_job_without_indexes_is_one_unit() -> None:
    assert Units({"": 3}).written() == {"3": ""}
    assert read({"3": ""}) == Units({"": 3})


@given(
    st.dictionaries(
        st.integers(0, 60).map(str) | st.sampled_from(["a-0/1", "a-0/2", "b/", "1-5/", ""]), st.integers(1, 5)
    )
)
def test_what_is_written_is_read_again(counts: dict[str, int]) -> None:
    units = Units(counts)
    assert read(units.written()) == units


def test_where_it_grows_too_long_the_units_with_the_fewest_are_let_go_of_and_none_is_counted_too_low() -> None:
    counts = {str(number * 2): 1 + number % 3 for number in range(1000)}
    units = Units(dict(counts))
    written = units.written()
    assert len(json.dumps(written)) <= LONGEST + 100
    again = read(written)
    assert all(again.of(unit) >= count for unit, count in counts.items())
    assert all(again.at_least(unit) <= count for unit, count in counts.items())
    again.add("0")
    assert again.of("0") == units.of("0") + 1


@pytest.mark.parametrize("spoilt", [{"1": f"0-{MOST + 1}"}, {"one": "0"}, {"others": "x"}])
def test_what_nobody_wrote_is_refused(spoilt: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        read(spoilt)


def test_many_ranges_that_are_each_within_reason_are_refused_together() -> None:
    with pytest.raises(ValueError, match="more than"):
        read({"1": f"0-{MOST},a/0-{MOST}"})
