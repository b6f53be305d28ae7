"""A unified diff of two YAML texts, in a time that grows with their length; difflib's grows with its square and more.

Each line is named by the line that it stands under and by how many of the same stand there before it. Lines of the same
name in both texts are the same line, as long as they stand in the same order: admission adds, takes out and changes
lines, and moves none.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

CONTEXT: Final = 5  # unchanged lines around a change
KEPT: Final = " "
REMOVED: Final = "-"
ADDED: Final = "+"

Name = int
Names = dict[tuple[Name, str, int], Name]


def unified(title: str, title_after: str, before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff; none where nothing was changed."""
    lines = list(merged(before, after))
    spans = list(changed_spans(lines))
    if not spans:
        return
    yield f"--- {title}"
    yield f"+++ {title_after}"
    done = removed_or_kept = added_or_kept = 0
    for start, end in spans:
        between = start - done
        removed_or_kept += between
        added_or_kept += between
        hunk = lines[start:end]
        length = sum(sign != ADDED for sign, _ in hunk)
        length_after = sum(sign != REMOVED for sign, _ in hunk)
        yield f"@@ -{numbers(removed_or_kept, length)} +{numbers(added_or_kept, length_after)} @@"
        yield from (sign + line for sign, line in hunk)
        removed_or_kept += length
        added_or_kept += length_after
        done = end


def merged(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of both texts, each with KEPT, REMOVED or ADDED."""
    names: Names = {}
    named_before = named(before, names)
    place_of = {name: place for place, name in enumerate(named(after, names))}
    done = 0
    for line, name in zip(before, named_before, strict=True):
        place = place_of.get(name, -1)
        if place < done:
            yield REMOVED, line
            continue
        yield from ((ADDED, added) for added in after[done:place])
        yield KEPT, line
        done = place + 1
    yield from ((ADDED, added) for added in after[done:])


def named(lines: list[str], names: Names) -> list[Name]:
    """Return the name of each line, which no other line of the text has; new ones are put into `names`."""
    times: Counter[tuple[Name, str]] = Counter()
    above: list[tuple[int, Name]] = [(-1, 0)]  # depth and name of those that the next line may stand under
    result = []
    for line in lines:
        depth = depth_of(line) if line else above[-1][0] + 1  # an empty line is part of a text of several lines
        while above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1]
        times[parent, line] += 1
        name = names.setdefault((parent, line, times[parent, line]), len(names) + 1)
        above.append((depth, name))
        result.append(name)
    return result


def depth_of(line: str) -> int:
    """Return how deep a line stands; the items of a list stand deeper than its key, though not further to the right."""
    text = line.lstrip(" ")
    return 2 * (len(line) - len(text)) + text.startswith("-")


def changed_spans(lines: list[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield where the changes with the lines around them begin and end; those that touch are one."""
    start = end = 0
    for index, (sign, _) in enumerate(lines):
        if sign == KEPT:
            continue
        if index - CONTEXT > end:
            if end:
                yield start, end
            start = index - CONTEXT
        end = min(index + CONTEXT + 1, len(lines))
    if end:
        yield start, end


def numbers(before: int, length: int) -> str:
    """Say from which line on a hunk stands, and how long it is, as diff does."""
    if length == 1:
        return str(before + 1)
    return f"{before + 1 if length else before},{length}"
