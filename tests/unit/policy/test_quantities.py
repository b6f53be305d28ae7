"""Amounts of memory: read as the API reads them, written as people do."""

import pytest

from webhook.policy.quantities import memory, plain_memory, written


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("512Mi", 512 * 2**20),
        ("1.5Gi", 3 * 2**29),
        ("64G", 64 * 10**9),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1500m", 2),
        (".5Ki", 512),
    ],
)
def test_an_amount_is_read_as_the_api_reads_it(text: str, size: int) -> None:
    assert memory(text) == size


@pytest.mark.parametrize("text", [None, "", "0", "-1", "1gi", "1 Gi", "Gi", "1e99", "9" * 41, "1Gi\n", "\u0661Gi"])
def test_what_is_no_amount_of_memory_is_none(text: str | None) -> None:
    assert memory(text) is None


@pytest.mark.parametrize(("size", "text"), [(3 * 2**30, "3Gi"), (1536 * 2**20, "1536Mi"), (1000, "1000")])
def test_an_amount_is_written_in_the_largest_unit_in_which_it_is_whole(size: int, text: str) -> None:
    assert written(size) == text


@pytest.mark.parametrize(("text", "size"), [("32Gi", 32 * 2**30), ("1.5Gi", None), ("32Gi\n", None), (None, None)])
def test_people_write_whole_numbers_with_a_unit(text: str | None, size: int | None) -> None:
    assert plain_memory(text) == size
