"""Each cause, and each loss, has one row with all that depends on it; the page has a colour for it."""

from itertools import combinations

import pytest

from webhook.policy.causes import CAUSES, LOSSES, need_rows


def test_a_cause_without_a_row_is_not_imported() -> None:
    with pytest.raises(ImportError, match="rows and names differ: no row for Overheated"):
        need_rows(CAUSES, [*CAUSES, "Overheated"])


def test_no_two_causes_look_alike_in_a_page() -> None:
    looks = [
        ("Capacity", "C", LOSSES["Capacity"].colour),
        *((name, row.letter, row.colour) for name, row in CAUSES.items()),
    ]
    for (one, letter, colour), (other, its_letter, its_colour) in combinations(looks, 2):
        assert letter != its_letter, f"{one} and {other} have the letter {letter}"
        assert colour != its_colour, f"{one} and {other} have the colour {colour.area}"
    assert [name for name, letter, _ in looks if letter == "R"] == [], "R is the letter of Running, in format.js"


def test_an_end_is_said_by_its_cause() -> None:
    said = {cause: row.how("main 3") for cause, row in CAUSES.items()}
    assert said["ExitCode"] == "container main exit code 3"
    assert said["NeverStarted"] == "never started (main 3)"
    assert CAUSES["DeadlineExceeded"].how("") == "DeadlineExceeded"
