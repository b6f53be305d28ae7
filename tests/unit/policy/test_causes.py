"""Each cause, and each loss, has one row with all that depends on it; the page has a colour for it."""

import pytest

from webhook.policy.causes import CAUSES, LOSSES, need_rows


def test_a_cause_without_a_row_is_not_imported() -> None:
    with pytest.raises(ImportError, match="rows and names differ: no row for Overheated"):
        need_rows(CAUSES, [*CAUSES, "Overheated"])


def test_no_two_causes_look_alike_in_a_page() -> None:
    letters = [*(row.letter for row in CAUSES.values()), "C", "R"]  # and those of Capacity and Running, in format.js
    assert len(set(letters)) == len(letters)
    colours = [row.colour for row in CAUSES.values()]
    assert len({*colours, LOSSES["Capacity"].colour}) == len(colours) + 1


def test_an_end_is_said_by_its_cause() -> None:
    said = {cause: row.how("main 3") for cause, row in CAUSES.items()}
    assert said["ExitCode"] == "container main exit code 3"
    assert said["NeverStarted"] == "never started (main 3)"
    assert CAUSES["DeadlineExceeded"].how("") == "DeadlineExceeded"
