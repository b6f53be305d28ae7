"""Lines up the cells of tables in columns."""

from collections.abc import Iterable, Iterator, Sequence

Row = Sequence[str]

# A line of text, or the rows of a table, of which the first has the headings.
Part = str | list[Row]


def lines(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the lines of texts and tables; the last column is not padded."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        widths = [max(map(len, column)) for column in zip(*part, strict=True)][:-1]
        for row in part:
            yield "   ".join((*map(str.ljust, row, widths), row[-1]))
