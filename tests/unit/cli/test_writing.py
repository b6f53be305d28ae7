"""Unified diffs: correct for any text, equal to difflib's for small ones, and cheap for large ones."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_grows_with_its_input
from webhook.cli import writing
from webhook.cli.writing import ADDED, KEPT, REMOVED

JOB = """\
metadata:
  name: a
spec:
  podFailurePolicy:
    rules:
    - action: Ignore
      onExitCodes:
        values:
        - 3
  template:
    text: |
      one

      two
    containers:
    - name: a
      env:
      - a
      - a
      - a
"""
LINES = st.lists(st.sampled_from(["a:", "  b:", "  - c", "  - c: 1", "    d: 1", "", "- x", "x"]), max_size=25)


@given(LINES, LINES)
def test_the_merged_lines_contain_both_texts_in_order(before: list[str], after: list[str]) -> None:
    lines = list(writing.merged(before, after))
    assert [line for sign, line in lines if sign != ADDED] == before
    assert [line for sign, line in lines if sign != REMOVED] == after
    assert bool([sign for sign, _ in lines if sign != KEPT]) == (before != after)


@given(LINES, LINES)
def test_applying_a_diff_to_the_first_text_gives_the_second(before: list[str], after: list[str]) -> None:
    assert applied(before, list(writing.unified("a", "b", before, after))) == after


def applied(before: list[str], diff: list[str]) -> list[str]:
    """Apply a unified diff by its line numbers, like patch."""
    result: list[str] = []
    done = 0
    for line in diff[2:]:
        if line.startswith("@@"):
            start, _, length = line.split()[1].removeprefix("-").partition(",")
            first = int(start) - (length != "0")
            result += before[done:first]
            done = first
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert before[done] == line[1:]
            done += 1
            result += [before[done - 1]] if line.startswith(" ") else []
    return result + before[done:]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  name: a", "  name: b"),
        ("metadata:", "labels: {}\nmetadata:"),
        ("    rules:\n", "    rules:\n    - action: Count\n      onPodConditions:\n      - type: DisruptionTarget\n"),
        ("        - 3\n", "        - 3\n    - action: FailJob\n      onExitCodes:\n        values:\n        - 4\n"),
        ("      - a\n", ""),
        ("      two", "      three"),
        ("  template:", "  suspend: true\n  template:"),
    ],
)
def test_the_diff_of_a_typical_edit_is_that_of_difflib(old: str, new: str) -> None:
    before, after = JOB.splitlines(), JOB.replace(old, new, 1).splitlines()
    expected = list(difflib.unified_diff(before, after, "a", "b", lineterm="", n=5))
    found = list(writing.unified("a", "b", before, after))
    assert sorted(found) == sorted(expected)  # of several equal lines, any may be the removed one
    assert found[:3] == expected[:3]


def test_equal_items_are_distinguished_by_their_parents() -> None:
    before = ["a:", "- x", "b:", "- x"]
    assert list(writing.merged(before, ["a:", "b:", "- x"])) == [(" ", "a:"), ("-", "- x"), (" ", "b:"), (" ", "- x")]


def test_distant_changes_are_in_separate_hunks() -> None:
    before = [str(number) for number in range(100)]
    after = ["new", *before[:50], *before[51:]]
    assert [line for line in writing.unified("a", "b", before, after) if line[0] in "@+-"] == [
        "--- a",
        "+++ b",
        "@@ -1,5 +1,6 @@",
        "+new",
        "@@ -46,11 +47,10 @@",
        "-50",
    ]


@pytest.mark.parametrize("line", ["- a", "  - b: {number}", "{number}: x"])
def test_the_cost_of_a_diff_grows_in_proportion_to_its_texts(line: str) -> None:
    def made(size: int) -> list[str]:
        return [line.format(number=number) for number in range(size)]

    def compare(lines: list[str]) -> None:
        changed = [one for number, one in enumerate(lines) if number % 10]
        list(writing.unified("a", "b", ["x:", *lines], ["y: 1", "x:", *changed]))

    assert_grows_with_its_input(compare, made, 200)
