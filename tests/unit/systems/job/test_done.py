"""How a retry stores which indexes of a big Job have succeeded."""

import random
from base64 import b64encode
from zlib import compress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable
from tests.strategies import examples
from webhook.accounts.scopes import ranges
from webhook.objects import bounds
from webhook.systems.job.rerun import LARGEST, LONGEST_PLAIN, Done, packed, unpacked


def done(indexes: list[int]) -> Done:
    return Done(len(indexes), ranges(map(str, indexes)))


def test_few_indexes_are_stored_as_the_api_writes_them() -> None:
    assert packed(done([0, 1, 2, 7])) == Done(4, "0-2,7")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_the_indexes_of_100000_that_have_succeeded_fit_into_annotations(share: float) -> None:
    chance = random.Random(27)  # noqa: S311 - no secret
    found = done([index for index in range(100_000) if chance.random() < share])
    stored = packed(found)
    assert len(msgspec.json.encode(stored)) < bounds.MAX_ANNOTATIONS // 4
    assert unpacked(stored) == found


def test_every_second_index_is_longer_than_the_api_allows_and_fits_when_stored() -> None:
    found = done(list(range(0, 100_000, 2)))
    assert len(found.completed_indexes) > bounds.MAX_ANNOTATIONS
    assert isinstance(packed(found), str)
    assert unpacked(packed(found)) == found


@given(st.integers(LONGEST_PLAIN, 2**31 - 1), st.integers())
@examples(100)
def test_any_indexes_are_read_as_they_were_stored(indexes: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    found = done(sorted(chance.sample(range(indexes), LONGEST_PLAIN // 2)))
    assert isinstance(packed(found), str)
    assert unpacked(packed(found)) == found


@pytest.mark.parametrize("malformed", ["", "x", "eJw=", "AAAA"])
def test_what_was_not_stored_so_is_refused(malformed: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        unpacked(malformed)


def test_a_text_that_expands_without_end_is_refused_at_little_cost() -> None:
    bomb = b64encode(compress(b"1," * 10_000_000, 9)).decode()

    def read() -> None:
        with pytest.raises(ValueError, match=str(LARGEST)):
            unpacked(bomb)

    assert_affordable(read, instructions=5_000, mebibytes=8)
