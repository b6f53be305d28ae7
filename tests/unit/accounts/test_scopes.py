"""The text in which an account stores the disruptions of each scope."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable, assert_grows_with_its_input
from webhook.accounts.scopes import LONGEST, Scopes, ranges, read


def test_consecutive_indexes_are_written_as_a_range() -> None:
    scopes = Scopes({**{str(number): 1 for number in (0, 1, 2, 3, 7, 9, 10)}, "4": 2})
    assert scopes.written() == [(2, "4"), (1, "0-3,7,9-10")]


def test_indexes_in_any_order_are_listed_as_ranges() -> None:
    assert ranges(["7", "2", "0", "1", "2", "10", "9"]) == "0-2,7,9-10"
    assert ranges([]) == ""


def test_indexes_in_a_job_set_are_written_after_the_name_of_their_job() -> None:
    scopes = Scopes({"workers-0/1": 1, "workers-0/2": 1, "driver-0/": 1, "workers-1/0": 1})
    assert scopes.written() == [(1, "driver-0/,workers-0/1-2,workers-1/0")]


def test_a_job_without_indexes_is_one_scope() -> None:
    assert Scopes({"": 3}).written() == [(3, "")]
    assert read([(3, "")]) == Scopes({"": 3})


@given(
    st.dictionaries(
        st.integers(0, 60).map(str) | st.sampled_from(["a-0/1", "a-0/2", "b/", "1-5/", ""]), st.integers(1, 5)
    )
)
def test_scopes_that_are_written_can_be_read_again(counts: dict[str, int]) -> None:
    scopes = Scopes(counts)
    assert read(scopes.written()) == scopes


def test_scopes_that_are_dropped_to_save_space_are_never_counted_too_low() -> None:
    counts = {str(number * 2): 1 + number % 3 for number in range(5000)}
    scopes = Scopes(dict(counts))
    written = scopes.written()
    groups = [{"number": number, "scopes": text} for number, text in written]
    assert len(json.dumps(groups, separators=(",", ":"))) <= LONGEST + 100
    assert len(written) < 3
    again = read(written, scopes.others)
    assert all(again.of(scope) >= count for scope, count in counts.items())
    assert all(again.at_least(scope) <= count for scope, count in counts.items())
    again.add("0")
    assert again.of("0") == scopes.of("0") + 1


def test_one_more_disruption_of_an_index_splits_its_range() -> None:
    scopes = read([(1, "0-99999,workers-0/0-99999")])
    scopes.add("50000")
    assert (scopes.of("0"), scopes.of("50000"), scopes.of("99999"), scopes.of("100000")) == (1, 2, 1, 0)
    assert scopes.written() == [(2, "50000"), (1, "0-49999,50001-99999,workers-0/0-99999")]


@given(st.lists(st.integers(0, 30).map(str) | st.sampled_from(["a/3", "a/4", "a/", ""]), max_size=60))
def test_each_disruption_that_is_added_is_counted_once(added: list[str]) -> None:
    scopes = Scopes()
    for scope in added:
        scopes.add(scope)
    assert {scope: scopes.of(scope) for scope in added} == Counter(added)
    assert read(scopes.written()) == scopes


@pytest.mark.parametrize(
    "malformed",
    [[(1, "5-3")], [(1, "0-5,3")], [(1, "0-5"), (2, "4")]],
)
def test_malformed_scopes_are_refused(malformed: list[tuple[int, str]]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        read(malformed)


def test_the_cost_of_reading_and_writing_grows_with_the_text_and_not_with_its_numbers() -> None:
    def made(size: int) -> list[tuple[int, str]]:
        return [(1, ",".join(f"{10**6 * number}-{10**6 * number + 999_999}" for number in range(size)))]

    assert_grows_with_its_input(lambda written: read(written).written(), made, 9)


def test_the_largest_ranges_cost_little_to_read_and_change() -> None:
    def work() -> None:
        scopes = read([(1, ",".join(f"{'x' * 300}{name}/0-2147483646" for name in "ab"))])
        for number in range(100):
            scopes.add(f"{'x' * 300}a/{2 * number}")
        scopes.written()

    assert_affordable(work, lines=12_800, mebibytes=1)
