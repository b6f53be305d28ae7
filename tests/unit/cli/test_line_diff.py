"""Unified diffs: correct for any text, equal to difflib's for small ones, and cheap for large ones."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_grows_with_its_input
from webhook.cli import line_diff
from webhook.cli.line_diff import ADDED, KEPT, REMOVED

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
def test_the_lines_of_both_texts_are_all_there_in_their_order(before: list[str], after: list[str]) -> None:
    lines = list(line_diff.merged(before, after))
    assert [line for sign, line in lines if sign != ADDED] == before
    assert [line for sign, line in lines if sign != REMOVED] == after
    assert bool([sign for sign, _ in lines if sign != KEPT]) == (before != after)


@given(LINES, LINES)
def test_applying_a_diff_to_the_one_text_makes_the_other(before: list[str], after: list[str]) -> None:
    assert applied(before, list(line_diff.unified("a", "b", before, after))) == after


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
def test_what_admission_does_looks_as_difflib_shows_it(old: str, new: str) -> None:
    before, after = JOB.splitlines(), JOB.replace(old, new, 1).splitlines()
    expected = list(difflib.unified_diff(before, after, "a", "b", lineterm="", n=5))
    found = list(line_diff.unified("a", "b", before, after))
    assert sorted(found) == sorted(expected)  # which of several like lines is gone is a matter of taste
    assert found[:3] == expected[:3]


def test_an_item_is_known_by_what_it_stands_under() -> None:
    before = ["a:", "- x", "b:", "- x"]
    assert list(line_diff.merged(before, ["a:", "b:", "- x"])) == [(" ", "a:"), ("-", "- x"), (" ", "b:"), (" ", "- x")]


def test_changes_far_from_each_other_stand_in_hunks_of_their_own() -> None:
    before = [str(number) for number in range(100)]
    after = ["new", *before[:50], *before[51:]]
    assert [line for line in line_diff.unified("a", "b", before, after) if line[0] in "@+-"] == [
        "--- a",
        "+++ b",
        "@@ -1,5 +1,6 @@",
        "+new",
        "@@ -46,11 +47,10 @@",
        "-50",
    ]


@pytest.mark.parametrize("line", ["- a", "  - b: {number}", "{number}: x"])
def test_its_cost_grows_with_the_texts(line: str) -> None:
    def made(size: int) -> list[str]:
        return [line.format(number=number) for number in range(size)]

    def compare(lines: list[str]) -> None:
        changed = [one for number, one in enumerate(lines) if number % 10]
        list(line_diff.unified("a", "b", ["x:", *lines], ["y: 1", "x:", *changed]))

    assert_grows_with_its_input(compare, made, 200)
