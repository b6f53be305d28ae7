"""What is made of the reports of other projects' tests; the tests themselves need real nodes."""

from typing import Any

import pytest

from tests.upstream.suites import REASONS, Result, Row, names_of, result_of, row_of, rows
from tools.generate import upstream


def spec(name: str, state: str = "passed", kind: str = "It") -> dict[str, Any]:
    failure = {} if state == "passed" else {"Failure": {"Message": "expected 0"}}
    return {"LeafNodeType": kind, "LeafNodeText": name, "ContainerHierarchyTexts": ["Job"], "State": state, **failure}


def test_a_result_has_the_tests_that_ran_without_their_labels() -> None:
    specs = [spec("runs [Conformance] [sig:apps]"), spec("fails", "failed"), spec("hangs", "timedout")]
    found = result_of([{"SpecReports": [*specs, spec("is left out", "skipped")]}])
    assert found == Result(frozenset({"runs", "fails", "hangs"}), {"fails": "expected 0", "hangs": "expected 0"})


def test_a_test_is_named_as_in_its_suite_with_its_labels() -> None:
    specs = [spec("runs [Conformance]"), spec("is left out", "skipped"), spec("", kind="BeforeSuite")]
    assert names_of([{"SpecReports": specs}]) == ["Job runs [Conformance]"]


def test_a_suite_that_fails_outside_of_its_tests_has_no_result() -> None:
    with pytest.raises(ValueError, match="BeforeSuite: expected 0"):
        result_of([{"SpecReports": [spec("", kind="BeforeSuite", state="failed")]}])


@pytest.mark.parametrize("ran", [frozenset({"a"}), frozenset[str]()])
def test_runs_are_compared_only_if_both_had_the_same_tests(ran: frozenset[str]) -> None:
    with pytest.raises(ValueError, match=f"{len(ran)} tests ran without"):
        row_of("suite", "1.36", Result(ran, {}), Result(frozenset({"a", "b"} if ran else ()), {}))


def test_a_test_that_fails_without_the_webhook_too_does_not_fail_because_of_it() -> None:
    ran = frozenset({"a", "b", "c"})
    row = row_of("suite", "1.36", Result(ran, {"a": ""}), Result(ran, {"b": "", "a": ""}))
    assert row == Row("suite", "1.36", 3, ("a",), ("a", "b"))
    assert row.only_with_us == ["b"]


def test_each_test_that_passes_only_without_the_webhook_has_a_reason_and_no_other_one() -> None:
    assert {name for row in rows() for name in row.only_with_us} == REASONS.keys()


def test_the_table_says_why_each_test_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("suite", "1.36", 9, ("a",), ("a", "b", "c"), ("a", "c"))
    monkeypatch.setattr(upstream, "rows", lambda: [row])
    monkeypatch.setattr(upstream, "REASONS", {"b": "a bug ends a Job", "c": "it is refused"})
    last = upstream.table().splitlines()[-1]
    assert last == (
        "| suite | 1.36 | 9 | 8 | 6 | 7 | *b*: a bug ends a Job<br>*c* (with `confirm` too): it is refused<br>"
        "*a*: fails without the webhook too |"
    )
