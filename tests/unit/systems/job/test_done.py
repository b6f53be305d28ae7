"""How a retry stores which indexes of a big Job have succeeded."""

import random
from base64 import b64encode
from zlib import compress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable
from webhook.accounts.scopes import ranges
from webhook.objects import bounds
from webhook.systems.job import rerun
from webhook.systems.job.rerun import LARGEST, LONGEST_PLAIN, Done, packed, unpacked


def done(indexes: list[int]) -> Done:
    return Done(len(indexes), ranges(map(str, indexes)))


def test_few_indexes_are_stored_as_the_api_writes_them() -> None:
    assert packed(done([0, 1, 2, 7])) == Done(4, "0-2,7")
    longest = Done(4, "0," * (LONGEST_PLAIN // 2 - 1) + "10")
    assert packed(longest) is longest
    assert isinstance(packed(Done(4, longest.completed_indexes + "1")), str)


def test_the_indexes_of_100000_that_have_succeeded_fit_into_annotations() -> None:
    """With any other share than a half, there are fewer runs of indexes to store."""
    chance = random.Random(27)  # noqa: S311 - no secret
    half = done([index for index in range(100_000) if chance.random() < 0.5])
    every_second = Done(50_000, ",".join(map(str, range(0, 100_000, 2))))
    assert len(every_second.completed_indexes) > bounds.MAX_ANNOTATIONS
    for found in (half, every_second):
        assert len(msgspec.json.encode(packed(found))) < bounds.MAX_ANNOTATIONS // 4


@given(st.sets(st.integers(0, 2**31 - 1) | st.integers(0, 99), min_size=1, max_size=100))
def test_any_indexes_are_read_as_they_were_stored(indexes: set[int]) -> None:
    found = done(sorted(indexes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerun, "LONGEST_PLAIN", 0)
        stored = packed(found)
    assert isinstance(stored, str)
    assert unpacked(stored) == found


@pytest.mark.parametrize("malformed", ["", "x", "eJw=", "AAAA"])
def test_what_was_not_stored_so_is_refused(malformed: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        unpacked(malformed)


def test_a_text_that_expands_without_end_is_refused_at_little_cost() -> None:
    bomb = b64encode(compress(b"1," * 10_000_000, 9)).decode()

    def read() -> None:
        with pytest.raises(ValueError, match=str(LARGEST)):
            unpacked(bomb)

    assert_affordable(read, lines=1_000, mebibytes=8)
