"""Tables as lines."""

from webhook.objects import columns


def test_the_cells_of_a_column_begin_below_each_other() -> None:
    parts: list[columns.Part] = ["before", [("A", "LONGER", "C"), ("wide", "x", "the end"), ("", "y", "")], "after"]
    assert list(columns.lines(parts)) == [
        "before",
        "A      LONGER   C",
        "wide   x        the end",
        "       y        ",
        "after",
    ]
